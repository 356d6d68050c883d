//! FLOCK.MACQUIRE, FLOCK.MREFRESH and FLOCK.MRELEASE: many locks at once, all or none.

use std::collections::HashSet;

use super::acquire::{answer, make_token_if_asked};
use super::errors::{self, reply_if_failed, Error};
use super::options::Options;
use super::parse::{self, Unit};
use super::table::{ABOVE, BLOCK, KEYS, LABEL, LEASE, NUMKEYS, TOKEN};
use crate::ffi::command::{Access, Command, Keys, Spec};
use crate::ffi::{Ctx, Str};
use crate::lock::{Lease, Mode, Place, Request};
use crate::server::transition::Origin;
use crate::server::{many, state};

/// How many locks one command may name.
const LOCKS_MAX: usize = 1024;

pub struct AcquireMany;

impl Command for AcquireMany {
    const SPEC: Spec = Spec {
        name: c"flock.macquire",
        arity: -6,
        flags: c"write deny-oom getkeys-api",
        is_internal: false,
        keys: Keys::Counted(Access::Insert),
        acl: "write slow blocking flock",
        summary: c"Takes many locks under one fence, all or none, and waits holding none of them.",
        complexity: c"O(K log N) with K locks named and N locks held or clients waiting.",
        since: c"0.1.0",
        args: &[NUMKEYS, KEYS, TOKEN, LEASE, BLOCK, ABOVE, LABEL],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        reply_if_failed(ctx, acquire(ctx, args));
    }
}

fn acquire(ctx: &Ctx, args: &[Str]) -> Result<(), Error> {
    let (keys, args) = keys(args)?;
    let [token, options @ ..] = args else {
        return Err(errors::SYNTAX);
    };
    let token = parse::token(token)?;
    let options = Options::parse(options, errors::MACQUIRE_EXPIRE_TIME)?;
    if options.is_for_one_lock() {
        return Err(errors::SYNTAX);
    }
    let lease = options.lease()?;
    let made_token = make_token_if_asked(token)?;
    let request = Request {
        token: made_token.as_ref().map_or(token, |made| &made[..]),
        lease,
        above: options.above.unwrap_or(0),
        label: options.label,
        mode: Mode::Exclusive,
        reentrant: false,
        delay: Lease::ZERO,
        session: None,
    };
    let acquired = many::decide(ctx, &keys, Origin::Command, |engine, members, now| {
        engine.acquire_many(members, &request, now)
    })?;
    let db = ctx.db();
    let places: Vec<_> = keys.iter().map(|key| Place { db, key: key.bytes() }).collect();
    answer(ctx, acquired, &places, &request, made_token, options.block)
}

pub struct RefreshMany;

impl Command for RefreshMany {
    const SPEC: Spec = Spec {
        name: c"flock.mrefresh",
        arity: -6,
        flags: c"write getkeys-api",
        is_internal: false,
        keys: Keys::Counted(Access::Update),
        acl: "write slow flock",
        summary: c"Sets the leases of many locks if the token holds all of them; returns how many it holds.",
        complexity: c"O(K log N) with K locks named and N locks held.",
        since: c"0.1.0",
        args: &[NUMKEYS, KEYS, TOKEN, LEASE],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        reply_if_failed(ctx, refresh(ctx, args));
    }
}

fn refresh(ctx: &Ctx, args: &[Str]) -> Result<(), Error> {
    let (keys, args) = keys(args)?;
    let [token, unit, length] = args else {
        return Err(errors::SYNTAX);
    };
    let token = parse::token(token)?;
    let unit = Unit::named(unit.bytes()).ok_or(errors::SYNTAX)?;
    let lease = parse::lease(unit, length, errors::MREFRESH_EXPIRE_TIME)?;
    let held = many::decide(ctx, &keys, Origin::Command, |engine, members, now| {
        engine.refresh_many(members, token, lease, now)
    })?;
    if held < keys.len() {
        state::with(|state| state.metrics.refreshes_refused += 1);
    }
    ctx.reply_integer(held as u64);
    Ok(())
}

pub struct ReleaseMany;

impl Command for ReleaseMany {
    const SPEC: Spec = Spec {
        name: c"flock.mrelease",
        arity: -4,
        flags: c"write getkeys-api",
        is_internal: false,
        keys: Keys::Counted(Access::Delete),
        acl: "write slow flock",
        summary: c"Ends the holds of a token on many locks; returns how many it held.",
        complexity: c"O(K log N) with K locks named and N locks held, however many wait.",
        since: c"0.1.0",
        args: &[NUMKEYS, KEYS, TOKEN],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        reply_if_failed(ctx, release(ctx, args));
    }
}

fn release(ctx: &Ctx, args: &[Str]) -> Result<(), Error> {
    let (keys, args) = keys(args)?;
    let [token] = args else {
        return Err(errors::SYNTAX);
    };
    let token = parse::token(token)?;
    let held = many::decide(ctx, &keys, Origin::Command, |engine, members, now| {
        engine.release_many(members, token, now)
    })?;
    if held < keys.len() {
        state::with(|state| state.metrics.releases_refused += 1);
    }
    ctx.reply_integer(held as u64);
    Ok(())
}

/// The keys of `command numkeys key [key ...] …`, and the arguments behind them.
fn keys(args: &[Str]) -> Result<(Vec<&Str>, &[Str]), Error> {
    let [_, numkeys, rest @ ..] = args else {
        return Err(errors::SYNTAX);
    };
    let numkeys = parse::integer(numkeys.bytes()).and_then(|n| usize::try_from(n).ok());
    let numkeys = numkeys.filter(|n| *n > 0).ok_or(errors::NUMKEYS_RANGE)?;
    let (keys, args) = rest
        .split_at_checked(numkeys)
        .ok_or(errors::NUMKEYS_BEYOND_ARGS)?;
    if numkeys > LOCKS_MAX {
        return Err(errors::TOO_MANY_LOCKS);
    }
    let names: HashSet<_> = keys.iter().map(Str::bytes).collect();
    match names.len() == numkeys {
        true => Ok((keys.iter().collect(), args)),
        false => Err(errors::LOCK_NAMED_TWICE),
    }
}
