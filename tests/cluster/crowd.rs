//! Clients that take locks and let them go, all the time, while something befalls the cluster.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::nodes::FAILOVER_BOUND;
use crate::rover::Rover;
use crate::support::*;

/// What a holder does at most while it holds.
const WORK_MAX_MS: u64 = 10;

/// What may be lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Losses {
    /// Nothing: no two hold one lock at once, and every release is of a hold.
    None,
    /// The newest grants and releases, as replication is asynchronous. Holds whose release was lost
    /// end with their leases, which therefore are short.
    Newest,
}

impl Losses {
    fn lease_ms(self) -> u64 {
        match self {
            Losses::None => 120_000,
            Losses::Newest => 4_000,
        }
    }
}

pub struct Crowd {
    ports: Vec<u16>,
    keys: Vec<String>,
    /// Who is between the grant of each lock and its release.
    inside: Vec<AtomicUsize>,
    losses: Losses,
    is_over: AtomicBool,
    /// How often they were set to work: no token comes twice.
    runs: AtomicUsize,
    seed: u64,
    pub history: History,
}

impl Crowd {
    pub fn new(ports: Vec<u16>, keys: Vec<String>, losses: Losses) -> Crowd {
        Crowd {
            ports,
            inside: keys.iter().map(|_| AtomicUsize::new(0)).collect(),
            keys,
            losses,
            is_over: AtomicBool::new(false),
            runs: AtomicUsize::new(0),
            seed: seed(),
            history: History::default(),
        }
    }

    /// Lets so many clients work while `event` happens, and checks what they were told.
    #[track_caller]
    pub fn work_during(&self, clients: usize, event: impl FnOnce()) {
        self.is_over.store(false, Ordering::SeqCst);
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        thread::scope(|scope| {
            for number in 0..clients {
                scope.spawn(move || self.work(&format!("r{run}-c{number}"), number as u64));
            }
            // Also after a failure: the clients would work on, and the scope wait for them.
            let _over = OverWhenDropped(&self.is_over);
            self.wait_until_all_go_round();
            event();
            self.wait_until_all_go_round();
        });
        self.history.assert_fences_grow();
        self.assert_nothing_is_left();
        println!("{} grants in the history", self.history.count());
    }

    /// Each lock is taken anew by somebody who asked after this was called.
    #[track_caller]
    pub fn wait_until_all_go_round(&self) {
        let since = Instant::now();
        eventually_within(
            FAILOVER_BOUND,
            "every lock goes round",
            || {
                let still = self.keys.iter();
                let still = still.filter(|key| self.history.count_since(key, since) == 0);
                still.cloned().collect::<Vec<_>>()
            },
            Vec::is_empty,
        );
    }

    fn work(&self, name: &str, number: u64) {
        let mut random = StdRng::seed_from_u64(self.seed.wrapping_add(number));
        let mut rover = Rover::new(&self.ports);
        for round in 0.. {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let index = random.random_range(0..self.keys.len());
            let work = Duration::from_millis(random.random_range(0..=WORK_MAX_MS));
            self.take_and_let_go(&mut rover, index, &format!("{name}-{round}"), work);
        }
    }

    fn take_and_let_go(&self, rover: &mut Rover, index: usize, token: &str, work: Duration) {
        let key = &self.keys[index];
        let lease_ms = self.losses.lease_ms();
        let line = format!("FLOCK.ACQUIRE {key} {token} PX {lease_ms} BLOCK 0");
        let heard = rover.ask(&line);
        self.history.record(key, token, &heard);
        // One that nobody lets go: there is always a lease about to end by itself.
        let brief = format!("FLOCK.ACQUIRE {key}:{token} t PX {}", 1 + work.as_millis() * 2);
        rover.ask(&brief).reply.fence();
        let others = self.inside[index].fetch_add(1, Ordering::SeqCst);
        if self.losses == Losses::None {
            assert_eq!(others, 0, "{key} has two holders");
        }
        thread::sleep(work);
        self.inside[index].fetch_sub(1, Ordering::SeqCst);
        let heard = rover.ask(&format!("FLOCK.RELEASE {key} {token}"));
        if self.losses == Losses::None && !heard.was_lost {
            assert_eq!(heard.reply, 1, "{key}: a hold was lost");
        }
    }

    /// All have let go.
    #[track_caller]
    fn assert_nothing_is_left(&self) {
        let mut rover = Rover::new(&self.ports);
        for key in &self.keys {
            eventually(
                &format!("{key} is free"),
                || rover.ask(&format!("FLOCK.INFO {key}")).reply,
                |info| *info == NIL,
            );
        }
    }
}

struct OverWhenDropped<'c>(&'c AtomicBool);

impl Drop for OverWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
