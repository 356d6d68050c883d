//! Proves that a pause of writes puts everything off and ends nothing, and that a server which becomes a replica sends
//! its waiters away: also those who wait for several locks.

use std::time::{Duration, Instant};

use crate::support::*;
use crate::{assert_free, assert_held, assert_nobody_waits, enqueue};

const PAUSE: Duration = Duration::from_millis(400);

/// A primary with AOF, and its replica with AOF too: without them a fault would hide.
fn pair() -> (Server, Server) {
    start_with_companion(Server::builder().append_only())
}

/// Both are well, and agree.
#[track_caller]
fn check(mut primary: Server, mut replica: Server) {
    primary.check();
    replica.check();
    assert_agreement(&primary, &replica);
}

#[test]
fn a_lease_that_ends_in_a_pause_of_writes_is_handed_over_after_it() {
    for pause in ["CLIENT PAUSE 400 WRITE", "CLIENT PAUSE 400 ALL"] {
        let (primary, replica) = pair();
        let mut client = primary.admin();
        client.run("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
        let mut many = enqueue(&primary, "FLOCK.MACQUIRE 2 b c m PX 60000 BLOCK 0");
        let mut behind = enqueue(&primary, "FLOCK.ACQUIRE c s PX 60000 BLOCK 0");
        let start = Instant::now();
        client.transaction(&["FLOCK.MREFRESH 2 a b t PX 60", pause]);
        let fence = many.receive().fence();
        assert!(
            start.elapsed() >= PAUSE,
            "{pause}: granted while writes were paused"
        );
        assert_held(&mut client, "c", "m", fence);
        eventually("a is free", || client.run("EXISTS a"), |exists| *exists == 0);
        assert_eq!(client.run("FLOCK.MRELEASE 2 b c m"), 2);
        behind.receive().fence();
        check(primary, replica);
    }
}

#[test]
fn waits_time_out_in_a_pause_and_make_way_after_it() {
    let (primary, replica) = pair();
    let mut client = primary.admin();
    client.run("FLOCK.ACQUIRE a t PX 60000").fence();
    let mut many = primary.admin();
    let start = Instant::now();
    many.send_line("FLOCK.MACQUIRE 2 a b m PX 60000 BLOCK 2000");
    eventually("m waits", || client.stat("waiters"), |waiters| *waiters == 1);
    let mut behind = primary.admin();
    behind.send_line("FLOCK.ACQUIRE b s PX 60000 BLOCK 0");
    eventually("s waits", || client.stat("waiters"), |waiters| *waiters == 2);
    assert_eq!(client.run("CLIENT PAUSE 60000 WRITE"), OK);
    assert_eq!(many.receive(), NIL);
    assert!(start.elapsed() >= Duration::from_secs(2), "early");
    assert_free(&mut client, &["b"]);
    assert_eq!(client.run("CLIENT UNPAUSE"), OK);
    let fence = behind.receive().fence();
    assert_held(&mut client, "b", "s", fence);
    check(primary, replica);
}

/// Sends a command that is put off, from a client of its own, and returns that client once the server has read it: or
/// else which of several comes first would be up to the kernel.
#[track_caller]
fn send_into_the_pause(server: &Server, line: &str) -> Client {
    let (mut admin, mut client) = (server.admin(), server.admin());
    let list = format!("CLIENT LIST ID {}", client.id());
    client.send_line(line);
    eventually(
        &format!("it is put off: {line}"),
        || admin.run(&list).text(),
        |list| list.contains("cmd=flock."),
    );
    client
}

#[test]
fn what_is_sent_in_a_pause_of_writes_is_done_after_it() {
    let (primary, replica) = pair();
    let mut client = primary.admin();
    client.run("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
    let mut waiter = enqueue(&primary, "FLOCK.MACQUIRE 2 a c m PX 60000 BLOCK 0");
    assert_eq!(client.run("CLIENT PAUSE 60000 WRITE"), OK);
    let lines = [
        "FLOCK.MREFRESH 2 a b t PX 50000",
        "FLOCK.MRELEASE 2 a b t",
        "FLOCK.MACQUIRE 2 c d late PX 60000 BLOCK 0",
    ];
    let mut callers = lines.map(|line| send_into_the_pause(&primary, line));
    assert_eq!(waiter.receive_within(Duration::from_millis(50)), None);
    assert_eq!(client.run("CLIENT UNPAUSE"), OK);
    assert_eq!(callers[0].receive(), 2);
    assert_eq!(callers[1].receive(), 2);
    let fence = waiter.receive().fence();
    assert_eq!(client.run("FLOCK.MRELEASE 2 a c m"), 2);
    assert!(callers[2].receive().fence() > fence);
    check(primary, replica);
}

#[test]
fn grants_kills_and_pauses_in_one_transaction_end_nothing() {
    for commands in [
        vec!["FLOCK.MRELEASE 2 a b t", "CLIENT PAUSE 200 WRITE"],
        vec!["CLIENT PAUSE 200 WRITE", "FLOCK.MRELEASE 2 a b t"],
        vec!["CLIENT PAUSE 200 ALL", "FLOCK.MRELEASE 2 a b t"],
        vec![
            "FLOCK.MRELEASE 2 a b t",
            "CLIENT KILL ID {id}",
            "CLIENT PAUSE 200 WRITE",
        ],
        vec![
            "CLIENT PAUSE 200 WRITE",
            "FLOCK.MRELEASE 2 a b t",
            "CLIENT KILL ID {id}",
        ],
        vec!["FLUSHALL", "CLIENT PAUSE 200 WRITE"],
        vec!["CLIENT PAUSE 200 WRITE", "DEL a b"],
    ] {
        let (primary, replica) = pair();
        let mut client = primary.admin();
        client.run("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
        let mut first = primary.connect(Protocol::Resp2);
        let id = first.id().to_string();
        crate::enqueue_as(&primary, &mut first, "FLOCK.MACQUIRE 3 c a b m PX 60000 BLOCK 0");
        let mut second = enqueue(&primary, "FLOCK.MACQUIRE 2 b c n PX 60000 BLOCK 0");
        let lines: Vec<_> = commands.iter().map(|line| line.replace("{id}", &id)).collect();
        client.transaction(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        if first.receive() != Reply::Closed {
            assert_eq!(client.run("FLOCK.MRELEASE 3 a b c m"), 3, "{commands:?}");
        }
        let fence = second.receive().fence();
        assert_held(&mut client, "c", "n", fence);
        check(primary, replica);
    }
}

#[test]
fn a_demoted_primary_answers_all_its_waiters() {
    let server = Server::builder().undressed().start();
    let other = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE a t PX 600000").fence();
    let mut waiters = [
        "FLOCK.MACQUIRE 2 a b m PX 600000 BLOCK 0",
        "FLOCK.MACQUIRE 2 b c n PX 600000 BLOCK 0",
        "FLOCK.ACQUIRE c s PX 600000 BLOCK 0",
    ]
    .map(|line| enqueue(&server, line));
    let line = format!("REPLICAOF 127.0.0.1 {}", other.port());
    assert_eq!(client.run(&line), OK);
    for waiter in &mut waiters {
        assert_eq!(waiter.receive().error_word(), "UNBLOCKED");
    }
    assert_nobody_waits(&mut client);
    server.wait_for_link();
    assert_eq!(client.run("REPLICAOF NO ONE"), OK);
    client.run("FLOCK.MACQUIRE 3 a b c u PX 60000").fence();
}

#[test]
fn a_planned_failover_sends_the_waiters_away_and_loses_no_hold() {
    let (primary, replica) = pair();
    let mut client = primary.admin();
    let fence = client.run("FLOCK.MACQUIRE 2 a b t PX 600000").fence();
    let mut waiter = enqueue(&primary, "FLOCK.MACQUIRE 2 c a m PX 600000 BLOCK 0");
    let mut successor = fail_over(&primary, &replica);
    assert_eq!(waiter.receive().error_word(), "UNBLOCKED");
    assert_eq!(successor.run("FLOCK.MACQUIRE 2 b a t PX 600000"), fence);
    assert_eq!(successor.run("FLOCK.MRELEASE 2 a b t"), 2);
    primary.wait_for_link();
    assert_agreement(&replica, &primary);
}
