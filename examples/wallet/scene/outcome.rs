//! What callers met, and the judge of it all: does the balance agree with what was sold?

use std::fmt;
use std::time::Duration;

use super::{BALANCE, PRICE};

/// How one caller's purchase ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Purchase {
    /// The caller was told that it has bought.
    Accepted,
    /// There was not enough money.
    Refused,
    /// The storage refused the write: it had seen a newer one.
    Rejected,
    /// The lease could not be kept, and the work was cancelled before anything was written.
    Cancelled,
}

/// The balance beside what it must be after so many accepted purchases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    pub accepted: usize,
    pub balance: i64,
    pub expected: i64,
}

impl Check {
    pub fn new(accepted: usize, balance: i64) -> Check {
        let spent = i64::try_from(accepted).expect("a number of callers") * PRICE;
        Check {
            accepted,
            balance,
            expected: BALANCE - spent,
        }
    }

    pub fn is_ok(&self) -> bool {
        self.balance == self.expected && self.balance >= 0
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Check {
            accepted,
            balance,
            expected,
        } = self;
        let verdict = if self.is_ok() { "OK" } else { "BROKEN" };
        write!(
            f,
            "accepted={accepted} balance={balance} expected={expected} {verdict}"
        )
    }
}

/// What one caller met.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    pub purchase: Purchase,
    /// Its release came too late: the lock was not its own any more.
    pub is_release_stale: bool,
}

impl Visit {
    /// Of a caller that had no lock to give back.
    pub fn without_a_lock(purchase: Purchase) -> Visit {
        Visit {
            purchase,
            is_release_stale: false,
        }
    }

    /// Of a caller whose release was answered so.
    pub fn released(purchase: Purchase, released: bool) -> Visit {
        Visit {
            purchase,
            is_release_stale: !released,
        }
    }
}

/// A scene that was played once.
#[derive(Clone, Debug)]
pub struct Run {
    pub check: Check,
    pub rejected: usize,
    pub cancelled: usize,
    pub stale_releases: usize,
    pub elapsed: Duration,
}

impl Run {
    pub fn new(visits: &[Visit], balance: i64, elapsed: Duration) -> Run {
        let count = |wanted| visits.iter().filter(|visit| visit.purchase == wanted).count();
        Run {
            check: Check::new(count(Purchase::Accepted), balance),
            rejected: count(Purchase::Rejected),
            cancelled: count(Purchase::Cancelled),
            stale_releases: visits.iter().filter(|visit| visit.is_release_stale).count(),
            elapsed,
        }
    }

    pub fn is_ok(&self) -> bool {
        self.check.is_ok()
    }
}

/// The check, what else there is to tell, and the time.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.check)?;
        let others = [
            ("rejected", self.rejected),
            ("cancelled", self.cancelled),
            ("stale_releases", self.stale_releases),
        ];
        for (name, count) in others.iter().filter(|(_, count)| *count > 0) {
            write!(f, " {name}={count}")?;
        }
        write!(f, " ({} ms)", self.elapsed.as_millis())
    }
}
