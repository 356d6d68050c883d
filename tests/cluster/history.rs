//! All fences that clients were told, lock by lock, and what must hold of them whatever befell the
//! cluster meanwhile.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use crate::rover::Heard;

/// Somebody was told that it holds a lock.
#[derive(Clone, Debug)]
pub struct Told {
    pub token: String,
    pub fence: i64,
    /// By which node.
    pub port: u16,
    /// When it asked, and when it heard.
    pub sent: Instant,
    pub received: Instant,
}

#[derive(Default)]
pub struct History {
    locks: Mutex<HashMap<String, Vec<Told>>>,
}

impl History {
    /// Records an answer to FLOCK.ACQUIRE, and returns its fence.
    #[track_caller]
    pub fn record(&self, key: &str, token: &str, heard: &Heard) -> i64 {
        let fence = heard.reply.fence();
        let told = Told {
            token: token.to_owned(),
            fence,
            port: heard.port,
            sent: heard.sent,
            received: heard.received,
        };
        let mut locks = self.locks.lock().expect("the history");
        locks.entry(key.to_owned()).or_default().push(told);
        fence
    }

    /// How many were told of a lock's grant, of those who asked after `since`.
    pub fn count_since(&self, key: &str, since: Instant) -> usize {
        let locks = self.locks.lock().expect("the history");
        let told = locks.get(key).into_iter().flatten();
        told.filter(|told| told.sent > since).count()
    }

    pub fn count(&self) -> usize {
        let locks = self.locks.lock().expect("the history");
        locks.values().map(Vec::len).sum()
    }

    /// No fence goes back, and none is told twice.
    #[track_caller]
    pub fn assert_fences_grow(&self) {
        let locks = self.locks.lock().expect("the history");
        for (key, told) in locks.iter() {
            for (index, first) in told.iter().enumerate() {
                for second in &told[index + 1..] {
                    assert_in_order(key, first, second);
                    assert_in_order(key, second, first);
                }
            }
        }
    }
}

/// Whoever asks after another was told gets a greater fence. For those who were waiting already that
/// holds if the same node granted both: these are exclusive locks, whose grants follow each other.
/// Of two nodes, one may have granted what a failover lost before its answer was read.
#[track_caller]
fn assert_in_order(key: &str, first: &Told, second: &Told) {
    if first.token == second.token {
        return;
    }
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
