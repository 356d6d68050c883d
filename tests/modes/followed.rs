//! Proves that replicas know of modes, holds, delays and closures, decide nothing
//! themselves, and go on where their primary was once they are promoted.

use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::look::{closed_ms, look, lose, wait_until_closed, LONG_MS};
use crate::support::*;

/// Every kind of transition once; a lock of each kind is left behind.
fn live(server: &Server, client: &mut Client) {
    for line in [
        "FLOCK.ACQUIRE readers a PX 600000 SHARED LABEL one",
        "FLOCK.ACQUIRE readers b PX 600000 SHARED REENTRANT",
        "FLOCK.ACQUIRE readers b PX 900000 SHARED REENTRANT",
        "FLOCK.ACQUIRE permits a PX 600000 PERMITS 3 DELAY 7",
        "FLOCK.ACQUIRE permits b PX 600000 PERMITS 3",
        "FLOCK.ACQUIRE permits c PX 20 PERMITS 3",
        "FLOCK.ACQUIRE entered a PX 600000 REENTRANT LABEL x",
        "FLOCK.ACQUIRE entered a PX 1 REENTRANT",
        "FLOCK.ACQUIRE entered a PX 900000 REENTRANT DELAY 600000",
        "FLOCK.ACQUIRE broken a PX 600000 SHARED",
        "FLOCK.ACQUIRE broken b PX 600000 SHARED",
        "FLOCK.ACQUIRE opened a PX 20 DELAY 20",
        "FLOCK.ACQUIRE k keeper PX 600000 SHARED",
    ] {
        client.run(line).fence();
    }
    lose(client, "lost", "SHARED LABEL gone");
    for line in [
        "FLOCK.RELEASE entered a",
        "FLOCK.REFRESH readers a PX 700000",
        "FLOCK.BREAK broken",
    ] {
        assert!(client.run(line).int() > 0, "{line}");
    }
    hand_over(server, client);
    lose_sessions(server, client);
    eventually(
        "it is open",
        || client.run("EXISTS opened"),
        |exists| *exists == 0,
    );
}

/// A writer gives way to a row of readers, of whom one leaves.
fn hand_over(server: &Server, client: &mut Client) {
    client.run("FLOCK.ACQUIRE row w PX 600000").fence();
    let mut readers = ["a", "b", "c"].map(|token| {
        let line = format!("FLOCK.ACQUIRE row {token} PX 600000 SHARED BLOCK 0 LABEL {token}");
        server.enqueue("row", &line)
    });
    client.run("FLOCK.RELEASE row w");
    for reader in &mut readers {
        reader.receive().fence();
    }
    client.run("FLOCK.RELEASE row b");
}

fn lose_sessions(server: &Server, client: &mut Client) {
    let mut holder = Connection::open(server);
    for line in [
        "FLOCK.ACQUIRE tied a PX 600000 SESSION SHARED",
        "FLOCK.ACQUIRE closed a PX 600000 SESSION DELAY 600000",
    ] {
        holder.client.run(line).fence();
    }
    client
        .run("FLOCK.ACQUIRE tied b PX 600000 SHARED SESSION")
        .fence();
    drop(holder);
    wait_until_closed(client, "closed");
    eventually(
        "a is lost",
        || look(client, "tied").holders.len(),
        |holders| *holders == 1,
    );
}

#[test]
fn a_replica_agrees_after_every_kind_of_transition() {
    let (server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    live(&server, &mut client);
    assert_agreement(&server, &replica);
    let mut follower = replica.admin();
    let entered = look(&mut follower, "entered");
    assert_eq!(
        (entered.holder().holds, entered.holder().label.as_str()),
        (2, "x")
    );
    assert_eq!(look(&mut follower, "permits").permits, 3);
    assert!(look(&mut follower, "k").is_closed);
    assert!(!look(&mut follower, "tied").holder().has_session);
    let delay_ms = closed_ms(&mut follower, "closed");
    assert!((LONG_MS / 2..=LONG_MS).contains(&delay_ms), "{delay_ms}");
}

#[test]
fn a_replica_that_comes_late_agrees_too_and_so_does_one_behind_it() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    live(&server, &mut client);
    let middle = server.start_replica(Server::builder().append_only());
    let last = middle.start_replica(Server::builder().append_only());
    assert_agreement(&server, &middle);
    assert_agreement(&server, &last);
    // What changes from now on arrives as commands.
    client.run("FLOCK.ACQUIRE entered a PX 600000 REENTRANT").fence();
    client.run("FLOCK.BREAK k");
    client.run("FLOCK.BREAK closed");
    client.run("FLOCK.RELEASE readers b");
    assert_agreement(&server, &middle);
    assert_agreement(&server, &last);
    assert_eq!(client.run("EXISTS k closed"), 0);
}

#[test]
fn a_closure_is_never_shorter_on_the_replica() {
    let (server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    for _ in 0..10 {
        lose(&mut client, "t", "");
        wait_for_replicas(&mut client, 1);
        let left_ms = closed_ms(&mut client, "k");
        let there_ms = closed_ms(&mut replica.admin(), "k");
        // The primary was asked first, so there a part of the time may have passed meanwhile.
        let after_ms = closed_ms(&mut client, "k");
        assert!(there_ms >= after_ms.min(left_ms), "{there_ms} of {after_ms} ms");
        client.run("FLOCK.BREAK k");
    }
}

/// The primary hangs while a delay runs out: it alone may open the lock.
#[test]
fn a_replica_never_opens_a_lock_itself() {
    let (mut server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 20 DELAY 4000").fence();
    let mut follower = replica.admin();
    eventually(
        "the closure is there",
        || closed_ms(&mut follower, "k"),
        |left_ms| *left_ms > 0,
    );
    server.stop();
    eventually(
        "the delay is over",
        || follower.run("FLOCK.INFO k"),
        |info| *info == NIL,
    );
    let exists = follower.run("EXISTS k");
    assert_eq!(exists, 1, "stopped too late, or opened by the replica");
    server.resume();
    eventually(
        "the primary opens it",
        || follower.run("EXISTS k"),
        |exists| *exists == 0,
    );
    assert_agreement(&server, &replica);
}

#[test]
fn a_promoted_replica_keeps_a_lock_closed_and_serves_those_who_wait_when_it_opens() {
    let (mut server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    let earliest = Instant::now() + Duration::from_millis(20 + 1_500);
    let fence = client.run("FLOCK.ACQUIRE k t PX 20 DELAY 1500").fence();
    eventually("it is lost", || client.run("FLOCK.PTTL k"), |left| *left == -2);
    wait_for_replicas(&mut client, 1);
    server.kill9();
    let mut client = promote(&replica);
    let reply = client.run("FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
    assert!(reply.fence() > fence);
    assert!(Instant::now() >= earliest, "granted while the lock was closed");
}

#[test]
fn a_promoted_replica_knows_what_is_closed_and_by_whom() {
    let (mut server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k keeper PX 600000 SHARED").fence();
    lose(&mut client, "t", "SHARED");
    let before = look(&mut client, "k");
    wait_for_replicas(&mut client, 1);
    server.kill9();
    let mut client = promote(&replica);
    assert_eq!(look(&mut client, "k"), before);
    assert_eq!(client.run("FLOCK.ACQUIRE k t PX 600000 SHARED"), NIL);
    let mut waiter = replica.enqueue("k", "FLOCK.ACQUIRE k t PX 600000 SHARED BLOCK 0");
    assert_eq!(client.run("FLOCK.RELEASE k keeper"), 1);
    assert_eq!(client.waiters("k"), 1);
    assert_eq!(client.run("FLOCK.BREAK k"), 0);
    waiter.receive().fence();
}

#[test]
fn a_lease_that_runs_out_at_the_new_primary_closes_the_lock_there() {
    let (mut server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    let fence = client.run("FLOCK.ACQUIRE k t PX 600000 DELAY 600000").fence();
    client.run("FLOCK.ACQUIRE k t PX 600000 REENTRANT").fence();
    wait_for_replicas(&mut client, 1);
    server.kill9();
    let mut client = promote(&replica);
    assert_eq!(look(&mut client, "k").holder().holds, 2);
    assert_eq!(client.run("FLOCK.REFRESH k t PX 20"), 1);
    wait_until_closed(&mut client, "k");
    let seen = look(&mut client, "k");
    assert_eq!((seen.fence, seen.holders.len()), (fence, 0));
}

#[test]
fn a_promoted_replica_goes_on_with_readers_permits_and_entries() {
    let (mut server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    live(&server, &mut client);
    wait_for_replicas(&mut client, 1);
    server.kill9();
    let mut client = promote(&replica);
    for (line, reply) in [
        ("FLOCK.RELEASE readers b", 1),
        ("FLOCK.RELEASE readers b", 1),
        ("FLOCK.RELEASE readers b", 0),
        ("FLOCK.RELEASE entered a", 1),
        ("FLOCK.RELEASE entered a", 1),
        ("FLOCK.RELEASE entered a", 0),
    ] {
        assert_eq!(client.run(line), reply, "{line}");
    }
    let mut writer = replica.enqueue("readers", "FLOCK.ACQUIRE readers w PX 600000 BLOCK 0");
    assert_eq!(client.run("FLOCK.RELEASE readers a"), 1);
    writer.receive().fence();
    client
        .run("FLOCK.ACQUIRE permits new PX 600000 PERMITS 3")
        .fence();
    assert_eq!(client.run("FLOCK.ACQUIRE permits more PX 600000 PERMITS 3"), NIL);
    assert_eq!(client.run("FLOCK.BREAK permits"), 3);
}
