//! Proves the point of it all: 50 callers spend from one balance that lies in the same Redis, with leases of 1 ms that
//! often run out in the middle of their work. Without the guard money is made up; with it no stale holder ever writes,
//! and the balance is exact in every run.
//!
//! A run prints its seed; `FLOCK_SEED` repeats the callers' pauses (not the timing).

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::*;

const CALLERS: usize = 50;
const RUNS: usize = 20;
const PURCHASES: usize = 2;
const PRICE: i64 = 10;
const BALANCE: i64 = 100_000;
/// What a caller does between reading the balance and writing it: often longer than the lease.
const LONGEST_PAUSE_US: u64 = 1_500;

/// How the balance is written.
#[derive(Clone, Copy, PartialEq)]
enum Write {
    Guarded,
    Plain,
}

/// Somebody who buys.
struct Caller {
    client: Client,
    random: StdRng,
    name: String,
    attempts: usize,
    refused: i64,
}

impl Caller {
    /// Buys once: starts over as long as its lease was over when it wrote.
    fn buy(&mut self, write: Write) {
        loop {
            self.attempts += 1;
            let token = format!("{}-{}", self.name, self.attempts);
            self.client
                .run(&format!("FLOCK.ACQUIRE lock:wallet {token} PX 1 BLOCK 0"))
                .fence();
            let balance: i64 = self.client.run("GET wallet").text().parse().expect("a number");
            let pause = self.random.random_range(0..LONGEST_PAUSE_US);
            thread::sleep(Duration::from_micros(pause));
            let rest = balance - PRICE;
            let reply = match write {
                Write::Guarded => self
                    .client
                    .run(&format!("FLOCK.GUARD lock:wallet {token} SET wallet {rest}")),
                Write::Plain => self.client.run(&format!("SET wallet {rest}")),
            };
            self.client.run(&format!("FLOCK.RELEASE lock:wallet {token}"));
            if reply == OK {
                return;
            }
            assert_eq!(reply.error_word(), "NOTHELD", "{reply:?}");
            self.refused += 1;
        }
    }
}

/// All callers at once, from one start line. Returns what is left, and how many writes were refused.
fn shop(server: &Server, seed: u64, write: Write) -> (i64, i64) {
    server.admin().call(("SET", "wallet", BALANCE));
    let start_line = Barrier::new(CALLERS);
    let refused: i64 = thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|number| {
                let start_line = &start_line;
                let mut caller = Caller {
                    client: server.admin(),
                    random: StdRng::seed_from_u64(seed.wrapping_add(number as u64)),
                    name: format!("caller-{number}"),
                    attempts: 0,
                    refused: 0,
                };
                scope.spawn(move || {
                    start_line.wait();
                    (0..PURCHASES).for_each(|_| caller.buy(write));
                    caller.refused
                })
            })
            .collect();
        let refused = callers.into_iter().map(|caller| caller.join().expect("a caller"));
        refused.sum()
    });
    let left = server.admin().run("GET wallet").text();
    (left.parse().expect("a number"), refused)
}

const EXACT: i64 = BALANCE - (CALLERS * PURCHASES) as i64 * PRICE;

#[test]
fn without_the_guard_the_balance_is_wrong() {
    let server = Server::builder().undressed().start();
    let seed = seed();
    let is_wrong = (0..RUNS as u64).any(|run| shop(&server, seed ^ (run << 32), Write::Plain).0 != EXACT);
    assert!(is_wrong, "if this never shows, the other test proves nothing");
}

#[test]
fn with_the_guard_the_balance_is_exact_in_every_run_and_stale_writers_are_refused() {
    let server = Server::builder().undressed().start();
    let seed = seed();
    let mut refused = 0;
    for run in 0..RUNS as u64 {
        let (left, refused_now) = shop(&server, seed ^ (run << 32), Write::Guarded);
        assert_eq!(left, EXACT, "run {run}");
        refused += refused_now;
    }
    let mut client = server.admin();
    assert!(refused > 0, "no lease ran out: this run proves nothing");
    assert_eq!(client.stat("guards_refused"), refused);
    assert_eq!(client.stat("guards"), (RUNS * CALLERS * PURCHASES) as i64);
    let is_free = |exists: &Reply| *exists == 0;
    eventually("the lock is free", || client.run("EXISTS lock:wallet"), is_free);
    println!("{refused} stale writers were refused");
}
