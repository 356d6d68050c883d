//! One lock: the value that a key holds. A key exists exactly while its lock is held.

use super::fence::Fence;
use super::holder::{Holder, Mode};
use super::time::Instant;

/// A lock and its holders, in the order of their grants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    mode: Mode,
    pub(super) holders: Vec<Holder>,
}

impl Lock {
    /// A lock that nobody holds: what a missing key stands for.
    pub fn vacant() -> Lock {
        Lock::default()
    }

    pub fn is_vacant(&self) -> bool {
        self.holders.is_empty()
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub fn holders(&self) -> &[Holder] {
        &self.holders
    }

    pub fn holder_of_fence(&self, fence: Fence) -> Option<&Holder> {
        self.holders.iter().find(|h| h.fence == fence)
    }

    /// The holders whose lease is not over at `now`. A reader goes by this: on a replica, or
    /// while writes are paused, a hold may stand in the value a little longer than it lasts.
    pub fn live_holders(&self, now: Instant) -> impl Iterator<Item = &Holder> {
        self.holders.iter().filter(move |h| !h.is_due(now))
    }

    /// Whether one more holder of that mode fits beside those there are.
    pub fn admits(&self, mode: Mode) -> bool {
        if self.is_vacant() {
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

    /// Adds a holder. The first one of a vacant lock decides the mode.
    pub(super) fn push(&mut self, mode: Mode, holder: Holder) {
        if self.is_vacant() {
            self.mode = mode;
            // Most locks have one holder; a vector left to itself makes room for four.
            self.holders.reserve_exact(1);
        }
        self.holders.push(holder);
    }

    pub(super) fn remove(&mut self, index: usize) -> Holder {
        self.holders.remove(index)
    }
}

#[cfg(test)]
mod tests {
    use super::super::holder::Token;
    use super::*;

    fn holder(fence: u64) -> Holder {
        let token = Token::new(fence.to_string().as_bytes()).unwrap();
        Holder::new(token, Fence::new(fence).unwrap(), Instant(10), None)
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
}
