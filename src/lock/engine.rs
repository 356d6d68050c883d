//! The lock engine: every transition a lock can make, and the order of its consequences.
//!
//! The caller looks up the [`Lock`] that a key holds (a vacant one where there is no key), passes
//! it in, and afterwards stores it, or deletes the key if nobody holds the lock any more.

use std::collections::HashSet;

use super::deadlines::Deadlines;
use super::fence::{Fence, Register};
use super::holder::{Holder, Label, Mode, Token};
use super::queue::{Limits, Queues, WaiterId};
use super::state::Lock;
use super::time::{Instant, Lease, Now};
use super::{FenceSource, LockName, Place};

/// What a caller asks of a lock.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// 1 to [`TOKEN_MAX`](super::holder::TOKEN_MAX) bytes.
    pub token: &'a [u8],
    pub lease: Lease,
    /// The fence will be greater than this.
    pub above: u64,
    pub label: Option<&'a [u8]>,
    pub mode: Mode,
}

/// How an acquire ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The token holds the lock, since now or since before.
    Held(Fence),
    /// Somebody else holds it, or waits for it since before.
    Busy,
}

/// Why a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Release,
    Expire,
    Break,
    /// The grant never reached its caller, who was gone by then.
    Undelivered,
}

/// What a waiter is told. Each waiter is told exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It holds the lock, after having waited for so many microseconds.
    Granted { fence: Fence, waited_us: u64 },
    /// The wait ended without a grant.
    TimedOut,
    /// Its token was released while it waited.
    Released,
    /// A newer caller with the same token took over its place.
    Superseded,
    /// The key holds something else than a lock now.
    WrongType,
    /// This server no longer grants locks.
    Unblocked,
    /// This node of a cluster no longer serves the lock.
    SlotMoved,
}

/// A consequence of a transition, to be carried out by the server in the order of the list.
/// Holders are named by their fence; each stands in the lock when the list is handed over,
/// unless a later effect ended it.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect<C> {
    Granted(Fence),
    /// The lease of a hold has a new deadline.
    Renewed(Fence),
    Ended(Fence, End),
    Answered(C, Answer),
}

/// The engine's own state: what there is beside the locks themselves.
#[derive(Debug)]
pub struct Engine<C> {
    pub fences: Register,
    queues: Queues<C>,
    pub(super) leases: Deadlines<LockName>,
    waits: Deadlines<WaiterId>,
    /// Grants from the queue that are not known to have reached their callers yet.
    in_flight: HashSet<Fence>,
    pub(super) held: usize,
    effects: Vec<Effect<C>>,
}

impl<C> Engine<C> {
    pub fn new(source: FenceSource) -> Engine<C> {
        Engine {
            fences: Register::new(source),
            queues: Queues::default(),
            leases: Deadlines::default(),
            waits: Deadlines::default(),
            in_flight: HashSet::new(),
            held: 0,
            effects: Vec::new(),
        }
    }

    /// How many locks are held.
    pub fn held(&self) -> usize {
        self.held
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

    /// Ends the holds whose lease is over and grants the lock to those who are next. Every other
    /// operation does this first, so that what it finds is true at `now`.
    pub fn settle(&mut self, place: Place, lock: &mut Lock, now: &Now) {
        self.end_due(place, lock, now.mono);
        while let Some((id, head)) = self.queues.head(place) {
            if !lock.admits(head.mode) {
                break;
            }
            self.grant_waiter(id, lock, now);
        }
    }

    /// Takes the lock if it is free and nobody waits for it. The same token again while it holds
    /// gets the same fence, and its lease is at least the new one.
    pub fn acquire(&mut self, place: Place, lock: &mut Lock, request: &Request, now: &Now) -> Acquired {
        self.settle(place, lock, now);
        if let Some(index) = lock.position(request.token) {
            let deadline = request.lease.after(now.mono);
            let holder = &mut lock.holders[index];
            if deadline > holder.deadline {
                self.renew(holder, deadline);
            }
            self.arrived(holder.fence);
            return Acquired::Held(holder.fence);
        }
        if !lock.admits(request.mode) || self.queues.len(place) > 0 {
            return Acquired::Busy;
        }
        let Some(token) = Token::new(request.token) else {
            return Acquired::Busy;
        };
        let fence = self.fences.next(request.above, now.wall_us);
        let label = request.label.and_then(Label::new);
        let holder = Holder::new(token, fence, request.lease.after(now.mono), label);
        self.grant(place, lock, request.mode, holder);
        Acquired::Held(fence)
    }

    /// Whether a request that found the lock busy may wait for it.
    pub fn may_wait(&self, place: Place, token: &[u8], limits: Limits) -> bool {
        self.queues.find(place, token).is_some() || self.queues.has_room(place, limits)
    }

    /// Adds a caller to the queue, until `until`. If its token waits already, the newer caller
    /// takes over that place, and the older is told so.
    pub fn wait(
        &mut self,
        place: Place,
        request: &Request,
        caller: C,
        until: Option<Instant>,
        now: Instant,
    ) -> Option<WaiterId> {
        let id = match self.queues.find(place, request.token) {
            Some(id) => {
                self.supersede(id, request, caller)?;
                id
            }
            None => self.queues.push(place, request, caller, now)?,
        };
        let until = until.map(|at| (at, self.waits.insert(at, id)));
        self.queues.get_mut(id)?.until = until;
        Some(id)
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

    /// Ends the hold of a token, and its wait if it waits instead; then the next is granted.
    /// False if the token had no hold.
    pub fn release(&mut self, place: Place, lock: &mut Lock, token: &[u8], now: &Now) -> bool {
        // The wait goes first: else it could be granted here, only to be released at once.
        if let Some(id) = self.queues.find(place, token) {
            self.dismiss(id, Answer::Released);
        }
        self.settle(place, lock, now);
        let held = lock
            .position(token)
            .map(|index| self.end(lock, index, End::Release));
        self.settle(place, lock, now);
        held.is_some()
    }

    /// Ends every hold; the queue moves on. Returns how many there were.
    pub fn break_all(&mut self, place: Place, lock: &mut Lock, now: &Now) -> usize {
        self.end_due(place, lock, now.mono);
        let broken = lock.holders.len();
        while !lock.is_vacant() {
            self.end(lock, 0, End::Break);
        }
        self.settle(place, lock, now);
        broken
    }

    /// A grant from the queue has reached its caller.
    pub fn arrived(&mut self, fence: Fence) {
        self.in_flight.remove(&fence);
    }

    /// Takes back a grant that did not reach its caller, unless the same token has asked again
    /// meanwhile, over another connection, and was told of it; then the next is granted.
    pub fn take_back(&mut self, place: Place, lock: &mut Lock, fence: Fence, now: &Now) {
        self.end_due(place, lock, now.mono);
        let is_lost = self.in_flight.remove(&fence);
        let index = lock.holders.iter().position(|h| h.fence == fence);
        if let Some(index) = index.filter(|_| is_lost) {
            self.end(lock, index, End::Undelivered);
        }
        self.settle(place, lock, now);
    }

    /// Takes a waiter out without an answer: its caller is gone, or is answered otherwise.
    /// Returns the caller, and the lock's name if others may be next because of it.
    pub fn cancel(&mut self, id: WaiterId) -> Option<(C, Option<LockName>)> {
        let was_head = self.queues.is_head(id);
        let waiter = self.remove_waiter(id)?;
        let moved = was_head && self.queues.len(waiter.name().place()) > 0;
        let name = moved.then(|| waiter.name().clone());
        Some((waiter.caller, name))
    }

    /// Answers one waiter whose time is over, if there is one. `None` when there is none;
    /// otherwise the lock's name if others may be next because of it.
    pub fn end_wait(&mut self, now: Instant) -> Option<Option<LockName>> {
        let id = self.waits.pop_due(now)?;
        let was_head = self.queues.is_head(id);
        let name = self.dismiss(id, Answer::TimedOut)?;
        let moved = was_head && self.queues.len(name.place()) > 0;
        Some(moved.then_some(name))
    }

    /// Answers every waiter of one lock, or of all locks, with the same answer.
    pub fn dismiss_all(&mut self, place: Option<Place>, answer: Answer) {
        let ids = match place {
            Some(place) => self.queues.iter(place).map(|(id, _)| id).collect(),
            None => self.queues.ids(),
        };
        for id in ids {
            self.dismiss(id, answer);
        }
    }

    /// When the next hold ends.
    pub fn next_lease_end(&self) -> Option<Instant> {
        self.leases.next()
    }

    /// When the next wait ends.
    pub fn next_wait_end(&self) -> Option<Instant> {
        self.waits.next()
    }

    /// A lock one of whose leases is over: to be settled.
    pub fn pop_due_lease(&mut self, now: Instant) -> Option<LockName> {
        self.leases.pop_due(now)
    }

    fn grant_waiter(&mut self, id: WaiterId, lock: &mut Lock, now: &Now) {
        let Some(waiter) = self.remove_waiter(id) else {
            return;
        };
        let place = waiter.name().place();
        let fence = self.fences.next(waiter.above, now.wall_us);
        let deadline = waiter.lease.after(now.mono);
        let holder = Holder::new(waiter.token.clone(), fence, deadline, waiter.label.clone());
        self.in_flight.insert(fence);
        self.grant(place, lock, waiter.mode, holder);
        let waited_us = now.mono.micros_after(waiter.since);
        let answer = Answer::Granted { fence, waited_us };
        self.effects.push(Effect::Answered(waiter.caller, answer));
    }

    fn grant(&mut self, place: Place, lock: &mut Lock, mode: Mode, holder: Holder) {
        self.effects.push(Effect::Granted(holder.fence));
        self.add(place, lock, mode, holder);
    }

    pub(super) fn add(&mut self, place: Place, lock: &mut Lock, mode: Mode, mut holder: Holder) {
        holder.ticket = self.leases.insert(holder.deadline, place.into());
        self.held += usize::from(lock.is_vacant());
        lock.push(mode, holder);
    }

    pub(super) fn remove(&mut self, lock: &mut Lock, index: usize) -> Fence {
        let holder = lock.remove(index);
        self.leases.remove(holder.deadline, holder.ticket);
        if lock.is_vacant() {
            self.held = self.held.saturating_sub(1);
        }
        holder.fence
    }

    fn renew(&mut self, holder: &mut Holder, deadline: Instant) {
        self.reschedule(holder, deadline);
        self.effects.push(Effect::Renewed(holder.fence));
    }

    pub(super) fn reschedule(&mut self, holder: &mut Holder, deadline: Instant) {
        self.leases.reschedule(holder.deadline, holder.ticket, deadline);
        holder.deadline = deadline;
    }

    fn end(&mut self, lock: &mut Lock, index: usize, why: End) {
        let fence = self.remove(lock, index);
        self.effects.push(Effect::Ended(fence, why));
    }

    fn end_due(&mut self, place: Place, lock: &mut Lock, now: Instant) {
        self.adopt_new(place, lock);
        while let Some(index) = lock.holders.iter().position(|h| h.is_due(now)) {
            self.end(lock, index, End::Expire);
        }
    }

    fn supersede(&mut self, id: WaiterId, request: &Request, caller: C) -> Option<()> {
        let waiter = self.queues.get_mut(id)?;
        waiter.lease = request.lease;
        waiter.above = request.above;
        waiter.label = request.label.and_then(Label::new);
        waiter.mode = request.mode;
        let older = std::mem::replace(&mut waiter.caller, caller);
        if let Some((at, ticket)) = waiter.until.take() {
            self.waits.remove(at, ticket);
        }
        self.effects.push(Effect::Answered(older, Answer::Superseded));
        Some(())
    }

    fn dismiss(&mut self, id: WaiterId, answer: Answer) -> Option<LockName> {
        let waiter = self.remove_waiter(id)?;
        let name = waiter.name().clone();
        self.effects.push(Effect::Answered(waiter.caller, answer));
        Some(name)
    }

    fn remove_waiter(&mut self, id: WaiterId) -> Option<super::queue::Waiter<C>> {
        let waiter = self.queues.remove(id)?;
        if let Some((at, ticket)) = waiter.until {
            self.waits.remove(at, ticket);
        }
        Some(waiter)
    }
}
