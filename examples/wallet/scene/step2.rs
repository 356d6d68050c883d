//! Step 2: the lock. One after another, and each gives back only what is its own.

use std::time::Duration;

use super::hand_made::{self, Release};
use super::outcome::Visit;
use super::redis_wallet::{shop, spend};
use super::{flock, Fallible, Run, Servers, Terms};

pub fn with_flock(servers: &Servers, terms: Terms) -> Fallible<Run> {
    shop(servers, terms.callers, |connection, token| {
        flock::acquire(connection, token, terms.lease)?;
        let purchase = spend(connection, terms.work)?;
        Ok(Visit::released(purchase, flock::release(connection, token)?))
    })
}

/// SET … NX PX, asked for every millisecond.
pub fn with_a_hand_made_lock(servers: &Servers, terms: Terms, release: Release) -> Fallible<Run> {
    hand_made::remove(&mut servers.redis()?)?;
    shop(servers, terms.callers, |connection, token| {
        hand_made::wait_and_take(connection, token, terms.lease)?;
        let purchase = spend(connection, terms.work)?;
        Ok(Visit::released(purchase, release.run(connection, token)?))
    })
}

/// What became of B's lock when A, whose lease had run out, gave back "its" lock.
#[derive(Debug, PartialEq)]
pub struct LateRelease {
    /// A was told that it released something.
    pub released: bool,
    pub b_still_holds: bool,
}

/// A's lease runs out, B takes the lock, and then A is done.
pub fn late_release_of_a_hand_made_lock(
    servers: &Servers,
    lease: Duration,
    release: Release,
) -> Fallible<LateRelease> {
    let (mut a, mut b) = (servers.redis()?, servers.redis()?);
    hand_made::remove(&mut a)?;
    hand_made::wait_and_take(&mut a, "a", lease)?;
    hand_made::wait_and_take(&mut b, "b", flock::PATIENCE)?;
    let released = release.run(&mut a, "a")?;
    let b_still_holds = hand_made::holder(&mut b)?.as_deref() == Some("b");
    hand_made::remove(&mut b)?;
    Ok(LateRelease {
        released,
        b_still_holds,
    })
}

/// The same scene with this module.
pub fn late_release(servers: &Servers, lease: Duration) -> Fallible<LateRelease> {
    let (mut a, mut b) = (servers.redis()?, servers.redis()?);
    flock::acquire(&mut a, "a", lease)?;
    flock::acquire(&mut b, "b", flock::PATIENCE)?;
    let released = flock::release(&mut a, "a")?;
    let b_still_holds = flock::holds(&mut b, "b")?;
    flock::release(&mut b, "b")?;
    Ok(LateRelease {
        released,
        b_still_holds,
    })
}
