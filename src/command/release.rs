//! FLOCK.RELEASE: ends a hold; the next in the queue is granted in the same step.

use super::errors::{reply_if_failed, Error};
use super::parse;
use super::table::{KEY, TOKEN};
use crate::ffi::command::{Access, Command, Keys, Spec};
use crate::ffi::{Ctx, Str};
use crate::server::state;
use crate::server::transition::{self, Origin};

pub struct Release;

impl Command for Release {
    const SPEC: Spec = Spec {
        name: c"flock.release",
        arity: 3,
        flags: c"write fast",
        is_internal: false,
        keys: Keys::One(Access::Delete),
        acl: "write fast flock",
        summary: c"Ends the hold of a token, and hands the lock to the next in the queue.",
        complexity: c"O(log N) with N locks held, however many wait.",
        since: c"0.1.0",
        args: &[KEY, TOKEN],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        match args {
            [_, key, token] => reply_if_failed(ctx, release(ctx, key, token)),
            _ => ctx.reply_wrong_arity(),
        }
    }
}

fn release(ctx: &Ctx, key: &Str, token: &Str) -> Result<(), Error> {
    let token = parse::token(token)?;
    let was_held = transition::decide(ctx, key, Origin::Command, |engine, place, lock, now| {
        engine.release(place, lock, token, now)
    })?;
    if !was_held {
        state::with(|state| state.metrics.releases_refused += 1);
    }
    ctx.reply_integer(was_held.into());
    Ok(())
}
