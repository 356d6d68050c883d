//! The engine, with a map of locks for a keyspace, used as the server layer uses it.

mod befallen;

use std::collections::BTreeMap;

use super::ops::{Ask, Connections, Op};
use super::replica::Replica;
use super::{after_ms, token_bytes, Answers, Caller, Ends, Key, PlainHold, PlainLock, Told, LIMITS};
use crate::lock::{
    Acquired, Answer, Effect, Engine, FenceSource, Holder, Instant, Lease, Lock, LockName, Member, Now,
    Place, Request, Session, WaiterId,
};

pub struct Real {
    pub now: u64,
    wall_us: u64,
    pub engine: Engine<Caller>,
    pub locks: BTreeMap<Key, Lock>,
    pub waiting: BTreeMap<Caller, WaiterId>,
    pub answers: Answers,
    pub ends: Ends,
    pub replica: Replica,
    /// The locks that each waiter asked for, and those that were granted under each fence.
    asked: BTreeMap<Caller, Vec<Key>>,
    granted: BTreeMap<u64, Vec<Key>>,
    connections: Connections,
}

fn names(keys: &[Key]) -> Vec<[u8; 1]> {
    keys.iter().map(|key| [*key]).collect()
}

fn places(names: &[[u8; 1]]) -> Vec<Place<'_>> {
    names.iter().map(|key| Place { db: 0, key }).collect()
}

fn lease(ms: u64) -> Lease {
    Lease::from_ms(ms).unwrap()
}

impl Real {
    pub fn new() -> Real {
        Real {
            now: 0,
            wall_us: 0,
            engine: Engine::new(FenceSource::Clock),
            locks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            answers: Vec::new(),
            ends: Vec::new(),
            replica: Replica::new(),
            asked: BTreeMap::new(),
            granted: BTreeMap::new(),
            connections: Connections::default(),
        }
    }

    fn time(&self) -> Now {
        Now {
            mono: Instant(self.now),
            wall_us: self.wall_us,
        }
    }

    /// Changes a lock as the server does: a key exists only while its lock is held or closed.
    fn on<R>(&mut self, key: Key, step: impl FnOnce(&mut Engine<Caller>, Place, &mut Lock, &Now) -> R) -> R {
        let mut lock = self.locks.remove(&key).unwrap_or_default();
        let now = self.time();
        let result = step(&mut self.engine, Place { db: 0, key: &[key] }, &mut lock, &now);
        let effects = self.engine.take_effects();
        self.carry_out(key, &lock, effects);
        self.store(key, lock);
        self.consider_candidates();
        result
    }

    /// The same with many locks at once.
    fn on_many<R>(
        &mut self,
        keys: &[Key],
        step: impl FnOnce(&mut Engine<Caller>, &mut [Member<Caller>], &Now) -> R,
    ) -> R {
        let now = self.time();
        let taken = keys.iter().map(|key| self.locks.remove(key).unwrap_or_default());
        let mut locks: Vec<Lock> = taken.collect();
        let names = names(keys);
        let members = places(&names).into_iter().zip(&mut locks);
        let mut members: Vec<_> = members.map(|(place, lock)| Member::new(place, lock)).collect();
        let result = step(&mut self.engine, &mut members, &now);
        let effects: Vec<_> = members.into_iter().map(|member| member.effects).collect();
        assert!(
            self.engine.take_effects().is_empty(),
            "each effect belongs to a lock"
        );
        for ((key, lock), effects) in keys.iter().zip(&locks).zip(effects) {
            self.carry_out(*key, lock, effects);
        }
        for (key, lock) in keys.iter().zip(locks) {
            self.store(*key, lock);
        }
        self.consider_candidates();
        result
    }

    /// A lock as it can be compared: each hold, and the closure.
    pub fn plain(&self, key: Key) -> PlainLock {
        let Some(lock) = self.locks.get(&key) else {
            return (Vec::new(), None);
        };
        let plain = |holder: &Holder| PlainHold {
            token: holder.token.bytes().to_vec(),
            fence: holder.fence.get(),
            deadline: holder.deadline.0,
            mode: lock.mode(),
            holds: holder.holds(),
            delay_us: holder.delay().micros(),
            session: holder.session().map(|session| session.0),
        };
        let closed = lock
            .closure()
            .map(|closure| (closure.fence.get(), closure.until.0));
        (lock.holders().iter().map(plain).collect(), closed)
    }

    fn store(&mut self, key: Key, lock: Lock) {
        if !lock.is_vacant() {
            self.locks.insert(key, lock);
        }
    }

    fn carry_out(&mut self, key: Key, lock: &Lock, effects: Vec<Effect<Caller>>) {
        for effect in effects {
            if let Effect::Ended(fence, why) = effect {
                self.ends.push((key, fence.get(), why));
            }
            match effect {
                Effect::Answered(caller, answer) => self.answer(caller, answer),
                other => self.replica.follow(key, lock, &other),
            }
        }
    }

    fn answer(&mut self, caller: Caller, answer: Answer) {
        let was_waiting = self.waiting.remove(&caller).is_some();
        assert!(was_waiting, "{caller} is answered once, and only if it waits");
        let asked = self.asked.remove(&caller).unwrap();
        if let Answer::Granted { fence, .. } = answer {
            self.granted.entry(fence.get()).or_insert(asked);
        }
        self.answers.push((caller, answer));
    }

    /// Carries out what follows where no lock has changed.
    fn answer_waiters(&mut self) {
        for effect in self.engine.take_effects() {
            match effect {
                Effect::Answered(caller, answer) => self.answer(caller, answer),
                other => panic!("no lock has changed: {other:?}"),
            }
        }
    }

    fn consider_candidates(&mut self) {
        while let Some((id, names)) = self.engine.next_candidate() {
            let keys: Vec<Key> = names.iter().map(|name| name.key[0]).collect();
            self.on_many(&keys, |engine, members, now| engine.consider(id, members, now));
        }
    }

    /// Where the engine has named locks whose queues moved on, the server settles them.
    fn settle_unsettled(&mut self) {
        loop {
            let unsettled = self.engine.take_unsettled();
            if unsettled.is_empty() {
                return;
            }
            unsettled.iter().for_each(|name| self.settle_name(name));
        }
    }

    fn settle(&mut self, key: Key) {
        self.on(key, |engine, place, lock, now| engine.settle(place, lock, now));
    }

    fn settle_name(&mut self, name: &LockName) {
        self.settle(name.key[0]);
    }

    fn acquire(
        &mut self,
        caller: Caller,
        keys: &[Key],
        is_many: bool,
        request: &Request,
        block_ms: Option<u64>,
    ) -> Told {
        let acquired = match is_many {
            true => self.on_many(keys, |engine, members, now| {
                engine.acquire_many(members, request, now)
            }),
            false => self.on(keys[0], |engine, place, lock, now| {
                engine.acquire(place, lock, request, now)
            }),
        };
        let block_ms = match (acquired, block_ms) {
            (Acquired::Held(fence), _) => {
                self.granted.entry(fence.get()).or_insert_with(|| keys.to_vec());
                return Told::Fence(fence.get());
            }
            (Acquired::Conflict(conflict), _) => return Told::Conflict(conflict),
            (Acquired::Busy, None) => return Told::Busy,
            (Acquired::Busy, Some(block_ms)) => block_ms,
        };
        let names = names(keys);
        let places = places(&names);
        if !self.engine.may_wait(&places, request.token, LIMITS) {
            return Told::QueueFull;
        }
        let until = (block_ms > 0).then(|| Instant(after_ms(self.now, block_ms)));
        let now = Instant(self.now);
        let id = self.engine.wait(&places, request, caller, until, now).unwrap();
        self.answer_waiters();
        self.waiting.insert(caller, id);
        let names = self.engine.queues().get(id).unwrap().names();
        self.asked
            .insert(caller, names.iter().map(|name| name.key[0]).collect());
        Told::Waiting
    }

    pub fn run(&mut self, caller: Caller, op: &Op) -> Told {
        let told = match op {
            Op::Acquire {
                key,
                token,
                ask,
                block_ms,
            } => self.ask(caller, &[*key], false, (*token, ask), *block_ms),
            Op::AcquireMany {
                keys,
                token,
                ask,
                block_ms,
            } => self.ask(caller, keys, true, (*token, ask), *block_ms),
            Op::Refresh { key, token, lease_ms } => {
                let (token, lease) = (token_bytes(*token), lease(*lease_ms));
                let held = self.on(*key, |engine, place, lock, now| {
                    engine.refresh(place, lock, &token, lease, now)
                });
                Told::Count(held.into())
            }
            Op::RefreshMany {
                keys,
                token,
                lease_ms,
            } => {
                let (token, lease) = (token_bytes(*token), lease(*lease_ms));
                Told::Count(self.on_many(keys, |engine, members, now| {
                    engine.refresh_many(members, &token, lease, now)
                }))
            }
            Op::Release { key, token } => {
                let token = token_bytes(*token);
                let held = self.on(*key, |engine, place, lock, now| {
                    engine.release(place, lock, &token, now)
                });
                Told::Count(held.into())
            }
            Op::ReleaseMany { keys, token } => {
                let token = token_bytes(*token);
                Told::Count(self.on_many(keys, |engine, members, now| {
                    engine.release_many(members, &token, now)
                }))
            }
            Op::Break { key } => {
                let broken = self.on(*key, |engine, place, lock, now| {
                    engine.break_all(place, lock, now)
                });
                Told::Count(broken as usize)
            }
            _ => self.befall(caller, op),
        };
        if op.is_last_of_pass() {
            self.settle_unsettled();
        }
        told
    }

    fn ask(
        &mut self,
        caller: Caller,
        keys: &[Key],
        is_many: bool,
        (token, ask): (u8, &Ask),
        block_ms: Option<u64>,
    ) -> Told {
        let session = ask
            .connection
            .map(|connection| self.connections.number(connection));
        let request = Request {
            token: &token_bytes(token),
            lease: lease(ask.lease_ms),
            above: ask.above,
            label: None,
            mode: ask.mode,
            reentrant: ask.is_reentrant,
            delay: lease(ask.delay_ms),
            session: session.map(Session),
        };
        self.acquire(caller, keys, is_many, &request, block_ms)
    }
}
