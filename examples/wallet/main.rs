//! Fifty callers spend from one wallet, on your servers: how the balance goes wrong, and what keeps it right.
//!
//!     cargo run --release --example wallet -- --help
//!
//! The scenes are in `scene/`, told in docs/EXPERIMENTS.md, and held to their outcome by `cargo test --test races`.

mod options;
mod report;
mod scene;
mod show;

use std::process::ExitCode;

use clap::Parser;
use redis::cmd;

use options::Options;
use report::Report;
use scene::{flock, hand_made, redis_wallet, Fallible, Servers};

fn main() -> ExitCode {
    match play(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wallet: {error}");
            ExitCode::FAILURE
        }
    }
}

fn play(options: &Options) -> Fallible<()> {
    let servers = Servers::new(&options.redis, options.postgres.as_deref())?;
    check_for_flock(&servers, &options.redis)?;
    remove_keys(&servers)?;
    let mut report = Report::default();
    let mut left_out = Vec::new();
    for step in options.steps() {
        match step >= 5 && !servers.has_postgres() {
            true => left_out.push(step.to_string()),
            false => show::step(step, options, &servers, &mut report)?,
        }
    }
    report.print_table();
    if !left_out.is_empty() {
        println!("\nleft out, as they need --postgres URL: {}", left_out.join(", "));
    }
    remove_keys(&servers)?;
    if servers.has_postgres() {
        servers.postgres()?.remove()?;
    }
    Ok(())
}

fn check_for_flock(servers: &Servers, url: &str) -> Fallible<()> {
    let mut connection = servers
        .redis()
        .map_err(|error| format!("{url}: {error}\n(scripts/run starts a server with flock)"))?;
    cmd("FLOCK.HELP").exec(&mut connection).map_err(|error| {
        format!("{url}: {error}\n(flock is not there: loadmodule /path/to/libflock.so, or scripts/run)")
            .into()
    })
}

/// Also what a run before this one left that was ended half-way.
fn remove_keys(servers: &Servers) -> Fallible<()> {
    let mut connection = servers.redis()?;
    redis_wallet::remove(&mut connection)?;
    hand_made::remove(&mut connection)?;
    Ok(cmd("DEL").arg(flock::KEY).exec(&mut connection)?)
}
