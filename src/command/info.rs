//! FLOCK.INFO: who holds a lock and who waits for it.

use super::errors::{reply_if_failed, Error};
use super::table::KEY;
use crate::ffi::command::{Access, Command, Keys, Spec};
use crate::ffi::{Ctx, Str};
use crate::lock::{Holder, Instant, Label, Lock, Place};
use crate::server::{clock, state, transition};

pub struct Info;

impl Command for Info {
    const SPEC: Spec = Spec {
        name: c"flock.info",
        arity: 2,
        flags: c"readonly",
        is_internal: false,
        keys: Keys::One(Access::Read),
        acl: "read slow flock",
        summary: c"Describes a lock: its holders, and the clients that wait for it.",
        complexity: c"O(N) with N holders and the first 100 waiters.",
        since: c"0.1.0",
        args: &[KEY],
    };

    fn run(ctx: &Ctx, args: &[Str]) {
        match args {
            [_, key] => reply_if_failed(ctx, info(ctx, key)),
            _ => ctx.reply_wrong_arity(),
        }
    }
}

/// How many waiters are described.
const QUEUE_SHOWN: usize = 100;

fn info(ctx: &Ctx, key: &Str) -> Result<(), Error> {
    let now = clock::monotonic();
    transition::look(ctx, key, |lock, place| match lock {
        Some(lock) => describe(ctx, lock, place, now),
        None => describe(ctx, &Lock::vacant(), place, now),
    })?;
    Ok(())
}

/// Null for a lock that is free, unless somebody waits: it may be promised to a waiter for many locks.
fn describe(ctx: &Ctx, lock: &Lock, place: Place, now: Instant) {
    let closure = lock.live_closure(now);
    let of_holders = lock.live_holders(now).map(|holder| holder.fence).max();
    let newest = of_holders.max(closure.as_ref().map(|closure| closure.fence));
    let waiters = state::with(|state| state.engine.queues().len(place));
    if newest.is_none() && waiters == 0 {
        return ctx.reply_null();
    }
    ctx.reply_map(7);
    name(ctx, "mode");
    ctx.reply_bytes(lock.mode().name().as_bytes());
    name(ctx, "permits");
    ctx.reply_integer(lock.mode().permits().into());
    name(ctx, "fence");
    ctx.reply_integer(newest.map_or(0, |fence| fence.get()));
    name(ctx, "delay_ms");
    ctx.reply_integer(closure.map_or(0, |closure| closure.left(now).ms()));
    name(ctx, "holders");
    ctx.reply_array(lock.live_holders(now).count());
    lock.live_holders(now)
        .for_each(|holder| describe_holder(ctx, holder, now));
    name(ctx, "waiters");
    describe_queue(ctx, place, now);
}

fn describe_holder(ctx: &Ctx, holder: &Holder, now: Instant) {
    ctx.reply_map(5);
    name(ctx, "fence");
    ctx.reply_integer(holder.fence.get());
    name(ctx, "ttl_ms");
    ctx.reply_integer(holder.left(now).micros() / 1000);
    name(ctx, "holds");
    ctx.reply_integer(holder.holds().into());
    label(ctx, holder.label());
    name(ctx, "session");
    // A connection that closed while this server was a replica can end nothing any more.
    let is_bound = holder.session().is_some_and(|session| ctx.has_client(session.0));
    ctx.reply_bool(is_bound);
}

/// The number of waiters, and the first of them.
fn describe_queue(ctx: &Ctx, place: Place, now: Instant) {
    state::with(|state| {
        let queues = state.engine.queues();
        let waiters = queues.len(place);
        ctx.reply_integer(waiters as u64);
        name(ctx, "queue");
        ctx.reply_array(waiters.min(QUEUE_SHOWN));
        for (_, waiter) in queues.iter(place).take(QUEUE_SHOWN) {
            ctx.reply_map(3);
            label(ctx, waiter.terms.label.as_ref());
            name(ctx, "mode");
            ctx.reply_bytes(waiter.mode.name().as_bytes());
            name(ctx, "waited_ms");
            ctx.reply_integer(now.micros_after(waiter.since) / 1000);
        }
    });
}

fn label(ctx: &Ctx, label: Option<&Label>) {
    name(ctx, "label");
    ctx.reply_bytes(label.map_or(b"", |label| label.bytes()));
}

fn name(ctx: &Ctx, name: &str) {
    ctx.reply_bytes(name.as_bytes());
}
