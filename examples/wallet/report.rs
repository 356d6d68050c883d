//! What the reader sees: each run as it ends, and a table of them all.

use std::time::Duration;

use super::scene::step4::Service;
use super::scene::{Fallible, Run};

const HEAD: [&str; 8] = [
    "step", "scene", "runs", "verdict", "accepted", "rejected", "too late", "ms",
];
/// From here on the columns are numbers, which stand at the right.
const FIRST_NUMBER: usize = 4;

const LEGEND: &str = "\
(rejected: writes that the storage refused, and work that was cancelled. too late: releases of a lock that was another's
by then. Both are sums of all runs, ms is a mean.)";

#[derive(Default)]
pub struct Report {
    step: u8,
    rows: Vec<[String; HEAD.len()]>,
}

impl Report {
    pub fn begin(&mut self, step: u8, title: &str) {
        self.step = step;
        println!("\nStep {step}: {title}");
    }

    /// Plays a scene so many times.
    pub fn play(&mut self, scene: &str, runs: u16, mut play: impl FnMut() -> Fallible<Run>) -> Fallible<()> {
        let mut played = Vec::new();
        for _ in 0..runs {
            let run = play()?;
            println!("  {scene}: {run}");
            played.push(run);
        }
        let ok = played.iter().filter(|run| run.is_ok()).count();
        let sum = |number: fn(&Run) -> usize| played.iter().map(number).sum::<usize>().to_string();
        let total: Duration = played.iter().map(|run| run.elapsed).sum();
        let numbers = [
            range(played.iter().map(|run| run.check.accepted)),
            sum(|run| run.rejected + run.cancelled),
            sum(|run| run.stale_releases),
            (total / u32::from(runs)).as_millis().to_string(),
        ];
        self.row(scene, played.len(), verdict(ok, played.len()), numbers);
        Ok(())
    }

    /// A scene of two callers that is told in a line, not counted.
    pub fn tell(&mut self, scene: &str, line: &str, is_ok: bool) {
        println!("  {scene}: {line}");
        let numbers = ["-", "-", "-", "-"].map(str::to_owned);
        self.row(scene, 1, verdict(usize::from(is_ok), 1), numbers);
    }

    /// A way of waiting.
    pub fn serve(&mut self, scene: &str, service: &Service) {
        println!("  {scene}: {service}");
        let verdict = match service.gave_up {
            0 => "all served".to_owned(),
            gave_up => format!("{gave_up} gave up"),
        };
        let accepted = service.check.accepted.to_string();
        let elapsed_ms = service.elapsed.as_millis().to_string();
        self.row(
            scene,
            1,
            verdict,
            [accepted, "0".to_owned(), "0".to_owned(), elapsed_ms],
        );
    }

    fn row(&mut self, scene: &str, runs: usize, verdict: String, numbers: [String; 4]) {
        let [accepted, rejected, too_late, elapsed_ms] = numbers;
        self.rows.push([
            self.step.to_string(),
            scene.to_owned(),
            runs.to_string(),
            verdict,
            accepted,
            rejected,
            too_late,
            elapsed_ms,
        ]);
    }

    /// All scenes.
    pub fn print_table(&self) {
        if self.rows.is_empty() {
            return;
        }
        let head = HEAD.map(str::to_owned);
        let lines = || std::iter::once(&head).chain(&self.rows);
        let widths: Vec<usize> = (0..HEAD.len())
            .map(|column| {
                lines()
                    .map(|line| line[column].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        println!();
        for line in lines() {
            let cells: Vec<String> = line
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(column, (cell, &width))| match column < FIRST_NUMBER {
                    true => format!("{cell:<width$}"),
                    false => format!("{cell:>width$}"),
                })
                .collect();
            println!("{}", cells.join("  ").trim_end());
        }
        println!("{LEGEND}");
    }
}

fn verdict(ok: usize, runs: usize) -> String {
    match runs - ok {
        0 => "OK".to_owned(),
        broken if broken == runs => "BROKEN".to_owned(),
        broken => format!("BROKEN in {broken}"),
    }
}

/// `10`, or `9-10`.
fn range(numbers: impl Iterator<Item = usize> + Clone) -> String {
    let least = numbers.clone().min().unwrap_or(0);
    let most = numbers.max().unwrap_or(0);
    match least == most {
        true => least.to_string(),
        false => format!("{least}-{most}"),
    }
}
