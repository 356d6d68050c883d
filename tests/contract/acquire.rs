//! Proves what ACQUIRE promises when nobody has to wait: the grant, the busy
//! nil, the retry after a lost reply, and tokens made by the server.

use std::collections::HashSet;

use crate::support::*;

#[test]
fn a_free_lock_is_granted_with_a_fence() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        assert_eq!(client.run("TYPE k"), "flocklock");
        let info = client.run("FLOCK.INFO k");
        assert_eq!(*info.field("fence"), fence);
        assert_eq!(*info.field("holders").items()[0].field("fence"), fence);
    });
}

#[test]
fn the_key_exists_exactly_while_the_lock_is_held() {
    in_both_protocols(|_, client| {
        assert_eq!(client.run("DBSIZE"), 0);
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        assert_eq!(
            client.run("KEYS *"),
            Reply::List(vec![Reply::Bulk(b"k".to_vec())])
        );
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        assert_eq!(client.run("DBSIZE"), 0);
        client.run("FLOCK.ACQUIRE k t PX 20").fence();
        eventually(
            "the key is gone",
            || client.run("EXISTS k"),
            |exists| *exists == 0,
        );
    });
}

#[test]
fn a_lock_held_by_another_is_nil_and_stays_as_it_was() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.ACQUIRE k t PX 60000 LABEL first").fence();
        assert_eq!(client.run("FLOCK.ACQUIRE k u PX 90000 LABEL second"), NIL);
        assert_eq!(client.run("FLOCK.ACQUIRE k * PX 90000"), NIL);
        let info = client.run("FLOCK.INFO k");
        assert_eq!(*info.field("fence"), fence);
        assert_eq!(*info.field("waiters"), 0);
        assert_eq!(info.field("holders").items().len(), 1);
        assert_eq!(*info.field("holders").items()[0].field("label"), "first");
        assert!(client.run("FLOCK.PTTL k t").int() <= 60_000);
        assert_eq!(client.run("FLOCK.PTTL k u"), -2);
    });
}

#[test]
fn locks_of_one_name_in_two_databases_are_two_locks() {
    in_both_protocols(|_, client| {
        let first = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        client.run("SELECT 3");
        let second = client.run("FLOCK.ACQUIRE k u PX 60000").fence();
        assert!(second > first);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
        client.run("SELECT 0");
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
    });
}

#[test]
fn a_lease_may_be_given_in_seconds() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t EX 60").fence();
        let left_ms = client.run("FLOCK.PTTL k").int();
        assert!((1_000..=60_000).contains(&left_ms), "{left_ms}");
    });
}

#[test]
fn the_owner_is_the_token_whatever_the_connection() {
    in_both_protocols(|server, client| {
        let fence = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut other = server.client();
        assert_eq!(other.run("FLOCK.ACQUIRE k t PX 60000"), fence);
        assert_eq!(other.run("FLOCK.REFRESH k t PX 60000"), 1);
        assert_eq!(other.run("FLOCK.RELEASE k t"), 1);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
    });
}

#[test]
fn a_lock_outlives_the_connection_that_took_it() {
    in_both_protocols(|server, client| {
        let mut holder = server.client();
        let id = holder.id();
        let fence = holder.run("FLOCK.ACQUIRE k t PX 60000").fence();
        drop(holder);
        let line = format!("CLIENT LIST ID {id}");
        eventually(
            "the connection is gone",
            || client.run(&line).text(),
            String::is_empty,
        );
        assert_eq!(*client.run("FLOCK.INFO k").field("fence"), fence);
    });
}

#[test]
fn the_same_token_again_gets_the_same_fence_and_never_a_shorter_lease() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.ACQUIRE k t PX 600000").fence();
        for line in [
            "FLOCK.ACQUIRE k t PX 1",
            "FLOCK.ACQUIRE k t PX 1000 BLOCK 0",
            "FLOCK.ACQUIRE k t EX 1",
        ] {
            assert_eq!(client.run(line), fence, "{line}");
            let left_ms = client.run("FLOCK.PTTL k t").int();
            assert!(left_ms > 300_000, "{line} left {left_ms} ms");
        }
        assert_eq!(client.run("FLOCK.ACQUIRE k t PX 900000"), fence);
        let left_ms = client.run("FLOCK.PTTL k t").int();
        assert!((600_001..=900_000).contains(&left_ms), "{left_ms}");
        // One hold, so one release is enough.
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
    });
}

#[test]
fn the_same_token_after_the_end_of_its_hold_gets_a_new_fence() {
    in_both_protocols(|_, client| {
        let first = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        client.run("FLOCK.RELEASE k t");
        let second = client.run("FLOCK.ACQUIRE k t PX 10").fence();
        assert!(second > first);
        eventually(
            "the lease is over",
            || client.run("FLOCK.PTTL k t"),
            |left| *left == -2,
        );
        assert!(client.run("FLOCK.ACQUIRE k t PX 60000").fence() > second);
    });
}

/// Takes the reply to `*` apart: fence and token.
#[track_caller]
fn fence_and_token(reply: &Reply) -> (i64, Vec<u8>) {
    let [fence, token] = reply.items() else {
        panic!("expected fence and token, got {reply:?}");
    };
    assert_eq!(token.bytes().len(), 26, "{token:?}");
    assert!(token.bytes().iter().all(u8::is_ascii_alphanumeric), "{token:?}");
    (fence.fence(), token.bytes().to_vec())
}

#[test]
fn the_server_makes_a_token_for_a_star() {
    in_both_protocols(|_, client| {
        let (fence, token) = fence_and_token(&client.run("FLOCK.ACQUIRE k * PX 60000"));
        assert_eq!(client.run("FLOCK.RELEASE k *"), 0);
        assert_eq!(client.call(("FLOCK.ACQUIRE", "k", &token, "PX", 1)), fence);
        assert!(client.call(("FLOCK.PTTL", "k", &token)).int() > 0);
        assert_eq!(client.call(("FLOCK.REFRESH", "k", &token, "PX", 60_000)), 1);
        assert_eq!(client.call(("FLOCK.RELEASE", "k", &token)), 1);
    });
}

#[test]
fn made_tokens_are_all_different_in_every_place() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    let tokens: Vec<_> = (0..200)
        .map(|number| {
            let line = format!("FLOCK.ACQUIRE k{number} * PX 60000");
            fence_and_token(&client.run(&line)).1
        })
        .collect();
    assert_eq!(tokens.iter().collect::<HashSet<_>>().len(), tokens.len());
    // 128 bits fill 25 of the 26 characters and 3 bits of one, in either direction.
    for place in 1..25 {
        let seen: HashSet<_> = tokens.iter().map(|token| token[place]).collect();
        assert!(seen.len() > 16, "character {place} takes {} values", seen.len());
    }
}

#[test]
fn a_star_in_the_queue_gets_fence_and_token() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k * PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        let (fence, token) = fence_and_token(&waiter.receive());
        assert_eq!(*client.run("FLOCK.INFO k").field("fence"), fence);
        assert_eq!(client.call(("FLOCK.RELEASE", "k", &token)), 1);
    });
}

#[test]
fn a_replica_refuses_to_grant() {
    let primary = Server::builder().undressed().start();
    let replica = primary.start_replica(Server::builder());
    let mut client = replica.client();
    for line in [
        "FLOCK.ACQUIRE k t PX 1000",
        "FLOCK.ACQUIRE k t PX 1000 BLOCK 0",
        "FLOCK.REFRESH k t PX 1000",
        "FLOCK.RELEASE k t",
        "FLOCK.BREAK k",
    ] {
        assert_eq!(client.run(line).error_word(), "READONLY", "{line}");
    }
    client.run("CONFIG SET replica-read-only no");
    let error = "READONLY You can't write against a read only replica.";
    for line in ["FLOCK.ACQUIRE k t PX 1000", "FLOCK.ACQUIRE k t PX 1000 BLOCK 0"] {
        assert_eq!(
            client.run(line),
            Reply::error(error),
            "{line} on a writable replica"
        );
    }
}

#[test]
fn a_server_out_of_memory_grants_nothing_but_lets_go() {
    in_both_protocols_with(Server::builder().undressed(), |_, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        client.run("CONFIG SET maxmemory-policy noeviction");
        client.run("CONFIG SET maxmemory 1");
        assert_eq!(client.run("FLOCK.ACQUIRE other t PX 60000").error_word(), "OOM");
        assert_eq!(client.run("FLOCK.REFRESH k t PX 60000"), 1);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
    });
}
