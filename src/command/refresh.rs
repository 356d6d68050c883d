//! FLOCK.REFRESH: sets the lease of a hold anew.

use super::errors::{self, reply_if_failed, Error};
use super::parse::{self, Unit};
use super::table::{KEY, LEASE, TOKEN};
use crate::ffi::command::{Access, Command, Keys, Spec};
use crate::ffi::{Ctx, Str};
use crate::server::state;
use crate::server::transition::{self, Origin};

pub struct Refresh;

impl Command for Refresh {
    const SPEC: Spec = Spec {
        name: c"flock.refresh",
        arity: 5,
        flags: c"write fast",
        is_internal: false,
        keys: Keys::One(Access::Update),
        acl: "write fast flock",
        summary: c"Sets the lease of a held lock to exactly this long from now.",
        complexity: c"O(log N) with N locks held.",
        since: c"0.1.0",
        args: &[KEY, TOKEN, LEASE],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        match args {
            [_, key, token, unit, length] => reply_if_failed(ctx, refresh(ctx, key, token, unit, length)),
            _ => ctx.reply_wrong_arity(),
        }
    }
}

fn refresh(ctx: &Ctx, key: &Str, token: &Str, unit: &Str, length: &Str) -> Result<(), Error> {
    let token = parse::token(token)?;
    let unit = Unit::named(unit.bytes()).ok_or(errors::SYNTAX)?;
    let lease = parse::lease(unit, length, errors::REFRESH_EXPIRE_TIME)?;
    let is_held = transition::decide(ctx, key, Origin::Command, |engine, place, lock, now| {
        engine.refresh(place, lock, token, lease, now)
    })?;
    if !is_held {
        state::with(|state| state.metrics.refreshes_refused += 1);
    }
    ctx.reply_integer(is_held.into());
    Ok(())
}
