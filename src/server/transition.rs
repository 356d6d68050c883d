//! One change of one lock, from opening its key to telling everybody.

use super::{alarm, clock, propagation, state, waiters};
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
type Effects = Vec<Effect<Caller>>;

/// On whose account a lock changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
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
    is_followed: bool,
    notify: bool,
    alarm: Option<Instant>,
}

/// Lets `step` change the lock of a key, in the command of a client, and carries out what follows:
/// replicate, store, announce, answer, in this order.
pub fn decide<R>(
    ctx: &Ctx,
    key: &Str,
    step: impl FnOnce(&mut Engine<Caller>, Place, &mut Lock, &Now) -> R,
) -> Result<R, Refusal> {
    let changed = change(ctx, key, Origin::Command, step)?;
    announce(ctx, key, changed.effects, changed.notify);
    Ok(changed.result)
}

/// The same between commands.
pub fn decide_in_sweep(
    ctx: &Ctx,
    key: &Str,
    step: impl FnOnce(&mut Engine<Caller>, Place, &mut Lock, &Now),
) -> Result<(), Refusal> {
    let changed = change(ctx, key, Origin::Sweep, step)?;
    announce(ctx, key, changed.effects, changed.notify);
    Ok(())
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

fn place<'a>(ctx: &Ctx, key: &'a Str) -> Place<'a> {
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
        let effects = state.engine.take_effects();
        state.metrics.count(&effects);
        Ok(Changed {
            result,
            effects,
            is_followed: state.followers.may_be_there(),
            notify: state.settings.notify,
            alarm: state.nearer_deadline(),
        })
    })?;
    if origin == Origin::Command && !changed.is_followed {
        // Nobody gets the command itself either: this only counts the change.
        if !changed.effects.is_empty() {
            ctx.replicate_verbatim();
        }
    } else {
        propagation::send(ctx, key, lock, &changed.effects, &now);
    }
    match (is_stored, lock.is_vacant()) {
        (true, true) => opened.delete(),
        (false, false) => opened.set(Box::new(fresh)),
        _ => {}
    }
    if let Some(at) = changed.alarm {
        alarm::set(at);
    }
    Ok(changed)
}

/// Tells of what has been done. By now the lock is not touched any more: a keyspace event may
/// make another module run any command.
fn announce(ctx: &Ctx, key: &Str, mut effects: Effects, notify: bool) {
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
        Effect::Ended(_, End::Expire) => c"flock.expire",
        Effect::Ended(_, End::Break) => c"flock.break",
        Effect::Renewed(_) | Effect::Answered(..) => return,
    };
    ctx.notify(event, key);
}
