//! Proves REENTRANT: a holder that enters again keeps its fence, is counted, and
//! owes as many releases.

use crate::look::{look, wait_until_closed};
use crate::support::*;

#[test]
fn each_entry_has_the_same_fence_and_owes_a_release() {
    in_both_protocols(|server, client| {
        let fence = client.run("FLOCK.ACQUIRE k t PX 60000 REENTRANT").fence();
        assert_eq!(look(client, "k").holder().holds, 1);
        for holds in 2..=4 {
            assert_eq!(client.run("FLOCK.ACQUIRE k t PX 60000 REENTRANT"), fence);
            assert_eq!(look(client, "k").holder().holds, holds);
        }
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        for holds in [3, 2, 1] {
            assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
            let seen = look(client, "k");
            assert_eq!((seen.holder().holds, seen.fence), (holds, fence));
            assert_eq!(seen.queue.len(), 1);
        }
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        assert!(waiter.receive().fence() > fence);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
    });
}

#[test]
fn a_plain_acquire_by_the_holder_is_a_retry_and_does_not_count() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        assert_eq!(client.run("FLOCK.ACQUIRE k t PX 60000 REENTRANT"), fence);
        for line in ["FLOCK.ACQUIRE k t PX 60000", "FLOCK.ACQUIRE k t PX 90000 BLOCK 0"] {
            assert_eq!(client.run(line), fence, "{line}");
            assert_eq!(look(client, "k").holder().holds, 2, "{line}");
        }
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        assert_eq!(client.run("EXISTS k"), 0);
    });
}

#[test]
fn the_lease_is_the_longest_that_any_entry_asked_for() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.ACQUIRE k t PX 600000 REENTRANT").fence();
        assert_eq!(client.run("FLOCK.ACQUIRE k t PX 1 REENTRANT"), fence);
        let left_ms = client.run("FLOCK.PTTL k t").int();
        assert!((300_000..=600_000).contains(&left_ms), "{left_ms}");
        assert_eq!(client.run("FLOCK.ACQUIRE k t EX 900 REENTRANT"), fence);
        let left_ms = client.run("FLOCK.PTTL k t").int();
        assert!((600_001..=900_000).contains(&left_ms), "{left_ms}");
        // One hold less leaves the lease of the others as it is.
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        assert!(client.run("FLOCK.PTTL k t").int() > 600_000);
        assert_eq!(look(client, "k").holder().holds, 2);
    });
}

#[test]
fn a_refresh_is_for_all_entries_and_counts_none() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 600000 REENTRANT").fence();
        client.run("FLOCK.ACQUIRE k t PX 600000 REENTRANT").fence();
        assert_eq!(client.run("FLOCK.REFRESH k t PX 30000"), 1);
        assert!((0..=30_000).contains(&client.run("FLOCK.PTTL k t").int()));
        assert_eq!(look(client, "k").holder().holds, 2);
        assert_eq!(client.run("FLOCK.REFRESH k t PX 20"), 1);
        eventually("it is over", || client.run("EXISTS k"), |exists| *exists == 0);
        // With the lease all entries are over.
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
        assert_eq!(client.stat("leases_expired"), 1);
    });
}

#[test]
fn two_connections_with_one_token_enter_together() {
    in_both_protocols(|server, client| {
        let mut other = server.admin();
        let fence = client.run("FLOCK.ACQUIRE k t PX 60000 REENTRANT").fence();
        assert_eq!(other.run("FLOCK.ACQUIRE k t PX 60000 REENTRANT"), fence);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        assert_eq!(other.run("FLOCK.PTTL k t").int().signum(), 1);
        // A connection that goes owes its release still; the token is the owner.
        drop(other);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        assert_eq!(client.run("EXISTS k"), 0);
    });
}

#[test]
fn a_holder_enters_again_at_once_whoever_waits() {
    in_both_protocols(|server, client| {
        let fence = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.ACQUIRE k t PX 60000 REENTRANT BLOCK 0"), fence);
        assert_eq!(client.waiters("k"), 1);
        client.run("FLOCK.RELEASE k t");
        assert_eq!(client.waiters("k"), 1);
        client.run("FLOCK.RELEASE k t");
        waiter.receive().fence();
    });
}

#[test]
fn who_waits_again_is_not_counted_twice() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let line = "FLOCK.ACQUIRE k u PX 60000 REENTRANT BLOCK 0";
        let mut older = server.enqueue("k", line);
        let mut newer = server.admin();
        newer.send_line(line);
        assert_eq!(older.receive().error_word(), "SUPERSEDED");
        assert_eq!(client.run("FLOCK.ACQUIRE k u PX 60000 REENTRANT"), NIL);
        client.run("FLOCK.RELEASE k t");
        let fence = newer.receive().fence();
        assert_eq!(look(client, "k").holder().holds, 1);
        assert_eq!(newer.run(line), fence);
        assert_eq!(look(client, "k").holder().holds, 2);
    });
}

#[test]
fn break_ends_all_entries_and_counts_them() {
    in_both_protocols(|server, client| {
        for _ in 0..3 {
            client.run("FLOCK.ACQUIRE k t PX 60000 REENTRANT").fence();
        }
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.BREAK k"), 3);
        waiter.receive().fence();
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
        // Of several holders the holds add up.
        client.run("FLOCK.BREAK k");
        for token in ["a", "b", "b"] {
            client
                .call(("FLOCK.ACQUIRE", "k", token, "PX", 60_000, "SHARED", "REENTRANT"))
                .fence();
        }
        assert_eq!(client.run("FLOCK.BREAK k"), 3);
    });
}

#[test]
fn readers_and_permits_are_counted_each_for_itself() {
    in_both_protocols(|_, client| {
        for mode in ["SHARED", "PERMITS 2"] {
            let enter = |client: &mut Client, token: &str| {
                let line = format!("FLOCK.ACQUIRE k {token} PX 60000 REENTRANT {mode}");
                client.run(&line).fence()
            };
            let first = enter(client, "a");
            let second = enter(client, "b");
            assert_eq!(enter(client, "b"), second);
            assert_eq!(enter(client, "b"), second);
            let holds: Vec<_> = look(client, "k").holders.iter().map(|hold| hold.holds).collect();
            assert_eq!(holds, [1, 3], "{mode}");
            assert_eq!(client.run("FLOCK.RELEASE k b"), 1);
            assert_eq!(client.run("FLOCK.RELEASE k a"), 1);
            assert_eq!(client.run("FLOCK.RELEASE k a"), 0);
            assert_eq!(look(client, "k").holder().holds, 2, "{mode}");
            assert_ne!(first, second);
            assert_eq!(client.run("FLOCK.BREAK k"), 2, "{mode}");
        }
    });
}

#[test]
fn entries_in_a_transaction_and_in_a_script_count_too() {
    in_both_protocols(|_, client| {
        let replies = client.transaction(&[
            "FLOCK.ACQUIRE k t PX 60000 REENTRANT",
            "FLOCK.ACQUIRE k t PX 60000 REENTRANT",
            "FLOCK.RELEASE k t",
            "FLOCK.ACQUIRE k t PX 60000 REENTRANT",
        ]);
        let fence = replies[0].fence();
        assert_eq!(replies[1], fence);
        assert_eq!(replies[2], 1);
        assert_eq!(client.script("FLOCK.ACQUIRE k t PX 60000 REENTRANT"), fence);
        assert_eq!(look(client, "k").holder().holds, 3);
        assert_eq!(client.script("FLOCK.RELEASE k t"), 1);
        assert_eq!(look(client, "k").holder().holds, 2);
    });
}

#[test]
fn a_made_token_enters_again_as_any_other() {
    in_both_protocols(|_, client| {
        let reply = client.run("FLOCK.ACQUIRE k * PX 60000 REENTRANT");
        let [fence, token] = reply.items() else {
            panic!("fence and token: {reply:?}");
        };
        let again = client.call(("FLOCK.ACQUIRE", "k", token.bytes(), "PX", 60_000, "REENTRANT"));
        assert_eq!(again, *fence);
        // A star is another token each time.
        assert_eq!(client.run("FLOCK.ACQUIRE k * PX 60000 REENTRANT"), NIL);
        assert_eq!(look(client, "k").holder().holds, 2);
    });
}

#[test]
fn a_lease_that_runs_out_ends_all_entries_and_its_delay_is_kept_but_once() {
    in_both_protocols(|_, client| {
        client
            .run("FLOCK.ACQUIRE k t PX 60000 REENTRANT DELAY 600000")
            .fence();
        client.run("FLOCK.ACQUIRE k t PX 60000 REENTRANT").fence();
        assert_eq!(client.run("FLOCK.REFRESH k t PX 20"), 1);
        wait_until_closed(client, "k");
        assert_eq!(look(client, "k").holders, []);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
        assert_eq!(client.run("FLOCK.BREAK k"), 0);
        assert_eq!(client.run("EXISTS k"), 0);
    });
}

#[test]
fn an_entry_is_no_grant_and_owing_a_release_is_no_refusal() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    for _ in 0..3 {
        client.run("FLOCK.ACQUIRE k t PX 60000 REENTRANT").fence();
    }
    client.run("FLOCK.ACQUIRE k u PX 60000 REENTRANT");
    client.run("FLOCK.RELEASE k t");
    for (name, count) in [
        ("grants", 1),
        ("held_locks", 1),
        ("refused_busy", 1),
        ("releases_refused", 0),
    ] {
        assert_eq!(client.stat(name), count, "{name}");
    }
}

/// The next event of class `d` of a key that the listener follows.
#[track_caller]
fn event(listener: &mut Client) -> String {
    listener.receive().items()[2].text()
}

#[test]
fn events_tell_of_the_first_entry_and_of_the_last_release() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("CONFIG SET notify-keyspace-events Kd");
    let mut listener = server.admin();
    listener.run("SUBSCRIBE __keyspace@0__:k");
    client.run("FLOCK.ACQUIRE k t PX 60000 REENTRANT").fence();
    client.run("FLOCK.ACQUIRE k t PX 60000 REENTRANT").fence();
    client.run("FLOCK.RELEASE k t");
    client.run("FLOCK.RELEASE k t");
    client.run("FLOCK.ACQUIRE k u PX 60000 SHARED").fence();
    for expected in ["flock.acquire", "flock.release", "flock.acquire"] {
        assert_eq!(event(&mut listener), expected);
    }
}
