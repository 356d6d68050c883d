//! Proves that replicas agree with their primary, on the wire and on the disk,
//! and that they never decide anything themselves.

use std::time::{Duration, Instant};

use crate::support::*;

fn primary() -> Server {
    Server::builder().undressed().start()
}

/// Every kind of transition once, a held lock left behind.
fn live(server: &Server, client: &mut Client) {
    client
        .run("FLOCK.ACQUIRE held tok PX 600000 LABEL keeper")
        .fence();
    client.run("FLOCK.REFRESH held tok PX 500000");
    client.run("FLOCK.ACQUIRE held tok PX 550000");
    client.run("FLOCK.ACQUIRE broken tok PX 600000").fence();
    client.run("FLOCK.BREAK broken");
    client.run("FLOCK.ACQUIRE passed tok PX 600000").fence();
    let mut waiter = server.enqueue("passed", "FLOCK.ACQUIRE passed next PX 30 BLOCK 0 LABEL heir");
    client.run("FLOCK.RELEASE passed tok");
    waiter.receive().fence();
    eventually(
        "the heir's lease ends",
        || client.run("EXISTS passed"),
        |exists| *exists == 0,
    );
}

#[test]
fn a_replica_agrees_after_every_kind_of_transition() {
    let (server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    live(&server, &mut client);
    assert_agreement(&server, &replica);
    let info = replica.admin().run("FLOCK.INFO held");
    assert_eq!(*info.field("holders").items()[0].field("label"), "keeper");
}

#[test]
fn a_replica_that_comes_late_agrees_too() {
    let server = primary();
    let mut client = server.client();
    let lease = Lease::take(&mut client, "long", "tok", 600_000, "LABEL early");
    live(&server, &mut client);
    let replica = start_companion(&server);
    assert_agreement(&server, &replica);
    lease.assert_not_shorter(&mut replica.admin(), "long");
}

#[test]
fn a_lease_is_never_shorter_on_the_replica() {
    let (server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    for index in 0..50 {
        let key = format!("k{index}");
        let lease = Lease::take(&mut client, &key, "tok", 60_000, "");
        wait_for_replicas(&mut client, 1);
        lease.assert_not_shorter(&mut replica.admin(), &key);
    }
}

#[test]
fn a_replica_of_a_replica_agrees() {
    let server = primary();
    let middle = server.start_replica(Server::builder().append_only());
    let last = middle.start_replica(Server::builder().append_only());
    let mut client = server.client();
    live(&server, &mut client);
    assert_agreement(&server, &middle);
    assert_agreement(&server, &last);
}

#[test]
fn a_replica_answers_questions_and_grants_nothing() {
    let (server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    wait_for_replicas(&mut client, 1);
    let mut follower = replica.admin();
    assert!(follower.run("FLOCK.PTTL k tok").int() > 0);
    assert_ne!(follower.run("FLOCK.INFO k"), NIL);
    for read_only in ["yes", "no"] {
        follower.call(("CONFIG", "SET", "replica-read-only", read_only));
        for line in [
            "FLOCK.ACQUIRE free tok PX 60000",
            "FLOCK.ACQUIRE free tok PX 60000 BLOCK 0",
            "FLOCK.ACQUIRE k tok PX 900000",
            "FLOCK.REFRESH k tok PX 900000",
            "FLOCK.RELEASE k tok",
            "FLOCK.BREAK k",
        ] {
            assert_eq!(follower.run(line).error_word(), "READONLY", "{line}, {read_only}");
        }
    }
}

#[test]
fn no_client_may_send_effects_not_even_to_a_writable_replica() {
    let (server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    wait_for_replicas(&mut client, 1);
    let mut follower = replica.admin();
    follower.run("CONFIG SET replica-read-only no");
    for line in [
        "FLOCK.APPLY k GRANT 9 thief 60000 1",
        "FLOCK.APPLY k RELEASE 9",
        "FLOCK.FENCE 9",
    ] {
        for refuser in [&mut client, &mut follower] {
            assert_eq!(refuser.run(line).error_word(), "ERR", "{line}");
        }
    }
    assert_agreement(&server, &replica);
}

/// The primary hangs while a lease runs out: it alone may end it, for it alone knows of a refresh
/// that is on its way.
#[test]
fn a_replica_never_ends_a_lease_itself() {
    let (mut server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    let lease = Lease::take(&mut client, "k", "tok", 1_500, "");
    wait_for_replicas(&mut client, 1);
    let mut follower = replica.admin();
    server.stop();
    assert!(
        Instant::now() < lease.earliest_end(),
        "stopped too late to prove anything"
    );
    std::thread::sleep(lease.latest_end().saturating_duration_since(Instant::now()));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(follower.run("EXISTS k"), 1);
    // It reads as what it is by the clock: over.
    assert_eq!(follower.run("FLOCK.PTTL k"), -2);
    assert_eq!(follower.run("FLOCK.INFO k"), NIL);
    server.resume();
    eventually(
        "the primary ends it",
        || follower.run("EXISTS k"),
        |exists| *exists == 0,
    );
    assert_agreement(&server, &replica);
}

#[test]
fn a_replicas_own_file_has_every_effect() {
    let server = primary();
    let mut replica = server.start_replica(Server::builder().append_only());
    wait_for_own_file(&mut replica.admin());
    let mut client = server.client();
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "LABEL here");
    client
        .run("FLOCK.ACQUIRE gone tok PX 600000 ABOVE 4503599627370496")
        .fence();
    let last = client.stat("last_fence");
    client.run("FLOCK.RELEASE gone tok");
    wait_for_replicas(&mut client, 1);
    replica.kill9();
    // Back without its primary: what it knows, it has from its own file.
    let file = replica.directory().join("server.conf");
    let configuration = std::fs::read_to_string(&file).expect("the configuration");
    let alone: Vec<_> = configuration
        .lines()
        .filter(|line| !line.starts_with("replicaof"))
        .collect();
    std::fs::write(&file, alone.join("\n") + "\n").expect("the configuration");
    replica.restart();
    let mut follower = replica.admin();
    lease.assert_runs_on(&mut follower);
    assert_eq!(*follower.run("FLOCK.INFO k").field("fence"), lease.fence);
    assert_eq!(follower.run("EXISTS gone"), 0);
    assert_eq!(follower.run("FLOCK.ACQUIRE new tok PX 1000"), last + 1);
    assert_eq!(follower.run("FLOCK.RELEASE k tok"), 1);
}

#[test]
fn wait_covers_a_grant_from_the_queue() {
    let (server, _replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
    client.run("FLOCK.RELEASE k tok");
    waiter.receive().fence();
    assert_eq!(waiter.run("WAIT 1 20000"), 1);
}
