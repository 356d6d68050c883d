//! Holds that end with the connection that they were granted to.

use std::collections::BTreeSet;

use super::effect::End;
use super::engine::Engine;
use super::fence::Fence;
use super::holder::{Holder, Session};
use super::state::Lock;
use super::time::Now;
use super::{LockName, Place};

/// Which holds each connection has.
#[derive(Debug, Default)]
pub(super) struct Sessions(BTreeSet<(Session, Fence, LockName)>);

impl Sessions {
    pub fn enter(&mut self, holder: &Holder, place: Place) {
        if let Some(session) = holder.session() {
            self.0.insert((session, holder.fence, place.into()));
        }
    }

    pub fn leave(&mut self, holder: &Holder, place: Place) {
        if let Some(session) = holder.session() {
            self.0.remove(&(session, holder.fence, place.into()));
        }
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&LockName) -> bool) {
        self.0.retain(|(_, _, name)| keep(name));
    }

    pub fn rename(&mut self, mut rename: impl FnMut(&mut LockName)) {
        let renamed = std::mem::take(&mut self.0).into_iter().map(|mut entry| {
            rename(&mut entry.2);
            entry
        });
        self.0 = renamed.collect();
    }

    fn of(&self, session: Session) -> Vec<(LockName, Fence)> {
        let least = Place {
            db: i32::MIN,
            key: b"",
        };
        let from_first = self.0.range((session, Fence::MIN, least.into())..);
        let of_session = from_first.take_while(|(of, ..)| *of == session);
        of_session
            .map(|(_, fence, name)| (name.clone(), *fence))
            .collect()
    }
}

impl<C> Engine<C> {
    /// A connection was closed: the holds that are to end with it, by [`Engine::lose_session`].
    pub fn holds_of(&self, session: Session) -> Vec<(LockName, Fence)> {
        self.sessions.of(session)
    }

    /// Ends a hold whose connection was closed, unless its token has come back over another.
    pub fn lose_session(&mut self, place: Place, lock: &mut Lock, fence: Fence, session: Session, now: &Now) {
        self.end_due(place, lock, now.mono);
        let is_lost = |holder: &Holder| holder.fence == fence && holder.session() == Some(session);
        if let Some(index) = lock.holders.iter().position(is_lost) {
            let delay = lock.holders[index].delay();
            self.end(place, lock, index, End::Session);
            self.close(place, lock, fence, delay.after(now.mono), now.mono);
        }
        self.settle(place, lock, now);
    }
}
