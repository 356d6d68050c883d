//! Proves that a promoted replica goes on where its primary was, and that a
//! demoted primary lets its waiters go.

use std::time::{Duration, Instant};

use crate::counting;
use crate::support::*;

/// The grant is answered after it was flushed, which a busy disk may hold up. How punctual the end of
/// a lease is, is measured elsewhere.
const BUSY_DISK: Duration = Duration::from_secs(5);

#[test]
fn after_promotion_holders_still_hold_and_leases_go_on() {
    let (mut server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "LABEL here");
    wait_for_replicas(&mut client, 1);
    server.kill9();
    let mut client = promote(&replica);
    lease.assert_not_shorter(&mut client, "k");
    assert_eq!(client.run("FLOCK.ACQUIRE k other PX 1000"), NIL);
    let mut waiter = replica.enqueue("k", "FLOCK.ACQUIRE k other PX 1000 BLOCK 0");
    assert_eq!(client.run("FLOCK.RELEASE k tok"), 1);
    assert!(waiter.receive().fence() > lease.fence);
}

#[test]
fn a_lease_ends_on_time_at_the_new_primary() {
    let (mut server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    let lease = Lease::take(&mut client, "k", "tok", 1_000, "");
    wait_for_replicas(&mut client, 1);
    server.kill9();
    promote(&replica)
        .run("FLOCK.ACQUIRE k next PX 600000 BLOCK 0")
        .fence();
    let granted = Instant::now();
    assert!(granted >= lease.earliest_end(), "too early");
    let late = granted.saturating_duration_since(lease.latest_end());
    assert!(late < BUSY_DISK, "{late:?} late");
}

#[test]
fn a_lease_that_was_over_before_the_promotion_ends_with_it() {
    let (mut server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    let lease = Lease::take(&mut client, "k", "tok", 100, "");
    wait_for_replicas(&mut client, 1);
    server.kill9();
    std::thread::sleep(lease.latest_end().saturating_duration_since(Instant::now()));
    let mut client = promote(&replica);
    eventually(
        "the lease is over",
        || client.run("EXISTS k"),
        |exists| *exists == 0,
    );
}

#[test]
fn fences_stay_ahead_of_the_stream() {
    let mut server = counting().start();
    let replica = server.start_replica(counting());
    let mut client = server.client();
    let mut last = 0;
    for _ in 0..5 {
        last = client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
        client.run("FLOCK.RELEASE k tok");
    }
    wait_for_replicas(&mut client, 1);
    server.kill9();
    assert_eq!(promote(&replica).run("FLOCK.ACQUIRE new tok PX 1000"), last + 1);
}

/// What was released before the replica came is in no effect: the snapshot carries it.
#[test]
fn fences_stay_ahead_of_the_snapshot() {
    let mut server = counting().start();
    let mut client = server.client();
    let mut last = 0;
    for _ in 0..5 {
        last = client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
        client.run("FLOCK.RELEASE k tok");
    }
    let replica = server.start_replica(counting());
    server.kill9();
    assert_eq!(promote(&replica).run("FLOCK.ACQUIRE new tok PX 1000"), last + 1);
}

#[test]
fn a_demoted_primary_answers_its_waiters() {
    let server = Server::builder().undressed().start();
    let other = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    let mut waiters: Vec<_> = (0..5)
        .map(|index| server.enqueue("k", &format!("FLOCK.ACQUIRE k w{index} PX 600000 BLOCK 0")))
        .collect();
    assert_eq!(client.run(&format!("REPLICAOF 127.0.0.1 {}", other.port())), "OK");
    for waiter in &mut waiters {
        assert_eq!(waiter.receive().error_word(), "UNBLOCKED");
    }
    assert_eq!(client.stat("waiters"), 0);
    server.wait_for_link();
    assert_eq!(client.run("EXISTS k"), 0);
}

#[test]
fn a_planned_failover_loses_neither_holders_nor_fences() {
    let (server, replica) = start_with_companion(Server::builder().append_only());
    let mut client = server.client();
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "");
    // Some leases end while the failover has all writes paused.
    for index in 0..20 {
        client
            .call((
                "FLOCK.ACQUIRE",
                format!("short:{index}"),
                "tok",
                "PX",
                5 * (index + 1),
            ))
            .fence();
    }
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
    let mut successor = fail_over(&server, &replica);
    assert_eq!(waiter.receive().error_word(), "UNBLOCKED");
    lease.assert_not_shorter(&mut successor, "k");
    eventually("short leases end", || successor.run("DBSIZE"), |keys| *keys == 1);
    assert!(successor.run("FLOCK.ACQUIRE new tok PX 600000").fence() > lease.fence);
    assert_eq!(successor.run("FLOCK.RELEASE k tok"), 1);
    server.wait_for_link();
    assert_agreement(&replica, &server);
}

#[test]
fn a_primary_that_comes_back_as_a_replica_follows_and_may_be_promoted_again() {
    let mut server = counting().append_only().start();
    let replica = server.start_replica(counting());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    wait_for_replicas(&mut client, 1);
    server.kill9();
    let mut successor = promote(&replica);
    successor.run("FLOCK.RELEASE k tok");
    let newer = successor.run("FLOCK.ACQUIRE k next PX 600000").fence();

    server.restart();
    let mut client = server.admin();
    assert!(client.run("FLOCK.PTTL k tok").int() > 0, "its own file says tok");
    client.run(&format!("REPLICAOF 127.0.0.1 {}", replica.port()));
    server.wait_for_link();
    assert_agreement(&replica, &server);
    let mut client = promote(&server);
    assert_eq!(client.run("FLOCK.PTTL k tok"), -2);
    assert_eq!(*client.run("FLOCK.INFO k").field("fence"), newer);
    assert_eq!(client.run("FLOCK.ACQUIRE other tok PX 1000"), newer + 1);
}
