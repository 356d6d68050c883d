//! The engine, with a map of locks for a keyspace, used as the server layer uses it.

use std::collections::BTreeMap;

use super::{after_ms, token_bytes, Caller, Key, Op, Told, LIMITS};
use crate::lock::{
    Acquired, Answer, Effect, Engine, FenceSource, Holder, Instant, Lease, Lock, LockName, Now, Place,
    Request, WaiterId,
};

pub struct Real {
    pub now: u64,
    pub engine: Engine<Caller>,
    pub locks: BTreeMap<Key, Lock>,
    pub waiting: BTreeMap<Caller, WaiterId>,
    pub answers: Vec<(Caller, Answer)>,
    /// Grants less ends, as the effects tell them: what a replica would have.
    pub told_fences: BTreeMap<Key, Vec<u64>>,
}

impl Real {
    pub fn new() -> Real {
        Real {
            now: 0,
            engine: Engine::new(FenceSource::Counter),
            locks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            answers: Vec::new(),
            told_fences: BTreeMap::new(),
        }
    }

    /// Changes a lock as the server does: a key exists only while its lock is held.
    fn on<R>(&mut self, key: Key, step: impl FnOnce(&mut Engine<Caller>, Place, &mut Lock, &Now) -> R) -> R {
        let mut lock = self.locks.remove(&key).unwrap_or_default();
        let now = Now {
            mono: Instant(self.now),
            wall_us: 0,
        };
        let name = [key];
        let result = step(&mut self.engine, Place { db: 0, key: &name }, &mut lock, &now);
        self.collect(key);
        if !lock.is_vacant() {
            self.locks.insert(key, lock);
        }
        result
    }

    fn collect(&mut self, key: Key) {
        let told = self.told_fences.entry(key).or_default();
        for effect in self.engine.take_effects() {
            match effect {
                Effect::Granted(fence) => told.push(fence.get()),
                Effect::Renewed(fence) => assert!(told.contains(&fence.get())),
                Effect::Ended(fence, _) => {
                    let at = told.iter().position(|told| *told == fence.get());
                    told.remove(at.expect("only a hold that was granted ends"));
                }
                Effect::Answered(caller, answer) => {
                    self.waiting.remove(&caller);
                    self.answers.push((caller, answer));
                }
            }
        }
    }

    fn settle(&mut self, key: Key) {
        self.on(key, |engine, place, lock, now| engine.settle(place, lock, now));
    }

    fn settle_name(&mut self, name: Option<LockName>) {
        if let Some(name) = name {
            self.settle(name.key[0]);
        }
    }

    fn acquire(&mut self, caller: Caller, key: Key, request: &Request, block_ms: Option<u64>) -> Told {
        let acquired = self.on(key, |engine, place, lock, now| {
            engine.acquire(place, lock, request, now)
        });
        let block_ms = match (acquired, block_ms) {
            (Acquired::Held(fence), _) => return Told::Fence(fence.get()),
            (Acquired::Busy, None) => return Told::Busy,
            (Acquired::Busy, Some(block_ms)) => block_ms,
        };
        let name = [key];
        let place = Place { db: 0, key: &name };
        if !self.engine.may_wait(place, request.token, LIMITS) {
            return Told::QueueFull;
        }
        let until = (block_ms > 0).then(|| Instant(after_ms(self.now, block_ms)));
        let id = self
            .engine
            .wait(place, request, caller, until, Instant(self.now))
            .unwrap();
        self.collect(key);
        self.waiting.insert(caller, id);
        Told::Waiting
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
                let token = token_bytes(token);
                let lease = Lease::from_ms(lease_ms).unwrap();
                let request = Request {
                    token: &token,
                    lease,
                    above,
                    label: None,
                    mode,
                };
                self.acquire(caller, key, &request, block_ms)
            }
            Op::Refresh { key, token, lease_ms } => {
                let lease = Lease::from_ms(lease_ms).unwrap();
                let token = token_bytes(token);
                let held = self.on(key, |engine, place, lock, now| {
                    engine.refresh(place, lock, &token, lease, now)
                });
                Told::Count(held.into())
            }
            Op::Release { key, token } => {
                let token = token_bytes(token);
                let held = self.on(key, |engine, place, lock, now| {
                    engine.release(place, lock, &token, now)
                });
                Told::Count(held.into())
            }
            Op::Break { key } => {
                Told::Count(self.on(key, |engine, place, lock, now| engine.break_all(place, lock, now)))
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
            Op::TakeBack { key } => self.on(key, |engine, place, lock, now| {
                match lock.holders().first().map(|h| h.fence) {
                    Some(fence) => engine.take_back(place, lock, fence, now),
                    None => engine.settle(place, lock, now),
                }
            }),
            Op::Leave { back } => {
                let caller = caller.saturating_sub(back);
                let left = self.waiting.remove(&caller).and_then(|id| self.engine.cancel(id));
                self.settle_name(left.and_then(|(_, name)| name));
            }
            Op::Delete { key } => {
                self.remove_key(key);
                self.settle(key);
            }
            Op::Rename { from, to, is_noticed } => self.rename(from, to, is_noticed),
            Op::Flush => {
                self.locks.clear();
                self.told_fences.clear();
                self.engine.flush(None);
                (0..3).for_each(|key| self.settle(key));
            }
            Op::Pass { ms } => {
                self.now = after_ms(self.now, ms);
                self.sweep();
            }
            Op::PassUnswept { ms } => self.now = after_ms(self.now, ms),
            _ => unreachable!("{op:?} is asked for"),
        }
    }

    /// Ends what is due, as the server does before its loop sleeps.
    fn sweep(&mut self) {
        while let Some(moved) = self.engine.end_wait(Instant(self.now)) {
            self.collect(0);
            self.settle_name(moved);
        }
        while let Some(name) = self.engine.pop_due_lease(Instant(self.now)) {
            self.settle_name(Some(name));
        }
    }

    fn remove_key(&mut self, key: Key) -> Option<Lock> {
        let mut lock = self.locks.remove(&key)?;
        self.engine.forget(&mut lock);
        self.told_fences.remove(&key);
        Some(lock)
    }

    fn rename(&mut self, from: Key, to: Key, is_noticed: bool) {
        if from == to || !self.locks.contains_key(&from) {
            return;
        }
        self.remove_key(to);
        let told = self.told_fences.get(&from).cloned().unwrap_or_default();
        let lock = self.remove_key(from).unwrap();
        self.locks.insert(to, lock);
        self.told_fences.insert(to, told);
        self.settle(from);
        if is_noticed {
            self.settle(to);
        }
    }

    pub fn holds(&self, key: Key) -> Vec<(Vec<u8>, u64, u64)> {
        let holders = self.locks.get(&key).map_or(&[][..], |lock| lock.holders());
        let plain = |h: &Holder| (h.token.bytes().to_vec(), h.fence.get(), h.deadline.0);
        holders.iter().map(plain).collect()
    }
}
