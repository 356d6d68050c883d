//! Proves REFRESH (exactly this long from now, never a lock taken back) and
//! RELEASE (only the holder's; the next in line in the same step).

use crate::support::*;

#[test]
fn refresh_sets_the_lease_exactly_longer_or_shorter() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 600000").fence();
        for (line, most_ms) in [
            ("FLOCK.REFRESH k t PX 900000", 900_000),
            ("FLOCK.REFRESH k t EX 300", 300_000),
            ("FLOCK.REFRESH k t PX 100000", 100_000),
        ] {
            assert_eq!(client.run(line), 1);
            let left_ms = client.run("FLOCK.PTTL k t").int();
            assert!(
                (most_ms - 60_000..=most_ms).contains(&left_ms),
                "{line}: {left_ms}"
            );
        }
    });
}

#[test]
fn a_refresh_keeps_the_fence_and_the_label() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.ACQUIRE k t PX 60000 LABEL me").fence();
        assert_eq!(client.run("FLOCK.REFRESH k t PX 90000"), 1);
        let info = client.run("FLOCK.INFO k");
        assert_eq!(*info.field("fence"), fence);
        assert_eq!(*info.field("holders").items()[0].field("label"), "me");
    });
}

#[test]
fn refreshing_what_one_does_not_hold_is_0_and_changes_nothing() {
    in_both_protocols(|_, client| {
        assert_eq!(client.run("FLOCK.REFRESH k t PX 60000"), 0);
        assert_eq!(client.run("EXISTS k"), 0);
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        assert_eq!(client.run("FLOCK.REFRESH k u PX 900000"), 0);
        assert!(client.run("FLOCK.PTTL k").int() <= 60_000);
    });
}

#[test]
fn a_refresh_never_takes_a_lock_back() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 10").fence();
        eventually(
            "the lease is over",
            || client.run("FLOCK.PTTL k t"),
            |left| *left == -2,
        );
        assert_eq!(client.run("FLOCK.REFRESH k t PX 60000"), 0);
        assert_eq!(client.run("EXISTS k"), 0);

        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        assert_eq!(client.run("FLOCK.REFRESH k t PX 60000"), 0);

        client.run("FLOCK.ACQUIRE k u PX 60000").fence();
        assert_eq!(client.run("FLOCK.REFRESH k t PX 60000"), 0);
        assert_eq!(client.run("FLOCK.RELEASE k u"), 1);
    });
}

#[test]
fn a_waiting_token_cannot_refresh() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let _waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.REFRESH k u PX 900000"), 0);
        assert_eq!(client.waiters("k"), 1);
    });
}

#[test]
fn release_is_for_the_holder_and_only_once() {
    in_both_protocols(|_, client| {
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        assert_eq!(client.run("FLOCK.RELEASE k u"), 0);
        assert!(client.run("FLOCK.PTTL k t").int() > 0);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
        assert_eq!(client.run("EXISTS k"), 0);
    });
}

#[test]
fn a_release_after_the_lease_ran_out_is_0() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 10").fence();
        eventually(
            "the lease is over",
            || client.run("FLOCK.PTTL k t"),
            |left| *left == -2,
        );
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
    });
}

#[test]
fn release_grants_the_head_of_the_queue_in_the_same_command() {
    in_both_protocols(|server, client| {
        let first = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0 LABEL next");
        // Nothing runs between the two commands of a transaction.
        let replies = client.transaction(&["FLOCK.RELEASE k t", "FLOCK.INFO k"]);
        assert_eq!(replies[0], 1);
        let second = replies[1].field("fence").fence();
        assert!(second > first);
        assert_eq!(*replies[1].field("holders").items()[0].field("label"), "next");
        assert_eq!(*replies[1].field("waiters"), 0);
        assert_eq!(waiter.receive(), second);
    });
}

#[test]
fn releasing_a_waiting_token_ends_its_wait_with_nil() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut leaver = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        let mut stayer = server.enqueue("k", "FLOCK.ACQUIRE k v PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.RELEASE k u"), 0);
        assert_eq!(leaver.receive(), NIL);
        assert_eq!(client.waiters("k"), 1);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        stayer.receive().fence();
        // The one who left can come again.
        assert_eq!(leaver.run("FLOCK.RELEASE k v"), 1);
        leaver.run("FLOCK.ACQUIRE k u PX 60000 BLOCK 0").fence();
    });
}

#[test]
fn refused_refreshes_and_releases_are_counted() {
    in_both_protocols(|_, client| {
        let refreshes = client.stat("refreshes_refused");
        let releases = client.stat("releases_refused");
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        client.run("FLOCK.REFRESH k u PX 60000");
        client.run("FLOCK.RELEASE k u");
        client.run("FLOCK.REFRESH k t PX 60000");
        client.run("FLOCK.RELEASE k t");
        assert_eq!(client.stat("refreshes_refused"), refreshes + 1);
        assert_eq!(client.stat("releases_refused"), releases + 1);
    });
}
