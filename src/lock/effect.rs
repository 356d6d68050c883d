//! The consequences of a transition.

use super::fence::Fence;

/// Why a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Release,
    Expire,
    Break,
    /// The connection it was bound to was closed.
    Session,
    /// The grant never reached its caller, who was gone by then.
    Undelivered,
}

/// What a waiter is told. Each waiter is told exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It holds the lock, after having waited for so many microseconds.
    Granted { fence: Fence, waited_us: u64 },
    /// The wait ended without a grant.
    TimedOut,
    /// Its token was released while it waited.
    Released,
    /// A newer caller with the same token took over its place.
    Superseded,
    /// The key holds something else than a lock now.
    WrongType,
    /// This server no longer grants locks.
    Unblocked,
    /// This node of a cluster no longer serves the lock.
    SlotMoved,
}

/// A consequence of a transition, to be carried out by the server in the order of the list.
/// Holders are named by their fence; each stands in the lock when the list is handed over,
/// unless a later effect ended it.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect<C> {
    Granted(Fence),
    /// The lease of a hold, its count of holds, or its delay has changed.
    Renewed(Fence),
    Ended(Fence, End),
    /// The lock is closed for a while, because of that hold.
    Closed(Fence),
    /// It is so no more.
    Opened(Fence),
    Answered(C, Answer),
}
