//! The alarm: wakes the server's event loop at the next deadline.
//!
//! The server's own timers run on the wall clock, so a step of it would move them. A thread that
//! waits on a condition variable runs on the monotonic clock. It knows one instant and does one
//! thing: wake the loop, whose sweep then looks at the time itself.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::{clock, state};
use crate::ffi::context::wake_event_loop;
use crate::lock::Instant;

struct Alarm {
    at: Mutex<Option<Instant>>,
    changed: Condvar,
}

static ALARM: Alarm = Alarm {
    at: Mutex::new(None),
    changed: Condvar::new(),
};

/// Starts the thread.
pub fn start() -> Result<(), String> {
    let thread = std::thread::Builder::new().name("flock-alarm".to_owned());
    match thread.spawn(run) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("no thread for the alarm: {error}")),
    }
}

/// Sets the alarm if a deadline has come nearer than what it is set to. An alarm that rings too
/// early does no harm, so it is never put off: a lock that is taken and released over and over
/// does not touch it.
pub fn arm() {
    if let Some(at) = state::with(|state| state.nearer_deadline()) {
        set(at);
    }
}

/// Sets the alarm anew, for the next deadline if there is one.
pub fn rearm() {
    let next = state::with(|state| {
        state.next_sweep = None;
        state.next_deadline()
    });
    if let Some(at) = next {
        set(at);
    }
}

/// Sets the alarm.
pub fn set(at: Instant) {
    state::with(|state| state.next_sweep = Some(at));
    ALARM.set(at);
}

impl Alarm {
    fn set(&self, at: Instant) {
        *self.lock() = Some(at);
        self.changed.notify_one();
    }

    /// No code that holds the mutex can panic, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.at.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn run() {
    let mut at = ALARM.lock();
    loop {
        let wait = at.map(|at| at.micros_after(clock::monotonic()));
        let waited = match wait {
            Some(0) => {
                *at = None;
                wake_event_loop();
                continue;
            }
            Some(micros) => ALARM
                .changed
                .wait_timeout(at, Duration::from_micros(micros))
                .map(|(at, _)| at)
                .map_err(|poisoned| poisoned.into_inner().0),
            None => ALARM.changed.wait(at).map_err(|poisoned| poisoned.into_inner()),
        };
        at = match waited {
            Ok(at) | Err(at) => at,
        };
    }
}
