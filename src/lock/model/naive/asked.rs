//! What callers ask for, and what the rules say to it.

use super::{Hold, Naive, Wait};
use crate::lock::model::ops::Ask;
use crate::lock::model::{after_ms, Caller, Key, Told, LIMITS};
use crate::lock::{Answer, Conflict, End, Mode};

impl Naive {
    pub fn request(&self, caller: Caller, keys: Vec<Key>, token: u8, ask: &Ask) -> Wait {
        let connection = ask.connection;
        Wait {
            keys,
            token,
            ask: ask.clone(),
            session: connection.map(|connection| self.connections.number(connection)),
            caller,
            since: self.now,
            until: None,
        }
    }

    pub fn acquire(&mut self, wait: Wait, block_ms: Option<u64>) -> Told {
        wait.keys.iter().for_each(|key| self.settle(*key));
        // A retry after a lost reply: what it waited for may have become free.
        let is_own = |other: &Wait| other.token == wait.token && same_locks(other, &wait);
        let own = self.waits.iter().position(is_own);
        if let Some(index) = own {
            self.consider(index, &wait.keys);
        }
        if let Some(told) = self.acquire_again(&wait) {
            return told;
        }
        if let Some(conflict) = self.conflict(&wait) {
            return Told::Conflict(conflict);
        }
        let nobody_waits = wait.keys.iter().all(|key| self.head(*key).is_none());
        if nobody_waits && self.admits_on_all(&wait) {
            return Told::Fence(self.grant(&wait, &wait.keys));
        }
        let Some(block_ms) = block_ms else {
            return Told::Busy;
        };
        self.consider_hopeful();
        self.wait(wait, block_ms)
    }

    /// The token holds a lock that it asks for.
    pub fn acquire_again(&mut self, wait: &Wait) -> Option<Told> {
        let held: Vec<Hold> = wait
            .keys
            .iter()
            .filter_map(|key| self.hold_of(*key, wait.token).cloned())
            .collect();
        let first = held.first()?;
        if held.len() < wait.keys.len() || held.iter().any(|hold| hold.fence != first.fence) {
            return Some(Told::Conflict(Conflict::HeldInPart));
        }
        if first.mode != wait.ask.mode {
            return Some(Told::Conflict(Conflict::HeldInOtherMode));
        }
        let deadline = after_ms(self.now, wait.ask.lease_ms);
        for key in &wait.keys {
            let hold = self.hold_of(*key, wait.token).unwrap();
            hold.deadline = hold.deadline.max(deadline);
            hold.delay_us = hold.delay_us.max(wait.ask.delay_ms * 1000);
            hold.holds += u32::from(wait.ask.is_reentrant);
            hold.session = wait.session.or(hold.session);
        }
        self.in_flight.retain(|fence| *fence != first.fence);
        Some(Told::Fence(first.fence))
    }

    fn conflict(&self, wait: &Wait) -> Option<Conflict> {
        let is_same = |other: &Wait| same_locks(other, wait) && other.ask.mode == wait.ask.mode;
        let mut others = self.waits.iter().filter(|other| other.token == wait.token);
        if others.any(|other| meets(other, &wait.keys) && !is_same(other)) {
            return Some(Conflict::WaitsOtherwise);
        }
        let Mode::Permits(_) = wait.ask.mode else {
            return None;
        };
        // All who hold the lock by permits or wait for them have named the same number.
        let is_other = |mode: Mode| matches!(mode, Mode::Permits(_)) && mode != wait.ask.mode;
        let key = wait.keys[0];
        let waits = self.waits.iter().filter(|other| other.keys.contains(&key));
        let holds = self.locks[key as usize].holds.iter();
        let mut modes = holds
            .map(|hold| hold.mode)
            .chain(waits.map(|other| other.ask.mode));
        modes.any(is_other).then_some(Conflict::OtherPermits)
    }

    fn wait(&mut self, mut wait: Wait, block_ms: u64) -> Told {
        let in_same_queue = |other: &Wait| other.token == wait.token && meets(other, &wait.keys);
        let place = self.waits.iter().position(in_same_queue);
        let length = |key: &Key| self.waits.iter().filter(|other| other.keys.contains(key)).count();
        let has_room =
            self.waits.len() < LIMITS.total && wait.keys.iter().all(|key| length(key) < LIMITS.per_lock);
        if place.is_none() && !has_room {
            return Told::QueueFull;
        }
        wait.until = (block_ms > 0).then(|| (after_ms(self.now, block_ms), self.enter()));
        match place {
            Some(place) => {
                let older = self.waits[place].clone();
                self.answers.push((older.caller, Answer::Superseded));
                wait.since = older.since;
                wait.keys = older.keys;
                self.waits[place] = wait;
            }
            None => self.waits.push(wait),
        }
        Told::Waiting
    }

    pub fn refresh(&mut self, keys: &[Key], token: u8, lease_ms: u64) -> Told {
        keys.iter().for_each(|key| self.settle(*key));
        let is_held = |key: &&Key| self.hold_of(**key, token).is_some();
        let held = keys.iter().filter(is_held).count();
        if held == keys.len() {
            for key in keys {
                let deadline = after_ms(self.now, lease_ms);
                let hold = self.hold_of(*key, token).unwrap();
                hold.deadline = deadline;
                let fence = hold.fence;
                self.in_flight.retain(|other| *other != fence);
            }
        }
        Told::Count(held)
    }

    /// One lock after the other.
    pub fn release(&mut self, keys: &[Key], token: u8) -> Told {
        let released = keys.iter().filter(|key| self.release_one(**key, token));
        Told::Count(released.count())
    }

    fn release_one(&mut self, key: Key, token: u8) -> bool {
        let is_own = |wait: &Wait| wait.token == token && wait.keys.contains(&key);
        if let Some(index) = self.waits.iter().position(is_own) {
            let wait = self.remove_waiter(index);
            self.answers.push((wait.caller, Answer::Released));
        }
        self.settle(key);
        let holds = &mut self.lock(key).holds;
        let Some(index) = holds.iter().position(|hold| hold.token == token) else {
            return false;
        };
        holds[index].holds -= 1;
        if holds[index].holds == 0 {
            self.end(key, index, End::Release);
            self.settle(key);
        }
        true
    }
}

fn meets(wait: &Wait, keys: &[Key]) -> bool {
    wait.keys.iter().any(|key| keys.contains(key))
}

fn same_locks(one: &Wait, other: &Wait) -> bool {
    one.keys.len() == other.keys.len() && one.keys.iter().all(|key| other.keys.contains(key))
}
