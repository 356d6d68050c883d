//! Proves the rule of the queues against its simplest form: whoever came first goes first, and a waiter is granted as
//! soon as all its locks are free and no earlier waiter wants one of them. Random arrivals, releases, removals and
//! departures, one at a time, and after each of them the server must have done exactly what the rule says.
//!
//! A run prints its seed; `FLOCK_SEED` repeats it.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::enqueue;
use crate::support::*;

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
const STEPS: usize = 400;
const MOST_WAITERS: usize = 12;

/// A caller that was not granted at once.
struct Waiter {
    token: String,
    keys: Vec<&'static str>,
    client: Client,
}

/// The rule, and the server that must follow it.
struct Run {
    server: Server,
    admin: Client,
    random: StdRng,
    holders: BTreeMap<&'static str, String>,
    /// In the order of their arrival.
    waiters: Vec<Waiter>,
    arrivals: usize,
    /// Of each lock, the fence of its last grant.
    fences: BTreeMap<&'static str, i64>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let server = Server::builder().undressed().start();
        Run {
            admin: server.admin(),
            server,
            random: StdRng::seed_from_u64(seed),
            holders: BTreeMap::new(),
            waiters: Vec::new(),
            arrivals: 0,
            fences: BTreeMap::new(),
        }
    }

    fn may_have(&self, keys: &[&str], earlier: &[Waiter]) -> bool {
        let is_wanted = |key: &&str| earlier.iter().any(|waiter| waiter.keys.contains(key));
        !keys
            .iter()
            .any(|key| self.holders.contains_key(key) || is_wanted(key))
    }

    /// Somebody comes for one lock or for some, and waits for them if it must.
    fn arrive(&mut self) {
        let count = self.random.random_range(1..=3);
        let keys: Vec<_> = KEYS.choose_multiple(&mut self.random, count).copied().collect();
        let token = format!("t{}", self.arrivals);
        self.arrivals += 1;
        let many = format!(
            "FLOCK.MACQUIRE {count} {} {token} PX 600000 LABEL {token}",
            keys.join(" ")
        );
        let line = match count == 1 && self.random.random_bool(0.7) {
            true => format!("FLOCK.ACQUIRE {} {token} PX 600000 LABEL {token}", keys[0]),
            false => many,
        };
        if self.may_have(&keys, &self.waiters) {
            let fence = self.admin.run(&format!("{line} BLOCK 0"));
            self.grant(&token, &keys, fence);
            return;
        }
        assert_eq!(self.admin.run(&line), NIL, "{line}");
        let client = enqueue(&self.server, &format!("{line} BLOCK 0"));
        self.waiters.push(Waiter { token, keys, client });
    }

    fn grant(&mut self, token: &str, keys: &[&'static str], fence: Reply) {
        let fence = fence.fence();
        for key in keys {
            let last = self.fences.insert(*key, fence);
            assert!(last < Some(fence), "{token}, {key}: {last:?} < {fence}");
            let before = self.holders.insert(*key, token.to_owned());
            assert_eq!(before, None, "{key} had an owner");
        }
    }

    /// A holder lets go of one of its locks, or of all, or somebody else sees to that.
    fn free(&mut self) {
        let Some((key, token)) = self.random_hold() else {
            return;
        };
        let held = self.holders.iter().filter(|(_, holder)| **holder == token);
        let all: Vec<&str> = held.map(|(key, _)| *key).collect();
        let (line, freed) = match self.random.random_range(0..6) {
            0 => (format!("DEL {key}"), vec![key]),
            1 => (format!("FLOCK.BREAK {key}"), vec![key]),
            2 => (format!("FLOCK.RELEASE {key} {token}"), vec![key]),
            _ => {
                let keys = all.join(" ");
                (format!("FLOCK.MRELEASE {} {keys} {token}", all.len()), all)
            }
        };
        assert_eq!(self.admin.run(&line), freed.len() as i64, "{line}");
        for key in freed {
            self.holders.remove(key);
        }
    }

    fn random_hold(&mut self) -> Option<(&'static str, String)> {
        let holds: Vec<_> = self.holders.iter().collect();
        holds
            .choose(&mut self.random)
            .map(|(key, token)| (**key, (*token).clone()))
    }

    /// A waiter goes away: asked to, or without a word.
    fn leave(&mut self) {
        if self.waiters.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.waiters.len());
        let mut waiter = self.waiters.remove(index);
        let key = *waiter.keys.choose(&mut self.random).expect("not empty");
        match self.random.random_range(0..3) {
            0 => drop(waiter.client),
            1 => {
                let line = format!("FLOCK.RELEASE {key} {}", waiter.token);
                assert_eq!(self.admin.run(&line), 0, "{line}");
                assert_eq!(waiter.client.receive(), NIL, "{line}");
            }
            _ => {
                let line = format!("FLOCK.MRELEASE 1 {key} {}", waiter.token);
                assert_eq!(self.admin.run(&line), 0, "{line}");
                assert_eq!(waiter.client.receive(), NIL, "{line}");
            }
        }
    }

    /// What the rule makes of it, and that the server has done the same.
    fn settle(&mut self) {
        let mut index = 0;
        while index < self.waiters.len() {
            let waiter = &self.waiters[index];
            if self.may_have(&waiter.keys, &self.waiters[..index]) {
                let mut waiter = self.waiters.remove(index);
                let fence = waiter.client.receive();
                self.grant(&waiter.token, &waiter.keys, fence);
            } else {
                index += 1;
            }
        }
        let waiting = self.waiters.len() as i64;
        let is_so = |waiters: &i64| *waiters == waiting;
        eventually("as many wait", || self.admin.stat("waiters"), is_so);
        for key in KEYS {
            let info = self.admin.call(("FLOCK.INFO", key));
            let waiting = self.waiters.iter().filter(|waiter| waiter.keys.contains(&key));
            let waiting = waiting.count() as i64;
            let holder = self.holders.get(key);
            if info == NIL {
                assert_eq!((holder, waiting), (None, 0), "{key}");
                continue;
            }
            let shown = info.field("holders").items().first();
            let shown = shown.map(|holder| holder.field("label").text());
            assert_eq!(shown.as_ref(), holder, "{key}");
            assert_eq!(*info.field("waiters"), waiting, "{key}");
        }
    }

    fn step(&mut self) {
        match self.random.random_range(0..10) {
            0..4 if self.waiters.len() < MOST_WAITERS => self.arrive(),
            4 => self.leave(),
            _ => self.free(),
        }
        self.settle();
    }
}

#[test]
fn the_queues_do_what_the_rule_says() {
    let mut run = Run::new(seed());
    for _ in 0..STEPS {
        run.step();
    }
    while !run.holders.is_empty() {
        run.free();
        run.settle();
    }
    assert_eq!(run.waiters.len(), 0, "everybody was served");
    assert_eq!(run.admin.run("DBSIZE"), 0);
}
