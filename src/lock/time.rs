//! Time as the domain sees it: handed in by the caller, never read.

/// The longest lease, in milliseconds: 2^62 microseconds. A lease added to any reading of the
/// monotonic clock then still fits 64 bits.
pub const LEASE_MAX_MS: u64 = (1 << 62) / 1000;

/// A point on the server's monotonic clock, in microseconds since some unknown start.
/// It means nothing to another process, so it is never stored or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// The microseconds from `now` until this instant; 0 if it has passed.
    pub fn micros_after(self, now: Instant) -> u64 {
        self.0.saturating_sub(now.0)
    }
}

/// How long a hold lasts, in microseconds; from 1 ms to [`LEASE_MAX_MS`] where a client asks
/// for it, and possibly less (down to 0) where it is the rest of a stored lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease(u64);

impl Lease {
    pub const ZERO: Lease = Lease(0);

    /// A lease of `ms` milliseconds, or nothing if that is longer than any lease.
    pub fn from_ms(ms: u64) -> Option<Lease> {
        (ms <= LEASE_MAX_MS).then(|| Lease(ms * 1000))
    }

    /// What is left of a lease, cut to the longest lease there is.
    pub fn from_micros(micros: u64) -> Lease {
        Lease(micros.min(LEASE_MAX_MS * 1000))
    }

    /// What is left of this lease, and of the delay behind it, after `micros` have passed.
    pub fn and_delay_minus_micros(self, delay: Lease, micros: u64) -> (Lease, Lease) {
        let beyond = micros.saturating_sub(self.0);
        (self.minus_micros(micros), delay.minus_micros(beyond))
    }

    /// The same lease after `micros` of it have passed.
    pub fn minus_micros(self, micros: u64) -> Lease {
        Lease(self.0.saturating_sub(micros))
    }

    pub fn micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds, rounded up: what is written down is never shorter than what is held.
    pub fn ms(self) -> u64 {
        self.0.div_ceil(1000)
    }

    pub fn after(self, start: Instant) -> Instant {
        Instant(start.0.saturating_add(self.0))
    }
}

/// The time of one command: both clocks, read once.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The monotonic clock, which leases and waits run on.
    pub mono: Instant,
    /// The wall clock in microseconds since 1970, which fences start from.
    pub wall_us: u64,
}

impl Now {
    /// The wall clock as it is written down beside what is left of a lease, in milliseconds:
    /// rounded up, so that a reader never finds that more time has passed than has.
    pub fn stamp_ms(&self) -> u64 {
        self.wall_us / 1000 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_lease_fits_after_any_instant_of_the_next_thousand_years() {
        let longest = Lease::from_ms(LEASE_MAX_MS).unwrap();
        assert!(Lease::from_ms(LEASE_MAX_MS + 1).is_none());
        let start = Instant(1000 * 366 * 86_400 * 1_000_000);
        assert_eq!(longest.after(start).micros_after(start), longest.micros());
    }

    #[test]
    fn a_lease_written_in_milliseconds_is_never_shorter() {
        for micros in [0, 1, 999, 1000, 1001] {
            let lease = Lease::from_micros(micros);
            assert!(lease.ms() * 1000 >= lease.micros());
        }
    }
}
