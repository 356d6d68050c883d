//! Every error that a command replies with, but those of the server's own making. None of them
//! contains anything the client sent: a token must not show up in a log.

use std::ffi::CStr;

use crate::ffi::Ctx;
use crate::lock::Conflict;
use crate::server::transition::Refusal;

pub type Error = &'static CStr;

pub const SYNTAX: Error = c"ERR syntax error";
pub const NOT_AN_INTEGER: Error = c"ERR value is not an integer or out of range";
pub const ACQUIRE_EXPIRE_TIME: Error = c"ERR invalid expire time in 'flock.acquire' command";
pub const REFRESH_EXPIRE_TIME: Error = c"ERR invalid expire time in 'flock.refresh' command";
pub const TIMEOUT_NOT_AN_INTEGER: Error = c"ERR timeout is not an integer or out of range";
pub const TIMEOUT_NEGATIVE: Error = c"ERR timeout is negative";
pub const ABOVE_RANGE: Error = c"ERR ABOVE must be between 0 and 9007199254740990";
pub const PERMITS_RANGE: Error = c"ERR PERMITS must be between 1 and 4294967295";
pub const DELAY_RANGE: Error = c"ERR DELAY must be between 0 and 4611686018427387";
pub const NO_SESSION: Error =
    c"ERR SESSION needs a connection of the caller's own; a script or a guarded command has none";
pub const MACQUIRE_EXPIRE_TIME: Error = c"ERR invalid expire time in 'flock.macquire' command";
pub const MREFRESH_EXPIRE_TIME: Error = c"ERR invalid expire time in 'flock.mrefresh' command";
pub const NUMKEYS_RANGE: Error = c"ERR numkeys should be greater than 0";
pub const NUMKEYS_BEYOND_ARGS: Error = c"ERR Number of keys can't be greater than number of args";
pub const TOO_MANY_LOCKS: Error = c"ERR at most 1024 locks at once";
pub const LOCK_NAMED_TWICE: Error = c"ERR a lock is named twice";
pub const NOT_HELD: Error = c"NOTHELD the token does not hold the lock; the command did not run";
pub const NOT_GUARDED: Error = c"ERR this command cannot be guarded: it may block, or belongs to a connection, a transaction, a subscription or an administrator, or is FLOCK.GUARD itself";
pub const GUARD_READ_ONLY: Error = c"READONLY only the primary can guard a command; this is a replica.";
pub const NOT_RUN: Error = c"ERR the server did not run the guarded command";
pub const TOKEN_LENGTH: Error = c"ERR the token must be 1 to 1024 bytes";
pub const LABEL_LENGTH: Error = c"ERR the label must be at most 256 bytes";
pub const NO_RANDOMNESS: Error = c"ERR the operating system gave no randomness for a token; name one";
pub const QUEUE_FULL: Error =
    c"QUEUEFULL too many clients wait; see flock.max-waiters and flock.max-waiters-total";
pub const APPLY_IS_INTERNAL: Error =
    c"ERR 'flock.apply' is internal: only a primary or an AOF file may send it";
pub const FENCE_IS_INTERNAL: Error =
    c"ERR 'flock.fence' is internal: only a primary or an AOF file may send it";
pub const NOT_AN_EFFECT: Error = c"ERR not an effect that this version of flock knows";

const WRONG_TYPE: Error = c"WRONGTYPE Operation against a key holding the wrong kind of value";
const READ_ONLY: Error = c"READONLY You can't write against a read only replica.";

const HELD_IN_OTHER_MODE: Error = c"ERR this token holds the lock in another mode; release it first";
const HELD_IN_PART: Error =
    c"ERR this token holds some of these locks, but not all under one fence; release them first";
const WAITS_OTHERWISE: Error =
    c"ERR this token waits for the lock in another mode, or together with other locks";
const OTHER_PERMITS: Error = c"ERR the lock is held or waited for with another number of PERMITS";
const TOO_MANY_HOLDS: Error = c"ERR this token has entered the lock as often as can be counted";

impl From<Conflict> for Error {
    fn from(conflict: Conflict) -> Error {
        match conflict {
            Conflict::HeldInOtherMode => HELD_IN_OTHER_MODE,
            Conflict::HeldInPart => HELD_IN_PART,
            Conflict::WaitsOtherwise => WAITS_OTHERWISE,
            Conflict::OtherPermits => OTHER_PERMITS,
            Conflict::TooManyHolds => TOO_MANY_HOLDS,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        match refusal {
            Refusal::WrongType => WRONG_TYPE,
            Refusal::ReadOnly => READ_ONLY,
        }
    }
}

/// Replies with the error of a command that failed, where it did.
pub fn reply_if_failed(ctx: &Ctx, result: Result<(), Error>) {
    if let Err(error) = result {
        ctx.reply_error(error);
    }
}
