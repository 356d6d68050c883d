//! Proves what `min-replicas-to-write` does to locks: while there are too few replicas nobody is granted a
//! lock, neither by a command nor by the end of a lease, and nobody can release one.

use std::time::{Duration, Instant};

use crate::counting;
use crate::support::*;

/// How punctually a lease ends is measured elsewhere.
const BUSY: Duration = Duration::from_secs(5);

/// A primary that takes writes only while its replica is there.
#[track_caller]
fn start_pair() -> (Server, Server) {
    let primary = Server::builder().undressed().start();
    let replica = primary.start_replica(Server::builder());
    let mut admin = primary.admin();
    assert_eq!(admin.run("CONFIG SET min-replicas-to-write 1"), OK);
    wait_for_good_replicas(&mut admin, 1);
    (primary, replica)
}

#[track_caller]
fn wait_for_good_replicas(admin: &mut Client, count: usize) {
    eventually(
        "so many replicas are there",
        || admin.info("replication", "min_slaves_good_slaves"),
        |good| *good == count.to_string(),
    );
}

#[test]
fn with_too_few_replicas_every_command_that_writes_is_refused_and_changes_nothing() {
    let (primary, mut replica) = start_pair();
    let mut client = primary.client();
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "");
    client.run("FLOCK.MACQUIRE 2 m:1 m:2 tok PX 600000").fence();
    let digest = client.run("DEBUG DIGEST");
    replica.kill9();
    wait_for_good_replicas(&mut client, 0);
    for line in [
        "FLOCK.ACQUIRE new tok PX 600000",
        "FLOCK.ACQUIRE new tok PX 600000 BLOCK 0",
        "FLOCK.ACQUIRE k other PX 600000 BLOCK 0",
        "FLOCK.ACQUIRE k tok PX 900000",
        "FLOCK.REFRESH k tok PX 900000",
        "FLOCK.RELEASE k tok",
        "FLOCK.BREAK k",
        "FLOCK.MACQUIRE 2 n:1 n:2 tok PX 600000",
        "FLOCK.MREFRESH 2 m:1 m:2 tok PX 900000",
        "FLOCK.MRELEASE 2 m:1 m:2 tok",
        "FLOCK.GUARD k tok SET data 1",
    ] {
        assert_eq!(client.run(line).error_word(), "NOREPLICAS", "{line}");
    }
    assert_eq!(client.run("DEBUG DIGEST"), digest);
    lease.assert_runs_on(&mut client);
    assert_eq!(client.run("FLOCK.GUARD k tok EXISTS data"), 0);
    assert_eq!(client.waiters("k"), 0);

    replica.restart();
    wait_for_good_replicas(&mut client, 1);
    assert_eq!(client.run("FLOCK.RELEASE k tok"), 1);
    client.run("FLOCK.ACQUIRE new tok PX 600000").fence();
    assert_agreement(&primary, &replica);
}

#[test]
fn with_too_few_replicas_waits_end_at_their_time_and_those_who_wait_on_are_served_when_there_are_enough() {
    let (primary, mut replica) = start_pair();
    let mut client = primary.client();
    let fence = client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
    let mut hasty = primary.enqueue("k", "FLOCK.ACQUIRE k hasty PX 600000 BLOCK 3000");
    replica.kill9();
    wait_for_good_replicas(&mut client, 0);
    assert_eq!(hasty.receive(), NIL);
    assert_eq!(client.run("FLOCK.RELEASE k tok").error_word(), "NOREPLICAS");
    assert_eq!(client.waiters("k"), 1);

    replica.restart();
    wait_for_good_replicas(&mut client, 1);
    assert_eq!(client.run("FLOCK.RELEASE k tok"), 1);
    assert!(waiter.receive().fence() > fence);
    assert_agreement(&primary, &replica);
}

/// A grant that no replica learns of is what the setting is there to prevent, whoever causes it.
#[test]
fn with_too_few_replicas_a_lease_is_over_at_its_time_but_nobody_is_granted_what_it_leaves() {
    let (primary, mut replica) = start_pair();
    let mut client = primary.client();
    let lease = Lease::take(&mut client, "k", "tok", 1_500, "");
    client
        .run("FLOCK.ACQUIRE closing tok PX 1500 DELAY 600000")
        .fence();
    let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
    let mut other = primary.enqueue("closing", "FLOCK.ACQUIRE closing next PX 600000 BLOCK 0");
    let mut tied = primary.admin();
    tied.run("FLOCK.ACQUIRE tied tok PX 600000 SESSION").fence();
    let mut third = primary.enqueue("tied", "FLOCK.ACQUIRE tied next PX 600000 BLOCK 0");
    replica.kill9();
    wait_for_good_replicas(&mut client, 0);
    drop(tied);
    for key in ["k", "closing"] {
        eventually(
            "the lease reads as over",
            || client.call(("FLOCK.PTTL", key)),
            |left| *left == -2,
        );
    }
    let now = Instant::now();
    assert!(now >= lease.earliest_end(), "too early");
    assert!(now < lease.latest_end() + BUSY, "too late");
    for waiter in [&mut waiter, &mut other, &mut third] {
        assert_eq!(waiter.receive_within(Duration::from_millis(300)), None);
    }

    replica.restart();
    // No command is needed.
    let next = waiter.receive().fence();
    assert!(next > lease.fence);
    third.receive().fence();
    assert_agreement(&primary, &replica);
    let mut reader = replica.admin();
    assert_eq!(*reader.run("FLOCK.INFO k").field("fence"), next);
    let closed = reader.run("FLOCK.INFO closing");
    assert!(closed.field("delay_ms").int() > 500_000, "{closed:?}");
    assert_eq!(client.run("FLOCK.BREAK closing"), 0);
    other.receive().fence();
}

/// It is counted as the server counts: a replica that follows but does not answer is none.
#[test]
fn a_replica_that_is_behind_for_too_long_does_not_count() {
    let (primary, mut replica) = start_pair();
    let mut client = primary.client();
    assert_eq!(client.run("CONFIG SET min-replicas-max-lag 1"), OK);
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "");
    let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
    replica.stop();
    wait_for_good_replicas(&mut client, 0);
    assert_eq!(client.run("FLOCK.REFRESH k tok PX 20").error_word(), "NOREPLICAS");
    lease.assert_runs_on(&mut client);
    replica.resume();
    wait_for_good_replicas(&mut client, 1);
    assert_eq!(client.run("CONFIG SET min-replicas-max-lag 10"), OK);
    assert_eq!(client.run("FLOCK.REFRESH k tok PX 20"), 1);
    assert!(waiter.receive().fence() > lease.fence);
    assert_agreement(&primary, &replica);
}

/// The register is written for the file alone, and replicas have no part in it.
#[test]
fn with_too_few_replicas_a_rewritten_file_has_the_register_nevertheless() {
    let builder = counting().append_only().set("aof-use-rdb-preamble", "no");
    let mut primary = builder.start();
    let mut replica = primary.start_replica(counting());
    let mut client = primary.client();
    let mut newest = 0;
    for _ in 0..5 {
        newest = client.run("FLOCK.ACQUIRE gone tok PX 600000").fence();
        client.run("FLOCK.RELEASE gone tok");
    }
    assert_eq!(client.run("CONFIG SET min-replicas-to-write 1"), OK);
    replica.kill9();
    wait_for_good_replicas(&mut client, 0);
    rewrite(&mut client);
    primary.kill9();
    primary.restart();
    assert_eq!(primary.admin().run("FLOCK.ACQUIRE k tok PX 600000"), newest + 1);
}

#[test]
fn the_setting_counts_from_the_configuration_file_on_and_until_it_is_taken_back() {
    let primary = Server::builder()
        .undressed()
        .set("min-replicas-to-write", "1")
        .start();
    let mut replica = primary.start_replica(Server::builder());
    let mut client = primary.client();
    wait_for_good_replicas(&mut client, 1);
    let fence = client.run("FLOCK.ACQUIRE k tok PX 1500").fence();
    let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
    replica.kill9();
    wait_for_good_replicas(&mut client, 0);
    eventually("it is over", || client.run("FLOCK.PTTL k"), |left| *left == -2);
    assert_eq!(waiter.receive_within(Duration::from_millis(300)), None);
    assert_eq!(client.run("CONFIG SET min-replicas-to-write 0"), OK);
    assert!(waiter.receive().fence() > fence);
}
