//! Proves that locks keep their promises in a cluster: redirections instead of
//! waits, and an answer for each waiter when its node is demoted or its slot
//! moves away. A lock that moves is never granted by the node it left.

mod support;

use support::*;

/// A key, and one of another slot.
const KEY: &str = "lock";
const SLOTS: u32 = 16_384;

/// A node that has `slots` (first and last).
fn node_with(slots: (u32, u32)) -> Server {
    let node = Server::builder().undressed().append_only().cluster_node().start();
    let (first, last) = slots;
    let line = format!("CLUSTER ADDSLOTSRANGE {first} {last}");
    assert_eq!(node.admin().run(&line), OK);
    node
}

fn wait_until_the_cluster_is_up(node: &Server) {
    let mut admin = node.admin();
    eventually(
        "the cluster is up",
        || admin.run("CLUSTER INFO").text(),
        |info| info.contains("cluster_state:ok"),
    );
}

/// Makes two nodes know each other.
fn introduce(node: &Server, other: &Server) {
    let bus = other
        .admin()
        .run("CONFIG GET cluster-port")
        .field("cluster-port")
        .text();
    let line = format!("CLUSTER MEET 127.0.0.1 {} {bus}", other.port());
    assert_eq!(node.admin().run(&line), OK);
    for node in [node, other] {
        let mut admin = node.admin();
        eventually(
            "the nodes know each other",
            || admin.run("CLUSTER NODES").text(),
            |nodes| nodes.lines().count() == 2 && !nodes.contains("handshake"),
        );
    }
}

fn id_of(node: &Server) -> String {
    node.admin().run("CLUSTER MYID").text()
}

/// One primary with all slots, and its replica.
fn primary_and_replica() -> (Server, Server) {
    let primary = node_with((0, SLOTS - 1));
    let replica = Server::builder().undressed().append_only().cluster_node().start();
    introduce(&replica, &primary);
    wait_until_the_cluster_is_up(&primary);
    let line = format!("CLUSTER REPLICATE {}", id_of(&primary));
    assert_eq!(replica.admin().run(&line), OK);
    replica.wait_for_link();
    wait_until_the_cluster_is_up(&replica);
    let mut admin = primary.admin();
    eventually(
        "the primary knows its replica",
        || admin.run("CLUSTER NODES").text(),
        |nodes| nodes.contains(" slave "),
    );
    (primary, replica)
}

/// Two primaries with half of the slots each; the first has [`KEY`]'s.
fn two_primaries() -> (Server, Server, i64) {
    let half = SLOTS / 2;
    let (source, target) = (node_with((0, half - 1)), node_with((half, SLOTS - 1)));
    introduce(&source, &target);
    wait_until_the_cluster_is_up(&source);
    wait_until_the_cluster_is_up(&target);
    let slot = source.admin().run(&format!("CLUSTER KEYSLOT {KEY}")).int();
    let (owner, other) = match slot < i64::from(half) {
        true => (source, target),
        false => (target, source),
    };
    (owner, other, slot)
}

#[test]
fn a_key_of_another_node_is_redirected_and_never_waited_for() {
    let (owner, other, slot) = two_primaries();
    let mut client = other.client();
    for line in [
        "FLOCK.ACQUIRE lock t PX 60000",
        "FLOCK.ACQUIRE lock t PX 60000 BLOCK 0",
        "FLOCK.REFRESH lock t PX 60000",
        "FLOCK.RELEASE lock t",
        "FLOCK.PTTL lock",
        "FLOCK.INFO lock",
        "FLOCK.BREAK lock",
    ] {
        let moved = format!("MOVED {slot} 127.0.0.1:{}", owner.port());
        assert_eq!(client.run(line), Reply::error(&moved), "{line}");
    }
}

#[test]
fn a_primary_of_a_cluster_that_is_demoted_answers_its_waiters() {
    let (primary, replica) = primary_and_replica();
    let mut client = primary.client();
    let fence = client.run("FLOCK.ACQUIRE lock t PX 600000").fence();
    let mut waiters: Vec<_> = (0..3)
        .map(|index| primary.enqueue(KEY, &format!("FLOCK.ACQUIRE lock w{index} PX 9999 BLOCK 0")))
        .collect();
    assert_eq!(replica.admin().run("CLUSTER FAILOVER"), OK);
    for waiter in &mut waiters {
        // The server itself redirects them, or else the module tells them why.
        match waiter.receive() {
            Reply::Closed => {}
            reply => assert!(["MOVED", "UNBLOCKED"].contains(&reply.error_word()), "{reply:?}"),
        }
    }
    assert_eq!(primary.admin().stat("waiters"), 0);
    let mut client = replica.client();
    eventually(
        "the replica is the primary",
        || client.info("replication", "role"),
        |role| role == "master",
    );
    assert_eq!(*client.run("FLOCK.INFO lock").field("fence"), fence);
    assert_eq!(client.run("FLOCK.RELEASE lock t"), 1);
    primary.wait_for_link();
    assert_agreement(&replica, &primary);
}

/// After the lock has moved: the waiter at the node it left is told so, the
/// holder still holds, and there is no second lock.
#[track_caller]
fn assert_moved(owner: &Server, target: &Server, fence: i64, mut waiter: Client) {
    let mut client = target.client();
    eventually(
        "the lock has moved",
        || client.run("FLOCK.INFO lock"),
        |info| matches!(info, Reply::List(_)),
    );
    assert_eq!(*client.run("FLOCK.INFO lock").field("fence"), fence);
    match waiter.receive() {
        Reply::Closed => {}
        reply => assert!(["MOVED", "UNBLOCKED"].contains(&reply.error_word()), "{reply:?}"),
    }
    assert_eq!(owner.admin().stat("waiters"), 0);
    assert_eq!(client.run("FLOCK.REFRESH lock t PX 300"), 1);
    let mut next = target.client();
    next.send_line("FLOCK.ACQUIRE lock next PX 60000 BLOCK 0");
    assert!(next.receive().fence() > fence, "the lease ends at the new node");
}

/// A held lock with a waiter at its owner.
#[track_caller]
fn held_with_waiter(owner: &Server) -> (i64, Client) {
    let fence = owner.admin().run("FLOCK.ACQUIRE lock t PX 600000").fence();
    let waiter = owner.enqueue(KEY, "FLOCK.ACQUIRE lock u PX 600000 BLOCK 0");
    (fence, waiter)
}

#[test]
fn a_lock_that_is_migrated_key_by_key_is_not_granted_where_it_was() {
    let (owner, target, slot) = two_primaries();
    let (fence, waiter) = held_with_waiter(&owner);
    let (owner_id, target_id) = (id_of(&owner), id_of(&target));
    let (mut source, mut destination) = (owner.admin(), target.admin());
    let line = format!("CLUSTER SETSLOT {slot} IMPORTING {owner_id}");
    assert_eq!(destination.run(&line), OK);
    assert_eq!(
        source.run(&format!("CLUSTER SETSLOT {slot} MIGRATING {target_id}")),
        OK
    );
    assert_eq!(
        source.run(&format!("MIGRATE 127.0.0.1 {} lock 0 5000", target.port())),
        OK
    );
    let line = format!("CLUSTER SETSLOT {slot} NODE {target_id}");
    for node in [&mut destination, &mut source] {
        assert_eq!(node.run(&line), OK);
    }
    assert_moved(&owner, &target, fence, waiter);
}

#[test]
fn a_lock_in_a_slot_that_is_migrated_whole_is_not_granted_where_it_was() {
    let build = Build::get();
    if !build.is_since((8, 4), (9, 0)) {
        return; // no such command
    }
    let (owner, target, slot) = two_primaries();
    let (fence, waiter) = held_with_waiter(&owner);
    let started = match build.is_valkey {
        true => owner.admin().run(&format!(
            "CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}",
            id_of(&target)
        )),
        false => target
            .admin()
            .run(&format!("CLUSTER MIGRATION IMPORT {slot} {slot}")),
    };
    assert!(!matches!(started, Reply::Error(_)), "{started:?}");
    assert_moved(&owner, &target, fence, waiter);
}
