//! The races that a lock is bought for, on real servers: how a balance goes wrong without flock, and how it holds with it.
//! Each test plays both. The scenes are those of the example `wallet`, and docs/EXPERIMENTS.md tells them.
//!
//! | file | the scene |
//! |---|---|
//! | `step1.rs` | the race |
//! | `step2.rs` | the lock, and the locks that people build from SET |
//! | `step3.rs` | work that outlives its lease, and the watchdog |
//! | `step4.rs` | how callers wait |
//! | `step5.rs` | a holder that sleeps through its lease, and the fence |
//! | `step6.rs` | everybody at once, with a lease that is too short |
//! | `traps/` | what takes a lock away behind its holder's back |
//!
//! A scene without flock breaks only when the callers meet, so it is played until it breaks, [`TRIES`] times at most. A scene that
//! must hold is played a fixed number of times, and has to hold each time.

#[path = "../../examples/wallet/scene/mod.rs"]
mod scene;
#[path = "../support/mod.rs"]
mod support;

mod step1;
mod step2;
mod step3;
mod step4;
mod step5;
mod step6;
mod traps;

use scene::{Fallible, Run, Servers};
use support::{Builder, Postgres, Server};

/// How often a scene may be played until it breaks.
const TRIES: usize = 20;
/// How often a scene is played that must hold.
const RUNS: usize = 5;

/// A Redis or Valkey with flock, and the way there for a client library.
fn start_redis() -> (Server, Servers) {
    let server = plain().start();
    let servers = servers(&server, None);
    (server, servers)
}

/// No dress: the scenes bring their own load.
fn plain() -> Builder {
    Server::builder().undressed()
}

/// The same, with a PostgreSQL.
fn start_both(builder: Builder) -> (Server, Postgres, Servers) {
    let (server, postgres) = (builder.start(), Postgres::start());
    let servers = servers(&server, Some(&postgres));
    (server, postgres, servers)
}

fn servers(server: &Server, postgres: Option<&Postgres>) -> Servers {
    let url = format!("redis://127.0.0.1:{}", server.port());
    Servers::new(&url, postgres.map(Postgres::url).as_deref()).expect("addresses")
}

/// Plays a scene until it breaks, and prints how it did.
#[track_caller]
fn breaks(scene: &str, play: impl FnMut() -> Fallible<Run>) -> Run {
    breaks_so(scene, play, |run| !run.is_ok())
}

/// [`breaks`], in this way.
#[track_caller]
fn breaks_so(scene: &str, mut play: impl FnMut() -> Fallible<Run>, is_broken: impl Fn(&Run) -> bool) -> Run {
    for tries in 1..=TRIES {
        let run = play().expect("servers that work");
        if is_broken(&run) {
            println!("{scene}: {run}, in run {tries}");
            return run;
        }
    }
    panic!("{scene}: did not break in {TRIES} runs");
}

/// Plays a scene that must hold each time, and prints each.
#[track_caller]
fn holds(scene: &str, mut play: impl FnMut() -> Fallible<Run>) -> Vec<Run> {
    let runs: Vec<Run> = (0..RUNS).map(|_| play().expect("servers that work")).collect();
    for run in &runs {
        println!("{scene}: {run}");
        assert!(run.is_ok(), "{scene}: {run}");
    }
    runs
}
