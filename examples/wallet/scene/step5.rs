//! Step 5: a holder that sleeps through its lease. No lock can help there, for the sleeper asks nobody before it
//! writes; the storage can, when it compares fences.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use super::postgres_wallet::Guard;
use super::{flock, Check, Fallible, Servers};

/// The fence that the storage has seen before: the callers' will be above.
pub const SEEN_FENCE: i64 = 32;

#[derive(Debug)]
pub struct Story {
    pub a_fence: i64,
    pub b_fence: i64,
    /// Each was told that its purchase is done.
    pub a_believed: bool,
    pub b_believed: bool,
    pub check: Check,
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |believed| if believed { "believed" } else { "refused" };
        write!(
            f,
            "B (fence {}) {}, then A (fence {}) {}: {}",
            self.b_fence,
            word(self.b_believed),
            self.a_fence,
            word(self.a_believed),
            self.check
        )
    }
}

/// A reads, and pauses for longer than its lease. B buys meanwhile. A wakes up and writes what it makes of what it read.
pub fn pause(servers: &Servers, lease: Duration, pause: Duration, guard: Guard) -> Fallible<Story> {
    let (mut a_redis, mut b_redis) = (servers.redis()?, servers.redis()?);
    let (mut a_wallet, mut b_wallet) = (servers.postgres()?, servers.postgres()?);
    a_wallet.fill(SEEN_FENCE)?;

    let a_fence = flock::acquire_above(&mut a_redis, "a", lease, SEEN_FENCE)?;
    let a_seen = a_wallet.read()?;
    let a_wakes = Instant::now() + pause;

    let b_fence = flock::acquire_above(&mut b_redis, "b", lease, SEEN_FENCE)?;
    let b_seen = b_wallet.read()?;
    let b_believed = b_wallet.write(guard, b_seen, b_fence)?;
    flock::release(&mut b_redis, "b")?;

    thread::sleep(a_wakes.saturating_duration_since(Instant::now()));
    let a_believed = a_wallet.write(guard, a_seen, a_fence)?;
    flock::release(&mut a_redis, "a")?;

    let accepted = usize::from(a_believed) + usize::from(b_believed);
    Ok(Story {
        a_fence,
        b_fence,
        a_believed,
        b_believed,
        check: Check::new(accepted, a_wallet.read()?.balance),
    })
}
