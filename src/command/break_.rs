//! FLOCK.BREAK: ends every hold of a lock, for operators.

use super::errors::{reply_if_failed, Error};
use super::table::KEY;
use crate::ffi::command::{Access, Command, Keys, Spec};
use crate::ffi::{Ctx, Str};
use crate::server::transition::{self, Origin};

pub struct Break;

impl Command for Break {
    const SPEC: Spec = Spec {
        name: c"flock.break",
        arity: 2,
        flags: c"write admin",
        is_internal: false,
        keys: Keys::One(Access::Delete),
        acl: "write slow admin dangerous flock",
        summary: c"Ends every hold of a lock, whoever has it; the queue moves on.",
        complexity: c"O(N) with N holders.",
        since: c"0.1.0",
        args: &[KEY],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        match args {
            [_, key] => reply_if_failed(ctx, break_lock(ctx, key)),
            _ => ctx.reply_wrong_arity(),
        }
    }
}

fn break_lock(ctx: &Ctx, key: &Str) -> Result<(), Error> {
    let broken = transition::decide(ctx, key, Origin::Command, |engine, place, lock, now| {
        engine.break_all(place, lock, now)
    })?;
    ctx.reply_integer(broken);
    Ok(())
}
