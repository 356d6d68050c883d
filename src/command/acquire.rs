//! FLOCK.ACQUIRE: takes a lock, or waits for it.

use rand::TryRngCore;

use super::errors::{self, reply_if_failed, Error};
use super::options::{Block, Options};
use super::parse;
use super::table::{ABOVE, BLOCK, KEY, LABEL, LEASE, TOKEN};
use crate::ffi::command::{Access, Arg, Command, Keys, Kind, Spec};
use crate::ffi::{Ctx, Str};
use crate::lock::{Acquired, Lease, Place, Request, Session};
use crate::server::transition::{self, Origin};
use crate::server::waiters::{self, MadeToken};
use crate::server::{clock, state};

pub struct Acquire;

impl Command for Acquire {
    const SPEC: Spec = Spec {
        name: c"flock.acquire",
        arity: -5,
        flags: c"write deny-oom",
        is_internal: false,
        keys: Keys::One(Access::Insert),
        acl: "write slow blocking flock",
        summary: c"Takes a lock and returns its fence, or nil while another token holds it.",
        complexity: c"O(H) with H holders of this lock, and O(log N) with N locks held or clients waiting.",
        since: c"0.1.0",
        args: &[
            KEY,
            TOKEN,
            LEASE,
            BLOCK,
            Arg::new(
                c"mode",
                Kind::OneOf(&[
                    Arg::new(c"shared", Kind::Word).after(c"SHARED"),
                    Arg::new(c"n", Kind::Integer).after(c"PERMITS"),
                ]),
            )
            .optional(),
            Arg::new(c"reentrant", Kind::Word).after(c"REENTRANT").optional(),
            ABOVE,
            LABEL,
            Arg::new(c"milliseconds", Kind::Integer)
                .after(c"DELAY")
                .optional(),
            Arg::new(c"session", Kind::Word).after(c"SESSION").optional(),
        ],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        match args {
            [_, key, token, _, _, ..] => reply_if_failed(ctx, acquire(ctx, key, token, &args[3..])),
            _ => ctx.reply_wrong_arity(),
        }
    }
}

fn acquire(ctx: &Ctx, key: &Str, token: &Str, options: &[Str]) -> Result<(), Error> {
    let token = parse::token(token)?;
    let options = Options::parse(options, errors::ACQUIRE_EXPIRE_TIME)?;
    let lease = options.lease()?;
    let session = match options.has_session() {
        true => Some(session(ctx)?),
        false => None,
    };
    let made_token = make_token_if_asked(token)?;
    let request = Request {
        token: made_token.as_ref().map_or(token, |made| &made[..]),
        lease,
        above: options.above.unwrap_or(0),
        label: options.label,
        mode: options.mode.unwrap_or_default(),
        reentrant: options.is_reentrant(),
        delay: options.delay.unwrap_or(Lease::ZERO),
        session,
    };
    let acquired = transition::decide(ctx, key, Origin::Command, |engine, place, lock, now| {
        engine.acquire(place, lock, &request, now)
    })?;
    let place = Place {
        db: ctx.db(),
        key: key.bytes(),
    };
    answer(ctx, acquired, &[place], &request, made_token, options.block)
}

/// The connection of this command's client. A script, or a command inside another, has none, whatever
/// the client's number there seems to say.
fn session(ctx: &Ctx) -> Result<Session, Error> {
    let client = ctx.client_id();
    let is_inside = ctx.flags().is_inside_a_command() || state::with(|state| state.is_guarding);
    match !is_inside && ctx.has_client(client) {
        true => Ok(Session(client)),
        false => Err(errors::NO_SESSION),
    }
}

/// Replies, or has the client wait, if the locks are busy and it may.
pub fn answer(
    ctx: &Ctx,
    acquired: Acquired,
    places: &[Place],
    request: &Request,
    made: Option<MadeToken>,
    block: Option<Block>,
) -> Result<(), Error> {
    match acquired {
        Acquired::Held(fence) => {
            waiters::reply_fence(ctx, fence, made.as_ref());
            return Ok(());
        }
        Acquired::Conflict(conflict) => return Err(conflict.into()),
        Acquired::Busy => {}
    }
    let block = block.filter(|_| !ctx.flags().blocking_is_denied());
    let waits = match block {
        Some(block) => wait(ctx, places, request, made, block)?,
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
    places: &[Place],
    request: &Request,
    made: Option<MadeToken>,
    block: Block,
) -> Result<bool, Error> {
    let has_room = state::with(|state| {
        let has_room = state
            .engine
            .may_wait(places, request.token, state.settings.limits);
        state.metrics.refused_queue_full += u64::from(!has_room);
        has_room
    });
    if !has_room {
        return Err(errors::QUEUE_FULL);
    }
    let now = clock::monotonic();
    let until = block.until(now);
    Ok(waiters::wait(ctx, places, request, made, until, now))
}

/// A token to be made by the server.
const MAKE_TOKEN: &[u8] = b"*";
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// 130 random bits of the operating system's as 26 characters, where the client asks for a token.
pub fn make_token_if_asked(token: &[u8]) -> Result<Option<MadeToken>, Error> {
    if token != MAKE_TOKEN {
        return Ok(None);
    }
    let mut made = MadeToken::default();
    rand::rngs::OsRng
        .try_fill_bytes(&mut made)
        .map_err(|_| errors::NO_RANDOMNESS)?;
    Ok(Some(made.map(|byte| BASE32[usize::from(byte % 32)])))
}
