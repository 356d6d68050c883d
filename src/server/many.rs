//! One change of many locks, which change together or not at all; and the waiters for many locks
//! that a change of one lock may have made next.

use super::transition::{announce, place, replicate, store, Effects, FollowUp, Origin, Refusal};
use super::waiters::{self, Caller};
use super::{alarm, clock, state};
use crate::ffi::key::{Content, Key};
use crate::ffi::{call, Ctx, OwnedStr, Str};
use crate::lock::{Answer, Engine, Lock, Member, Now, WaiterId};

/// Lets `step` change the locks of some keys, no two of them the same, and carries out what
/// follows: as [`super::transition::decide`] does for one.
pub fn decide<R>(
    ctx: &Ctx,
    keys: &[&Str],
    origin: Origin,
    step: impl FnOnce(&mut Engine<Caller>, &mut [Member<Caller>], &Now) -> R,
) -> Result<R, Refusal> {
    let (result, has_candidates) = change(ctx, keys, origin, step)?;
    if has_candidates {
        consider_candidates(ctx, origin);
    }
    Ok(result)
}

/// Grants the waiters for many locks that are next for all of them. Each is considered with all its
/// locks open, for the change that made it a candidate saw only one.
pub fn consider_candidates(ctx: &Ctx, origin: Origin) {
    while let Some((id, names)) = state::with(|state| state.engine.next_candidate()) {
        let owned: Vec<_> = names.iter().map(|name| OwnedStr::new(&name.key)).collect();
        let keys: Vec<&Str> = owned.iter().map(|key| &**key).collect();
        // A lock that has moved to another node with its slot looks free here.
        let is_served =
            !state::with(|state| state.is_cluster) || keys.iter().all(|key| call::serves(ctx, key));
        if !is_served {
            let effects = dismiss(id, Answer::SlotMoved);
            waiters::redirect_all(ctx, keys[0], effects);
            continue;
        }
        let considered = change(ctx, &keys, origin, |engine, members, now| {
            engine.consider(id, members, now);
        });
        // The waiters of a server that has become a replica are answered all together.
        if considered.is_err_and(|refusal| refusal == Refusal::WrongType) {
            waiters::answer_all(dismiss(id, Answer::WrongType));
        }
    }
}

fn dismiss(id: WaiterId, answer: Answer) -> Effects {
    state::with(|state| {
        state.engine.dismiss(id, answer);
        state.take_effects()
    })
}

/// Also says whether a waiter for many locks may be next.
fn change<R>(
    ctx: &Ctx,
    keys: &[&Str],
    origin: Origin,
    step: impl FnOnce(&mut Engine<Caller>, &mut [Member<Caller>], &Now) -> R,
) -> Result<(R, bool), Refusal> {
    let mut opened: Vec<_> = keys.iter().map(|key| Key::for_writing(ctx, key)).collect();
    let mut fresh: Vec<_> = keys.iter().map(|_| Lock::vacant()).collect();
    let mut members = Vec::with_capacity(keys.len());
    let mut are_stored = Vec::with_capacity(keys.len());
    for ((key, opened), fresh) in keys.iter().zip(&mut opened).zip(&mut fresh) {
        let (lock, is_stored) = match opened.content::<Lock>() {
            Content::Nothing => (fresh, false),
            Content::Ours(lock) => (lock, true),
            Content::Other => return Err(Refusal::WrongType),
        };
        members.push(Member::new(place(ctx, key), lock));
        are_stored.push(is_stored);
    }
    let now = clock::now();
    let (result, follow_up) = state::with(|state| {
        if !state.is_primary {
            return Err(Refusal::ReadOnly);
        }
        let result = step(&mut state.engine, &mut members, &now);
        members.iter().for_each(|member| state.note(&member.effects));
        Ok((result, FollowUp::of(state)))
    })?;
    let changes: Vec<_> = keys
        .iter()
        .zip(&members)
        .map(|(key, member)| (*key, &*member.lock, &member.effects[..]))
        .collect();
    replicate(ctx, &changes, origin, &follow_up, &now);
    let left: Vec<_> = members
        .into_iter()
        .map(|member| (member.effects, member.lock.is_vacant()))
        .collect();
    // Each key is opened anew to be stored or deleted: on Redis 8.6 a key that was opened while it
    // was missing remembers its place among the others, which changes with the first of them.
    drop(opened);
    for (((key, (_, is_vacant)), is_stored), fresh) in keys.iter().zip(&left).zip(are_stored).zip(fresh) {
        if is_stored == *is_vacant {
            store(Key::for_writing(ctx, key), is_stored, *is_vacant, fresh);
        }
    }
    if let Some(at) = follow_up.alarm {
        alarm::set(at);
    }
    for (key, (effects, _)) in keys.iter().zip(left) {
        announce(ctx, key, effects, follow_up.notify);
    }
    Ok((result, follow_up.has_candidates))
}
