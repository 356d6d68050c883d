//! How late a lease ends, without any traffic: from the end of the lease to the reply of the waiter that is next.

use std::time::{Duration, Instant};

use crate::resp::encode;
use crate::server::{Server, Setup};

const LOCK: &str = "bench:lease";
const LEASE: Duration = Duration::from_millis(20);

pub struct Lateness {
    pub median: Duration,
    pub worst_of_100: Duration,
    pub worst: Duration,
}

/// Lets leases run out, one after the other, and counts from the latest moment at which each can have begun: so the way
/// of the reply is in it, and nothing is left out.
pub fn measure(setup: &Setup, leases: usize) -> Lateness {
    let server = Server::start(setup);
    let (mut holder, mut waiter) = (server.connect(), server.connect());
    let lease_ms = LEASE.as_millis().to_string();
    let mut late: Vec<Duration> = (0..leases)
        .map(|turn| {
            let (held, next) = (format!("held-{turn}"), format!("next-{turn}"));
            assert!(holder
                .call(&["FLOCK.ACQUIRE", LOCK, &held, "PX", &lease_ms])
                .is_granted());
            let due = Instant::now() + LEASE;
            waiter.send(&encode(&[
                "FLOCK.ACQUIRE",
                LOCK,
                &next,
                "PX",
                "60000",
                "BLOCK",
                "0",
            ]));
            assert!(waiter.read().is_granted());
            let late = Instant::now().saturating_duration_since(due);
            assert!(holder.call(&["FLOCK.RELEASE", LOCK, &next]).is_granted());
            late
        })
        .collect();
    late.sort();
    Lateness {
        median: late[leases / 2],
        worst_of_100: late[leases * 99 / 100],
        worst: late[leases - 1],
    }
}
