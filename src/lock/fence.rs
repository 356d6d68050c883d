//! The fence register: one per server process, from which every grant takes its fence.

/// The largest `ABOVE` a client may name: 2^53 - 2, so that the fence after it still is an
/// integer that a double holds exactly.
pub const ABOVE_MAX: u64 = (1 << 53) - 2;

/// The largest fence a file or a primary may bring. What is beyond it is damage, and would
/// leave no room to count on.
pub const FENCE_MAX: u64 = 1 << 62;

/// A number that grows with every grant of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    pub(super) const MIN: Fence = Fence(1);

    /// A fence as read from a file or the replication link: 1 to [`FENCE_MAX`].
    pub fn new(value: u64) -> Option<Fence> {
        (1..=FENCE_MAX).contains(&value).then_some(Fence(value))
    }

    pub fn get(self) -> u64 {
        self.0
    }
}

/// Where fences start from (setting `flock.fence-source`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceSource {
    /// The wall clock in microseconds: ahead of everything before, even where all state was lost.
    Clock,
    /// One more than the last: small numbers, carried by persistence and replication alone.
    Counter,
}

/// The last fence of this server. It only ever grows, and survives FLUSHALL.
#[derive(Debug)]
pub struct Register {
    last: u64,
    pub source: FenceSource,
}

impl Register {
    pub fn new(source: FenceSource) -> Register {
        Register { last: 0, source }
    }

    /// The last fence issued or seen; 0 before the first.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The next fence: `max(last + 1, above + 1, wall clock)`.
    ///
    /// After an `ABOVE` near 2^53 it counts on past what a double holds exactly, rather than
    /// refuse every lock of the server because one caller named a large number.
    pub fn next(&mut self, above: u64, wall_us: u64) -> Fence {
        let floor = match self.source {
            FenceSource::Clock => wall_us,
            FenceSource::Counter => 0,
        };
        self.last = (self.last + 1).max(above.saturating_add(1)).max(floor);
        Fence(self.last)
    }

    /// Takes note of a fence that came from a file, a primary or a restored key.
    pub fn observe(&mut self, fence: Fence) {
        self.last = self.last.max(fence.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_lifts_a_fence_and_never_lowers_it() {
        let mut register = Register::new(FenceSource::Clock);
        assert_eq!(register.next(0, 1_000).get(), 1_000);
        assert_eq!(register.next(0, 500).get(), 1_001, "the clock stepped back");
        assert_eq!(register.next(0, 2_000).get(), 2_000);
        assert_eq!(register.next(5_000, 2_001).get(), 5_001);
    }

    #[test]
    fn the_counter_counts_and_merges_by_the_greater() {
        let mut register = Register::new(FenceSource::Counter);
        assert_eq!(register.next(0, 1_000).get(), 1);
        assert_eq!(register.next(32, 1_000).get(), 33);
        assert_eq!(register.next(32, 1_000).get(), 34);
        register.observe(Fence::new(10).unwrap());
        assert_eq!(register.next(0, 0).get(), 35);
        register.observe(Fence::new(100).unwrap());
        assert_eq!(register.next(0, 0).get(), 101);
    }

    #[test]
    fn it_counts_on_after_the_largest_above_and_the_largest_stored_fence() {
        let mut register = Register::new(FenceSource::Counter);
        assert_eq!(register.next(ABOVE_MAX, 0).get(), ABOVE_MAX + 1);
        assert_eq!(register.next(ABOVE_MAX, 0).get(), ABOVE_MAX + 2);
        register.observe(Fence::new(FENCE_MAX).unwrap());
        assert_eq!(register.next(0, 0).get(), FENCE_MAX + 1);
        assert!(Fence::new(FENCE_MAX + 1).is_none());
        assert!(Fence::new(0).is_none());
    }
}
