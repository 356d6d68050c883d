//! The effects as replicas and AOF files see them: commands that only the server itself may send.
//! docs/FORMATS.md lists them.
//!
//! Durations travel, never instants: `lease_ms` is what was left of the lease at `at_ms`, by the
//! wall clock. A replica counts from its receipt, an AOF file from `at_ms`.

use std::ffi::CStr;

use crate::ffi::context::Flags;
use crate::ffi::params::Params;
use crate::ffi::{Ctx, Str};
use crate::lock::{Effect, End, Fence, Holder, Instant, Label, Lease, Lock, Mode, Now, Token};

/// One transition of one lock: `FLOCK.APPLY key GRANT …`, `RENEW …`, or an end and its reason.
pub const APPLY: &CStr = c"FLOCK.APPLY";
/// The fence register, for an AOF file: `FLOCK.FENCE n`.
pub const FENCE: &CStr = c"FLOCK.FENCE";

/// A transition as it arrives.
pub enum Arrival {
    Grant(Mode, Holder),
    Renewal(Fence, Instant),
    End(Fence, End),
}

/// Sends the transitions of a lock to replicas and the AOF file. A grant is sent as the lock has
/// it now.
pub fn send<C>(ctx: &Ctx, key: &Str, lock: &Lock, effects: &[Effect<C>], now: &Now) {
    for effect in effects {
        match *effect {
            Effect::Granted(fence) => {
                if let Some(holder) = lock.holder_of_fence(fence) {
                    ctx.replicate(APPLY, &grant(Params::new().string(key), holder, now));
                }
            }
            Effect::Renewed(fence) => {
                if let Some(holder) = lock.holder_of_fence(fence) {
                    let params = Params::new().string(key).word(c"RENEW").integer(fence.get());
                    ctx.replicate(APPLY, &lease(params, holder, now));
                }
            }
            Effect::Ended(fence, why) => {
                let params = Params::new().string(key).word(end_word(why));
                ctx.replicate(APPLY, &params.integer(fence.get()));
            }
            Effect::Answered(..) => {}
        }
    }
}

/// A grant as arguments behind the key: `GRANT fence token lease_ms at_ms [LABEL text]`.
pub fn grant<'a>(params: Params<'a>, holder: &'a Holder, now: &Now) -> Params<'a> {
    let params = params.word(c"GRANT").integer(holder.fence.get());
    let params = lease(params.bytes(holder.token.bytes()), holder, now);
    match &holder.label {
        Some(label) => params.word(c"LABEL").bytes(label.bytes()),
        None => params,
    }
}

fn lease<'a>(params: Params<'a>, holder: &Holder, now: &Now) -> Params<'a> {
    let params = params.integer(holder.left(now.mono).ms());
    params.integer(now.stamp_ms())
}

fn end_word(why: End) -> &'static CStr {
    match why {
        End::Release => c"RELEASE",
        End::Expire => c"EXPIRE",
        End::Break => c"BREAK",
        End::Undelivered => c"UNDELIVERED",
    }
}

fn end_of_word(word: &[u8]) -> Option<End> {
    let all = [End::Release, End::Expire, End::Break, End::Undelivered];
    all.into_iter().find(|why| end_word(*why).to_bytes() == word)
}

/// Reads the arguments of a `FLOCK.APPLY` behind the key; `None` if they are none.
pub fn receive(args: &[Str], flags: Flags, now: &Now) -> Option<Arrival> {
    let (what, args) = args.split_first()?;
    let (fence, args) = args.split_first()?;
    let fence = Fence::new(integer(fence)?)?;
    match (what.bytes(), args) {
        (b"GRANT", [token, lease_ms, at_ms, options @ ..]) => {
            let deadline = deadline(integer(lease_ms)?, integer(at_ms)?, flags, now)?;
            let label = match options {
                [] => None,
                [name, label] if name.bytes() == b"LABEL" => Some(Label::new(label.bytes())?),
                _ => return None,
            };
            let holder = Holder::new(Token::new(token.bytes())?, fence, deadline, label);
            Some(Arrival::Grant(Mode::Exclusive, holder))
        }
        (b"RENEW", [lease_ms, at_ms]) => {
            let deadline = deadline(integer(lease_ms)?, integer(at_ms)?, flags, now)?;
            Some(Arrival::Renewal(fence, deadline))
        }
        (word, []) => Some(Arrival::End(fence, end_of_word(word)?)),
        _ => None,
    }
}

fn integer(arg: &Str) -> Option<u64> {
    std::str::from_utf8(arg.bytes()).ok()?.parse().ok()
}

fn deadline(lease_ms: u64, at_ms: u64, flags: Flags, now: &Now) -> Option<Instant> {
    let lease = Lease::from_ms(lease_ms)?;
    let elapsed = elapsed_micros(at_ms, flags, now);
    Some(lease.minus_micros(elapsed).after(now.mono))
}

/// How much of a lease has passed since it was written down, at `at_ms` by the wall clock.
///
/// A server that reads its own file counts the time it was down. A replica does not: the stamp is
/// another machine's, and a lease must never be shorter there than at the primary. Nor does a
/// RESTORE, which may come from another machine as well.
pub fn elapsed_micros(at_ms: u64, flags: Flags, now: &Now) -> u64 {
    match flags.is_loading() && !flags.is_replica() {
        true => now.wall_us.saturating_sub(at_ms.saturating_mul(1000)),
        false => 0,
    }
}
