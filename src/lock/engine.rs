//! The lock engine: every transition a lock can make, and the order of its consequences.
//!
//! The caller looks up the [`Lock`] that a key holds (a vacant one where there is no key), passes
//! it in, and afterwards stores it, or deletes the key if the lock is vacant. Then it takes the
//! effects, considers the candidates ([`Engine::next_candidate`]), and sees to it that the locks
//! of [`Engine::take_unsettled`] are settled.

use std::collections::{BTreeMap, HashSet, VecDeque};

use super::deadlines::Deadlines;
use super::effect::{Answer, Effect, End};
use super::fence::{Fence, Register};
use super::holder::{Holder, Mode, Token};
use super::queue::{Queues, WaiterId};
use super::request::{Acquired, Conflict, Request};
use super::sessions::Sessions;
use super::state::Lock;
use super::time::{Instant, Lease, Now};
use super::{FenceSource, LockName, Place};

/// The engine's own state: what there is beside the locks themselves.
#[derive(Debug)]
pub struct Engine<C> {
    pub fences: Register,
    pub(super) queues: Queues<C>,
    /// Every hold, and every closure.
    pub(super) leases: Deadlines<Due>,
    pub(super) waits: Deadlines<WaiterId>,
    pub(super) sessions: Sessions,
    /// Grants from the queue that are not known to have reached their callers yet.
    pub(super) in_flight: HashSet<Fence>,
    pub(super) held: Held,
    pub(super) effects: Vec<Effect<C>>,
    pub(super) candidates: VecDeque<WaiterId>,
    pub(super) unsettled: Vec<LockName>,
}

impl<C> Engine<C> {
    pub fn new(source: FenceSource) -> Engine<C> {
        Engine {
            fences: Register::new(source),
            queues: Queues::default(),
            leases: Deadlines::default(),
            waits: Deadlines::default(),
            sessions: Sessions::default(),
            in_flight: HashSet::new(),
            held: Held::default(),
            effects: Vec::new(),
            candidates: VecDeque::new(),
            unsettled: Vec::new(),
        }
    }

    /// How many locks are held.
    pub fn held(&self) -> usize {
        self.held.total()
    }

    pub fn queues(&self) -> &Queues<C> {
        &self.queues
    }

    /// The effects since the last call. Give the emptied list back with [`Engine::recycle`], so
    /// that the next transition needs no new one.
    pub fn take_effects(&mut self) -> Vec<Effect<C>> {
        match self.effects.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut self.effects),
        }
    }

    pub fn recycle(&mut self, mut effects: Vec<Effect<C>>) {
        effects.clear();
        if self.effects.capacity() == 0 {
            self.effects = effects;
        }
    }

    /// Ends what is over and grants the lock to those who are next. Every other operation does
    /// this first, so that what it finds is true at `now`.
    pub fn settle(&mut self, place: Place, lock: &mut Lock, now: &Now) {
        self.end_due(place, lock, now.mono);
        while let Some((id, head)) = self.queues.head(place) {
            if !lock.admits(head.mode) {
                break;
            }
            if head.names().len() > 1 {
                // Once is enough, however many of its locks come free in one go.
                if self.candidates.back() != Some(&id) {
                    self.candidates.push_back(id);
                }
                break;
            }
            self.grant_waiter(place, id, lock, now);
        }
    }

    /// Takes the lock if it is free and nobody waits for it. The same token again while it holds
    /// gets the same fence, and its lease is at least the new one.
    pub fn acquire(&mut self, place: Place, lock: &mut Lock, request: &Request, now: &Now) -> Acquired {
        self.settle(place, lock, now);
        let position = lock.position(request.token);
        if let Some(conflict) = self.conflict(place, lock, position.is_some(), request) {
            return Acquired::Conflict(conflict);
        }
        if let Some(index) = position {
            return self.acquire_again(place, lock, index, request, now);
        }
        if !lock.admits(request.mode) || self.queues.len(place) > 0 {
            return Acquired::Busy;
        }
        let Some(token) = Token::new(request.token) else {
            return Acquired::Busy;
        };
        let fence = self.fences.next(request.above, now.wall_us);
        let holder = Holder::new(token, fence, request.lease.after(now.mono), request.terms());
        self.grant(place, lock, request.mode, holder);
        Acquired::Held(fence)
    }

    /// Sets the lease of a hold to exactly this long from now. False if the token has no hold:
    /// a refresh never takes a lock back.
    pub fn refresh(&mut self, place: Place, lock: &mut Lock, token: &[u8], lease: Lease, now: &Now) -> bool {
        self.settle(place, lock, now);
        let Some(index) = lock.position(token) else {
            return false;
        };
        self.renew(&mut lock.holders[index], lease.after(now.mono));
        self.arrived(lock.holders[index].fence);
        true
    }

    /// Ends the hold of a token, or one of its holds, and its wait if it waits instead; then the
    /// next is granted. False if the token had no hold.
    pub fn release(&mut self, place: Place, lock: &mut Lock, token: &[u8], now: &Now) -> bool {
        // The wait goes first: else it could be granted here, only to be released at once.
        if let Some(id) = self.queues.find(place, token) {
            self.dismiss(id, Answer::Released);
        }
        self.settle(place, lock, now);
        let Some(index) = lock.position(token) else {
            return false;
        };
        let holder = &mut lock.holders[index];
        if holder.holds() > 1 {
            holder.terms_mut().holds -= 1;
            let fence = holder.fence;
            self.effects.push(Effect::Renewed(fence));
            self.arrived(fence);
        } else {
            self.end(place, lock, index, End::Release);
            self.settle(place, lock, now);
        }
        true
    }

    /// Ends every hold and any delay; the queue moves on. Returns how many holds there were.
    pub fn break_all(&mut self, place: Place, lock: &mut Lock, now: &Now) -> u64 {
        self.end_due(place, lock, now.mono);
        let broken = lock.holders.iter().map(|h| u64::from(h.holds())).sum();
        while lock.is_held() {
            self.end(place, lock, 0, End::Break);
        }
        self.open(lock);
        self.settle(place, lock, now);
        broken
    }

    /// A grant from the queue has reached its caller.
    pub fn arrived(&mut self, fence: Fence) {
        // Mostly there is none on its way, and then nothing need be hashed.
        if !self.in_flight.is_empty() {
            self.in_flight.remove(&fence);
        }
    }

    /// Takes back a grant that did not reach its caller, on one of its locks, unless the same token
    /// has asked again meanwhile, over another connection, and was told of it; then the next is
    /// granted. When all its locks are done, [`Engine::arrived`] ends the matter.
    pub fn take_back(&mut self, place: Place, lock: &mut Lock, fence: Fence, now: &Now) {
        self.end_due(place, lock, now.mono);
        let is_lost = self.in_flight.contains(&fence);
        let index = lock.holders.iter().position(|h| h.fence == fence);
        if let Some(index) = index.filter(|_| is_lost) {
            self.end(place, lock, index, End::Undelivered);
        }
        self.settle(place, lock, now);
    }

    /// When the next hold or delay ends.
    pub fn next_lease_end(&self) -> Option<Instant> {
        self.leases.next()
    }

    /// A lock one of whose leases, or whose delay, is over: to be settled.
    pub fn pop_due_lease(&mut self, now: Instant) -> Option<LockName> {
        self.leases.pop_due(now).map(Due::into_name)
    }

    /// A holder asks again: its lease, and the delay behind it, are the longest asked for.
    pub(super) fn acquire_again(
        &mut self,
        place: Place,
        lock: &mut Lock,
        index: usize,
        request: &Request,
        now: &Now,
    ) -> Acquired {
        let holder = &mut lock.holders[index];
        let fence = holder.fence;
        let Some(holds) = holder.holds().checked_add(request.reentrant.into()) else {
            return Acquired::Conflict(Conflict::TooManyHolds);
        };
        self.arrived(fence);
        if request.session.is_some() && request.session != holder.session() {
            self.sessions.leave(holder, place);
            holder.terms_mut().session = request.session;
            self.sessions.enter(holder, place);
        }
        let deadline = request.lease.after(now.mono).max(holder.deadline);
        let delay = request.delay.max(holder.delay());
        if (deadline, delay, holds) != (holder.deadline, holder.delay(), holder.holds()) {
            if (delay, holds) != (holder.delay(), holder.holds()) {
                let terms = holder.terms_mut();
                (terms.delay, terms.holds) = (delay, holds);
            }
            self.renew(holder, deadline);
        }
        Acquired::Held(fence)
    }

    /// Whether what is asked for contradicts how the token holds or waits, or how many permits the
    /// others have agreed on.
    fn conflict(&self, place: Place, lock: &Lock, is_held: bool, request: &Request) -> Option<Conflict> {
        if is_held {
            return (lock.mode() != request.mode).then_some(Conflict::HeldInOtherMode);
        }
        let waiter = self.queues.find(place, request.token);
        if let Some(waiter) = waiter.and_then(|id| self.queues.get(id)) {
            if waiter.mode != request.mode || waiter.names().len() > 1 {
                return Some(Conflict::WaitsOtherwise);
            }
        }
        let Mode::Permits(asked) = request.mode else {
            return None;
        };
        // Those who hold and those who wait may differ, where a lock was renamed; to agree with
        // both keeps the number one in every queue.
        let held = match lock.mode() {
            Mode::Permits(n) if lock.is_held() => Some(n),
            _ => None,
        };
        let waiting = self.queues.agreed_permits(place);
        let mut agreed = held.into_iter().chain(waiting);
        agreed.any(|n| n != asked).then_some(Conflict::OtherPermits)
    }

    fn grant_waiter(&mut self, place: Place, id: WaiterId, lock: &mut Lock, now: &Now) {
        let Some(waiter) = self.remove_waiter(id) else {
            return;
        };
        let fence = match lock.position(waiter.token.bytes()) {
            // The lock that it holds was renamed to the one it waits for.
            Some(index) => {
                self.acquire_again(place, lock, index, &waiter.request(), now);
                lock.holders[index].fence
            }
            None => {
                let fence = self.fences.next(waiter.above, now.wall_us);
                let deadline = waiter.lease.after(now.mono);
                self.in_flight.insert(fence);
                let holder = Holder::new(waiter.token, fence, deadline, waiter.terms);
                self.grant(place, lock, waiter.mode, holder);
                fence
            }
        };
        let waited_us = now.mono.micros_after(waiter.since);
        let answer = Answer::Granted { fence, waited_us };
        self.effects.push(Effect::Answered(waiter.caller, answer));
    }
}

/// What ends at a deadline: a hold of a lock, or its delay.
#[derive(Debug)]
pub(super) struct Due {
    pub db: i32,
    is_delay: bool,
    key: Box<[u8]>,
}

impl Due {
    pub fn hold(place: Place) -> Due {
        Due {
            db: place.db,
            is_delay: false,
            key: place.key.into(),
        }
    }

    pub fn delay(place: Place) -> Due {
        Due {
            is_delay: true,
            ..Due::hold(place)
        }
    }

    pub fn place(&self) -> Place<'_> {
        Place {
            db: self.db,
            key: &self.key,
        }
    }

    /// Whether it is an entry of a lock that is held.
    pub fn is_hold(&self) -> bool {
        !self.is_delay
    }

    fn into_name(self) -> LockName {
        LockName {
            db: self.db,
            key: self.key,
        }
    }
}

/// How many locks are held in each database.
#[derive(Debug, Default)]
pub(super) struct Held(BTreeMap<i32, usize>);

impl Held {
    fn total(&self) -> usize {
        self.0.values().sum()
    }

    pub fn one_more(&mut self, db: i32) {
        *self.0.entry(db).or_default() += 1;
    }

    pub fn one_less(&mut self, db: i32) {
        let count = self.0.entry(db).or_default();
        *count = count.saturating_sub(1);
    }

    /// None is held any more, in one database or in all.
    pub fn clear(&mut self, db: Option<i32>) {
        self.0.retain(|of, _| db.is_some_and(|db| *of != db));
    }

    pub fn swap(&mut self, first: i32, second: i32) {
        let (in_first, in_second) = (self.0.remove(&first), self.0.remove(&second));
        self.0.extend(in_second.map(|n| (first, n)));
        self.0.extend(in_first.map(|n| (second, n)));
    }
}
