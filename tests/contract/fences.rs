//! Proves the promise of the fence: it grows with every grant, across locks
//! and whatever removes them, in both sources, and above what the caller knows.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::*;

fn wall_clock_us() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a date after 1970");
    since.as_micros() as i64
}

/// Takes and releases the lock `key`.
#[track_caller]
fn fence_of(client: &mut Client, key: &str) -> i64 {
    let fence = client.call(("FLOCK.ACQUIRE", key, "t", "PX", 60_000)).fence();
    assert_eq!(client.call(("FLOCK.RELEASE", key, "t")), 1);
    fence
}

#[test]
fn a_fence_of_the_clock_is_the_time_in_microseconds() {
    in_both_protocols(|_, client| {
        // The server may keep its time in whole milliseconds, or as of the command's start.
        let before = wall_clock_us() - 1_000;
        let fence = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let after = wall_clock_us();
        assert!(
            (before..=after).contains(&fence),
            "{before} <= {fence} <= {after}"
        );
    });
}

#[test]
fn fences_grow_across_locks_and_through_all_that_removes_them() {
    for source in ["clock", "counter"] {
        in_both_protocols(|_, client| {
            client.run(&format!("CONFIG SET flock.fence-source {source}"));
            let mut last = fence_of(client, "a");
            for removal in [
                "PING",
                "DEL k",
                "UNLINK k",
                "FLUSHDB",
                "FLUSHALL",
                "FLUSHALL ASYNC",
                "FLOCK.BREAK k",
                "RENAME k other",
                "SET k text",
                "DEBUG RELOAD",
                "SCRIPT FLUSH",
            ] {
                client.run("DEL k");
                let held = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
                assert!(held > last, "{source}, before {removal}: {held} > {last}");
                client.run(removal);
                last = fence_of(client, "b");
                assert!(last > held, "{source}, after {removal}: {last} > {held}");
            }
        });
    }
}

#[test]
fn a_fence_of_the_counter_is_a_small_number() {
    let counter = Server::builder().module_arguments("fence-source counter");
    in_both_protocols_with(counter, |_, client| {
        for expected in 1..=5 {
            assert_eq!(fence_of(client, "k"), expected);
        }
        assert_eq!(client.stat("last_fence"), 5);
    });
}

#[test]
fn the_source_may_change_at_run_time_and_the_fence_still_grows() {
    in_both_protocols(|_, client| {
        let clock = fence_of(client, "k");
        assert_eq!(client.run("CONFIG SET flock.fence-source counter"), OK);
        assert_eq!(fence_of(client, "k"), clock + 1);
        assert_eq!(client.run("CONFIG SET flock.fence-source clock"), OK);
        assert!(fence_of(client, "k") > clock + 1);
    });
}

#[test]
fn above_lifts_the_fence_and_never_lowers_it() {
    let counter = Server::builder().module_arguments("fence-source counter");
    in_both_protocols_with(counter, |_, client| {
        assert_eq!(client.run("FLOCK.ACQUIRE a t PX 60000 ABOVE 41"), 42);
        assert_eq!(client.run("FLOCK.ACQUIRE b t PX 60000 ABOVE 42"), 43);
        assert_eq!(client.run("FLOCK.ACQUIRE c t PX 60000 ABOVE 0"), 44);
        assert_eq!(client.run("FLOCK.ACQUIRE d t PX 60000 ABOVE 5"), 45);
        assert_eq!(client.run("FLOCK.ACQUIRE e t PX 60000"), 46);
    });
}

#[test]
fn above_a_clock_that_is_behind_wins() {
    in_both_protocols(|_, client| {
        let tomorrow_us = wall_clock_us() + 86_400_000_000;
        let line = format!("FLOCK.ACQUIRE k t PX 60000 ABOVE {tomorrow_us}");
        assert_eq!(client.run(&line), tomorrow_us + 1);
        assert_eq!(client.run("FLOCK.ACQUIRE l t PX 60000"), tomorrow_us + 2);
    });
}

#[test]
fn above_holds_for_a_grant_from_the_queue() {
    let counter = Server::builder().module_arguments("fence-source counter");
    in_both_protocols_with(counter, |server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0 ABOVE 1000");
        client.run("FLOCK.RELEASE k t");
        assert_eq!(waiter.receive(), 1001);
    });
}

#[test]
fn a_refused_request_with_above_lifts_nothing() {
    let counter = Server::builder().module_arguments("fence-source counter");
    in_both_protocols_with(counter, |_, client| {
        assert_eq!(client.run("FLOCK.ACQUIRE k t PX 60000"), 1);
        assert_eq!(client.run("FLOCK.ACQUIRE k u PX 60000 ABOVE 1000"), NIL);
        assert_eq!(client.run("FLOCK.ACQUIRE l u PX 60000"), 2);
    });
}
