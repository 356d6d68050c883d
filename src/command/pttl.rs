//! FLOCK.PTTL: what is left of a lease.

use super::errors::{reply_if_failed, Error};
use super::parse;
use super::table::KEY;
use crate::ffi::command::{Access, Arg, Command, Keys, Kind, Spec};
use crate::ffi::{Ctx, Str};
use crate::lock::Holder;
use crate::server::{clock, transition};

pub struct Pttl;

impl Command for Pttl {
    const SPEC: Spec = Spec {
        name: c"flock.pttl",
        arity: -2,
        flags: c"readonly fast",
        is_internal: false,
        keys: Keys::One(Access::Read),
        acl: "read fast flock",
        summary: c"Returns the milliseconds left of a hold, or -2 if there is none.",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[KEY, Arg::new(c"token", Kind::String).optional()],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        match args {
            [_, key] => reply_if_failed(ctx, pttl(ctx, key, None)),
            [_, key, token] => reply_if_failed(ctx, pttl(ctx, key, Some(token))),
            _ => ctx.reply_wrong_arity(),
        }
    }
}

const NOT_HELD: i64 = -2;

fn pttl(ctx: &Ctx, key: &Str, token: Option<&Str>) -> Result<(), Error> {
    let token = token.map(parse::token).transpose()?;
    let now = clock::monotonic();
    let left_us = transition::look(ctx, key, |lock, _| {
        let holders = lock.into_iter().flat_map(|lock| lock.live_holders(now));
        let is_asked = |holder: &&Holder| token.is_none_or(|token| holder.token.bytes() == token);
        holders
            .filter(is_asked)
            .map(|holder| holder.left(now).micros())
            .max()
    })?;
    // Rounded down: whoever goes by it never counts on more than there is.
    ctx.reply_signed(left_us.map_or(NOT_HELD, |us| (us / 1000) as i64));
    Ok(())
}
