//! The naive model: plain lists, searched from end to end.
//!
//! All waiters stand in one list, in the order of their arrival, each with the locks it asked for.
//! Who heads the queue of a lock is looked up anew each time: the first in the list that asked for
//! it. That is the whole of the rule for many locks: a waiter is granted when it heads the queues
//! of all its locks and they are all free.

mod asked;
mod befallen;

use super::ops::{Ask, Connections, Op};
use super::{after_ms, token_bytes, Answers, Caller, Ends, Key, PlainHold, PlainLock, Told, KEYS};
use crate::lock::{Answer, End, Fence, Mode};

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
    now: u64,
    wall_us: u64,
    pub last_fence: u64,
    entries: u64,
    pub locks: [NaiveLock; KEYS as usize],
    /// In the order of arrival.
    pub waits: Vec<Wait>,
    pub answers: Answers,
    pub ends: Ends,
    /// Grants from the queue whose callers are not known to have heard of them.
    in_flight: Vec<u64>,
    /// Waiters for many locks to be considered before the operation ends, for they are next at one
    /// of their locks, which was found free.
    hopeful: Vec<Caller>,
    /// Locks whose queues have lost their heads ungranted: to be settled before the loop sleeps.
    pub headless: Vec<Key>,
    connections: Connections,
}

impl Naive {
    fn lock(&mut self, key: Key) -> &mut NaiveLock {
        &mut self.locks[key as usize]
    }

    fn enter(&mut self) -> u64 {
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

    fn admits_on_all(&self, wait: &Wait) -> bool {
        wait.keys.iter().all(|key| self.admits(*key, wait.ask.mode))
    }

    /// Who is next at a lock: an index into the list of waiters.
    fn head(&self, key: Key) -> Option<usize> {
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
    fn settle(&mut self, key: Key) {
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
            self.hopeful.push(wait.caller);
            return;
        }
    }

    /// What the loop does before it sleeps: nobody is left waiting who could be granted.
    fn follow_up(&mut self) {
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

    fn end(&mut self, key: Key, index: usize, why: End) -> Hold {
        let hold = self.lock(key).holds.remove(index);
        self.ends.push((key, hold.fence, why));
        hold
    }

    /// Takes a waiter out ungranted; others may be next because of it.
    fn remove_waiter(&mut self, index: usize) -> Wait {
        let keys = self.waits[index].keys.clone();
        let headed = keys.into_iter().filter(|key| self.head(*key) == Some(index));
        let headed: Vec<_> = headed.collect();
        let wait = self.waits.remove(index);
        let orphaned = headed.into_iter().filter(|key| self.head(*key).is_some());
        self.headless.extend(orphaned.collect::<Vec<_>>());
        wait
    }

    /// A lock as it can be compared: each hold, and the closure.
    pub fn plain(&self, key: Key) -> PlainLock {
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

    fn hold_of(&mut self, key: Key, token: u8) -> Option<&mut Hold> {
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
        self.consider_hopeful();
        if op.is_last_of_pass() {
            self.follow_up();
        }
        told
    }
}
