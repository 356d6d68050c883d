//! The lock domain: what a lock is and what may happen to it.
//!
//! Nothing here knows Redis, reads a clock, draws a random number or holds global state. Every
//! operation takes the time as an argument, changes the [`Lock`] it is given, and leaves the
//! consequences as [`Effect`]s for the server layer to carry out. That is what makes it testable
//! against a naive model in milliseconds (`model.rs`).
//!
//! - [`time`]: instants and leases, in microseconds of the monotonic clock
//! - [`fence`]: the fence register
//! - [`holder`]: tokens, labels, holders and modes
//! - [`state`]: one lock, the value that a key holds
//! - [`queue`]: the waiters, first come first served
//! - [`deadlines`]: what ends when
//! - [`engine`]: acquire, refresh, release and the rest, over all of the above
//! - [`codec`]: a lock as bytes, for RDB files

pub mod codec;
pub mod deadlines;
pub mod engine;
pub mod fence;
pub mod holder;
#[cfg(test)]
mod model;
pub mod queue;
pub mod replay;
pub mod state;
pub mod time;

pub use engine::{Acquired, Answer, Effect, End, Engine, Request};
pub use fence::{Fence, FenceSource};
pub use holder::{Holder, Label, Mode, Token};
pub use queue::{Limits, WaiterId};
pub use state::Lock;
pub use time::{Instant, Lease, Now};

/// Where a lock lives: the number of the database and the name of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    pub db: i32,
    pub key: &'a [u8],
}

/// A [`Place`] that owns its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName {
    pub db: i32,
    pub key: Box<[u8]>,
}

impl LockName {
    pub fn place(&self) -> Place<'_> {
        Place {
            db: self.db,
            key: &self.key,
        }
    }
}

impl From<Place<'_>> for LockName {
    fn from(place: Place<'_>) -> Self {
        LockName {
            db: place.db,
            key: place.key.into(),
        }
    }
}
