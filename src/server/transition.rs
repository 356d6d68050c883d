//! One change of one lock, from opening its key to telling everybody.

use super::state::{self, State};
use super::{alarm, clock, many, propagation, waiters};
use crate::ffi::key::{Content, Key};
use crate::ffi::{Ctx, Str};
use crate::lock::{Effect, End, Engine, Instant, Lock, Now, Place};

/// Why a lock was not touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key holds something else.
    WrongType,
    /// This server is a replica.
    ReadOnly,
}

type Caller = waiters::Caller;
pub(super) type Effects = Vec<Effect<Caller>>;

/// On whose account a lock changes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client's command, which this server decides about.
    Command,
    /// Time, or an event: decided between commands.
    Sweep,
    /// A primary or an AOF file: decided already.
    Effect,
}

/// What a change left to be done.
struct Changed<R> {
    result: R,
    effects: Effects,
    follow_up: FollowUp,
}

/// What there is to do beside carrying out the effects.
pub(super) struct FollowUp {
    pub is_followed: bool,
    pub notify: bool,
    pub alarm: Option<Instant>,
    pub has_candidates: bool,
}

impl FollowUp {
    pub fn of(state: &State) -> FollowUp {
        FollowUp {
            is_followed: state.followers.may_be_there(),
            notify: state.settings.notify,
            alarm: state.nearer_deadline(),
            has_candidates: state.engine.has_candidates(),
        }
    }
}

/// Lets `step` change the lock of a key, and carries out what follows: replicate, store, announce,
/// answer, in this order. Then waiters for many locks, this one among them, may be next.
pub fn decide<R>(
    ctx: &Ctx,
    key: &Str,
    origin: Origin,
    step: impl FnOnce(&mut Engine<Caller>, Place, &mut Lock, &Now) -> R,
) -> Result<R, Refusal> {
    let changed = change(ctx, key, origin, step)?;
    announce(ctx, key, changed.effects, changed.follow_up.notify);
    if changed.follow_up.has_candidates {
        many::consider_candidates(ctx, origin);
    }
    Ok(changed.result)
}

/// Lets `step` change the lock of a key as a primary or an AOF file says. Nothing follows but
/// that those who watch the key are told.
pub fn follow<R>(
    ctx: &Ctx,
    key: &Str,
    step: impl FnOnce(&mut Engine<Caller>, Place, &mut Lock, &Now) -> R,
) -> Result<R, Refusal> {
    let changed = change(ctx, key, Origin::Effect, step)?;
    ctx.signal_modified(key);
    Ok(changed.result)
}

/// Lets `look` see the lock of a key, or `None` where nobody holds it.
pub fn look<R>(ctx: &Ctx, key: &Str, look: impl FnOnce(Option<&Lock>, Place) -> R) -> Result<R, Refusal> {
    let mut opened = Key::for_reading(ctx, key);
    let lock = match opened.content::<Lock>() {
        Content::Nothing => None,
        Content::Ours(lock) => Some(&*lock),
        Content::Other => return Err(Refusal::WrongType),
    };
    Ok(look(lock, place(ctx, key)))
}

pub(super) fn place<'a>(ctx: &Ctx, key: &'a Str) -> Place<'a> {
    Place {
        db: ctx.db(),
        key: key.bytes(),
    }
}

fn change<R>(
    ctx: &Ctx,
    key: &Str,
    origin: Origin,
    step: impl FnOnce(&mut Engine<Caller>, Place, &mut Lock, &Now) -> R,
) -> Result<Changed<R>, Refusal> {
    let mut opened = Key::for_writing(ctx, key);
    let mut fresh = Lock::vacant();
    let (lock, is_stored) = match opened.content::<Lock>() {
        Content::Nothing => (&mut fresh, false),
        Content::Ours(lock) => (lock, true),
        Content::Other => return Err(Refusal::WrongType),
    };
    let now = clock::now();
    let changed = state::with(|state| {
        if origin != Origin::Effect && !state.is_primary {
            return Err(Refusal::ReadOnly);
        }
        let result = step(&mut state.engine, place(ctx, key), lock, &now);
        Ok(Changed {
            result,
            effects: state.take_effects(),
            follow_up: FollowUp::of(state),
        })
    })?;
    replicate(
        ctx,
        &[(key, lock, &changed.effects)],
        origin,
        &changed.follow_up,
        &now,
    );
    let is_vacant = lock.is_vacant();
    store(opened, is_stored, is_vacant, fresh);
    if let Some(at) = changed.follow_up.alarm {
        alarm::set(at);
    }
    Ok(changed)
}

/// Sends what happened to each of these locks to whoever follows.
pub(super) fn replicate(
    ctx: &Ctx,
    changes: &[(&Str, &Lock, &[Effect<Caller>])],
    origin: Origin,
    follow_up: &FollowUp,
    now: &Now,
) {
    if origin == Origin::Command && !follow_up.is_followed {
        // Nobody gets the command itself either: this only counts the change.
        if changes.iter().any(|(.., effects)| !effects.is_empty()) {
            ctx.replicate_verbatim();
        }
        return;
    }
    for (key, lock, effects) in changes {
        propagation::send(ctx, key, lock, effects, now);
    }
}

/// A key exists exactly while its lock is held or closed. `fresh` is the lock where none was stored.
pub(super) fn store(mut opened: Key, is_stored: bool, is_vacant: bool, fresh: Lock) {
    match (is_stored, is_vacant) {
        (true, true) => opened.delete(),
        (false, false) => opened.set(Box::new(fresh)),
        _ => {}
    }
}

/// Tells of what has been done. By now the lock is not touched any more: a keyspace event may
/// make another module run any command.
pub(super) fn announce(ctx: &Ctx, key: &Str, mut effects: Effects, notify: bool) {
    if effects.is_empty() {
        return;
    }
    let mut is_signalled = false;
    for effect in effects.drain(..) {
        if let Effect::Answered(caller, answer) = effect {
            caller.answer(answer);
            continue;
        }
        if !is_signalled {
            ctx.signal_modified(key);
            is_signalled = true;
        }
        if notify {
            notify_of(ctx, key, &effect);
        }
    }
    state::with(|state| state.engine.recycle(effects));
}

/// Sends the keyspace event of an effect.
pub fn notify_of<C>(ctx: &Ctx, key: &Str, effect: &Effect<C>) {
    let event = match effect {
        Effect::Granted(_) => c"flock.acquire",
        Effect::Ended(_, End::Release | End::Undelivered) => c"flock.release",
        Effect::Ended(_, End::Expire | End::Session) => c"flock.expire",
        Effect::Ended(_, End::Break) => c"flock.break",
        Effect::Renewed(_) | Effect::Closed(_) | Effect::Opened(_) | Effect::Answered(..) => return,
    };
    ctx.notify(event, key);
}
