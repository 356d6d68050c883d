//! The naive model: plain lists, searched from end to end.

use std::collections::BTreeMap;

use super::{after_ms, Caller, Key, Op, Told, LIMITS};
use crate::lock::{Answer, Fence, Mode};

#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    pub token: u8,
    pub fence: u64,
    pub deadline: u64,
    pub mode: Mode,
    /// Order of entry into the deadline index, which breaks ties; 0 if it has not been entered.
    pub entered: u64,
    /// Whether a caller was told of it other than by the queue's answer.
    pub is_known: bool,
}

#[derive(Clone, Debug)]
pub struct Wait {
    pub token: u8,
    pub mode: Mode,
    pub lease_ms: u64,
    pub above: u64,
    pub caller: Caller,
    pub since: u64,
    pub until: Option<(u64, u64)>,
}

#[derive(Default)]
pub struct Naive {
    pub now: u64,
    pub last_fence: u64,
    pub entries: u64,
    pub holds: BTreeMap<Key, Vec<Hold>>,
    pub waits: BTreeMap<Key, Vec<Wait>>,
    pub answers: Vec<(Caller, Answer)>,
}

impl Naive {
    fn enter(&mut self) -> u64 {
        self.entries += 1;
        self.entries
    }

    fn admits(&self, key: Key, mode: Mode) -> bool {
        let holds = self.holds.get(&key).map_or(&[][..], |h| h);
        match mode {
            _ if holds.is_empty() => true,
            Mode::Exclusive => false,
            Mode::Shared => holds[0].mode == Mode::Shared,
            Mode::Permits(n) => holds[0].mode == mode && holds.len() < n as usize,
        }
    }

    fn grant(&mut self, key: Key, token: u8, mode: Mode, lease_ms: u64, above: u64) -> u64 {
        self.last_fence = (self.last_fence + 1).max(above + 1);
        let hold = Hold {
            token,
            fence: self.last_fence,
            deadline: after_ms(self.now, lease_ms),
            mode,
            entered: self.enter(),
            is_known: false,
        };
        self.holds.entry(key).or_default().push(hold);
        self.last_fence
    }

    fn adopt(&mut self, key: Key) {
        let mut holds = self.holds.remove(&key).unwrap_or_default();
        for hold in holds.iter_mut().filter(|hold| hold.entered == 0) {
            hold.entered = self.enter();
        }
        self.holds.insert(key, holds);
    }

    fn settle(&mut self, key: Key) {
        let now = self.now;
        self.adopt(key);
        self.holds
            .entry(key)
            .or_default()
            .retain(|hold| hold.deadline > now);
        while let Some(head) = self.waits.get(&key).and_then(|waits| waits.first()).cloned() {
            if !self.admits(key, head.mode) {
                break;
            }
            self.waits.entry(key).or_default().remove(0);
            let fence = self.grant(key, head.token, head.mode, head.lease_ms, head.above);
            let fence = Fence::new(fence).unwrap();
            let waited_us = now - head.since;
            self.answers
                .push((head.caller, Answer::Granted { fence, waited_us }));
        }
    }

    pub fn waiting(&self) -> usize {
        self.waits.values().map(Vec::len).sum()
    }

    fn wait(&mut self, key: Key, mut wait: Wait, block_ms: u64) -> Told {
        let total = self.waiting();
        let place = self
            .waits
            .entry(key)
            .or_default()
            .iter()
            .position(|w| w.token == wait.token);
        let room = self.waits[&key].len() < LIMITS.per_lock && total < LIMITS.total;
        if place.is_none() && !room {
            return Told::QueueFull;
        }
        wait.until = (block_ms > 0).then(|| (after_ms(self.now, block_ms), self.enter()));
        let queue = self.waits.entry(key).or_default();
        match place {
            Some(place) => {
                wait.since = queue[place].since;
                self.answers.push((queue[place].caller, Answer::Superseded));
                queue[place] = wait;
            }
            None => queue.push(wait),
        }
        Told::Waiting
    }

    fn end_waits(&mut self) {
        loop {
            let all = self
                .waits
                .iter()
                .flat_map(|(key, waits)| waits.iter().map(move |w| (*key, w)));
            let due =
                all.filter_map(|(key, w)| w.until.filter(|u| u.0 <= self.now).map(|u| (u, key, w.token)));
            let Some((_, key, token)) = due.min() else { break };
            let queue = self.waits.entry(key).or_default();
            let place = queue.iter().position(|w| w.token == token).unwrap();
            let wait = queue.remove(place);
            self.answers.push((wait.caller, Answer::TimedOut));
            if place == 0 && !queue.is_empty() {
                self.settle(key);
            }
        }
    }

    fn end_leases(&mut self) {
        loop {
            let all = self
                .holds
                .iter()
                .flat_map(|(key, holds)| holds.iter().map(move |h| (h.deadline, h.entered, *key)));
            match all
                .filter(|(deadline, entered, _)| *entered > 0 && *deadline <= self.now)
                .min()
            {
                Some((_, _, key)) => self.settle(key),
                None => break,
            }
        }
    }

    pub fn run(&mut self, caller: Caller, op: &Op) -> Told {
        match *op {
            Op::Acquire {
                key,
                token,
                mode,
                lease_ms,
                above,
                block_ms,
            } => {
                let wait = Wait {
                    token,
                    mode,
                    lease_ms,
                    above,
                    caller,
                    since: self.now,
                    until: None,
                };
                self.acquire(key, wait, block_ms)
            }
            Op::Refresh { key, token, lease_ms } => {
                self.settle(key);
                let deadline = after_ms(self.now, lease_ms);
                let held = self.hold_of(key, token);
                let held = held.map(|hold| (hold.deadline, hold.is_known) = (deadline, true));
                Told::Count(held.is_some().into())
            }
            Op::Release { key, token } => Told::Count(self.release(key, token).into()),
            Op::Break { key } => {
                self.adopt(key);
                let now = self.now;
                let holds = std::mem::take(self.holds.entry(key).or_default());
                let live = holds.iter().filter(|h| h.deadline > now).count();
                self.settle(key);
                Told::Count(live)
            }
            _ => {
                self.befall(caller, op);
                Told::Nothing
            }
        }
    }

    /// What happens without anybody asking for it.
    fn befall(&mut self, caller: Caller, op: &Op) {
        match *op {
            Op::TakeBack { key } => {
                self.adopt(key);
                let holds = self.holds.entry(key).or_default();
                if holds.first().is_some_and(|hold| !hold.is_known) {
                    holds.remove(0);
                }
                self.settle(key);
            }
            Op::Leave { back } => self.leave(caller.saturating_sub(back)),
            Op::Delete { key } => {
                self.holds.remove(&key);
                self.settle(key);
            }
            Op::Rename { from, to, is_noticed } => self.rename(from, to, is_noticed),
            Op::Flush => {
                self.holds.clear();
                (0..3).for_each(|key| self.settle(key));
            }
            Op::Pass { ms } => {
                self.now = after_ms(self.now, ms);
                self.end_waits();
                self.end_leases();
            }
            Op::PassUnswept { ms } => self.now = after_ms(self.now, ms),
            _ => unreachable!("{op:?} is asked for"),
        }
    }

    fn hold_of(&mut self, key: Key, token: u8) -> Option<&mut Hold> {
        let holds = self.holds.entry(key).or_default();
        holds.iter_mut().find(|h| h.token == token)
    }

    fn acquire(&mut self, key: Key, wait: Wait, block_ms: Option<u64>) -> Told {
        self.settle(key);
        let deadline = after_ms(self.now, wait.lease_ms);
        if let Some(hold) = self.hold_of(key, wait.token) {
            hold.deadline = hold.deadline.max(deadline);
            hold.is_known = true;
            return Told::Fence(hold.fence);
        }
        if self.admits(key, wait.mode) && self.waits.get(&key).is_none_or(|w| w.is_empty()) {
            let fence = self.grant(key, wait.token, wait.mode, wait.lease_ms, wait.above);
            self.hold_of(key, wait.token).unwrap().is_known = true;
            return Told::Fence(fence);
        }
        block_ms.map_or(Told::Busy, |block_ms| self.wait(key, wait, block_ms))
    }

    fn release(&mut self, key: Key, token: u8) -> bool {
        let queue = self.waits.entry(key).or_default();
        if let Some(place) = queue.iter().position(|w| w.token == token) {
            let caller = queue.remove(place).caller;
            self.answers.push((caller, Answer::Released));
        }
        self.settle(key);
        let holds = self.holds.entry(key).or_default();
        let held = holds.iter().position(|h| h.token == token);
        let held = held.map(|at| holds.remove(at)).is_some();
        self.settle(key);
        held
    }

    fn leave(&mut self, caller: Caller) {
        for key in self.waits.keys().copied().collect::<Vec<_>>() {
            let queue = self.waits.entry(key).or_default();
            if let Some(place) = queue.iter().position(|w| w.caller == caller) {
                queue.remove(place);
                if place == 0 && !queue.is_empty() {
                    self.settle(key);
                }
            }
        }
    }

    fn rename(&mut self, from: Key, to: Key, is_noticed: bool) {
        if from == to || self.holds.get(&from).is_none_or(|holds| holds.is_empty()) {
            return;
        }
        let mut holds = self.holds.remove(&from).unwrap();
        for hold in &mut holds {
            hold.entered = 0;
        }
        self.holds.insert(to, holds);
        self.settle(from);
        if is_noticed {
            self.settle(to);
        }
    }
}
