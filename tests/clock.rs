//! Proves that leases and waits run on the monotonic clock, whatever the wall
//! clock does: steps of an hour, either way, at any moment of a lock's life.
//! Beside them a native TTL ends an hour early or late, which shows that the
//! clock of the server really was stepped.

mod support;

use std::time::{Duration, Instant};

use support::*;

const HOUR_S: i64 = 3_600;
/// What a busy machine may add before the test sees the end of a lease: little beside an hour.
const SLACK: Duration = Duration::from_secs(1);

/// A server with its clock stepped by nothing yet, and a client.
fn start() -> (Server, Client) {
    let server = start_with_wall_clock(Server::builder());
    let client = server.client();
    (server, client)
}

/// The server's own idea of the wall clock, in seconds since 1970.
fn server_time_s(client: &mut Client) -> i64 {
    client.run("TIME").items()[0].text().parse().expect("seconds")
}

/// Steps the clock, and sees the server notice: some read the time of day only now and then.
#[track_caller]
fn step(server: &Server, client: &mut Client, seconds: i64) {
    let before = server_time_s(client);
    step_wall_clock(server, seconds);
    eventually(
        &format!("the clock moves by {seconds} s"),
        || server_time_s(client) - before,
        |moved| (moved - seconds).abs() <= 2,
    );
}

#[track_caller]
fn assert_on_time(what: &str, ended: Instant, earliest: Instant, latest: Instant) {
    assert!(ended >= earliest, "{what}: {:?} early", earliest - ended);
    let late = ended.saturating_duration_since(latest);
    assert!(late < SLACK, "{what}: {late:?} late");
}

#[test]
fn a_step_of_the_wall_clock_neither_cuts_nor_stretches_a_lease() {
    for seconds in [HOUR_S, -HOUR_S] {
        let (server, mut client) = start();
        let lease = Lease::take(&mut client, "k", "tok", 1_000, "");
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
        step(&server, &mut client, seconds);
        lease.assert_runs_on(&mut client);
        waiter.receive().fence();
        assert_on_time(
            &format!("step {seconds} s"),
            Instant::now(),
            lease.earliest_end(),
            lease.latest_end(),
        );
    }
}

#[test]
fn a_lease_taken_and_refreshed_while_the_clock_is_wrong_is_as_long_as_any() {
    for seconds in [HOUR_S, -HOUR_S] {
        let (server, mut client) = start();
        step(&server, &mut client, seconds);
        let lease = Lease::take(&mut client, "k", "tok", 1_000, "");
        client.run("FLOCK.ACQUIRE refreshed tok PX 60000").fence();
        let refreshed = Instant::now();
        assert_eq!(client.run("FLOCK.REFRESH refreshed tok PX 1000"), 1);
        let known = Instant::now();
        step_wall_clock(&server, 0);
        lease.assert_runs_on(&mut client);
        client.run("FLOCK.ACQUIRE k next PX 600000 BLOCK 0").fence();
        assert_on_time(
            &format!("taken, {seconds} s"),
            Instant::now(),
            lease.earliest_end(),
            lease.latest_end(),
        );
        client
            .run("FLOCK.ACQUIRE refreshed next PX 600000 BLOCK 0")
            .fence();
        let second = Duration::from_secs(1);
        assert_on_time(
            &format!("refreshed, {seconds} s"),
            Instant::now(),
            refreshed + second,
            known + second,
        );
    }
}

#[test]
fn a_wait_ends_after_its_time_and_not_by_the_wall_clock() {
    for seconds in [HOUR_S, -HOUR_S] {
        let (server, mut client) = start();
        client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
        let mut waiter = server.connect(Protocol::Resp2);
        let sent = Instant::now();
        waiter.send_line("FLOCK.ACQUIRE k next PX 1000 BLOCK 700");
        eventually("it waits", || client.waiters("k"), |waiters| *waiters == 1);
        let waits = Instant::now();
        step(&server, &mut client, seconds);
        assert_eq!(waiter.receive(), NIL);
        let wait = Duration::from_millis(700);
        assert_on_time(
            &format!("step {seconds} s"),
            Instant::now(),
            sent + wait,
            waits + wait,
        );
        assert_eq!(client.run("FLOCK.RELEASE k tok"), 1);
    }
}

/// Nobody talks to the server: its own alarm must not sleep by the wall clock.
#[test]
fn an_idle_server_ends_a_lease_on_time_after_a_step() {
    for seconds in [HOUR_S, -HOUR_S] {
        let (server, mut client) = start();
        let lease = Lease::take(&mut client, "k", "tok", 1_000, "");
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
        step_wall_clock(&server, seconds);
        waiter.receive().fence();
        assert_on_time(
            &format!("step {seconds} s"),
            Instant::now(),
            lease.earliest_end(),
            lease.latest_end(),
        );
    }
}

#[test]
fn a_native_ttl_is_cut_by_a_step_forward_where_a_lease_is_not() {
    let (server, mut client) = start();
    client.run("SET native value PX 600000");
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "");
    step(&server, &mut client, HOUR_S);
    assert_eq!(client.run("EXISTS native"), 0, "ten minutes are over in no time");
    lease.assert_runs_on(&mut client);
}

#[test]
fn a_native_ttl_is_stretched_by_a_step_back_where_a_lease_is_not() {
    let (server, mut client) = start();
    client.run("SET native value PX 300");
    let lease = Lease::take(&mut client, "k", "tok", 300, "");
    step(&server, &mut client, -HOUR_S);
    client.run("FLOCK.ACQUIRE k next PX 600000 BLOCK 0").fence();
    assert_on_time(
        "the lease",
        Instant::now(),
        lease.earliest_end(),
        lease.latest_end(),
    );
    assert!(client.run("PTTL native").int() > 1_000 * (HOUR_S - 60));
}

#[test]
fn fences_grow_through_steps_back() {
    let (server, mut client) = start();
    let mut last = 0;
    for seconds in [0, -HOUR_S, HOUR_S, 0, -24 * HOUR_S] {
        step_wall_clock(&server, seconds);
        for _ in 0..3 {
            let fence = client.run("FLOCK.ACQUIRE k tok PX 60000").fence();
            assert!(fence > last, "{fence} after {last}, the clock {seconds} s off");
            client.run("FLOCK.RELEASE k tok");
            last = fence;
        }
    }
}

/// The clock goes back while the server is down: the time it was down cannot be known, and is
/// not counted. It goes forward: the lease is over, as far as anyone can tell.
#[test]
fn a_clock_that_went_back_while_the_server_was_down_does_not_lengthen_a_lease() {
    let builder = Server::builder().append_only();
    let mut server = start_with_wall_clock(builder);
    let lease = Lease::take(&mut server.client(), "k", "tok", 600_000, "");
    server.kill9();
    step_wall_clock(&server, -HOUR_S);
    server.restart();
    let mut client = server.admin();
    let left = lease.assert_not_shorter(&mut client, "k");
    assert!(left <= Duration::from_millis(600_000), "{left:?}");
    assert!(client.run("FLOCK.ACQUIRE other tok PX 1000").fence() > lease.fence);
}
