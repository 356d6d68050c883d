//! What happens to locks without anybody asking for it.

use super::{Closed, Naive};
use crate::lock::model::ops::Op;
use crate::lock::model::{after_ms, Caller, Key, Told, KEYS};
use crate::lock::{Answer, End};

impl Naive {
    pub fn befall(&mut self, caller: Caller, op: &Op) -> Told {
        match *op {
            Op::TakeBack { key } => self.take_back(key),
            Op::Leave { back, .. } => {
                let left = self.waits.iter().position(|wait| wait.caller + back == caller);
                left.map(|index| self.remove_waiter(index));
            }
            Op::SessionGone { connection } => self.lose_connection(connection),
            Op::Delete { key } => {
                *self.lock(key) = Default::default();
                self.settle(key);
            }
            Op::Overwrite { key } => {
                *self.lock(key) = Default::default();
                while let Some(index) = self.head(key) {
                    let wait = self.remove_waiter(index);
                    self.answers.push((wait.caller, Answer::WrongType));
                }
            }
            Op::Rename { from, to, is_noticed } => self.rename(from, to, is_noticed),
            Op::Flush => self.flush(&(0..KEYS).collect::<Vec<_>>()),
            Op::FlushSome { ref keys } => self.flush(keys),
            Op::Pass { ms } => {
                self.now = after_ms(self.now, ms);
                self.sweep();
            }
            Op::PassUnswept { ms } => self.now = after_ms(self.now, ms),
            Op::SetWallClock { wall_us } => self.wall_us = wall_us,
            _ => unreachable!("{op:?} is asked for"),
        }
        Told::Nothing
    }

    fn flush(&mut self, keys: &[Key]) {
        keys.iter().for_each(|key| *self.lock(*key) = Default::default());
        for key in keys {
            self.settle(*key);
            self.consider_hopeful();
        }
    }

    /// A lock that came to this place by itself is known from when it is touched first.
    fn adopt(&mut self, key: Key) {
        let mut lock = std::mem::take(self.lock(key));
        for hold in lock.holds.iter_mut().filter(|hold| hold.entered == 0) {
            hold.entered = self.enter();
        }
        for closed in lock.closed.iter_mut().filter(|closed| closed.entered == 0) {
            closed.entered = self.enter();
        }
        *self.lock(key) = lock;
    }

    /// Ends the holds of a lock that have run out, and its closure.
    pub fn end_due(&mut self, key: Key) {
        self.adopt(key);
        let now = self.now;
        while let Some(index) = self.lock(key).holds.iter().position(|hold| hold.deadline <= now) {
            let hold = self.end(key, index, End::Expire);
            self.close(key, hold.fence, hold.deadline, hold.delay_us);
        }
        self.lock(key).closed.take_if(|closed| closed.until <= now);
    }

    /// A hold has ended otherwise than by its holder's will.
    fn close(&mut self, key: Key, fence: u64, since: u64, delay_us: u64) {
        let until = since + delay_us;
        let before = self.locks[key as usize].closed.as_ref();
        if until <= self.now || before.is_some_and(|closed| closed.until >= until) {
            return;
        }
        let entered = self.enter();
        self.lock(key).closed = Some(Closed {
            fence,
            until,
            entered,
        });
    }

    pub fn break_all(&mut self, key: Key) -> Told {
        self.end_due(key);
        let mut broken = 0;
        while !self.lock(key).holds.is_empty() {
            broken += self.end(key, 0, End::Break).holds as usize;
        }
        self.lock(key).closed = None;
        self.settle(key);
        Told::Count(broken)
    }

    fn take_back(&mut self, key: Key) {
        let Some(hold) = self.lock(key).holds.first().cloned() else {
            return self.settle(key);
        };
        let is_lost = self.in_flight.contains(&hold.fence);
        for key in hold.granted {
            self.end_due(key);
            let index = self.fence_at(key, hold.fence).filter(|_| is_lost);
            index.map(|index| self.end(key, index, End::Undelivered));
            self.settle(key);
            self.consider_hopeful();
        }
        self.in_flight.retain(|fence| *fence != hold.fence);
    }

    fn fence_at(&self, key: Key, fence: u64) -> Option<usize> {
        let holds = &self.locks[key as usize].holds;
        holds.iter().position(|hold| hold.fence == fence)
    }

    fn lose_connection(&mut self, connection: usize) {
        let session = Some(self.connections.close(connection));
        while let Some(index) = self.waits.iter().position(|wait| wait.session == session) {
            self.remove_waiter(index);
        }
        // A hold that has moved in silence is found only by its token; its lease ends it.
        let mut lost = Vec::new();
        for key in 0..KEYS {
            let of_lock = self.lock(key).holds.iter();
            let of_lock = of_lock.filter(|hold| hold.session == session && hold.entered > 0);
            lost.extend(of_lock.map(|hold| (hold.fence, key)));
        }
        lost.sort();
        for (fence, key) in lost {
            self.end_due(key);
            if let Some(index) = self.fence_at(key, fence) {
                let hold = self.end(key, index, End::Session);
                self.close(key, fence, self.now, hold.delay_us);
            }
            self.settle(key);
            self.consider_hopeful();
        }
    }

    fn rename(&mut self, from: Key, to: Key, is_noticed: bool) {
        let there_is = !self.lock(from).holds.is_empty() || self.lock(from).closed.is_some();
        if from == to || !there_is {
            return;
        }
        let mut lock = std::mem::take(self.lock(from));
        lock.holds.iter_mut().for_each(|hold| hold.entered = 0);
        lock.closed.iter_mut().for_each(|closed| closed.entered = 0);
        *self.lock(to) = lock;
        self.settle(from);
        self.consider_hopeful();
        if is_noticed {
            self.settle(to);
        }
    }

    /// Everything that is due ends: first the waits, then what holds them up.
    fn sweep(&mut self) {
        loop {
            let ends = self.waits.iter().filter_map(|wait| wait.until);
            let Some(due) = ends.min().filter(|(at, _)| *at <= self.now) else {
                break;
            };
            let index = self
                .waits
                .iter()
                .position(|wait| wait.until == Some(due))
                .unwrap();
            let wait = self.remove_waiter(index);
            self.answers.push((wait.caller, Answer::TimedOut));
        }
        self.follow_up();
        loop {
            let first = (0..KEYS).filter_map(|key| Some((self.next_end(key)?, key))).min();
            let Some((_, key)) = first.filter(|((at, _), _)| *at <= self.now) else {
                break;
            };
            self.settle(key);
            self.consider_hopeful();
        }
    }

    /// When a hold of a lock, or its closure, ends next, as far as it is known; ties in the order
    /// of entry.
    pub fn next_end(&self, key: Key) -> Option<(u64, u64)> {
        let lock = &self.locks[key as usize];
        let holds = lock.holds.iter().map(|hold| (hold.deadline, hold.entered));
        let closed = lock.closed.iter().map(|closed| (closed.until, closed.entered));
        holds.chain(closed).filter(|(_, entered)| *entered > 0).min()
    }
}
