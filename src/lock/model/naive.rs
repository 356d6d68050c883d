//! The naive model: plain lists, searched from end to end.
//!
//! All waiters stand in one list, in the order of their arrival, each with the locks it asked for.
//! Who heads the queue of a lock is looked up anew each time: the first in the list that asked for
//! it. That is the whole of the rule for many locks: a waiter is granted when it heads the queues
//! of all its locks and they are all free.

use super::befall::Answers;
use super::ops::{Ask, Connections, Op};
use super::{after_ms, token_bytes, Caller, Key, Told, KEYS, LIMITS};
use crate::lock::{Answer, Conflict, Fence, Mode};

#[derive(Clone, Debug)]
pub struct Hold {
    pub token: u8,
    pub fence: u64,
    pub deadline: u64,
    pub mode: Mode,
    pub holds: u32,
    pub delay_us: u64,
    pub session: Option<u64>,
    /// Order of entry into the deadline index, which breaks ties; 0 if it has not been entered.
    pub entered: u64,
    /// The locks that were granted together.
    pub granted: Vec<Key>,
}

/// A hold as others see it.
#[derive(Debug, PartialEq)]
pub struct PlainHold {
    pub token: Vec<u8>,
    pub fence: u64,
    pub deadline: u64,
    pub mode: Mode,
    pub holds: u32,
    pub delay_us: u64,
    pub session: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Closed {
    pub fence: u64,
    pub until: u64,
    pub entered: u64,
}

#[derive(Clone, Debug, Default)]
pub struct NaiveLock {
    pub holds: Vec<Hold>,
    pub closed: Option<Closed>,
}

/// A request, and its caller where it waits.
#[derive(Clone, Debug)]
pub struct Wait {
    pub keys: Vec<Key>,
    pub token: u8,
    pub ask: Ask,
    pub session: Option<u64>,
    pub caller: Caller,
    pub since: u64,
    pub until: Option<(u64, u64)>,
}

#[derive(Default)]
pub struct Naive {
    pub now: u64,
    pub wall_us: u64,
    pub last_fence: u64,
    pub entries: u64,
    pub locks: [NaiveLock; KEYS as usize],
    /// In the order of arrival.
    pub waits: Vec<Wait>,
    pub answers: Answers,
    /// Grants from the queue whose callers are not known to have heard of them.
    pub in_flight: Vec<u64>,
    /// Waiters for many locks to be considered before the operation ends, for one of their locks
    /// was found free.
    pub hopeful: Vec<Caller>,
    /// Locks whose heads have gone ungranted: to be settled before the operation ends.
    pub headless: Vec<Key>,
    pub connections: Connections,
}

impl Naive {
    pub fn lock(&mut self, key: Key) -> &mut NaiveLock {
        &mut self.locks[key as usize]
    }

    pub fn enter(&mut self) -> u64 {
        self.entries += 1;
        self.entries
    }

    fn admits(&self, key: Key, mode: Mode) -> bool {
        let lock = &self.locks[key as usize];
        let all_are = |mode| lock.holds.iter().all(|hold| hold.mode == mode);
        let beside = match mode {
            Mode::Exclusive => lock.holds.is_empty(),
            Mode::Shared => all_are(mode),
            Mode::Permits(n) => all_are(mode) && lock.holds.len() < n as usize,
        };
        beside && lock.closed.is_none()
    }

    pub fn admits_on_all(&self, wait: &Wait) -> bool {
        wait.keys.iter().all(|key| self.admits(*key, wait.ask.mode))
    }

    /// Who is next at a lock: an index into the list of waiters.
    pub fn head(&self, key: Key) -> Option<usize> {
        self.waits.iter().position(|wait| wait.keys.contains(&key))
    }

    pub fn heads_all_queues(&self, index: usize) -> bool {
        self.waits[index]
            .keys
            .iter()
            .all(|key| self.head(*key) == Some(index))
    }

    fn next_fence(&mut self, above: u64) -> u64 {
        self.last_fence = (self.last_fence + 1).max(above + 1).max(self.wall_us);
        self.last_fence
    }

    fn grant(&mut self, wait: &Wait, order: &[Key]) -> u64 {
        let fence = self.next_fence(wait.ask.above);
        for key in order {
            let hold = Hold {
                token: wait.token,
                fence,
                deadline: after_ms(self.now, wait.ask.lease_ms),
                mode: wait.ask.mode,
                holds: 1,
                delay_us: wait.ask.delay_ms * 1000,
                session: wait.session,
                entered: self.enter(),
                granted: wait.keys.clone(),
            };
            self.lock(*key).holds.push(hold);
        }
        fence
    }

    fn grant_waiter(&mut self, index: usize, order: &[Key]) {
        let mut wait = self.waits.remove(index);
        // It holds the lock by now if the lock was renamed to where it waited: then this is as if
        // it asked again.
        wait.ask.is_reentrant = false;
        let number = match self.acquire_again(&wait) {
            Some(Told::Fence(fence)) => fence,
            _ => {
                let fence = self.grant(&wait, order);
                self.in_flight.push(fence);
                fence
            }
        };
        let fence = Fence::new(number).unwrap();
        let waited_us = self.now - wait.since;
        self.answers
            .push((wait.caller, Answer::Granted { fence, waited_us }));
    }

    /// Brings one lock up to date: what is over ends, and who is next is granted.
    pub fn settle(&mut self, key: Key) {
        self.end_due(key);
        while let Some(head) = self.head(key) {
            let wait = self.waits[head].clone();
            if !self.admits(key, wait.ask.mode) {
                return;
            }
            if wait.keys.len() == 1 {
                self.grant_waiter(head, &[key]);
                continue;
            }
            if self.heads_all_queues(head) {
                self.hopeful.push(wait.caller);
            }
            return;
        }
    }

    /// What every operation ends with: nobody is left waiting who could be granted.
    pub fn follow_up(&mut self) {
        self.consider_hopeful();
        while !self.headless.is_empty() {
            let key = self.headless.remove(0);
            self.settle(key);
            self.consider_hopeful();
        }
    }

    fn consider_hopeful(&mut self) {
        while !self.hopeful.is_empty() {
            let caller = self.hopeful.remove(0);
            if let Some(index) = self.waits.iter().position(|wait| wait.caller == caller) {
                self.consider(index, &self.waits[index].keys.clone());
            }
        }
    }

    /// Grants a waiter all its locks, in that order, if it is next at each and each is free.
    fn consider(&mut self, index: usize, order: &[Key]) {
        if !self.heads_all_queues(index) {
            return;
        }
        order.iter().for_each(|key| self.end_due(*key));
        if self.admits_on_all(&self.waits[index]) {
            self.grant_waiter(index, order);
        }
    }

    /// Takes a waiter out ungranted; others may be next because of it.
    pub fn remove_waiter(&mut self, index: usize) -> Wait {
        let keys = self.waits[index].keys.clone();
        let headed = keys.into_iter().filter(|key| self.head(*key) == Some(index));
        let headed: Vec<_> = headed.collect();
        let wait = self.waits.remove(index);
        let orphaned = headed.into_iter().filter(|key| self.head(*key).is_some());
        self.headless.extend(orphaned.collect::<Vec<_>>());
        wait
    }

    /// A lock as it can be compared: each hold, and the closure.
    pub fn plain(&self, key: Key) -> (Vec<PlainHold>, Option<(u64, u64)>) {
        let lock = &self.locks[key as usize];
        let plain = |hold: &Hold| PlainHold {
            token: token_bytes(hold.token),
            fence: hold.fence,
            deadline: hold.deadline,
            mode: hold.mode,
            holds: hold.holds,
            delay_us: hold.delay_us,
            session: hold.session,
        };
        let closed = lock.closed.as_ref().map(|closed| (closed.fence, closed.until));
        (lock.holds.iter().map(plain).collect(), closed)
    }

    pub fn hold_of(&mut self, key: Key, token: u8) -> Option<&mut Hold> {
        self.lock(key).holds.iter_mut().find(|hold| hold.token == token)
    }

    pub fn run(&mut self, caller: Caller, op: &Op) -> Told {
        let told = match op {
            Op::Acquire {
                key,
                token,
                ask,
                block_ms,
            } => {
                let wait = self.request(caller, vec![*key], *token, ask);
                self.acquire(wait, *block_ms)
            }
            Op::AcquireMany {
                keys,
                token,
                ask,
                block_ms,
            } => {
                let wait = self.request(caller, keys.clone(), *token, ask);
                self.acquire(wait, *block_ms)
            }
            Op::Refresh { key, token, lease_ms } => self.refresh(&[*key], *token, *lease_ms),
            Op::RefreshMany {
                keys,
                token,
                lease_ms,
            } => self.refresh(keys, *token, *lease_ms),
            Op::Release { key, token } => self.release(&[*key], *token),
            Op::ReleaseMany { keys, token } => self.release(keys, *token),
            Op::Break { key } => self.break_all(*key),
            _ => self.befall(caller, op),
        };
        self.follow_up();
        told
    }

    fn request(&self, caller: Caller, keys: Vec<Key>, token: u8, ask: &Ask) -> Wait {
        Wait {
            keys,
            token,
            ask: ask.clone(),
            session: ask
                .connection
                .map(|connection| self.connections.number(connection)),
            caller,
            since: self.now,
            until: None,
        }
    }

    fn acquire(&mut self, wait: Wait, block_ms: Option<u64>) -> Told {
        wait.keys.iter().for_each(|key| self.settle(*key));
        // A retry after a lost reply: what it waited for may have become free.
        let own = self
            .waits
            .iter()
            .position(|own| own.token == wait.token && same_locks(own, &wait));
        own.map(|index| self.consider(index, &wait.keys));
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
        self.follow_up();
        self.wait(wait, block_ms)
    }

    /// The token holds a lock that it asks for.
    fn acquire_again(&mut self, wait: &Wait) -> Option<Told> {
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
        let is_other = |mode: Mode| matches!(mode, Mode::Permits(_)) && mode != wait.ask.mode;
        let key = wait.keys[0];
        let of_holds = self.locks[key as usize].holds.iter().map(|hold| hold.mode);
        let of_waits = self
            .waits
            .iter()
            .filter(|other| other.keys.contains(&key))
            .map(|other| other.ask.mode);
        let decides = match of_holds.clone().next() {
            Some(Mode::Permits(_)) => of_holds.collect::<Vec<_>>(),
            _ => of_waits.collect(),
        };
        decides
            .into_iter()
            .any(is_other)
            .then_some(Conflict::OtherPermits)
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

    fn refresh(&mut self, keys: &[Key], token: u8, lease_ms: u64) -> Told {
        keys.iter().for_each(|key| self.settle(*key));
        let held = keys
            .iter()
            .filter(|key| self.hold_of(**key, token).is_some())
            .count();
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
    fn release(&mut self, keys: &[Key], token: u8) -> Told {
        let mut released = 0;
        for key in keys {
            let own = self
                .waits
                .iter()
                .position(|wait| wait.token == token && wait.keys.contains(key));
            if let Some(index) = own {
                let wait = self.remove_waiter(index);
                self.answers.push((wait.caller, Answer::Released));
            }
            self.settle(*key);
            if let Some(hold) = self.hold_of(*key, token) {
                released += 1;
                hold.holds -= 1;
                let (fence, is_kept) = (hold.fence, hold.holds > 0);
                if is_kept {
                    self.in_flight.retain(|other| *other != fence);
                }
                self.lock(*key).holds.retain(|hold| hold.holds > 0);
                self.settle(*key);
            }
        }
        Told::Count(released)
    }
}

fn meets(wait: &Wait, keys: &[Key]) -> bool {
    wait.keys.iter().any(|key| keys.contains(key))
}

fn same_locks(one: &Wait, other: &Wait) -> bool {
    one.keys.len() == other.keys.len() && one.keys.iter().all(|key| other.keys.contains(key))
}
