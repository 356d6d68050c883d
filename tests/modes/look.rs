//! What FLOCK.INFO shows of a lock, as a value that tests compare.

use crate::support::*;

/// A lock, but for the times left, which are another at each look.
#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    pub mode: String,
    pub permits: i64,
    pub fence: i64,
    /// Closed after a holder was lost.
    pub is_closed: bool,
    pub holders: Vec<Hold>,
    /// The modes of the waiters, in their order.
    pub queue: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Hold {
    pub fence: i64,
    pub holds: i64,
    pub label: String,
    pub has_session: bool,
}

/// A long time, in ms, for what must not end by itself within a test.
pub const LONG_MS: i64 = 600_000;

/// What INFO shows of a lock that is held or closed. That its maps have their fields and no others,
/// and a time left that makes sense, holds at every look.
#[track_caller]
pub fn look(client: &mut Client, key: &str) -> Look {
    let info = client.call(("FLOCK.INFO", key));
    assert_eq!(
        info.names(),
        ["mode", "permits", "fence", "delay_ms", "holders", "waiters", "queue"]
    );
    let queue = info.field("queue").items();
    assert_eq!(*info.field("waiters"), queue.len() as i64);
    Look {
        mode: info.field("mode").text(),
        permits: info.field("permits").int(),
        fence: info.field("fence").fence(),
        is_closed: info.field("delay_ms").int() > 0,
        holders: info.field("holders").items().iter().map(hold).collect(),
        queue: queue.iter().map(|waiter| waiter.field("mode").text()).collect(),
    }
}

#[track_caller]
fn hold(holder: &Reply) -> Hold {
    assert_eq!(holder.names(), ["fence", "ttl_ms", "holds", "label", "session"]);
    assert!(holder.field("ttl_ms").int() >= 0, "{holder:?}");
    Hold {
        fence: holder.field("fence").fence(),
        holds: holder.field("holds").int(),
        label: holder.field("label").text(),
        has_session: holder.field("session").is_true(),
    }
}

impl Look {
    pub fn fences(&self) -> Vec<i64> {
        self.holders.iter().map(|hold| hold.fence).collect()
    }

    /// Of a lock with one holder.
    #[track_caller]
    pub fn holder(&self) -> &Hold {
        let [holder] = &self.holders[..] else {
            panic!("one holder, got {self:?}");
        };
        holder
    }
}

/// How long the lock stays closed, in ms; 0 if it is not closed.
#[track_caller]
pub fn closed_ms(client: &mut Client, key: &str) -> i64 {
    match client.call(("FLOCK.INFO", key)) {
        Reply::Nil => 0,
        info => info.field("delay_ms").int(),
    }
}

/// Waits until the lock is closed.
#[track_caller]
pub fn wait_until_closed(client: &mut Client, key: &str) {
    eventually("the lock is closed", || closed_ms(client, key), |ms| *ms > 0);
}

/// Takes a lock with `FLOCK.ACQUIRE k token PX ms`, `options` and a long delay, and lets it run out.
/// Returns the fence of that hold.
#[track_caller]
pub fn lose(client: &mut Client, token: &str, options: &str) -> i64 {
    let line = format!("FLOCK.ACQUIRE k {token} PX 20 DELAY {LONG_MS} {options}");
    let fence = client.run(line.trim_end()).fence();
    wait_until_closed(client, "k");
    fence
}

/// The fences that these waiters are told, which grow.
#[track_caller]
pub fn granted(waiters: &mut [Client]) -> Vec<i64> {
    let fences: Vec<_> = waiters
        .iter_mut()
        .map(|waiter| waiter.receive().fence())
        .collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    fences
}
