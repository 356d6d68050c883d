//! Proves that a pause of writes ends nothing, whether an operator, a failover
//! or a shutdown makes it: a module that replicates meanwhile aborts the
//! server. So with AOF and a replica (without them the fault hides): what is due
//! waits for the end of the pause, and waits still time out.

mod support;

use std::time::{Duration, Instant};

use support::*;

/// A primary with AOF, and its replica with AOF too.
fn pair() -> (Server, Server) {
    start_with_companion(Server::builder().append_only())
}

/// Both are well, and agree.
fn check(mut primary: Server, mut replica: Server) {
    primary.check();
    replica.check();
    assert_agreement(&primary, &replica);
}

const PAUSE: Duration = Duration::from_millis(400);

#[test]
fn a_lease_that_ends_in_a_pause_of_writes_is_handed_over_after_it() {
    let (primary, replica) = pair();
    let mut client = primary.admin();
    let first = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    let start = Instant::now();
    client.transaction(&["FLOCK.REFRESH k t PX 60", "CLIENT PAUSE 400 WRITE"]);
    // It reads as not held from the end of its lease on, though nothing may be written.
    eventually(
        "the lease is over",
        || client.run("FLOCK.PTTL k t"),
        |left| *left == -2,
    );
    if start.elapsed() < PAUSE {
        assert!(client.run("FLOCK.INFO k").field("holders").items().is_empty());
    }
    assert!(waiter.receive().fence() > first);
    assert!(start.elapsed() >= PAUSE, "granted while writes were paused");
    check(primary, replica);
}

#[test]
fn a_lease_that_ends_while_all_is_paused_is_handed_over_after_it() {
    let (primary, replica) = pair();
    let mut client = primary.admin();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    let start = Instant::now();
    let pause = "CLIENT PAUSE 400 ALL";
    client.transaction(&["FLOCK.REFRESH k t PX 60", "FLOCK.ACQUIRE alone t PX 60", pause]);
    waiter.receive().fence();
    assert!(start.elapsed() >= PAUSE, "granted while all was paused");
    eventually(
        "the other is gone",
        || client.run("EXISTS alone"),
        |exists| *exists == 0,
    );
    check(primary, replica);
}

#[test]
fn waits_time_out_in_a_pause() {
    let (primary, replica) = pair();
    let mut client = primary.admin();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut waiter = primary.admin();
    let start = Instant::now();
    waiter.send_line("FLOCK.ACQUIRE k u PX 60000 BLOCK 150");
    eventually("u waits", || client.waiters("k"), |waiters| *waiters == 1);
    assert_eq!(client.run("CLIENT PAUSE 60000 WRITE"), OK);
    assert_eq!(waiter.receive(), NIL);
    assert!(start.elapsed() >= Duration::from_millis(150), "early");
    assert_eq!(client.run("CLIENT UNPAUSE"), OK);
    check(primary, replica);
}

#[test]
fn what_is_sent_in_a_pause_of_writes_is_done_after_it() {
    let (primary, replica) = pair();
    let mut client = primary.admin();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    assert_eq!(client.run("CLIENT PAUSE 60000 WRITE"), OK);
    let mut holder = primary.admin();
    holder.send_line("FLOCK.RELEASE k t");
    let mut newcomer = primary.admin();
    newcomer.send_line("FLOCK.ACQUIRE k v PX 60000 BLOCK 0");
    assert_eq!(waiter.receive_within(Duration::from_millis(50)), None);
    assert_eq!(client.run("CLIENT UNPAUSE"), OK);
    assert_eq!(holder.receive(), 1);
    waiter.receive().fence();
    client.run("FLOCK.RELEASE k u");
    newcomer.receive().fence();
    check(primary, replica);
}

#[test]
fn waiters_that_leave_in_a_pause_are_forgotten() {
    let (primary, replica) = pair();
    let mut client = primary.admin();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let gone = primary.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    let mut killed = primary.connect(Protocol::Resp2);
    let killed_id = killed.id();
    killed.send_line("FLOCK.ACQUIRE k v PX 60000 BLOCK 0");
    eventually("v waits", || client.waiters("k"), |waiters| *waiters == 2);
    let mut last = primary.enqueue("k", "FLOCK.ACQUIRE k w PX 60000 BLOCK 0");
    assert_eq!(client.run("CLIENT PAUSE 60000 WRITE"), OK);
    drop(gone);
    assert_eq!(client.run(&format!("CLIENT KILL ID {killed_id}")), 1);
    eventually("one is left", || client.waiters("k"), |waiters| *waiters == 1);
    assert_eq!(client.run("CLIENT UNPAUSE"), OK);
    client.run("FLOCK.RELEASE k t");
    last.receive().fence();
    check(primary, replica);
}

#[test]
fn a_grant_and_a_pause_in_one_transaction_end_nothing() {
    for commands in [
        vec!["FLOCK.RELEASE k t", "CLIENT PAUSE 200 WRITE"],
        vec!["CLIENT PAUSE 200 WRITE", "FLOCK.RELEASE k t"],
        vec!["CLIENT PAUSE 200 ALL", "FLOCK.RELEASE k t"],
        vec![
            "FLOCK.RELEASE k t",
            "CLIENT KILL ID {id}",
            "CLIENT PAUSE 200 WRITE",
        ],
        vec![
            "CLIENT PAUSE 200 WRITE",
            "FLOCK.RELEASE k t",
            "CLIENT KILL ID {id}",
        ],
        vec!["CLIENT PAUSE 200 WRITE", "DEL k"],
        vec!["DEL k", "CLIENT PAUSE 200 WRITE"],
        vec!["FLUSHALL", "CLIENT PAUSE 200 WRITE"],
    ] {
        let (primary, replica) = pair();
        let mut client = primary.admin();
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut first = primary.connect(Protocol::Resp2);
        let id = first.id().to_string();
        first.send_line("FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        eventually("u waits", || client.waiters("k"), |waiters| *waiters == 1);
        let mut second = primary.enqueue("k", "FLOCK.ACQUIRE k v PX 60000 BLOCK 0");
        let lines: Vec<_> = commands.iter().map(|line| line.replace("{id}", &id)).collect();
        client.transaction(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        if first.receive() == Reply::Closed {
            second.receive().fence();
        } else {
            assert_eq!(client.run("FLOCK.RELEASE k u"), 1, "{commands:?}");
            second.receive().fence();
        }
        check(primary, replica);
    }
}

#[test]
fn a_failover_that_fails_hands_over_afterwards() {
    let (primary, mut replica) = pair();
    let mut client = primary.admin();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    replica.stop();
    // The refresh is what the replica has to catch up with, and cannot.
    let start = Instant::now();
    let replies = client.transaction(&["FLOCK.REFRESH k t PX 100", "FAILOVER TIMEOUT 600"]);
    assert_eq!(replies[1], OK);
    waiter.receive().fence();
    assert!(
        start.elapsed() >= Duration::from_millis(500),
        "granted during the failover"
    );
    replica.resume();
    check(primary, replica);
}

#[test]
fn a_shutdown_with_waiters_ends_cleanly_and_the_lock_is_there_again() {
    let mut server = Server::builder().undressed().append_only().start();
    let mut client = server.admin();
    let fence = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut waiters: Vec<_> = (0..3)
        .map(|number| server.enqueue("k", &format!("FLOCK.ACQUIRE k w{number} PX 9999 BLOCK 0")))
        .collect();
    client.send_line("SHUTDOWN NOSAVE");
    for waiter in &mut waiters {
        assert_eq!(waiter.receive(), Reply::Closed);
    }
    let (status, log) = server.wait_for_exit();
    assert!(status.success(), "{status}");
    assert!(!log.contains("BUG REPORT"), "{log}");
    server.restart();
    let mut client = server.admin();
    assert_eq!(*client.run("FLOCK.INFO k").field("fence"), fence);
    assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
}

#[test]
fn a_shutdown_that_waits_for_a_replica_survives_the_end_of_a_lease() {
    let (mut primary, mut replica) = pair();
    let mut client = primary.admin();
    client.run("CONFIG SET shutdown-timeout 1");
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    replica.stop();
    // The refresh is what the shutdown waits for the replica to get.
    client.run("FLOCK.REFRESH k t PX 500");
    client.send_line("SHUTDOWN NOSAVE");
    assert_eq!(waiter.receive(), Reply::Closed);
    let (_, log) = primary.wait_for_exit();
    assert!(!log.contains("BUG REPORT"), "{log}");
    assert!(!log.contains("ASSERTION FAILED"), "{log}");
    replica.resume();
}
