//! The effects as replicas and AOF files see them: commands that only the server itself may send.
//! docs/FORMATS.md lists them.
//!
//! Durations travel, never instants: `lease_ms` is what was left of the lease at `at_ms`, by the
//! wall clock. A replica counts from its receipt, an AOF file from `at_ms`.

use std::ffi::CStr;

use crate::ffi::context::Flags;
use crate::ffi::params::Params;
use crate::ffi::{Ctx, Str};
use crate::lock::{
    Closure, Effect, End, Fence, Holder, Instant, Label, Lease, Lock, Mode, Now, Renewal, Terms, Token,
};

/// One transition of one lock: `FLOCK.APPLY key GRANT …`, `RENEW …`, an end and its reason, `CLOSE …`
/// or `OPEN …`.
pub const APPLY: &CStr = c"FLOCK.APPLY";
/// The fence register, for an AOF file: `FLOCK.FENCE n`.
pub const FENCE: &CStr = c"FLOCK.FENCE";

/// A transition as it arrives.
pub enum Arrival {
    Grant(Mode, Holder),
    Renewal(Fence, Renewal),
    End(Fence, End),
    /// The lock is closed until then.
    Close(Fence, Instant),
    Open(Fence),
}

/// Sends the transitions of a lock to replicas and the AOF file. A hold, or a closure, is sent as
/// the lock has it now.
pub fn send<C>(ctx: &Ctx, key: &Str, lock: &Lock, effects: &[Effect<C>], now: &Now) {
    for effect in effects {
        let params = Params::new().string(key);
        let params = match *effect {
            Effect::Granted(fence) => lock
                .holder_of_fence(fence)
                .map(|holder| grant(params, lock.mode(), holder, now)),
            Effect::Renewed(fence) => lock
                .holder_of_fence(fence)
                .map(|holder| renewal(params, holder, now)),
            Effect::Ended(fence, why) => Some(params.word(end_word(why)).integer(fence.get())),
            Effect::Closed(fence) => lock
                .closure()
                .filter(|closure| closure.fence == fence)
                .map(|closure| close(params, closure, now)),
            Effect::Opened(fence) => Some(params.word(c"OPEN").integer(fence.get())),
            Effect::Answered(..) => None,
        };
        if let Some(params) = params {
            ctx.replicate(APPLY, &params);
        }
    }
}

/// A grant as arguments behind the key:
/// `GRANT fence token lease_ms at_ms [SHARED | PERMITS n] [HOLDS n] [DELAY ms] [LABEL text]`.
pub fn grant<'a>(params: Params<'a>, mode: Mode, holder: &'a Holder, now: &Now) -> Params<'a> {
    let params = params.word(c"GRANT").integer(holder.fence.get());
    let params = left(params.bytes(holder.token.bytes()), holder.left(now.mono), now);
    let params = match mode {
        Mode::Exclusive => params,
        Mode::Shared => params.word(c"SHARED"),
        Mode::Permits(n) => params.word(c"PERMITS").integer(n.into()),
    };
    let params = holds_and_delay(params, holder);
    match holder.label() {
        Some(label) => params.word(c"LABEL").bytes(label.bytes()),
        None => params,
    }
}

/// `RENEW fence lease_ms at_ms [HOLDS n] [DELAY ms]`.
fn renewal<'a>(params: Params<'a>, holder: &Holder, now: &Now) -> Params<'a> {
    let params = params.word(c"RENEW").integer(holder.fence.get());
    holds_and_delay(left(params, holder.left(now.mono), now), holder)
}

/// A closure as arguments behind the key: `CLOSE fence delay_ms at_ms`.
pub fn close<'a>(params: Params<'a>, closure: &Closure, now: &Now) -> Params<'a> {
    let params = params.word(c"CLOSE").integer(closure.fence.get());
    left(params, closure.left(now.mono), now)
}

fn left<'a>(params: Params<'a>, left: Lease, now: &Now) -> Params<'a> {
    params.integer(left.ms()).integer(now.stamp_ms())
}

fn holds_and_delay<'a>(mut params: Params<'a>, holder: &Holder) -> Params<'a> {
    if holder.holds() != 1 {
        params = params.word(c"HOLDS").integer(holder.holds().into());
    }
    if holder.delay() > Lease::ZERO {
        params = params.word(c"DELAY").integer(holder.delay().ms());
    }
    params
}

fn end_word(why: End) -> &'static CStr {
    match why {
        End::Release => c"RELEASE",
        End::Expire => c"EXPIRE",
        End::Break => c"BREAK",
        End::Session => c"SESSION",
        End::Undelivered => c"UNDELIVERED",
    }
}

fn end_of_word(word: &[u8]) -> Option<End> {
    let all = [
        End::Release,
        End::Expire,
        End::Break,
        End::Session,
        End::Undelivered,
    ];
    all.into_iter().find(|why| end_word(*why).to_bytes() == word)
}

/// Reads the arguments of a `FLOCK.APPLY` behind the key; `None` if they are none.
pub fn receive(args: &[Str], flags: Flags, now: &Now) -> Option<Arrival> {
    let (what, args) = args.split_first()?;
    let (fence, args) = args.split_first()?;
    let fence = Fence::new(integer(fence)?)?;
    match (what.bytes(), args) {
        (b"GRANT", [token, lease_ms, at_ms, options @ ..]) => {
            let mut terms = Terms::default();
            let mode = receive_terms(options, &mut terms)?;
            let deadline = deadline(lease_ms, at_ms, &mut terms.delay, flags, now)?;
            let holder = Holder::new(Token::new(token.bytes())?, fence, deadline, terms);
            Some(Arrival::Grant(mode, holder))
        }
        (b"RENEW", [lease_ms, at_ms, options @ ..]) => {
            let mut terms = Terms::default();
            receive_terms(options, &mut terms)?;
            let renewal = Renewal {
                deadline: deadline(lease_ms, at_ms, &mut terms.delay, flags, now)?,
                holds: terms.holds,
                delay: terms.delay,
            };
            Some(Arrival::Renewal(fence, renewal))
        }
        (b"CLOSE", [delay_ms, at_ms]) => {
            let mut nothing_behind = Lease::ZERO;
            let until = deadline(delay_ms, at_ms, &mut nothing_behind, flags, now)?;
            Some(Arrival::Close(fence, until))
        }
        (b"OPEN", []) => Some(Arrival::Open(fence)),
        (word, []) => Some(Arrival::End(fence, end_of_word(word)?)),
        _ => None,
    }
}

/// When what was left of a lease at that time ends. Time that passed beyond its end is taken off the
/// delay behind it.
fn deadline(left_ms: &Str, at_ms: &Str, delay: &mut Lease, flags: Flags, now: &Now) -> Option<Instant> {
    let left = Lease::from_ms(integer(left_ms)?)?;
    let elapsed = elapsed_micros(integer(at_ms)?, flags, now);
    let (left, rest) = left.and_delay_minus_micros(*delay, elapsed);
    *delay = rest;
    Some(left.after(now.mono))
}

/// Reads the optional arguments of a grant or a renewal.
fn receive_terms(mut options: &[Str], terms: &mut Terms) -> Option<Mode> {
    let mut mode = Mode::Exclusive;
    while let [name, rest @ ..] = options {
        options = rest;
        if name.bytes() == b"SHARED" {
            mode = Mode::Shared;
            continue;
        }
        let [value, rest @ ..] = options else {
            return None;
        };
        options = rest;
        match name.bytes() {
            b"PERMITS" => mode = Mode::Permits(count(value)?),
            b"HOLDS" => terms.holds = count(value)?,
            b"DELAY" => terms.delay = Lease::from_ms(integer(value)?)?,
            b"LABEL" => terms.label = Some(Label::new(value.bytes())?),
            _ => return None,
        }
    }
    Some(mode)
}

fn count(arg: &Str) -> Option<u32> {
    let count = u32::try_from(integer(arg)?).ok()?;
    (count > 0).then_some(count)
}

fn integer(arg: &Str) -> Option<u64> {
    std::str::from_utf8(arg.bytes()).ok()?.parse().ok()
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
