//! A native TTL runs on the wall clock. A step of an hour forward ends such a lock at once, under its holder; a step
//! back keeps the lock of a caller that died for an hour. A lease of flock runs on.

use std::time::{Duration, Instant};

use super::{take_flock, take_hand_made, HAND_MADE, LOCK};
use crate::support::*;

const HOUR_S: i64 = 3_600;
/// What a busy machine may add, and far from an hour.
const LATENESS: Duration = Duration::from_secs(5);

fn start() -> (Server, Client) {
    let server = start_with_wall_clock(Server::builder());
    let client = server.client();
    (server, client)
}

/// Steps the clock, and sees the server notice.
#[track_caller]
fn step(server: &Server, client: &mut Client, seconds: i64) {
    let mut now = || {
        client.run("TIME").items()[0]
            .text()
            .parse::<i64>()
            .expect("seconds")
    };
    let before = now();
    step_wall_clock(server, seconds);
    eventually(
        "the server's clock moves",
        || now() - before,
        |moved| (moved - seconds).abs() <= 2,
    );
}

#[test]
fn a_step_forward_ends_a_ttl_and_not_a_lease() {
    let (server, mut client) = start();
    assert!(take_hand_made(&mut client, "a"));
    let lease = Lease::take(&mut client, LOCK, "a", 60_000, "");
    step(&server, &mut client, HOUR_S);
    assert!(take_hand_made(&mut client, "b"), "two hold the lock");
    assert_eq!(take_flock(&mut client, "b"), None);
    lease.assert_runs_on(&mut client);
    println!("an hour forward: SET's lock is B's, while A works; flock's is A's");
}

#[test]
fn a_step_back_keeps_a_ttl_for_an_hour_and_a_lease_no_longer_than_it_is() {
    let (server, mut client) = start();
    client.call(("SET", HAND_MADE, "died", "NX", "PX", 500));
    let lease = Lease::take(&mut client, LOCK, "died", 500, "");
    step(&server, &mut client, -HOUR_S);
    client
        .call(("FLOCK.ACQUIRE", LOCK, "b", "PX", 60_000, "BLOCK", 0))
        .fence();
    let granted = Instant::now();
    assert!(granted >= lease.earliest_end());
    let late = granted.saturating_duration_since(lease.latest_end());
    assert!(late < LATENESS, "{late:?} late");
    assert!(!take_hand_made(&mut client, "b"), "it stays with one who is dead");
    let left_s = client.call(("PTTL", HAND_MADE)).int() / 1_000;
    println!("an hour back: SET's lock is free in {left_s} s, flock's was on time");
    assert!((HOUR_S - 60..=HOUR_S).contains(&left_s), "{left_s}");
}
