//! FLOCK.ACQUIRE: takes a lock, or waits for it.

use rand::TryRngCore;

use super::errors::{self, reply_if_failed, Error};
use super::parse::{self, Unit};
use super::table::{KEY, LEASE, TOKEN};
use crate::ffi::command::{Access, Arg, Command, Kind, Spec};
use crate::ffi::{Ctx, Str};
use crate::lock::fence::ABOVE_MAX;
use crate::lock::{Acquired, Instant, Lease, Mode, Place, Request};
use crate::server::waiters::{self, MadeToken};
use crate::server::{clock, state, transition};

pub struct Acquire;

impl Command for Acquire {
    const SPEC: Spec = Spec {
        name: c"flock.acquire",
        syntax: "FLOCK.ACQUIRE key token <PX ms | EX s> [BLOCK ms] [ABOVE fence] [LABEL text]",
        arity: -5,
        flags: c"write deny-oom",
        is_internal: false,
        key: Access::Insert,
        acl: "write flock",
        summary: c"Takes a lock and returns its fence, or nil while another token holds it.",
        complexity: c"O(1) without waiters, O(log N) with N locks held or clients waiting.",
        since: c"0.1.0",
        args: &[
            KEY,
            TOKEN,
            LEASE,
            Arg {
                name: c"milliseconds",
                kind: Kind::Integer,
                token: Some(c"BLOCK"),
                is_optional: true,
            },
            Arg {
                name: c"fence",
                kind: Kind::Integer,
                token: Some(c"ABOVE"),
                is_optional: true,
            },
            Arg {
                name: c"text",
                kind: Kind::String,
                token: Some(c"LABEL"),
                is_optional: true,
            },
        ],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        match args {
            [_, key, token, _, _, ..] => reply_if_failed(ctx, acquire(ctx, key, token, &args[3..])),
            _ => ctx.reply_wrong_arity(),
        }
    }
}

/// A token to be made by the server.
const MAKE_TOKEN: &[u8] = b"*";
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// How long to wait for a busy lock, in milliseconds; 0 for ever.
#[derive(Clone, Copy)]
struct Block(u64);

#[derive(Default)]
struct Options<'a> {
    lease: Option<Lease>,
    block: Option<Block>,
    above: Option<u64>,
    label: Option<&'a [u8]>,
}

fn acquire(ctx: &Ctx, key: &Str, token: &Str, options: &[Str]) -> Result<(), Error> {
    let token = parse::token(token)?;
    let options = Options::parse(options)?;
    let made_token = match token {
        MAKE_TOKEN => Some(make_token()?),
        _ => None,
    };
    let request = Request {
        token: made_token.as_ref().map_or(token, |made| &made[..]),
        lease: options.lease.ok_or(errors::SYNTAX)?,
        above: options.above.unwrap_or(0),
        label: options.label,
        mode: Mode::Exclusive,
    };
    let acquired = transition::decide(ctx, key, |engine, place, lock, now| {
        engine.acquire(place, lock, &request, now)
    })?;
    if let Acquired::Held(fence) = acquired {
        waiters::reply_fence(ctx, fence, made_token.as_ref());
        return Ok(());
    }
    let block = options.block.filter(|_| !ctx.flags().blocking_is_denied());
    let waits = match block {
        Some(block) => wait(ctx, key, &request, made_token, block)?,
        None => false,
    };
    if !waits {
        state::with(|state| state.metrics.refused_busy += 1);
        ctx.reply_null();
    }
    Ok(())
}

/// Whether the client waits now. If so, its reply comes later.
fn wait(
    ctx: &Ctx,
    key: &Str,
    request: &Request,
    made: Option<MadeToken>,
    block: Block,
) -> Result<bool, Error> {
    let place = Place {
        db: ctx.db(),
        key: key.bytes(),
    };
    let has_room = state::with(|state| {
        let has_room = state.engine.may_wait(place, request.token, state.settings.limits);
        state.metrics.refused_queue_full += u64::from(!has_room);
        has_room
    });
    if !has_room {
        return Err(errors::QUEUE_FULL);
    }
    let now = clock::monotonic();
    Ok(waiters::wait(ctx, place, request, made, block.until(now), now))
}

impl Block {
    /// When the wait ends that begins now; `None` if it has no end.
    fn until(self, now: Instant) -> Option<Instant> {
        let Block(ms) = self;
        (ms > 0).then(|| Instant(now.0.saturating_add(ms.saturating_mul(1000))))
    }
}

impl<'a> Options<'a> {
    fn parse(args: &'a [Str]) -> Result<Options<'a>, Error> {
        let mut options = Options::default();
        for pair in args.chunks(2) {
            let [name, value] = pair else {
                return Err(errors::SYNTAX);
            };
            let name = name.bytes();
            if let Some(unit) = Unit::named(name) {
                set_once(
                    &mut options.lease,
                    parse::lease(unit, value, errors::ACQUIRE_EXPIRE_TIME),
                )?;
            } else if name.eq_ignore_ascii_case(b"BLOCK") {
                set_once(&mut options.block, block(value.bytes()))?;
            } else if name.eq_ignore_ascii_case(b"ABOVE") {
                set_once(&mut options.above, above(value.bytes()))?;
            } else if name.eq_ignore_ascii_case(b"LABEL") {
                set_once(&mut options.label, label(value.bytes()))?;
            } else {
                return Err(errors::SYNTAX);
            }
        }
        Ok(options)
    }
}

/// Each option may be given once.
fn set_once<T>(option: &mut Option<T>, value: Result<T, Error>) -> Result<(), Error> {
    if option.is_some() {
        return Err(errors::SYNTAX);
    }
    *option = Some(value?);
    Ok(())
}

fn block(value: &[u8]) -> Result<Block, Error> {
    let ms = parse::integer(value).ok_or(errors::TIMEOUT_NOT_AN_INTEGER)?;
    let ms = u64::try_from(ms).map_err(|_| errors::TIMEOUT_NEGATIVE)?;
    // A wait is bounded as a lease is, so that its end fits the clock.
    Lease::from_ms(ms)
        .map(|_| Block(ms))
        .ok_or(errors::TIMEOUT_NOT_AN_INTEGER)
}

fn above(value: &[u8]) -> Result<u64, Error> {
    let number = parse::integer(value).ok_or(errors::NOT_AN_INTEGER)?;
    let above = u64::try_from(number).map_err(|_| errors::ABOVE_RANGE)?;
    match above <= ABOVE_MAX {
        true => Ok(above),
        false => Err(errors::ABOVE_RANGE),
    }
}

fn label(value: &[u8]) -> Result<&[u8], Error> {
    match value.len() <= crate::lock::holder::LABEL_MAX {
        true => Ok(value),
        false => Err(errors::LABEL_LENGTH),
    }
}

/// 130 random bits of the operating system's as 26 characters.
fn make_token() -> Result<MadeToken, Error> {
    let mut token = MadeToken::default();
    rand::rngs::OsRng
        .try_fill_bytes(&mut token)
        .map_err(|_| errors::NO_RANDOMNESS)?;
    Ok(token.map(|byte| BASE32[usize::from(byte % 32)]))
}
