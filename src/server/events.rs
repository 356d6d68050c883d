//! What the server's events mean for locks. All but the sweep only take notes.

use super::state;
use super::{alarm, sweep, waiters};
use crate::ffi::events::Events;
use crate::ffi::Ctx;
use crate::lock::{Answer, Place};

pub struct ServerEvents;

impl Events for ServerEvents {
    fn before_sleep(ctx: &Ctx) {
        sweep::run(ctx);
    }

    fn after_sleep() {
        waiters::replies_sent();
    }

    /// A new replica answers its waiters: it will grant nothing any more. A new primary takes
    /// over the leases as they are.
    fn role_changed(is_primary: bool) {
        let effects = state::with(|state| {
            state.is_primary = is_primary;
            state.followers.appear();
            if !is_primary {
                state.engine.dismiss_all(None, Answer::Unblocked);
            }
            state.take_effects()
        });
        waiters::answer_all(effects);
        alarm::rearm();
    }

    fn flushed(db: Option<i32>) {
        state::with(|state| {
            state.engine.flush(db);
            let names = state.engine.queues().names(db);
            state.todo.settle.extend(names);
        });
    }

    fn swapped(first: i32, second: i32) {
        state::with(|state| {
            state.engine.swap_databases(first, second);
            for db in [first, second] {
                let names = state.engine.queues().names(Some(db));
                state.todo.settle.extend(names);
            }
        });
    }

    fn client_gone(id: u64) {
        waiters::client_gone(id);
    }

    fn child_born() {
        state::with(|state| {
            state.followers.child_born();
            state.todo.look_at_child = true;
        });
    }

    fn child_died() {
        state::with(|state| {
            state.followers.child_died();
            state.todo.check_followers = true;
        });
    }

    fn config_changed() {
        state::with(|state| {
            state.todo.check_settings = true;
            state.todo.check_followers = true;
        });
    }

    /// Keys that leave with their slot are not unlinked one by one: each queue is looked at.
    fn slots_moved() {
        state::with(|state| {
            let names = state.engine.queues().names(None);
            state.todo.settle.extend(names);
        });
    }

    fn keys_trimmed(is_gone: &dyn Fn(&[u8]) -> bool) {
        state::with(|state| state.engine.forget_gone(is_gone));
    }

    fn moved(db: i32, name: &[u8]) {
        state::with(|state| state.todo.adopt.push(Place { db, key: name }.into()));
    }
}
