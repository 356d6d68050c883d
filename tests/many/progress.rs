//! Proves that callers who want overlapping sets, in opposite orders and all at once, neither block each other for ever
//! nor starve, and that no lock ever has two owners or a fence that is not greater than the one before it.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use crate::assert_nobody_waits;
use crate::support::*;

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
const CALLERS: usize = 12;
const ROUNDS: usize = 120;
const RUN_TIME: Duration = Duration::from_secs(4);

/// What the callers know of one lock.
#[derive(Default)]
struct Owned {
    owners: AtomicUsize,
    last_fence: AtomicI64,
}

impl Owned {
    fn enter(&self, key: &str, fence: i64) {
        let before = self.owners.fetch_add(1, Ordering::SeqCst);
        assert_eq!(before, 0, "{key} has two owners");
        let last = self.last_fence.swap(fence, Ordering::SeqCst);
        assert!(last < fence, "{key}: {last} < {fence}");
    }

    fn leave(&self) {
        self.owners.fetch_sub(1, Ordering::SeqCst);
    }
}

type Locks = [Owned; KEYS.len()];

/// Somebody who takes locks and gives them back.
struct Caller<'a> {
    locks: &'a Locks,
    server: &'a Server,
    client: Client,
    random: StdRng,
    name: String,
    rounds: usize,
}

impl<'a> Caller<'a> {
    fn new(server: &'a Server, locks: &'a Locks, seed: u64, number: usize) -> Caller<'a> {
        Caller {
            locks,
            server,
            client: server.admin(),
            random: StdRng::seed_from_u64(seed ^ number as u64),
            name: format!("caller-{number}"),
            rounds: 0,
        }
    }

    /// One request, in the order of `keys` (by their numbers), and what becomes of it.
    fn round(&mut self, keys: &[usize], wait_ms: u64) {
        self.rounds += 1;
        let token = format!("{}-{}", self.name, self.rounds);
        let names: Vec<_> = keys.iter().map(|key| KEYS[*key]).collect();
        let (count, names) = (keys.len(), names.join(" "));
        let line = match count {
            1 if self.rounds % 2 == 0 => format!("FLOCK.ACQUIRE {names} {token} PX 600000 BLOCK {wait_ms}"),
            _ => format!("FLOCK.MACQUIRE {count} {names} {token} PX 600000 BLOCK {wait_ms}"),
        };
        let Reply::Int(fence) = self.client.run(&line) else {
            assert!(wait_ms > 0, "only a wait with a limit ends without a grant");
            return;
        };
        for key in keys {
            self.locks[*key].enter(KEYS[*key], fence);
        }
        if self.random.random_bool(0.3) {
            thread::sleep(Duration::from_micros(self.random.random_range(0..1500)));
        }
        for key in keys {
            self.locks[*key].leave();
        }
        let release = format!("FLOCK.MRELEASE {count} {names} {token}");
        assert_eq!(self.client.run(&release), count as i64, "{release}");
    }

    /// Asks for a set, and hangs up without waiting for the answer.
    fn hang_up(&mut self, keys: &[usize]) {
        self.rounds += 1;
        let token = format!("{}-{}", self.name, self.rounds);
        let names: Vec<_> = keys.iter().map(|key| KEYS[*key]).collect();
        let (count, names) = (keys.len(), names.join(" "));
        let mut client = self.server.admin();
        assert_eq!(client.run(&format!("CLIENT SETNAME {token}")), OK);
        client.send_line(&format!(
            "FLOCK.MACQUIRE {count} {names} {token} PX 600000 BLOCK 0"
        ));
        if self.random.random_bool(0.5) {
            thread::sleep(Duration::from_micros(self.random.random_range(0..2000)));
        }
        drop(client);
        // It may have been granted before it hung up, and then has to give back what it has; or its request may
        // be read after that. So until the server has seen the end of it:
        let release = format!("FLOCK.MRELEASE {count} {names} {token}");
        self.client.run(&release);
        eventually(
            "the server has forgotten who hung up",
            || {
                self.client.run(&release);
                self.client.run("CLIENT LIST").text().contains(&token)
            },
            |is_there| !is_there,
        );
        self.client.run(&release);
    }

    /// Some of the keys, in any order.
    fn some_keys(&mut self) -> Vec<usize> {
        let count = *[1, 2, 2, 3].choose(&mut self.random).expect("not empty");
        let mut numbers: Vec<_> = (0..KEYS.len()).collect();
        numbers.shuffle(&mut self.random);
        numbers.truncate(count);
        numbers
    }
}

/// All callers at once; then nothing may be left.
fn run(act: impl Fn(&mut Caller, usize) + Sync) {
    let server = Server::builder().undressed().start();
    let locks = Locks::default();
    let seed = seed();
    thread::scope(|scope| {
        for number in 0..CALLERS {
            let (server, locks, act) = (&server, &locks, &act);
            scope.spawn(move || act(&mut Caller::new(server, locks, seed, number), number));
        }
    });
    let mut admin = server.admin();
    assert_nobody_waits(&mut admin);
    eventually("nothing is held", || admin.stat("held_locks"), |held| *held == 0);
    assert_eq!(admin.run("DBSIZE"), 0);
}

#[test]
fn two_locks_in_opposite_orders_are_no_deadlock() {
    run(|caller, number| {
        let keys = if number % 2 == 0 { [0, 1] } else { [1, 0] };
        for _ in 0..ROUNDS {
            caller.round(&keys, 0);
        }
    });
}

/// As at the table of the philosophers: each wants two neighbours, the left one first.
#[test]
fn a_ring_of_overlapping_sets_is_no_deadlock() {
    run(|caller, number| {
        let left = number % KEYS.len();
        let keys = [left, (left + 1) % KEYS.len()];
        for _ in 0..ROUNDS {
            caller.round(&keys, 0);
        }
    });
}

#[test]
fn callers_of_random_sets_all_complete_their_rounds() {
    run(|caller, _| {
        for _ in 0..ROUNDS {
            let keys = caller.some_keys();
            caller.round(&keys, 0);
        }
    });
}

/// All five at once is what most others are in the way of.
#[test]
fn who_wants_all_of_them_is_not_starved_by_those_who_want_one() {
    const ROUNDS_FOR_ALL: usize = 40;
    let finished = AtomicUsize::new(0);
    run(|caller, number| {
        if number == 0 {
            for _ in 0..ROUNDS_FOR_ALL {
                caller.round(&[0, 1, 2, 3, 4], 0);
            }
            finished.store(1, Ordering::SeqCst);
            return;
        }
        let start = Instant::now();
        while finished.load(Ordering::SeqCst) == 0 {
            assert!(start.elapsed() < PATIENCE, "starved");
            caller.round(&[number % KEYS.len()], 0);
        }
    });
}

#[test]
fn nobody_owns_what_another_owns_while_waiters_time_out_and_hang_up() {
    run(|caller, number| {
        let start = Instant::now();
        while start.elapsed() < RUN_TIME {
            let keys = caller.some_keys();
            match (number + caller.rounds) % 4 {
                0 => caller.hang_up(&keys),
                1 => caller.round(&keys, 3),
                _ => caller.round(&keys, 0),
            }
        }
    });
}
