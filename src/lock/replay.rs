//! What happens to locks from outside: effects from a primary or an AOF file, and keys that the
//! server loads, moves, removes or swaps. Nothing here decides; it only follows.

use std::collections::HashSet;

use super::engine::{Due, Engine};
use super::fence::Fence;
use super::holder::{Holder, Mode};
use super::state::{Closure, Lock};
use super::time::{Instant, Lease};
use super::{LockName, Place};

/// What a primary changed of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    pub deadline: Instant,
    pub holds: u32,
    pub delay: Lease,
}

impl<C> Engine<C> {
    /// A grant that a primary made. It replaces a hold of the same token, and whatever holds the
    /// lock in a way that leaves no room for it: the primary is right.
    pub fn apply_grant(&mut self, place: Place, lock: &mut Lock, mode: Mode, holder: Holder) {
        self.fences.observe(holder.fence);
        self.adopt_new(place, lock);
        if let Some(index) = lock.position(holder.token.bytes()) {
            self.remove(place, lock, index);
        }
        while !lock.has_room(mode) {
            self.remove(place, lock, 0);
        }
        self.add(place, lock, mode, holder);
    }

    /// A hold that a primary changed. False if there is no such hold.
    pub fn apply_renewal(&mut self, place: Place, lock: &mut Lock, fence: Fence, renewal: Renewal) -> bool {
        self.fences.observe(fence);
        self.adopt_new(place, lock);
        let Some(holder) = lock.holders.iter_mut().find(|h| h.fence == fence) else {
            return false;
        };
        self.reschedule(holder, renewal.deadline);
        if (renewal.holds, renewal.delay) != (holder.holds(), holder.delay()) {
            let terms = holder.terms_mut();
            (terms.holds, terms.delay) = (renewal.holds, renewal.delay);
        }
        true
    }

    /// A hold that a primary ended. False if there is no such hold.
    pub fn apply_end(&mut self, place: Place, lock: &mut Lock, fence: Fence) -> bool {
        self.fences.observe(fence);
        self.adopt_new(place, lock);
        let index = lock.holders.iter().position(|h| h.fence == fence);
        index.map(|index| self.remove(place, lock, index)).is_some()
    }

    /// A lock that a primary closed, or opened. False if it was open already.
    pub fn apply_closure(
        &mut self,
        place: Place,
        lock: &mut Lock,
        fence: Fence,
        until: Option<Instant>,
    ) -> bool {
        self.fences.observe(fence);
        self.adopt_new(place, lock);
        let was_closed = lock.closure().is_some();
        self.set_closure(place, lock, until.map(|until| Closure::new(fence, until)));
        was_closed || until.is_some()
    }

    /// A lock that came to this place by itself, if it has: every operation starts with this, so
    /// that none works on a lock that the deadline index does not know.
    pub(super) fn adopt_new(&mut self, place: Place, lock: &mut Lock) {
        let is_new = |closure: &Closure| closure.ticket == 0;
        if lock.holders.iter().any(|holder| holder.ticket == 0) || lock.closure().is_some_and(is_new) {
            self.adopt(place, lock);
        }
    }

    /// A lock that came to this place by itself: loaded, restored, renamed or moved.
    pub fn adopt(&mut self, place: Place, lock: &mut Lock) {
        self.forget(place, lock);
        for holder in &mut lock.holders {
            self.fences.observe(holder.fence);
            holder.ticket = self.leases.insert(holder.deadline, Due::hold(place));
            self.sessions.enter(holder, place);
        }
        if let Some(closure) = &mut lock.closure {
            self.fences.observe(closure.fence);
            closure.ticket = self.leases.insert(closure.until, Due::delay(place));
        }
        if lock.is_held() {
            self.held.one_more(place.db);
        }
    }

    /// A key that is about to go, or to move, with the lock in it.
    pub fn forget(&mut self, place: Place, lock: &mut Lock) {
        let mut was_known = false;
        for holder in &mut lock.holders {
            // Not whether the index had it: a lease that is just being ended is taken out first.
            was_known |= holder.ticket != 0;
            self.leases.remove(holder.deadline, holder.ticket);
            self.sessions.leave(holder, place);
            holder.ticket = 0;
        }
        if let Some(closure) = &mut lock.closure {
            self.leases.remove(closure.until, closure.ticket);
            closure.ticket = 0;
        }
        if was_known {
            self.held.one_less(place.db);
        }
    }

    /// All keys of one database, or of all, have gone. The waiters stay: they are to be settled.
    pub fn flush(&mut self, db: Option<i32>) {
        let stays = |of: i32| db.is_some_and(|db| of != db);
        self.leases.retain(|due| stays(due.db));
        self.sessions.retain(|name| stays(name.db));
        self.held.clear(db);
    }

    /// Some keys have gone, and nothing was said of each.
    pub fn forget_gone(&mut self, is_gone: impl Fn(&[u8]) -> bool) {
        let mut gone = HashSet::new();
        self.leases.retain(|due| {
            let stays = !is_gone(due.place().key);
            if !stays && due.is_hold() {
                gone.insert(LockName::from(due.place()));
            }
            stays
        });
        self.sessions.retain(|name| !is_gone(&name.key));
        gone.iter().for_each(|name| self.held.one_less(name.db));
    }

    /// The keys of two databases have changed places. Waiters stay with the number of the
    /// database they named, as clients do.
    pub fn swap_databases(&mut self, first: i32, second: i32) {
        let swap = |db: &mut i32| {
            if *db == first {
                *db = second;
            } else if *db == second {
                *db = first;
            }
        };
        self.leases.items_mut().for_each(|due| swap(&mut due.db));
        self.sessions.rename(|name| swap(&mut name.db));
        self.held.swap(first, second);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FenceSource, Now, Session, Terms, Token};
    use super::*;

    const PLACE: Place = Place { db: 0, key: b"lock" };

    fn holder(token: &str, fence: u64, deadline: u64) -> Holder {
        let token = Token::new(token.as_bytes()).unwrap();
        Holder::new(
            token,
            Fence::new(fence).unwrap(),
            Instant(deadline),
            Terms::default(),
        )
    }

    fn engine() -> Engine<u32> {
        Engine::new(FenceSource::Counter)
    }

    #[test]
    fn a_replica_follows_grant_renewal_and_end_and_keeps_the_fence_ahead() {
        let (mut engine, mut lock) = (engine(), Lock::vacant());
        engine.apply_grant(PLACE, &mut lock, Mode::Exclusive, holder("a", 7, 100));
        let renewal = Renewal {
            deadline: Instant(200),
            holds: 2,
            delay: Lease::ZERO,
        };
        assert!(engine.apply_renewal(PLACE, &mut lock, Fence::new(7).unwrap(), renewal));
        assert_eq!(lock.holders()[0].holds(), 2);
        assert_eq!(engine.next_lease_end(), Some(Instant(200)));
        assert!(!engine.apply_end(PLACE, &mut lock, Fence::new(6).unwrap()));
        assert!(engine.apply_end(PLACE, &mut lock, Fence::new(7).unwrap()));
        assert!(lock.is_vacant());
        assert_eq!((engine.held(), engine.next_lease_end()), (0, None));
        assert_eq!(engine.fences.last(), 7);
    }

    #[test]
    fn a_grant_from_the_primary_replaces_what_stands_in_its_way() {
        let (mut engine, mut lock) = (engine(), Lock::vacant());
        engine.apply_grant(PLACE, &mut lock, Mode::Exclusive, holder("a", 1, 100));
        engine.apply_grant(PLACE, &mut lock, Mode::Exclusive, holder("b", 2, 100));
        engine.apply_grant(PLACE, &mut lock, Mode::Exclusive, holder("b", 3, 100));
        assert_eq!(lock.holders(), [holder("b", 3, 100)]);
        assert_eq!((engine.held(), engine.leases.len()), (1, 1));
    }

    #[test]
    fn a_lock_that_moves_is_due_at_its_new_place_once() {
        let (mut engine, mut lock) = (engine(), Lock::vacant());
        engine.apply_grant(PLACE, &mut lock, Mode::Exclusive, holder("a", 1, 100));
        engine.forget(PLACE, &mut lock);
        assert_eq!((engine.held(), engine.leases.len()), (0, 0));
        engine.adopt(Place { db: 3, key: b"moved" }, &mut lock);
        engine.adopt(Place { db: 3, key: b"moved" }, &mut lock);
        assert_eq!((engine.held(), engine.leases.len()), (1, 1));
        engine.swap_databases(3, 5);
        let name = engine.pop_due_lease(Instant(100)).unwrap();
        assert_eq!(name.place(), Place { db: 5, key: b"moved" });
        let now = Now {
            mono: Instant(100),
            wall_us: 0,
        };
        engine.settle(name.place(), &mut lock, &now);
        assert!(lock.is_vacant());
        assert_eq!(engine.held(), 0);
    }

    #[test]
    fn a_lock_that_vanishes_while_its_lease_is_being_ended_is_not_counted_any_more() {
        let (mut engine, mut lock) = (engine(), Lock::vacant());
        engine.apply_grant(PLACE, &mut lock, Mode::Exclusive, holder("a", 1, 100));
        engine.pop_due_lease(Instant(100)).unwrap();
        engine.forget(PLACE, &mut lock);
        assert_eq!(engine.held(), 0);
    }

    #[test]
    fn keys_that_are_gone_take_their_leases_delays_and_counts_along() {
        let mut engine = engine();
        let mut locks = [(); 3].map(|()| Lock::vacant());
        let [held, shared, closed] = &mut locks;
        let place = |key| Place { db: 0, key };
        engine.apply_grant(place(b"held"), held, Mode::Exclusive, holder("a", 1, 100));
        engine.apply_grant(place(b"gone 1"), shared, Mode::Shared, holder("a", 2, 100));
        engine.apply_grant(place(b"gone 1"), shared, Mode::Shared, holder("b", 3, 100));
        let until = Some(Instant(50));
        engine.apply_closure(place(b"gone 2"), closed, Fence::new(4).unwrap(), until);
        engine.forget_gone(|key| key.starts_with(b"gone"));
        assert_eq!((engine.held(), engine.leases.len()), (1, 1));
    }

    #[test]
    fn a_flush_forgets_one_database_or_all() {
        let mut engine = engine();
        for db in 0..3 {
            let place = Place { db, key: b"lock" };
            engine.apply_grant(place, &mut Lock::vacant(), Mode::Exclusive, holder("a", 1, 100));
        }
        engine.flush(Some(1));
        assert_eq!((engine.held(), engine.leases.len()), (2, 2));
        engine.flush(None);
        assert_eq!((engine.held(), engine.leases.len()), (0, 0));
        assert_eq!(engine.fences.last(), 1, "the register survives a flush");
    }

    #[test]
    fn a_flush_forgets_the_sessions_of_one_database_or_all() {
        let mut engine = engine();
        let session = Session(7);
        for db in 0..3 {
            let mut tied = holder("a", 1, 100);
            tied.terms_mut().session = Some(session);
            let mut lock = Lock::vacant();
            lock.push(Mode::Exclusive, tied);
            engine.adopt(Place { db, key: b"lock" }, &mut lock);
        }
        assert_eq!(engine.holds_of(session).len(), 3);
        engine.flush(Some(1));
        let left = engine.holds_of(session);
        assert_eq!(left.iter().map(|(name, _)| name.db).collect::<Vec<_>>(), [0, 2]);
        engine.flush(None);
        assert_eq!(engine.holds_of(session), []);
    }

    #[test]
    fn a_replica_closes_and_opens_a_lock_as_it_is_told() {
        let (mut engine, mut lock) = (engine(), Lock::vacant());
        let fence = Fence::new(7).unwrap();
        assert!(!engine.apply_closure(PLACE, &mut lock, fence, None));
        assert!(engine.apply_closure(PLACE, &mut lock, fence, Some(Instant(50))));
        assert_eq!((engine.next_lease_end(), engine.held()), (Some(Instant(50)), 0));
        assert!(engine.apply_closure(PLACE, &mut lock, fence, None));
        assert!(lock.is_vacant());
        assert_eq!(engine.leases.len(), 0);
    }
}
