//! All fences that clients were told, lock by lock, and what must hold of them whatever befell the
//! servers meanwhile.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use super::reply::Reply;

/// An answer, and how it came about.
pub struct Heard {
    pub reply: Reply,
    /// The server that gave it.
    pub port: u16,
    /// When the question was sent. Of one that was sent several times that is any of them up to the one that
    /// was answered: the later it is, the more the history demands.
    pub sent: Instant,
    pub received: Instant,
    /// An earlier attempt went without an answer, and may have had its effect.
    pub was_lost: bool,
}

/// Somebody was told that it holds a lock.
#[derive(Debug)]
struct Told {
    token: String,
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
    /// Records the answer to a token's FLOCK.ACQUIRE: one for each token.
    #[track_caller]
    pub fn record(&self, key: &str, token: &str, heard: &Heard) {
        let told = Told {
            token: token.to_owned(),
            fence: heard.reply.fence(),
            port: heard.port,
            sent: heard.sent,
            received: heard.received,
        };
        self.locks().entry(key.to_owned()).or_default().push(told);
    }

    /// How many were told of a lock's grant, of those who asked after `since`.
    pub fn count_since(&self, key: &str, since: Instant) -> usize {
        let locks = self.locks();
        let told = locks.get(key).into_iter().flatten();
        told.filter(|told| told.sent > since).count()
    }

    pub fn count(&self) -> usize {
        self.locks().values().map(Vec::len).sum()
    }

    /// No fence goes back, and none is told twice.
    #[track_caller]
    pub fn assert_fences_grow(&self) {
        for (key, told) in self.locks().iter() {
            for (index, first) in told.iter().enumerate() {
                for second in &told[index + 1..] {
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

/// Whoever asks after another was told gets a greater fence, whichever server is asked. Nothing can be said
/// of those who were waiting already: a server that was frozen while a lease ran out sends the answer to that
/// grant together with the one to the next, and they may be read in any order.
#[track_caller]
fn assert_in_order(key: &str, first: &Told, second: &Told) {
    assert_ne!(
        first.fence, second.fence,
        "{key}: a fence was told twice: {first:?} and {second:?}"
    );
    if second.sent > first.received {
        assert!(
            second.fence > first.fence,
            "{key}: a fence went back: {first:?}, then {second:?}"
        );
    }
}
