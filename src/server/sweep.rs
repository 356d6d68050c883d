//! What is due, done before the event loop sleeps: leases and waits that end, and what was noticed
//! where nothing could be written.

use super::state::{self, Todo};
use super::transition::{self, Effects, Origin, Refusal};
use super::{alarm, clock, followers, propagation, quorum, waiters, warnings};
use crate::ffi::call;
use crate::ffi::context::{wake_event_loop, writes_are_paused};
use crate::ffi::info::ServerInfo;
use crate::ffi::key::{Content, Key};
use crate::ffi::params::Params;
use crate::ffi::{Ctx, OwnedStr};
use crate::lock::{Answer, Engine, Instant, Lock, LockName, Now, Place};

/// How many leases and waits one pass of the loop ends, and how many locks it adopts, at most, so
/// that clients are served between.
const PER_PASS: usize = 200;
/// How often to look again while writes are paused, in microseconds.
const PAUSE_POLL_US: u64 = 2_000;
/// How often to look again while too few replicas follow, in microseconds.
const QUORUM_POLL_US: u64 = 100_000;
/// How often to look again whether this node serves a lock whose lease is over, in microseconds.
const PARKED_US: u64 = 500_000;

/// Does what is due, and sets the alarm for what is next.
pub fn run(ctx: &Ctx) {
    let (has_todo, next_sweep) = state::with(|state| (!state.todo.is_empty(), state.next_sweep));
    if !has_todo && next_sweep.is_none() {
        return;
    }
    let now = clock::monotonic();
    let is_due = next_sweep.is_some_and(|at| at <= now);
    if !(has_todo || is_due) || ctx.flags().is_loading() {
        return;
    }
    if state::with(|state| std::mem::take(&mut state.todo.look_at_child)) && aof_lacks_register(ctx) {
        state::with(|state| state.todo.register_to_aof = true);
    }
    end_waits(now);
    let is_primary = state::with(|state| {
        if !state.is_primary {
            // A replica has no waiters, and what befalls its keys is the primary's doing.
            state.todo.settle.clear();
            state.todo.take_back.clear();
            state.todo.lost_sessions.clear();
        }
        state.is_primary
    });
    if writes_are_paused() {
        return look_again(now, PAUSE_POLL_US);
    }
    do_chores(ctx);
    if quorum::is_missing(ctx) {
        return look_again(now, QUORUM_POLL_US);
    }
    decide_noted(ctx);
    if is_primary {
        end_leases(ctx, now);
    }
    alarm::rearm();
    let is_due = state::with(|state| state.next_sweep.is_some_and(|at| at <= now) || !state.todo.is_empty());
    if is_due {
        wake_event_loop();
    }
}

/// Nothing may be decided now. Waits still end in time.
fn look_again(now: Instant, poll_us: u64) {
    let poll = Instant(now.0 + poll_us);
    let next_wait = state::with(|state| state.engine.next_wait_end());
    alarm::set(next_wait.map_or(poll, |wait| wait.min(poll)));
}

/// Whether a child writes an AOF file that has no place for the fence register: one without an RDB
/// preamble holds nothing but the commands that make its keys. Forks for anything else, such as
/// the migration of slots, are none of our business: Valkey 9 would give up the migration.
fn aof_lacks_register(ctx: &Ctx) -> bool {
    let rewrites = ServerInfo::section(ctx, c"persistence").field(c"aof_rewrite_in_progress");
    state::with(|state| state.engine.fences.last() > 0)
        && rewrites.as_deref() == Some("1")
        && call::config_value(ctx, c"aof-use-rdb-preamble").as_deref() == Some("no")
}

fn end_waits(now: Instant) {
    for _ in 0..PER_PASS {
        let ended = state::with(|state| state.engine.end_wait(now).then(|| state.take_effects()));
        let Some(effects) = ended else {
            return;
        };
        waiters::answer_all(effects);
    }
}

/// What was noted and decides nothing about a lock.
fn do_chores(ctx: &Ctx) {
    let todo = state::with(|state| {
        let todo = &mut state.todo;
        let mut adopt = std::mem::take(&mut todo.adopt);
        todo.adopt = leave_for_later(&mut adopt);
        Todo {
            adopt,
            register_to_aof: std::mem::take(&mut todo.register_to_aof),
            check_settings: std::mem::take(&mut todo.check_settings),
            check_followers: std::mem::take(&mut todo.check_followers),
            unanswered: std::mem::take(&mut todo.unanswered),
            ..Todo::default()
        }
    });
    if todo.register_to_aof {
        let last = state::with(|state| state.engine.fences.last());
        ctx.replicate(propagation::FENCE, &Params::new().aof_only().integer(last));
    }
    todo.adopt.iter().for_each(|name| adopt_lock(ctx, name));
    for client in todo.unanswered {
        if ctx.has_client(client) {
            call::kill_client(ctx, client);
        }
    }
    if todo.check_followers {
        followers::check(ctx);
    }
    if todo.check_settings {
        warnings::check(ctx);
        quorum::check(ctx);
    }
}

/// What was noted and changes locks: grants that did not arrive, connections that closed, queues
/// that have a new head or a lock that came free.
fn decide_noted(ctx: &Ctx) {
    let (take_back, lost_sessions, settle) = state::with(|state| {
        let todo = &mut state.todo;
        let mut settle = std::mem::take(&mut todo.settle);
        todo.settle = leave_for_later(&mut settle);
        let (take_back, lost_sessions) = (&mut todo.take_back, &mut todo.lost_sessions);
        (std::mem::take(take_back), std::mem::take(lost_sessions), settle)
    });
    for (names, fence) in take_back {
        for name in names.iter() {
            on_lock(ctx, name, |engine, place, lock, now| {
                engine.take_back(place, lock, fence, now);
            });
        }
        state::with(|state| state.engine.arrived(fence));
    }
    for (name, fence, session) in lost_sessions {
        on_lock(ctx, &name, |engine, place, lock, now| {
            engine.lose_session(place, lock, fence, session, now);
        });
    }
    for name in settle {
        settle_lock(ctx, &name);
    }
}

/// Cuts a list to what one pass of the loop does, and returns the rest.
fn leave_for_later<T>(list: &mut Vec<T>) -> Vec<T> {
    let now = list.split_off(list.len().saturating_sub(PER_PASS));
    std::mem::replace(list, now)
}

/// Enters the leases of a lock that was loaded or has moved, and ends the sessions that were lost
/// on the way. If it is gone again, or if another value is in its place, there is nothing to enter.
fn adopt_lock(ctx: &Ctx, name: &LockName) {
    ctx.select_db(name.db);
    let key = OwnedStr::new(&name.key);
    let mut opened = Key::for_reading(ctx, &key);
    let Content::Ours(lock) = opened.content::<Lock>() else {
        return;
    };
    state::with(|state| state.engine.adopt(name.place(), lock));
    for holder in lock.holders() {
        if let Some(session) = holder.session().filter(|session| !ctx.has_client(session.0)) {
            let lost = (name.clone(), holder.fence, session);
            state::with(|state| state.todo.lost_sessions.push(lost));
        }
    }
}

fn end_leases(ctx: &Ctx, now: Instant) {
    while let Some(name) = state::with(|state| state.parked.pop_due(now)) {
        adopt_lock(ctx, &name);
    }
    for _ in 0..PER_PASS {
        let Some(name) = state::with(|state| state.engine.pop_due_lease(now)) else {
            return;
        };
        if !settle_lock(ctx, &name) {
            // Its slot is on its way from another node, which ends the lease, or to one.
            let again = Instant(now.0 + PARKED_US);
            state::with(|state| state.parked.insert(again, name));
        }
    }
}

fn settle_lock(ctx: &Ctx, name: &LockName) -> bool {
    on_lock(ctx, name, |engine, place, lock, now| {
        engine.settle(place, lock, now)
    })
}

/// Changes a lock by name. If the key holds something else by now, its waiters are told so. False
/// if this node of a cluster does not serve the lock: then it is left alone, and its waiters are
/// told to go.
fn on_lock(
    ctx: &Ctx,
    name: &LockName,
    step: impl FnOnce(&mut Engine<waiters::Caller>, Place, &mut Lock, &Now),
) -> bool {
    ctx.select_db(name.db);
    let key = OwnedStr::new(&name.key);
    let is_served = !state::with(|state| state.is_cluster) || call::serves(ctx, &key);
    if !is_served {
        let effects = dismiss(name, Answer::SlotMoved);
        waiters::redirect_all(ctx, &key, effects);
    } else if transition::decide(ctx, &key, Origin::Sweep, step) == Err(Refusal::WrongType) {
        waiters::answer_all(dismiss(name, Answer::WrongType));
    }
    is_served
}

fn dismiss(name: &LockName, answer: Answer) -> Effects {
    state::with(|state| {
        state.engine.dismiss_all(Some(name.place()), answer);
        state.take_effects()
    })
}
