//! All fences that callers were told, lock by lock.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use crate::caller::Heard;

/// Somebody was told that it holds a lock.
#[derive(Debug)]
struct Told {
    fence: i64,
    port: u16,
    sent: Instant,
    received: Instant,
}

#[derive(Default)]
pub struct History {
    locks: Mutex<HashMap<String, Vec<Told>>>,
}

impl History {
    /// Records an answer to FLOCK.ACQUIRE.
    #[track_caller]
    pub fn record(&self, key: &str, heard: &Heard) {
        let told = Told {
            fence: heard.reply.fence(),
            port: heard.port,
            sent: heard.sent,
            received: heard.received,
        };
        self.locks().entry(key.to_owned()).or_default().push(told);
    }

    /// No fence is told twice, and none goes back.
    #[track_caller]
    pub fn assert_fences_grow(&self) {
        for (key, told) in self.locks().iter() {
            for (index, second) in told.iter().enumerate() {
                for first in &told[..index] {
                    assert_in_order(key, first, second);
                    assert_in_order(key, second, first);
                }
            }
        }
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<String, Vec<Told>>> {
        self.locks.lock().expect("the history")
    }
}

/// Whoever asks after another was told gets a greater fence, whichever server is asked. Of one server
/// those who waited already do so too, since these are exclusive locks: the next one is granted after
/// the one before has released. Two servers may both be primaries for a moment.
#[track_caller]
fn assert_in_order(key: &str, first: &Told, second: &Told) {
    assert_ne!(first.fence, second.fence, "{key}: {first:?} and {second:?}");
    let is_after = second.sent > first.received;
    let is_next = second.port == first.port && second.received > first.received;
    if is_after || is_next {
        assert!(
            second.fence > first.fence,
            "{key}: a fence went back: {first:?}, then {second:?}"
        );
    }
}
