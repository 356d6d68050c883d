//! Many locks at once: all or none, under one fence.
//!
//! The rule: a waiter for many locks stands in the queue of each of them, and all queues are in
//! the one order of arrival. It is granted when it heads every one of its queues and all its locks
//! are free; until then it holds none, and nobody behind it in any of the queues is granted.
//!
//! So whoever waits, waits for holders, whose leases end, and for waiters that came before it.
//! The one that came first of all heads its queues: no deadlock. And since no later one is ever
//! granted a lock before it, those before it become fewer until it is the first: no starvation.

use super::effect::{Answer, Effect};
use super::engine::Engine;
use super::fence::Fence;
use super::holder::{Holder, Mode, Terms, Token};
use super::queue::WaiterId;
use super::request::{Acquired, Conflict, Request};
use super::state::Lock;
use super::time::{Lease, Now};
use super::{LockName, Place};

/// One of many locks, and what befell it.
pub struct Member<'a, C> {
    pub place: Place<'a>,
    pub lock: &'a mut Lock,
    pub effects: Vec<Effect<C>>,
}

impl<'a, C> Member<'a, C> {
    pub fn new(place: Place<'a>, lock: &'a mut Lock) -> Member<'a, C> {
        Member {
            place,
            lock,
            effects: Vec::new(),
        }
    }
}

impl<C> Engine<C> {
    /// Takes all the locks if all are free and nobody waits for any of them. The same token again
    /// while it holds them gets the same fence.
    pub fn acquire_many(&mut self, members: &mut [Member<C>], request: &Request, now: &Now) -> Acquired {
        for member in members.iter_mut() {
            self.on(member, |engine, place, lock| engine.settle(place, lock, now));
        }
        // Its own wait may be over by now: then this is a retry by a holder.
        if let Some(id) = members
            .first()
            .and_then(|m| self.queues.find(m.place, request.token))
        {
            if self.waits_for_all(members, request.token).is_ok() {
                self.consider(id, members, now);
            }
        }
        match self.standing(members, request.token) {
            Err(conflict) => return Acquired::Conflict(conflict),
            Ok(Some(fence)) => {
                for member in members {
                    self.on(member, |engine, place, lock| {
                        let index = lock.position(request.token)?;
                        Some(engine.acquire_again(place, lock, index, request, now))
                    });
                }
                return Acquired::Held(fence);
            }
            Ok(None) => {}
        }
        let is_free = |m: &Member<C>| m.lock.admits(Mode::Exclusive) && self.queues.len(m.place) == 0;
        let token = Token::new(request.token).filter(|_| members.iter().all(is_free));
        let Some(token) = token else {
            return Acquired::Busy;
        };
        let fence = self.fences.next(request.above, now.wall_us);
        self.grant_all(members, &token, fence, request.lease, &request.terms(), now);
        Acquired::Held(fence)
    }

    /// Sets the leases of all the holds if the token has them all; returns how many it has.
    pub fn refresh_many(
        &mut self,
        members: &mut [Member<C>],
        token: &[u8],
        lease: Lease,
        now: &Now,
    ) -> usize {
        for member in members.iter_mut() {
            self.on(member, |engine, place, lock| engine.settle(place, lock, now));
        }
        let held = members.iter().filter(|m| m.lock.position(token).is_some());
        let held = held.count();
        if held == members.len() {
            for member in members {
                self.on(member, |engine, place, lock| {
                    engine.refresh(place, lock, token, lease, now)
                });
            }
        }
        held
    }

    /// Ends the holds that the token has; returns how many those were.
    pub fn release_many(&mut self, members: &mut [Member<C>], token: &[u8], now: &Now) -> usize {
        let release = |member: &mut Member<C>| {
            self.on(member, |engine, place, lock| {
                engine.release(place, lock, token, now)
            })
        };
        members.iter_mut().map(release).filter(|held| *held).count()
    }

    /// A waiter for many locks that may be next, with the names of its locks: to be given to
    /// [`Engine::consider`]. Ask after every transition until there is none.
    pub fn next_candidate(&mut self) -> Option<(WaiterId, Vec<LockName>)> {
        while let Some(id) = self.candidates.pop_front() {
            if self.queues.heads_all(id) {
                let names = self.queues.get(id)?.names();
                return Some((id, names.iter().map(|name| LockName::clone(name)).collect()));
            }
        }
        None
    }

    pub fn has_candidates(&self) -> bool {
        !self.candidates.is_empty()
    }

    /// Grants a waiter its many locks if it is next in line for all of them and all are free.
    pub fn consider(&mut self, id: WaiterId, members: &mut [Member<C>], now: &Now) {
        for member in members.iter_mut() {
            self.on(member, |engine, place, lock| {
                engine.end_due(place, lock, now.mono);
            });
        }
        let is_next = self.queues.heads_all(id) && members.iter().all(|m| m.lock.admits(Mode::Exclusive));
        if !is_next {
            return;
        }
        let Some(waiter) = self.remove_waiter(id) else {
            return;
        };
        let fence = self.fences.next(waiter.above, now.wall_us);
        self.in_flight.insert(fence);
        self.grant_all(members, &waiter.token, fence, waiter.lease, &waiter.terms, now);
        let waited_us = now.mono.micros_after(waiter.since);
        let answer = Answer::Granted { fence, waited_us };
        if let Some(last) = members.last_mut() {
            last.effects.push(Effect::Answered(waiter.caller, answer));
        }
    }

    /// Whether the token holds all the locks already, and under which fence.
    fn standing(&self, members: &[Member<C>], token: &[u8]) -> Result<Option<Fence>, Conflict> {
        let hold = |m: &Member<C>| {
            let index = m.lock.position(token)?;
            Some((m.lock.mode(), m.lock.holders[index].fence))
        };
        let mut holds = members.iter().map(hold);
        let first = holds.next().flatten();
        if !holds.all(|hold| hold == first) {
            return Err(Conflict::HeldInPart);
        }
        match first {
            Some((Mode::Exclusive, fence)) => Ok(Some(fence)),
            Some(_) => Err(Conflict::HeldInOtherMode),
            None => self.waits_for_all(members, token).map(|()| None),
        }
    }

    /// A token that waits already must wait for these very locks.
    fn waits_for_all(&self, members: &[Member<C>], token: &[u8]) -> Result<(), Conflict> {
        let mut waits = members.iter().map(|m| self.queues.find(m.place, token));
        let first = waits.next().flatten();
        let waiter = first.and_then(|id| self.queues.get(id));
        let is_same_set = waiter.is_none_or(|waiter| waiter.names().len() == members.len());
        let is_same_mode = waiter.is_none_or(|waiter| waiter.mode == Mode::Exclusive);
        match is_same_set && is_same_mode && waits.all(|id| id == first) {
            true => Ok(()),
            false => Err(Conflict::WaitsOtherwise),
        }
    }

    fn grant_all(
        &mut self,
        members: &mut [Member<C>],
        token: &Token,
        fence: Fence,
        lease: Lease,
        terms: &Terms,
        now: &Now,
    ) {
        for member in members {
            let holder = Holder::new(token.clone(), fence, lease.after(now.mono), terms.clone());
            self.on(member, |engine, place, lock| {
                engine.grant(place, lock, Mode::Exclusive, holder);
            });
        }
    }

    /// Changes one of many locks, and keeps the effects apart from those of the others.
    fn on<R>(&mut self, member: &mut Member<C>, step: impl FnOnce(&mut Self, Place, &mut Lock) -> R) -> R {
        let result = step(self, member.place, member.lock);
        member.effects.append(&mut self.effects);
        result
    }
}
