//! One lock: the value that a key holds. A key exists exactly while its lock is held or closed.

use super::fence::Fence;
use super::holder::{Holder, Mode};
use super::time::{Instant, Lease};

/// A lock and its holders, in the order of their grants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    mode: Mode,
    pub(super) holders: Vec<Holder>,
    pub(super) closure: Option<Box<Closure>>,
}

/// The delay after a hold that ran out: nobody is granted the lock before its end.
#[derive(Clone, Debug)]
pub struct Closure {
    /// The hold that the lock is closed for.
    pub fence: Fence,
    pub until: Instant,
    /// Its entry in the deadline index; 0 while it has none.
    pub(super) ticket: u64,
}

impl Closure {
    pub fn new(fence: Fence, until: Instant) -> Closure {
        Closure {
            fence,
            until,
            ticket: 0,
        }
    }

    /// What is left of the delay.
    pub fn left(&self, now: Instant) -> Lease {
        Lease::from_micros(self.until.micros_after(now))
    }
}

impl PartialEq for Closure {
    fn eq(&self, other: &Closure) -> bool {
        self.fence == other.fence && self.until == other.until
    }
}

impl Lock {
    /// A lock that is neither held nor closed: what a missing key stands for.
    pub fn vacant() -> Lock {
        Lock::default()
    }

    pub fn is_vacant(&self) -> bool {
        self.holders.is_empty() && self.closure.is_none()
    }

    pub fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub fn holders(&self) -> &[Holder] {
        &self.holders
    }

    pub fn closure(&self) -> Option<&Closure> {
        self.closure.as_deref()
    }

    pub fn holder_of_fence(&self, fence: Fence) -> Option<&Holder> {
        self.holders.iter().find(|h| h.fence == fence)
    }

    /// The holders whose lease is not over at `now`. A reader goes by this: on a replica, or
    /// while writes are paused, a hold may stand in the value a little longer than it lasts.
    pub fn live_holders(&self, now: Instant) -> impl Iterator<Item = &Holder> {
        self.holders.iter().filter(move |h| !h.is_due(now))
    }

    /// The closure at `now`, for a reader: also that of a hold which is over and not yet ended.
    pub fn live_closure(&self, now: Instant) -> Option<Closure> {
        let of_holders = self.holders.iter().filter(|h| h.is_due(now));
        let of_holders = of_holders.filter_map(|h| Some(Closure::new(h.fence, h.closes_until()?)));
        let all = self.closure.as_deref().cloned().into_iter().chain(of_holders);
        all.filter(|closure| closure.until > now)
            .max_by_key(|closure| closure.until)
    }

    /// Whether one more holder of that mode may be granted the lock.
    pub fn admits(&self, mode: Mode) -> bool {
        self.closure.is_none() && self.has_room(mode)
    }

    /// Whether one more holder of that mode fits beside those there are.
    pub(super) fn has_room(&self, mode: Mode) -> bool {
        if !self.is_held() {
            return true;
        }
        match (self.mode, mode) {
            (Mode::Shared, Mode::Shared) => true,
            (Mode::Permits(held), Mode::Permits(asked)) => {
                held == asked && self.holders.len() < held as usize
            }
            _ => false,
        }
    }

    pub(super) fn position(&self, token: &[u8]) -> Option<usize> {
        self.holders.iter().position(|h| h.token.bytes() == token)
    }

    /// Adds a holder. The first one of a lock that nobody holds decides the mode.
    pub(super) fn push(&mut self, mode: Mode, holder: Holder) {
        if !self.is_held() {
            self.mode = mode;
            // Most locks have one holder; a vector left to itself makes room for four.
            self.holders.reserve_exact(1);
        }
        self.holders.push(holder);
    }

    /// Takes a holder out. A lock that nobody holds has no mode of its own.
    pub(super) fn remove(&mut self, index: usize) -> Holder {
        let holder = self.holders.remove(index);
        if !self.is_held() {
            self.mode = Mode::default();
        }
        holder
    }
}

#[cfg(test)]
mod tests {
    use super::super::holder::{Terms, Token};
    use super::*;

    fn holder(fence: u64) -> Holder {
        let token = Token::new(&fence.to_le_bytes()).unwrap();
        Holder::new(token, Fence::new(fence).unwrap(), Instant(10), Terms::default())
    }

    fn lock(mode: Mode, holders: u64) -> Lock {
        let mut lock = Lock::vacant();
        (1..=holders).for_each(|fence| lock.push(mode, holder(fence)));
        lock
    }

    #[test]
    fn a_lock_admits_one_exclusive_or_n_permits_or_any_number_of_shared_holders() {
        let modes = [Mode::Exclusive, Mode::Shared, Mode::Permits(2), Mode::Permits(3)];
        for held in modes {
            for asked in modes {
                assert!(lock(held, 0).admits(asked));
                let beside_one = held == asked && held != Mode::Exclusive;
                assert_eq!(lock(held, 1).admits(asked), beside_one, "{held:?} {asked:?}");
            }
        }
        assert!(!lock(Mode::Permits(2), 2).admits(Mode::Permits(2)));
        assert!(lock(Mode::Shared, 100).admits(Mode::Shared));
    }

    #[test]
    fn a_hold_is_over_at_its_deadline_and_not_before() {
        let lock = lock(Mode::Exclusive, 1);
        assert_eq!(lock.live_holders(Instant(9)).count(), 1);
        assert_eq!(lock.live_holders(Instant(10)).count(), 0);
    }

    #[test]
    fn a_closed_lock_admits_nobody_and_is_not_vacant() {
        let mut lock = lock(Mode::Shared, 1);
        lock.closure = Some(Box::new(Closure::new(Fence::new(1).unwrap(), Instant(20))));
        assert!(!lock.admits(Mode::Shared));
        lock.remove(0);
        assert!(!lock.is_vacant() && !lock.admits(Mode::Exclusive));
    }

    #[test]
    fn a_reader_sees_the_delay_of_a_hold_that_is_over_but_not_yet_ended() {
        let mut lock = Lock::vacant();
        let terms = Terms {
            delay: Lease::from_micros(5),
            ..Terms::default()
        };
        let token = Token::new(b"a").unwrap();
        let fence = Fence::new(1).unwrap();
        lock.push(Mode::Exclusive, Holder::new(token, fence, Instant(10), terms));
        let until = |now| lock.live_closure(Instant(now)).map(|closure| closure.until);
        assert_eq!(
            [until(9), until(10), until(14), until(15)],
            [None, Some(Instant(15)), Some(Instant(15)), None]
        );
    }
}
