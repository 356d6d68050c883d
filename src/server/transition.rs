//! One change of one lock, from opening its key to telling everybody.

use super::{alarm, clock, propagation, state, waiters};
use crate::ffi::key::{Content, Key};
use crate::ffi::{Ctx, Str};
use crate::lock::{Effect, End, Engine, Lock, Now, Place};

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

/// Lets `step` change the lock of a key, as the primary that decides about it, and carries out
/// what follows: replicate, store, announce, answer, in this order.
pub fn decide<R>(
    ctx: &Ctx,
    key: &Str,
    step: impl FnOnce(&mut Engine<Caller>, Place, &mut Lock, &Now) -> R,
) -> Result<R, Refusal> {
    if !state::with(|state| state.is_primary) {
        return Err(Refusal::ReadOnly);
    }
    let (result, effects) = change(ctx, key, step)?;
    if !effects.is_empty() {
        announce(ctx, key, effects);
    }
    Ok(result)
}

/// Lets `step` change the lock of a key as a primary or an AOF file says. Nothing follows but
/// that those who watch the key are told.
pub fn follow<R>(
    ctx: &Ctx,
    key: &Str,
    step: impl FnOnce(&mut Engine<Caller>, Place, &mut Lock, &Now) -> R,
) -> Result<R, Refusal> {
    let (result, _) = change(ctx, key, step)?;
    ctx.signal_modified(key);
    Ok(result)
}

/// Lets `look` see the lock of a key, or `None` where nobody holds it.
pub fn look<R>(ctx: &Ctx, key: &Str, look: impl FnOnce(Option<&Lock>, Place) -> R) -> Result<R, Refusal> {
    let mut opened = Key::for_reading(ctx, key);
    let lock = match opened.content::<Lock>() {
        Content::Nothing => None,
        Content::Ours(lock) => Some(&*lock),
        Content::Other => return Err(Refusal::WrongType),
    };
    let place = Place {
        db: ctx.db(),
        key: key.bytes(),
    };
    Ok(look(lock, place))
}

fn change<R>(
    ctx: &Ctx,
    key: &Str,
    step: impl FnOnce(&mut Engine<Caller>, Place, &mut Lock, &Now) -> R,
) -> Result<(R, Effects), Refusal> {
    let mut opened = Key::for_writing(ctx, key);
    let mut fresh = Lock::vacant();
    let (lock, is_stored) = match opened.content::<Lock>() {
        Content::Nothing => (&mut fresh, false),
        Content::Ours(lock) => (lock, true),
        Content::Other => return Err(Refusal::WrongType),
    };
    let now = clock::now();
    let place = Place {
        db: ctx.db(),
        key: key.bytes(),
    };
    let (result, effects) = state::with(|state| {
        let result = step(&mut state.engine, place, lock, &now);
        let effects = state.engine.take_effects();
        state.metrics.count(&effects);
        (result, effects)
    });
    propagation::send(ctx, key, lock, &effects, &now);
    match (is_stored, lock.is_vacant()) {
        (true, true) => opened.delete(),
        (false, false) => opened.set(Box::new(fresh)),
        _ => {}
    }
    alarm::arm();
    Ok((result, effects))
}

/// Tells of what has been done. By now the lock is not touched any more: a keyspace event may
/// make another module run any command.
fn announce(ctx: &Ctx, key: &Str, mut effects: Effects) {
    let notify = state::with(|state| state.settings.notify);
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
