//! Proves that the queue moves on at once whatever removes or replaces the key
//! under it: every command that can, alone, in MULTI and in a script; and that
//! a lock that was moved keeps its lease at its new place.

mod support;

use std::time::{Duration, Instant};

use support::*;

/// How a command reaches the server.
#[derive(Clone, Copy, Debug)]
enum Way {
    Alone,
    Transaction,
    Script,
}

const WAYS: [Way; 3] = [Way::Alone, Way::Transaction, Way::Script];

#[track_caller]
fn run(client: &mut Client, way: Way, line: &str) -> Reply {
    match way {
        Way::Alone => client.run(line),
        Way::Transaction => client.transaction(&[line]).remove(0),
        Way::Script => client.script(line),
    }
}

/// A lock `k` of `t`, and the first in its queue.
#[track_caller]
fn held_lock_with_waiter(server: &Server, client: &mut Client) -> (i64, Client) {
    let fence = client.run("FLOCK.ACQUIRE k t PX 600000").fence();
    let waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
    (fence, waiter)
}

/// The key is gone from its place after `removal`, so the waiter is granted.
#[track_caller]
fn assert_granted_after(removal: &str) {
    for way in WAYS {
        let server = Server::start();
        let mut client = server.client();
        client.run("SET other text");
        let (fence, mut waiter) = held_lock_with_waiter(&server, &mut client);
        let behind = server.enqueue("k", "FLOCK.ACQUIRE k v PX 600000 BLOCK 0");
        let reply = run(&mut client, way, removal);
        assert!(!matches!(reply, Reply::Error(_)), "{removal}, {way:?}: {reply:?}");
        let next = waiter.receive().fence();
        assert!(next > fence, "{removal}, {way:?}: {next} > {fence}");
        let info = client.run("FLOCK.INFO k");
        assert_eq!(*info.field("fence"), next, "{removal}, {way:?}");
        assert_eq!(*info.field("waiters"), 1, "{removal}, {way:?}");
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0, "{removal}, {way:?}");
        drop(behind);
    }
}

#[test]
fn del_and_unlink_grant_the_next() {
    for removal in ["DEL k", "UNLINK k", "DEL other k", "UNLINK k other"] {
        assert_granted_after(removal);
    }
}

#[test]
fn flushing_grants_the_next() {
    for removal in [
        "FLUSHDB",
        "FLUSHALL",
        "FLUSHDB ASYNC",
        "FLUSHALL ASYNC",
        "FLUSHALL SYNC",
    ] {
        assert_granted_after(removal);
    }
}

#[test]
fn a_native_expiry_grants_the_next() {
    for removal in [
        "PEXPIRE k 1",
        "PEXPIRE k 50",
        "EXPIRE k 0",
        "EXPIRE k -1",
        "PEXPIREAT k 1",
        "EXPIREAT k 1",
    ] {
        assert_granted_after(removal);
    }
}

#[test]
fn moving_the_key_away_grants_the_next() {
    for removal in [
        "RENAME k elsewhere",
        "RENAMENX k elsewhere",
        "MOVE k 1",
        "RENAME k other",
    ] {
        assert_granted_after(removal);
    }
}

#[test]
fn swapping_the_database_for_an_empty_one_grants_the_next() {
    for removal in ["SWAPDB 0 1", "SWAPDB 1 0"] {
        assert_granted_after(removal);
    }
}

#[test]
fn eviction_grants_the_next() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("CONFIG SET maxmemory-policy allkeys-lru");
    let (fence, mut waiter) = held_lock_with_waiter(&server, &mut client);
    client.run("CONFIG SET maxmemory 1");
    // Any command makes the server evict; the grant itself may be evicted again.
    client.run("PING");
    let next = waiter.receive().fence();
    assert!(next > fence);
    client.run("CONFIG SET maxmemory 0");
    eventually(
        "the first holder has lost the lock",
        || client.run("FLOCK.PTTL k t"),
        |left| *left == -2,
    );
}

/// `k` holds a value of another type after `replacement`, and keeps it.
#[track_caller]
fn assert_wrongtype_after(replacement: &str) {
    for way in WAYS {
        let server = Server::start();
        let mut client = server.client();
        client.run("SET other text");
        client.run("RPUSH list a");
        client.run("SADD set a");
        let (_, mut first) = held_lock_with_waiter(&server, &mut client);
        let mut second = server.enqueue("k", "FLOCK.ACQUIRE k v PX 600000 BLOCK 0");
        let reply = run(&mut client, way, replacement);
        assert!(
            !matches!(reply, Reply::Error(_)),
            "{replacement}, {way:?}: {reply:?}"
        );
        for waiter in [&mut first, &mut second] {
            assert_eq!(
                waiter.receive().error_word(),
                "WRONGTYPE",
                "{replacement}, {way:?}"
            );
        }
        assert_ne!(client.run("TYPE k"), "flocklock", "{replacement}, {way:?}");
        assert_eq!(client.run("EXISTS k"), 1, "{replacement}, {way:?}");
        assert_eq!(client.stat("waiters"), 0, "{replacement}, {way:?}");
    }
}

#[test]
fn a_value_of_another_type_over_the_lock_ends_all_waits() {
    for replacement in [
        "SET k text",
        "MSET other 1 k text",
        "RENAME other k",
        "RENAME list k",
        "SUNIONSTORE k set",
    ] {
        assert_wrongtype_after(replacement);
    }
}

#[test]
fn a_restored_value_of_another_type_ends_all_waits() {
    let server = Server::start();
    let mut client = server.client();
    client.run("SET other text");
    let payload = client.run("DUMP other");
    let (_, mut waiter) = held_lock_with_waiter(&server, &mut client);
    assert_eq!(client.call(("RESTORE", "k", 0, payload.bytes(), "REPLACE")), OK);
    assert_eq!(waiter.receive().error_word(), "WRONGTYPE");
    assert_eq!(client.run("GET k"), "text");
}

#[test]
fn behind_a_lock_that_replaces_the_lock_the_queue_waits_on() {
    for replace in ["RENAME other k", "restore"] {
        let server = Server::start();
        let mut client = server.client();
        let newer = client.run("FLOCK.ACQUIRE other owner PX 600000").fence();
        let payload = client.run("DUMP other");
        let (_, mut waiter) = held_lock_with_waiter(&server, &mut client);
        let reply = match replace {
            "restore" => client.call(("RESTORE", "k", 0, payload.bytes(), "REPLACE")),
            line => client.run(line),
        };
        assert_eq!(reply, OK, "{replace}");
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0, "{replace}");
        let info = client.run("FLOCK.INFO k");
        assert_eq!(*info.field("fence"), newer, "{replace}");
        assert_eq!(*info.field("waiters"), 1, "{replace}");
        assert_eq!(client.run("FLOCK.RELEASE k owner"), 1, "{replace}");
        assert!(waiter.receive().fence() > newer, "{replace}");
    }
}

/// The lock `k` with a short lease is moved to `place` in `database` by
/// `line`; a waiter there is granted when the lease ends, and not before.
#[track_caller]
fn assert_lease_moves(line: &str, database: u32, place: &str) {
    const LEASE: Duration = Duration::from_millis(250);
    let server = Server::start();
    let mut client = server.client();
    let before = Instant::now();
    let fence = client.run("FLOCK.ACQUIRE k t PX 250 LABEL moved").fence();
    let mut left_behind = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
    client.run(line);
    let granted_behind = left_behind.receive().fence();
    client.run(&format!("SELECT {database}"));
    let info = client.run(&format!("FLOCK.INFO {place}"));
    // A machine too slow for the lease proves nothing here, and nothing against it.
    if info != NIL && before.elapsed() < LEASE {
        assert_eq!(*info.field("fence"), fence, "{line}");
        assert_eq!(
            *info.field("holders").items()[0].field("label"),
            "moved",
            "{line}"
        );
    }
    let mut waiter = server.admin();
    waiter.run(&format!("SELECT {database}"));
    waiter.send_line(&format!("FLOCK.ACQUIRE {place} v PX 600000 BLOCK 0"));
    assert!(waiter.receive().fence() > granted_behind, "{line}");
    assert!(
        before.elapsed() >= LEASE,
        "{line}: granted before the lease was over"
    );
}

#[test]
fn a_lock_that_was_moved_ends_on_time_at_its_new_place() {
    assert_lease_moves("RENAME k elsewhere", 0, "elsewhere");
    assert_lease_moves("MOVE k 3", 3, "k");
    assert_lease_moves("SWAPDB 0 3", 3, "k");
}

#[test]
fn a_lock_that_was_moved_and_then_left_alone_ends_on_time_too() {
    if !Build::get().tells_of_moves() {
        return; // there it ends when a command next touches it
    }
    for (line, database) in [("RENAME k elsewhere", 0), ("MOVE k 3", 3), ("SWAPDB 0 3", 3)] {
        let server = Server::start();
        let mut client = server.client();
        client.run("FLOCK.ACQUIRE k t PX 300").fence();
        client.run(line);
        client.run(&format!("SELECT {database}"));
        eventually("the key is gone", || client.run("DBSIZE"), |keys| *keys == 0);
        assert_eq!(client.stat("leases_expired"), 1, "{line}");
    }
}

#[test]
fn a_lock_that_was_moved_is_still_its_holders() {
    for (line, database, place) in [
        ("RENAME k elsewhere", 0, "elsewhere"),
        ("MOVE k 3", 3, "k"),
        ("SWAPDB 3 0", 3, "k"),
    ] {
        let server = Server::start();
        let mut client = server.client();
        let fence = client.run("FLOCK.ACQUIRE k t PX 600000").fence();
        client.run(line);
        client.run(&format!("SELECT {database}"));
        assert_eq!(
            client.run(&format!("FLOCK.ACQUIRE {place} t PX 1")),
            fence,
            "{line}"
        );
        assert_eq!(
            client.run(&format!("FLOCK.REFRESH {place} t PX 600000")),
            1,
            "{line}"
        );
        assert_eq!(client.run(&format!("FLOCK.RELEASE {place} t")), 1, "{line}");
        assert_eq!(client.run("EXISTS k elsewhere"), 0, "{line}");
    }
}

#[test]
fn swapping_two_databases_swaps_the_locks_and_not_the_queues() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k zero PX 600000").fence();
    let mut waits_in_0 = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
    client.run("SELECT 1");
    client.run("FLOCK.ACQUIRE k one PX 600000").fence();
    let mut waits_in_1 = server.enqueue_in(1, "k", "FLOCK.ACQUIRE k v PX 600000 BLOCK 0");
    assert_eq!(client.run("SWAPDB 0 1"), OK);
    // A client stays in the database it chose, so it waits for the other lock now.
    assert_eq!(client.run("FLOCK.RELEASE k zero"), 1);
    waits_in_1.receive().fence();
    client.run("SELECT 0");
    assert_eq!(client.waiters("k"), 1);
    assert_eq!(client.run("FLOCK.RELEASE k one"), 1);
    waits_in_0.receive().fence();
}

#[test]
fn swapping_in_a_value_of_another_type_ends_all_waits() {
    let server = Server::start();
    let mut client = server.client();
    client.run("SELECT 1");
    client.run("SET k text");
    client.run("SELECT 0");
    let (_, mut waiter) = held_lock_with_waiter(&server, &mut client);
    assert_eq!(client.run("SWAPDB 0 1"), OK);
    assert_eq!(waiter.receive().error_word(), "WRONGTYPE");
}

#[test]
fn a_newcomer_in_the_same_transaction_does_not_overtake_the_queue() {
    for removal in ["DEL k", "FLUSHALL", "RENAME k elsewhere", "PEXPIREAT k 1"] {
        let server = Server::start();
        let mut client = server.client();
        let (_, mut waiter) = held_lock_with_waiter(&server, &mut client);
        let replies = client.transaction(&[removal, "FLOCK.ACQUIRE k newcomer PX 60000"]);
        assert_eq!(replies[1], NIL, "{removal}");
        let fence = waiter.receive().fence();
        assert_eq!(*client.run("FLOCK.INFO k").field("fence"), fence, "{removal}");
    }
}

#[test]
fn a_lock_removed_and_replaced_in_one_transaction_counts_as_what_is_there_at_its_end() {
    let server = Server::start();
    let mut client = server.client();
    let (_, mut waiter) = held_lock_with_waiter(&server, &mut client);
    client.transaction(&["DEL k", "SET k text"]);
    assert_eq!(waiter.receive().error_word(), "WRONGTYPE");
    client.run("DEL k");

    let (_, mut waiter) = held_lock_with_waiter(&server, &mut client);
    client.transaction(&["SET k text", "DEL k"]);
    waiter.receive().fence();
}

#[test]
fn all_locks_of_a_flushed_server_are_granted_anew() {
    let server = Server::start();
    let mut client = server.client();
    let mut waiters = Vec::new();
    for number in 0..50 {
        client
            .run(&format!("FLOCK.ACQUIRE k{number} t PX 600000"))
            .fence();
        let line = format!("FLOCK.ACQUIRE k{number} u PX 600000 BLOCK 0");
        waiters.push(server.enqueue(&format!("k{number}"), &line));
    }
    assert_eq!(client.run("FLUSHALL"), OK);
    for waiter in &mut waiters {
        waiter.receive().fence();
    }
    assert_eq!(client.run("DBSIZE"), 50);
    assert_eq!(client.stat("held_locks"), 50);
    assert_eq!(client.stat("waiters"), 0);
}
