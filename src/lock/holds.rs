//! The single steps that every transition is made of: a hold begins, changes, ends; a lock is
//! closed and opened. Each keeps the indexes and the effects in step with the lock.

use super::effect::{Effect, End};
use super::engine::{Due, Engine};
use super::fence::Fence;
use super::holder::{Holder, Mode};
use super::state::{Closure, Lock};
use super::time::Instant;
use super::Place;

impl<C> Engine<C> {
    pub(super) fn grant(&mut self, place: Place, lock: &mut Lock, mode: Mode, holder: Holder) {
        self.effects.push(Effect::Granted(holder.fence));
        self.add(place, lock, mode, holder);
    }

    pub(super) fn add(&mut self, place: Place, lock: &mut Lock, mode: Mode, mut holder: Holder) {
        holder.ticket = self.leases.insert(holder.deadline, Due::hold(place));
        self.sessions.enter(&holder, place);
        if !lock.is_held() {
            self.held.one_more(place.db);
        }
        lock.push(mode, holder);
    }

    pub(super) fn end(&mut self, place: Place, lock: &mut Lock, index: usize, why: End) {
        let fence = self.remove(place, lock, index);
        self.effects.push(Effect::Ended(fence, why));
    }

    pub(super) fn remove(&mut self, place: Place, lock: &mut Lock, index: usize) -> Fence {
        let holder = lock.remove(index);
        self.leases.remove(holder.deadline, holder.ticket);
        self.sessions.leave(&holder, place);
        if !lock.is_held() {
            self.held.one_less(place.db);
        }
        holder.fence
    }

    pub(super) fn renew(&mut self, holder: &mut Holder, deadline: Instant) {
        self.reschedule(holder, deadline);
        self.effects.push(Effect::Renewed(holder.fence));
    }

    pub(super) fn reschedule(&mut self, holder: &mut Holder, deadline: Instant) {
        self.leases.reschedule(holder.deadline, holder.ticket, deadline);
        holder.deadline = deadline;
    }

    /// Ends what is over at `now`: holds, which may close the lock, and then its delay.
    pub(super) fn end_due(&mut self, place: Place, lock: &mut Lock, now: Instant) {
        self.adopt_new(place, lock);
        while let Some(index) = lock.holders.iter().position(|h| h.is_due(now)) {
            let holder = &lock.holders[index];
            let (fence, until) = (holder.fence, holder.closes_until());
            self.end(place, lock, index, End::Expire);
            if let Some(until) = until {
                self.close(place, lock, fence, until, now);
            }
        }
        if lock.closure().is_some_and(|closure| closure.until <= now) {
            self.open(lock);
        }
    }

    /// Closes the lock until then, unless that is past, or it is closed for longer.
    pub(super) fn close(
        &mut self,
        place: Place,
        lock: &mut Lock,
        fence: Fence,
        until: Instant,
        now: Instant,
    ) {
        let is_longer = lock.closure().is_none_or(|closure| closure.until < until);
        if until > now && is_longer {
            self.set_closure(place, lock, Some(Closure::new(fence, until)));
            self.effects.push(Effect::Closed(fence));
        }
    }

    pub(super) fn open(&mut self, lock: &mut Lock) {
        if let Some(closure) = lock.closure.take() {
            self.leases.remove(closure.until, closure.ticket);
            self.effects.push(Effect::Opened(closure.fence));
        }
    }

    pub(super) fn set_closure(&mut self, place: Place, lock: &mut Lock, closure: Option<Closure>) {
        if let Some(old) = lock.closure.take() {
            self.leases.remove(old.until, old.ticket);
        }
        lock.closure = closure.map(|mut closure| {
            closure.ticket = self.leases.insert(closure.until, Due::delay(place));
            Box::new(closure)
        });
    }
}
