//! What a caller asks of a lock, and how that ends.

use super::fence::Fence;
use super::holder::{Label, Mode, Session, Terms};
use super::time::Lease;

/// What a caller asks of a lock.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// 1 to [`TOKEN_MAX`](super::holder::TOKEN_MAX) bytes.
    pub token: &'a [u8],
    pub lease: Lease,
    /// The fence will be greater than this.
    pub above: u64,
    pub label: Option<&'a [u8]>,
    pub mode: Mode,
    /// Whether a token that holds already enters once more.
    pub reentrant: bool,
    /// How long the lock stays closed if the hold runs out; 0 for not at all.
    pub delay: Lease,
    /// The connection that the hold ends with.
    pub session: Option<Session>,
}

impl Request<'_> {
    /// The terms of the hold that this asks for.
    pub fn terms(&self) -> Terms {
        Terms {
            label: self.label.and_then(Label::new),
            holds: 1,
            delay: self.delay,
            session: self.session,
        }
    }
}

/// How an acquire ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The token holds the lock, since now or since before.
    Held(Fence),
    /// Somebody else holds it, or waits for it since before, or it is closed.
    Busy,
    /// It can never be, as things are; nothing has changed.
    Conflict(Conflict),
}

/// Why a request contradicts what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// One token, one mode: it holds the lock in another.
    HeldInOtherMode,
    /// It holds some of many locks, or not all under one fence: waiting would be for itself.
    HeldInPart,
    /// It waits in another mode, or for another set of locks.
    WaitsOtherwise,
    /// All who share a lock by permits must agree on their number.
    OtherPermits,
    /// The count of its holds is at its limit.
    TooManyHolds,
}
