//! Every error that a command replies with, but those of the server's own making. None of them
//! contains anything the client sent: a token must not show up in a log.

use std::ffi::CStr;

use crate::ffi::Ctx;
use crate::server::transition::Refusal;

pub type Error = &'static CStr;

pub const SYNTAX: Error = c"ERR syntax error";
pub const NOT_AN_INTEGER: Error = c"ERR value is not an integer or out of range";
pub const ACQUIRE_EXPIRE_TIME: Error = c"ERR invalid expire time in 'flock.acquire' command";
pub const REFRESH_EXPIRE_TIME: Error = c"ERR invalid expire time in 'flock.refresh' command";
pub const TIMEOUT_NOT_AN_INTEGER: Error = c"ERR timeout is not an integer or out of range";
pub const TIMEOUT_NEGATIVE: Error = c"ERR timeout is negative";
pub const ABOVE_RANGE: Error = c"ERR ABOVE must be between 0 and 9007199254740990";
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
