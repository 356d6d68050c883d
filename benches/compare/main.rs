//! flock beside the ways of locking it replaces, on one server: `scripts/bench`.
//!
//! | file | measures |
//! |---|---|
//! | `pair.rs` | instructions per acquire and release, uncontended |
//! | `handoff.rs` | hand-offs per second, and their cost as the queue grows; memory per waiter |
//! | `memory.rs` | bytes per held lock |
//! | `punctuality.rs` | how late leases end |
//!
//! Instructions are counted, not timed: the same to within a fraction of a percent on every run, on a busy machine
//! too. Rates are timed, and only as good as the machine was idle. Where the rivals are measured, the module is not loaded.

mod contenders;
mod handoff;
mod memory;
mod pair;
mod punctuality;
mod report;
mod resp;
mod server;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use pair::Style;
use report::{ratio, whole, Table};
use server::{Setup, Under};

const USAGE: &str = "usage: scripts/bench [--quick] [--aof] [--write]
  --quick  smaller runs: the same tables in about a minute
  --aof    with appendonly yes (appendfsync no): what writing the AOF adds
  --write  also writes the tables to docs/BENCHMARKS.md";

struct Options {
    quick: bool,
    aof: bool,
    write: bool,
    program: PathBuf,
    module: PathBuf,
}

impl Options {
    fn parse() -> Options {
        let variable = |name: &str, otherwise: &str| {
            std::env::var_os(name).map_or_else(|| otherwise.into(), PathBuf::from)
        };
        let mut options = Options {
            quick: false,
            aof: false,
            write: false,
            program: variable("FLOCK_SERVER", "redis-server"),
            module: variable("FLOCK_MODULE", "target/release/libflock.so"),
        };
        for argument in std::env::args().skip(1) {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--aof" => options.aof = true,
                "--write" => options.write = true,
                // cargo bench adds it
                "--bench" => {}
                _ => {
                    eprintln!("{USAGE}");
                    std::process::exit(2);
                }
            }
        }
        options.module = options
            .module
            .canonicalize()
            .unwrap_or_else(|error| panic!("{:?}: {error}", options.module));
        options
    }

    fn setup(&self, with_flock: bool, under: Under) -> Setup<'_> {
        Setup {
            program: &self.program,
            module: with_flock.then_some(self.module.as_path()),
            under,
            aof: self.aof,
        }
    }

    fn size<T>(&self, quick: T, full: T) -> T {
        if self.quick {
            quick
        } else {
            full
        }
    }
}

fn pairs(options: &Options) -> Table {
    let pairs = options.size(2_000, 20_000);
    let mut table = Table::new(
        "Instructions per acquire and release",
        &[
            "",
            "commands",
            "one by one",
            "to flock's",
            "pipelined",
            "to flock's",
        ],
    );
    let mut base = None;
    for contender in contenders::ALL {
        eprintln!("… instructions: {}", contender.name());
        let setup = options.setup(contender.is_flock(), Under::Callgrind);
        let single = pair::measure(&setup, contender, Style::OneByOne, pairs);
        let piped = pair::measure(&setup, contender, Style::Pipelined, pairs);
        let (base_single, base_piped) = *base.get_or_insert((single.instructions, piped.instructions));
        table.row(vec![
            contender.name().to_owned(),
            single.commands,
            whole(single.instructions),
            ratio(single.instructions, base_single),
            whole(piped.instructions),
            ratio(piped.instructions, base_piped),
        ]);
    }
    table.note(&format!(
        "Of the server alone, in user space, by callgrind, {} pairs, {} pairs a pipeline. SET NX gives no fence; the scripts give one from a second key.",
        whole(pairs as f64),
        pair::PIPELINE
    ));
    table
}

fn handoffs(options: &Options) -> Table {
    let counted = options.size(300, 1_000);
    let timed = Duration::from_secs(options.size(2, 10));
    let mut table = Table::new(
        "Hand-offs",
        &[
            "",
            "waiters",
            "a second",
            "server CPU µs each",
            "instructions each",
        ],
    );
    for queue in handoff::QUEUES {
        for waiters in [50, 2_000] {
            eprintln!("… hand-offs: {}, {waiters} waiters", queue.name());
            let with_flock = queue.contender().is_flock();
            let setup = options.setup(with_flock, Under::Nothing);
            let rate = handoff::rate(&setup, queue, waiters, timed);
            let setup = options.setup(with_flock, Under::Callgrind);
            let instructions = handoff::instructions(&setup, queue, waiters, counted);
            table.row(vec![
                queue.name().to_owned(),
                whole(waiters as f64),
                whole(rate.per_second),
                format!("{:.1}", rate.server_cpu_us),
                whole(instructions),
            ]);
        }
    }
    table.note("One hand-off is a release, its reply, the grant to the head of the queue, and the releaser queueing again: two round trips of one client. The BLPOP token has no lease and no fence.");
    table
}

fn memory(options: &Options) -> Table {
    let locks = options.size(20_000, 100_000);
    let mut table = Table::new("Memory", &["", "bytes each", "bytes left when released"]);
    for form in memory::FORMS {
        eprintln!("… memory: {}", form.name());
        let setup = options.setup(form.is_flock(), Under::Nothing);
        let bytes = memory::measure(&setup, form, locks);
        table.row(vec![
            format!("held lock, {}", form.name()),
            whole(bytes.held),
            whole(bytes.left_after_release),
        ]);
    }
    for queue in handoff::QUEUES {
        let setup = options.setup(queue.contender().is_flock(), Under::Nothing);
        let bytes = handoff::memory_per_waiter(&setup, queue, options.size(200, 1_000));
        table.row(vec![
            format!("waiter, {}", queue.name()),
            whole(bytes),
            "-".to_owned(),
        ]);
    }
    table.note(&format!(
        "Growth of used_memory over {} held locks with names of 13 bytes and tokens of {}, and over an idle connection for a waiter. What is left is the key table's size, and the fence keys.",
        whole(locks as f64),
        contenders::TOKEN.len()
    ));
    table
}

fn punctuality(options: &Options) -> Table {
    eprintln!("… punctuality");
    let leases = options.size(50, 1_000);
    let mut table = Table::new("Punctuality", &["", "median µs", "99 of 100 µs", "worst µs"]);
    let late = punctuality::measure(&options.setup(true, Under::Nothing), leases);
    let micros = |late: Duration| whole(late.as_micros() as f64);
    table.row(vec![
        "late by".to_owned(),
        micros(late.median),
        micros(late.worst_of_100),
        micros(late.worst),
    ]);
    table.note(&format!(
        "From the end of a lease to the reply of the client that waited for it, {} leases of 20 ms, no other traffic.",
        whole(leases as f64)
    ));
    table
}

fn main() {
    let options = Options::parse();
    let version = Command::new(&options.program)
        .arg("--version")
        .output()
        .unwrap_or_else(|error| panic!("{:?}: {error}", options.program));
    let version = String::from_utf8_lossy(&version.stdout);
    let version = version.split(" sha").next().unwrap_or_default();
    let mut text = format!(
        "# Benchmarks\n\nMade by `scripts/bench{}`{} on {version}, {} cores, AOF {}.\n",
        if options.aof { " --aof" } else { "" },
        if options.quick { " (quick)" } else { "" },
        std::thread::available_parallelism().map_or(0, usize::from),
        if options.aof { "on" } else { "off" },
    );
    println!("{text}");
    for measure in [pairs, handoffs, memory, punctuality] {
        let table = measure(&options).render();
        println!("{table}");
        text.push('\n');
        text.push_str(&table);
    }
    if options.write {
        std::fs::write("docs/BENCHMARKS.md", text).expect("docs/BENCHMARKS.md");
        eprintln!("wrote docs/BENCHMARKS.md");
    }
}
