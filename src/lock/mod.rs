//! The lock domain: what a lock is and what may happen to it.
//!
//! Nothing here knows Redis, reads a clock, draws a random number or holds global state. Every
//! operation takes the time as an argument, changes the [`Lock`] it is given, and leaves the
//! consequences as [`Effect`]s for the server layer to carry out. That is what makes it testable
//! against a naive model in milliseconds (`model.rs`).
//!
//! - [`time`]: instants and leases, in microseconds of the monotonic clock
//! - [`fence`]: the fence register
//! - [`holder`]: tokens, labels, modes, and a hold with its terms
//! - [`state`]: one lock, the value that a key holds
//! - [`queue`]: the waiters, first come first served
//! - [`deadlines`]: what ends when
//! - [`request`], [`effect`]: what is asked of a lock, and what follows
//! - [`engine`]: acquire, refresh, release and the rest, over all of the above; [`waiting`] for a
//!   lock, [`many`] locks at once, [`sessions`]; [`holds`] has the single steps
//! - [`replay`]: what comes from a primary, a file, or the keyspace
//! - [`codec`]: a lock as bytes, for RDB files

pub mod codec;
pub mod deadlines;
pub mod effect;
pub mod engine;
pub mod fence;
pub mod holder;
mod holds;
pub mod many;
#[cfg(test)]
mod model;
pub mod queue;
pub mod replay;
pub mod request;
mod sessions;
pub mod state;
pub mod time;
mod waiting;

pub use effect::{Answer, Effect, End};
pub use engine::Engine;
pub use fence::{Fence, FenceSource};
pub use holder::{Holder, Label, Mode, Session, Terms, Token};
pub use many::Member;
pub use queue::{Limits, WaiterId};
pub use replay::Renewal;
pub use request::{Acquired, Conflict, Request};
pub use state::{Closure, Lock};
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
