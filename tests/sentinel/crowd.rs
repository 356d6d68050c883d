//! Many callers that take a few locks in turn, whatever befalls the servers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::caller::Caller;
use crate::support::*;

const CALLERS: usize = 6;
const KEYS: [&str; 2] = ["crowd:a", "crowd:b"];
/// A failover may lose a release as well. Then the others wait for the end of the lease.
const LEASE_MS: u32 = 5_000;
const WORK: Duration = Duration::from_millis(2);
/// How long the slowest of them may take: a failover, and a lease.
const BOUND: Duration = Duration::from_secs(60);

pub struct Crowd {
    pub history: History,
    is_over: AtomicBool,
    /// How often each caller was granted a lock.
    granted: [AtomicUsize; CALLERS],
}

impl Crowd {
    /// Runs `story` while the crowd is at work. When it is told, every caller ends what it has begun:
    /// nobody hangs, and everybody who waits is granted in the end.
    pub fn during(sentinel_ports: &[u16], story: impl FnOnce(&Crowd)) -> History {
        let crowd = Crowd {
            history: History::default(),
            is_over: AtomicBool::new(false),
            granted: Default::default(),
        };
        thread::scope(|scope| {
            for index in 0..CALLERS {
                let port = sentinel_ports[index % sentinel_ports.len()];
                let crowd = &crowd;
                scope.spawn(move || crowd.work(index, port));
            }
            // A story that fails must not be kept waiting by those who would go on for ever.
            let end = EndOfStory(&crowd.is_over);
            story(&crowd);
            drop(end);
        });
        crowd.history
    }

    fn work(&self, index: usize, sentinel_port: u16) {
        let mut caller = Caller::new(sentinel_port);
        let mut round = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let key = KEYS[round % KEYS.len()];
            let token = format!("{index}:{round}");
            let acquire = format!("FLOCK.ACQUIRE {key} {token} PX {LEASE_MS} BLOCK 0");
            self.history.record(key, &token, &caller.insist(&acquire));
            self.granted[index].fetch_add(1, Ordering::Relaxed);
            thread::sleep(WORK);
            // 0 if the hold is not known there: lost, or over.
            let released = caller.insist(&format!("FLOCK.RELEASE {key} {token}")).reply.int();
            assert!([0, 1].contains(&released));
            round += 1;
        }
    }

    /// Waits until each of them was granted so many locks more.
    #[track_caller]
    pub fn wait_until_each_was_granted(&self, more: usize) {
        let granted = || self.granted.each_ref().map(|count| count.load(Ordering::Relaxed));
        let before = granted();
        eventually_within(
            BOUND,
            "each caller is granted a lock",
            || {
                let now = granted();
                now.iter().zip(before).map(|(now, before)| now - before).min()
            },
            |fewest| *fewest >= Some(more),
        );
    }
}

struct EndOfStory<'a>(&'a AtomicBool);

impl Drop for EndOfStory<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
