//! FLOCK.APPLY and FLOCK.FENCE: what a primary decided, as its replicas and AOF files carry it.
//! No client may send them. docs/FORMATS.md lists their forms.

use super::errors::{self, reply_if_failed, Error};
use crate::ffi::command::{Access, Command, Keys, Spec};
use crate::ffi::context::{log, Level};
use crate::ffi::{Ctx, Str};
use crate::lock::{Effect, Fence};
use crate::server::propagation::{self, Arrival};
use crate::server::{clock, state, transition};

pub struct Apply;

impl Command for Apply {
    const SPEC: Spec = Spec {
        name: c"flock.apply",
        arity: -4,
        flags: c"write deny-script",
        is_internal: true,
        keys: Keys::One(Access::Insert),
        acl: "write dangerous",
        summary: c"Internal: applies a transition that a primary has made.",
        complexity: c"O(log N) with N locks held.",
        since: c"0.1.0",
        args: &[],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        match args {
            [_, key, _, _, ..] => reply_if_failed(ctx, apply(ctx, key, &args[2..])),
            _ => ctx.reply_wrong_arity(),
        }
    }
}

fn apply(ctx: &Ctx, key: &Str, args: &[Str]) -> Result<(), Error> {
    let flags = ctx.flags();
    if !flags.is_replayed() {
        return Err(errors::APPLY_IS_INTERNAL);
    }
    let arrival = propagation::receive(args, flags, &clock::now()).ok_or_else(unknown_effect)?;
    let effect: Effect<()> = match &arrival {
        Arrival::Grant(_, holder) => Effect::Granted(holder.fence),
        Arrival::Renewal(fence, _) => Effect::Renewed(*fence),
        Arrival::End(fence, why) => Effect::Ended(*fence, *why),
        Arrival::Close(fence, _) => Effect::Closed(*fence),
        Arrival::Open(fence) => Effect::Opened(*fence),
    };
    let has_changed = transition::follow(ctx, key, |engine, place, lock, now| {
        let has_changed = match arrival {
            Arrival::Grant(mode, holder) => {
                engine.apply_grant(place, lock, mode, holder);
                true
            }
            Arrival::Renewal(fence, renewal) => engine.apply_renewal(place, lock, fence, renewal),
            Arrival::End(fence, _) => engine.apply_end(place, lock, fence),
            Arrival::Close(fence, until) => engine.apply_closure(place, lock, fence, Some(until)),
            Arrival::Open(fence) => engine.apply_closure(place, lock, fence, None),
        };
        if has_changed {
            // Written anew for the AOF file of a replica: when that is read, what has passed since
            // must be told by this machine's clock, not by the primary's. Replicas of the replica
            // get the primary's own words from the server.
            propagation::send(ctx, key, lock, std::slice::from_ref(&effect), now);
        }
        has_changed
    })?;
    if !has_changed {
        ctx.replicate_verbatim();
    }
    if has_changed && !flags.is_loading() && state::with(|state| state.settings.notify) {
        transition::notify_of(ctx, key, &effect);
    }
    ctx.reply_integer(1);
    Ok(())
}

/// Nobody reads the reply to a primary or an AOF file, so the log says it too.
fn unknown_effect() -> Error {
    log(
        Level::Warning,
        "an effect from a primary or an AOF file was skipped: not one that this version of flock knows; upgrade the module",
    );
    errors::NOT_AN_EFFECT
}

pub struct FenceRegister;

impl Command for FenceRegister {
    const SPEC: Spec = Spec {
        name: c"flock.fence",
        arity: 2,
        flags: c"write deny-script",
        is_internal: true,
        keys: Keys::None,
        acl: "write dangerous",
        summary: c"Internal: the last fence of the server that wrote an AOF file.",
        complexity: c"O(1)",
        since: c"0.1.0",
        args: &[],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        match args {
            [_, fence] => reply_if_failed(ctx, observe(ctx, fence)),
            _ => ctx.reply_wrong_arity(),
        }
    }
}

fn observe(ctx: &Ctx, fence: &Str) -> Result<(), Error> {
    if !ctx.flags().is_replayed() {
        return Err(errors::FENCE_IS_INTERNAL);
    }
    let number = super::parse::integer(fence.bytes()).and_then(|n| u64::try_from(n).ok());
    let fence = number.and_then(Fence::new).ok_or_else(unknown_effect)?;
    state::with(|state| state.engine.fences.observe(fence));
    ctx.replicate_verbatim();
    ctx.reply_integer(1);
    Ok(())
}
