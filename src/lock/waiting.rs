//! Callers that wait: how they join the queues, and how a wait ends other than by a grant.

use super::effect::{Answer, Effect};
use super::engine::Engine;
use super::queue::{Limits, Waiter, WaiterId};
use super::request::Request;
use super::time::Instant;
use super::{LockName, Place};

impl<C> Engine<C> {
    /// Whether a request that found the lock busy, or one of many, may wait.
    pub fn may_wait(&self, places: &[Place], token: &[u8], limits: Limits) -> bool {
        let waits_already = |place: &Place| self.queues.find(*place, token).is_some();
        let has_room = |place: &Place| self.queues.has_room(*place, limits);
        places.iter().all(waits_already) || places.iter().all(has_room)
    }

    /// Adds a caller to the queues, until `until`. If its token waits already, the newer caller
    /// takes over that place, and the older is told so. An acquire has just said that this is no
    /// conflict.
    pub fn wait(
        &mut self,
        places: &[Place],
        request: &Request,
        caller: C,
        until: Option<Instant>,
        now: Instant,
    ) -> Option<WaiterId> {
        let id = match self.queues.find(*places.first()?, request.token) {
            Some(id) => {
                self.supersede(id, request, caller)?;
                id
            }
            None => self.queues.push(places, request, caller, now)?,
        };
        let until = until.map(|at| (at, self.waits.insert(at, id)));
        self.queues.get_mut(id)?.until = until;
        Some(id)
    }

    /// Takes a waiter out without an answer: its caller is gone, or is answered otherwise.
    pub fn cancel(&mut self, id: WaiterId) -> Option<C> {
        self.note_headed(id);
        Some(self.remove_waiter(id)?.caller)
    }

    /// Answers one waiter whose time is over; false if there is none.
    pub fn end_wait(&mut self, now: Instant) -> bool {
        let due = self.waits.pop_due(now);
        due.map(|id| self.dismiss(id, Answer::TimedOut)).is_some()
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

    /// When the next wait ends.
    pub fn next_wait_end(&self) -> Option<Instant> {
        self.waits.next()
    }

    /// Locks whose queues have a new head although nothing befell the lock: to be settled.
    pub fn take_unsettled(&mut self) -> Vec<LockName> {
        std::mem::take(&mut self.unsettled)
    }

    /// Answers one waiter, if it still waits.
    pub fn dismiss(&mut self, id: WaiterId, answer: Answer) {
        self.note_headed(id);
        if let Some(waiter) = self.remove_waiter(id) {
            self.effects.push(Effect::Answered(waiter.caller, answer));
        }
    }

    pub(super) fn remove_waiter(&mut self, id: WaiterId) -> Option<Waiter<C>> {
        let waiter = self.queues.remove(id)?;
        if let Some((at, ticket)) = waiter.until {
            self.waits.remove(at, ticket);
        }
        Some(waiter)
    }

    fn note_headed(&mut self, id: WaiterId) {
        let headed = self.queues.headed_by(id);
        self.unsettled.extend(headed.map(|name| LockName::clone(name)));
    }

    fn supersede(&mut self, id: WaiterId, request: &Request, caller: C) -> Option<()> {
        let waiter = self.queues.get_mut(id)?;
        waiter.lease = request.lease;
        waiter.above = request.above;
        waiter.terms = request.terms();
        let older = std::mem::replace(&mut waiter.caller, caller);
        if let Some((at, ticket)) = waiter.until.take() {
            self.waits.remove(at, ticket);
        }
        self.effects.push(Effect::Answered(older, Answer::Superseded));
        Some(())
    }
}
