//! A lease that a test watches. When exactly it began is known only to within
//! the call that took it, so what is left of it is known to within that too.

use std::time::{Duration, Instant};

use super::client::Client;

/// What the way through a file or a link may add to a lease: stamps are whole
/// milliseconds, and a replica counts from its receipt, on a machine that may
/// stall. The way may never take anything from it.
const ADDED: Duration = Duration::from_secs(2);

pub struct Lease {
    key: String,
    length: Duration,
    /// It began between these two.
    earliest: Instant,
    latest: Instant,
    pub fence: i64,
}

impl Lease {
    /// Takes a lock with `FLOCK.ACQUIRE key token PX ms`, followed by `options`.
    #[track_caller]
    pub fn take(client: &mut Client, key: &str, token: &str, length_ms: u64, options: &str) -> Lease {
        let line = format!("FLOCK.ACQUIRE {key} {token} PX {length_ms} {options}");
        let earliest = Instant::now();
        let fence = client.run(line.trim_end()).fence();
        Lease {
            key: key.to_owned(),
            length: Duration::from_millis(length_ms),
            earliest,
            latest: Instant::now(),
            fence,
        }
    }

    /// The server says how much is left: not less than the truth, and hardly more.
    #[track_caller]
    pub fn assert_runs_on(&self, client: &mut Client) {
        let before = Instant::now();
        let left = self.assert_not_shorter(client, &self.key);
        let most = self.left(self.latest, before) + ADDED;
        assert!(left <= most, "{}: {left:?} left, of {most:?} at most", self.key);
    }

    /// What the server says is left, of the lock or of its copy under another
    /// name: not less than the truth.
    #[track_caller]
    pub fn assert_not_shorter(&self, client: &mut Client, key: &str) -> Duration {
        let left = client.call(("FLOCK.PTTL", key)).int();
        // PTTL rounds down to whole milliseconds.
        let least = self
            .left(self.earliest, Instant::now())
            .saturating_sub(Duration::from_millis(1));
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        assert!(left >= least, "{key}: {left:?} left, of {least:?} at least");
        left
    }

    fn left(&self, began: Instant, now: Instant) -> Duration {
        (began + self.length).saturating_duration_since(now)
    }

    /// The first moment at which the lease may be over.
    pub fn earliest_end(&self) -> Instant {
        self.earliest + self.length
    }

    /// The moment at which the lease must be over.
    pub fn latest_end(&self) -> Instant {
        self.latest + self.length
    }
}
