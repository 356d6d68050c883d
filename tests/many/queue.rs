//! Proves what the same token gets that asks again, as a holder or as a waiter, in the same words or in others; and
//! when the queues are full.

use crate::support::*;
use crate::{assert_free, assert_held, assert_nobody_waits, enqueue, Knot};

const PARTLY_HELD: &str =
    "ERR this token holds some of these locks, but not all under one fence; release them first";
const WAITS_OTHERWISE: &str =
    "ERR this token waits for the lock in another mode, or together with other locks";

#[test]
fn the_holder_that_asks_again_gets_the_same_fence_in_any_order_of_the_keys() {
    in_both_protocols_with(
        Server::builder().module_arguments("max-waiters 0"),
        |_, client| {
            let fence = client.run("FLOCK.MACQUIRE 3 a b c t PX 60000").fence();
            let grants = client.stat("grants");
            for line in [
                "FLOCK.MACQUIRE 3 a b c t PX 60000",
                "FLOCK.MACQUIRE 3 c a b t PX 1 BLOCK 0",
                "FLOCK.MACQUIRE 3 b c a t PX 1 ABOVE 9007199254740000 LABEL other",
            ] {
                assert_eq!(client.run(line), fence, "{line}");
            }
            for key in ["a", "b", "c"] {
                assert!(client.call(("FLOCK.PTTL", key, "t")).int() > 50_000, "cut");
            }
            assert_eq!(client.run("FLOCK.MACQUIRE 3 c b a t EX 600"), fence);
            for key in ["a", "b", "c"] {
                assert!(client.call(("FLOCK.PTTL", key, "t")).int() > 60_000, "{key}");
            }
            assert_eq!(client.stat("grants"), grants, "a retry is no grant");
        },
    );
}

#[test]
fn each_lease_is_at_least_the_new_one_and_never_cut() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
        assert_eq!(client.run("FLOCK.REFRESH a t PX 900000"), 1);
        assert_eq!(client.run("FLOCK.MACQUIRE 2 a b t PX 300000"), fence);
        assert!(client.run("FLOCK.PTTL a t").int() > 300_000);
        let left = client.run("FLOCK.PTTL b t").int();
        assert!((200_000..=300_000).contains(&left), "{left}");
    });
}

#[test]
fn some_of_the_locks_that_are_held_together_are_held_under_that_fence_too() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.MACQUIRE 3 a b c t PX 60000").fence();
        assert_eq!(client.run("FLOCK.MACQUIRE 2 c a t PX 60000"), fence);
        assert_eq!(client.run("FLOCK.MACQUIRE 1 b t PX 60000"), fence);
        assert_eq!(client.run("FLOCK.ACQUIRE b t PX 60000"), fence);
    });
}

/// The line is refused so whether it may wait or not, and changes nothing.
#[track_caller]
fn assert_refused(client: &mut Client, line: &str, error: &str) {
    let before = client.run("DBSIZE");
    for line in [line.to_owned(), format!("{line} BLOCK 0")] {
        assert_eq!(client.run(&line), Reply::error(error), "{line}");
        assert_eq!(client.run("DBSIZE"), before, "{line}");
    }
}

#[test]
fn who_holds_some_of_the_locks_is_refused_and_never_hangs() {
    in_both_protocols(|_, client| {
        let a = client.run("FLOCK.ACQUIRE a t PX 60000").fence();
        assert_refused(client, "FLOCK.MACQUIRE 2 a b t PX 600000", PARTLY_HELD);
        assert_refused(client, "FLOCK.MACQUIRE 2 b a t PX 600000", PARTLY_HELD);
        let b = client.run("FLOCK.ACQUIRE b t PX 60000").fence();
        assert_refused(client, "FLOCK.MACQUIRE 2 a b t PX 600000", PARTLY_HELD);
        client.run("FLOCK.ACQUIRE c other PX 60000").fence();
        assert_refused(client, "FLOCK.MACQUIRE 2 c a t PX 600000", PARTLY_HELD);
        for (key, fence) in [("a", a), ("b", b)] {
            assert_held(client, key, "t", fence);
            assert!(client.call(("FLOCK.PTTL", key, "t")).int() <= 60_000, "{key}");
        }
        assert_nobody_waits(client);
        client.run("FLOCK.MRELEASE 2 a b t");
        client.run("FLOCK.MACQUIRE 2 a b t PX 600000").fence();
    });
}

#[test]
fn who_has_lost_one_of_them_meanwhile_is_refused() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
        client.run("FLOCK.BREAK b");
        assert_refused(client, "FLOCK.MACQUIRE 2 a b t PX 60000", PARTLY_HELD);
        client.run("FLOCK.ACQUIRE b t PX 60000").fence();
        assert_refused(client, "FLOCK.MACQUIRE 2 a b t PX 60000", PARTLY_HELD);
        assert_held(client, "a", "t", fence);
    });
}

#[test]
fn who_holds_one_of_them_in_another_mode_is_refused() {
    for mode in ["SHARED", "PERMITS 2"] {
        in_both_protocols(|_, client| {
            client.run(&format!("FLOCK.ACQUIRE a t PX 60000 {mode}")).fence();
            for line in [
                "FLOCK.MACQUIRE 1 a t PX 60000",
                "FLOCK.MACQUIRE 1 a t PX 60000 BLOCK 0",
                "FLOCK.MACQUIRE 2 a b t PX 60000 BLOCK 0",
            ] {
                assert_eq!(client.run(line).error_word(), "ERR", "{mode}: {line}");
            }
            assert_free(client, &["b"]);
            assert_nobody_waits(client);
        });
    }
}

#[test]
fn the_same_set_from_a_newer_client_takes_over_the_place_in_any_order_of_the_keys() {
    for keys in ["a b", "b a"] {
        let mut knot = Knot::tie();
        let mut newer = knot.server.admin();
        newer.send_line(&format!(
            "FLOCK.MACQUIRE 2 {keys} m PX 600000 BLOCK 0 LABEL newer"
        ));
        assert_eq!(knot.many.receive().error_word(), "SUPERSEDED", "{keys}");
        let info = knot.client.run("FLOCK.INFO a");
        assert_eq!(*info.field("queue").items()[0].field("label"), "newer");
        assert_eq!(knot.client.stat("waiters"), 2);
        assert_eq!(knot.client.stat("superseded"), 1);
        knot.client.run("FLOCK.RELEASE a t");
        knot.many = newer;
        knot.assert_many_is_served();
    }
}

#[test]
fn the_same_set_without_block_is_nil_and_keeps_the_place() {
    let mut knot = Knot::tie();
    for line in [
        "FLOCK.MACQUIRE 2 a b m PX 600000",
        "FLOCK.MACQUIRE 2 b a m PX 600000",
    ] {
        assert_eq!(knot.client.run(line), NIL, "{line}");
    }
    assert_eq!(knot.client.stat("waiters"), 2);
    knot.client.run("FLOCK.RELEASE a t");
    knot.assert_many_is_served();
}

#[test]
fn who_waits_for_several_locks_is_refused_any_other_request_for_one_of_them() {
    let mut knot = Knot::tie();
    for line in [
        "FLOCK.ACQUIRE a m PX 60000",
        "FLOCK.ACQUIRE b m PX 60000",
        "FLOCK.ACQUIRE b m PX 60000 SHARED",
        "FLOCK.MACQUIRE 1 b m PX 60000",
        "FLOCK.MACQUIRE 2 b c m PX 60000",
        "FLOCK.MACQUIRE 3 a b c m PX 60000",
    ] {
        assert_refused(&mut knot.client, line, WAITS_OTHERWISE);
    }
    assert_free(&mut knot.client, &["b", "c"]);
    // Other locks it may take, or wait for.
    let fence = knot.client.run("FLOCK.MACQUIRE 2 c d m PX 60000").fence();
    assert_held(&mut knot.client, "c", "m", fence);
    knot.client.run("FLOCK.RELEASE a t");
    knot.assert_many_is_served();
}

#[test]
fn who_waits_for_one_lock_is_refused_a_set_with_it() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000").fence();
        let mut waiter = enqueue(server, "FLOCK.ACQUIRE a u PX 60000 BLOCK 0");
        assert_refused(client, "FLOCK.MACQUIRE 2 a b u PX 60000", WAITS_OTHERWISE);
        assert_refused(client, "FLOCK.MACQUIRE 2 b a u PX 60000", WAITS_OTHERWISE);
        assert_free(client, &["b"]);
        client.run("FLOCK.RELEASE a t");
        waiter.receive().fence();
    });
}

#[test]
fn one_full_queue_of_its_locks_refuses_the_whole_set() {
    in_both_protocols_with(
        Server::builder().module_arguments("max-waiters 2"),
        |server, client| {
            client.run("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
            let mut first = enqueue(server, "FLOCK.MACQUIRE 2 b c m PX 60000 BLOCK 0");
            let second = enqueue(server, "FLOCK.ACQUIRE b s PX 60000 BLOCK 0");
            for line in [
                "FLOCK.MACQUIRE 2 a b n PX 60000 BLOCK 0",
                "FLOCK.MACQUIRE 2 b d n PX 60000 BLOCK 0",
            ] {
                assert_eq!(client.run(line).error_word(), "QUEUEFULL", "{line}");
            }
            assert_eq!(client.run("FLOCK.MACQUIRE 2 a b n PX 60000"), NIL);
            // It has left no trace in the queues that had room: `d` is anybody's, and so will `a` be.
            client.run("FLOCK.ACQUIRE d u PX 60000").fence();
            assert_eq!(client.run("FLOCK.RELEASE a t"), 1);
            client.run("FLOCK.ACQUIRE a u PX 60000").fence();
            // A place that becomes free can be taken.
            drop(second);
            eventually("one left", || client.stat("waiters"), |waiters| *waiters == 1);
            let _third = enqueue(server, "FLOCK.MACQUIRE 2 a b n PX 60000 BLOCK 0");
            client.run("FLOCK.RELEASE b t");
            first.receive().fence();
        },
    );
}

#[test]
fn a_free_lock_whose_queue_is_full_refuses_too() {
    in_both_protocols_with(
        Server::builder().module_arguments("max-waiters 1"),
        |server, client| {
            client.run("FLOCK.ACQUIRE a t PX 60000").fence();
            let mut first = enqueue(server, "FLOCK.MACQUIRE 2 a b m PX 60000 BLOCK 0");
            assert_free(client, &["b"]);
            for line in [
                "FLOCK.ACQUIRE b s PX 60000 BLOCK 0",
                "FLOCK.MACQUIRE 2 b c n PX 60000 BLOCK 0",
            ] {
                assert_eq!(client.run(line).error_word(), "QUEUEFULL", "{line}");
            }
            // Who takes over a place needs no room.
            let mut newer = server.admin();
            newer.send_line("FLOCK.MACQUIRE 2 b a m PX 60000 BLOCK 0");
            assert_eq!(first.receive().error_word(), "SUPERSEDED");
            client.run("FLOCK.RELEASE a t");
            newer.receive().fence();
        },
    );
}

#[test]
fn a_caller_that_waits_for_many_counts_once_in_all_queues_together() {
    let builder = Server::builder().module_arguments("max-waiters-total 2");
    in_both_protocols_with(builder, |server, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000").fence();
        let _first = enqueue(server, "FLOCK.MACQUIRE 4 a b c d m PX 60000 BLOCK 0");
        let second = enqueue(server, "FLOCK.ACQUIRE b s PX 60000 BLOCK 0");
        for line in [
            "FLOCK.MACQUIRE 2 a b n PX 60000 BLOCK 0",
            "FLOCK.ACQUIRE c u PX 60000 BLOCK 0",
        ] {
            assert_eq!(client.run(line).error_word(), "QUEUEFULL", "{line}");
        }
        drop(second);
        eventually("one left", || client.stat("waiters"), |waiters| *waiters == 1);
        let _third = enqueue(server, "FLOCK.MACQUIRE 2 a b n PX 60000 BLOCK 0");
        assert_eq!(client.stat("waiters_peak"), 2);
    });
}

#[test]
fn with_max_waiters_0_none_may_wait() {
    in_both_protocols_with(
        Server::builder().module_arguments("max-waiters 0"),
        |_, client| {
            client.run("FLOCK.MACQUIRE 2 a b t PX 60000 BLOCK 0").fence();
            let line = "FLOCK.MACQUIRE 2 b c u PX 60000 BLOCK 0";
            assert_eq!(client.run(line).error_word(), "QUEUEFULL");
            assert_free(client, &["c"]);
            assert_eq!(
                client.transaction(&[line]),
                [NIL],
                "where nobody waits it is only busy"
            );
        },
    );
}
