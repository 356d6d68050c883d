//! Proves the rules of the queue that a single reply shows: who may enter, who
//! takes whose place, and when it is full. Order and time are in waiting.rs.

use crate::support::*;

#[test]
fn the_same_token_from_a_newer_client_takes_over_the_place() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut older = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        let mut behind = server.enqueue("k", "FLOCK.ACQUIRE k v PX 60000 BLOCK 0");
        let mut newer = server.admin();
        newer.send_line("FLOCK.ACQUIRE k u PX 60000 BLOCK 0 LABEL newer");
        assert_eq!(older.receive().error_word(), "SUPERSEDED");
        let info = client.run("FLOCK.INFO k");
        assert_eq!(*info.field("waiters"), 2);
        assert_eq!(*info.field("queue").items()[0].field("label"), "newer");
        client.run("FLOCK.RELEASE k t");
        let fence = newer.receive().fence();
        client.run("FLOCK.RELEASE k u");
        assert!(behind.receive().fence() > fence);
    });
}

#[test]
fn the_newer_clients_own_wait_counts() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut older = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.ACQUIRE k u PX 60000 BLOCK 20"), NIL);
        assert_eq!(older.receive().error_word(), "SUPERSEDED");
        assert_eq!(client.waiters("k"), 0);
    });
}

#[test]
fn a_waiting_token_that_asks_without_block_keeps_its_place() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.ACQUIRE k u PX 60000"), NIL);
        assert_eq!(client.waiters("k"), 1);
        client.run("FLOCK.RELEASE k t");
        waiter.receive().fence();
    });
}

#[test]
fn the_same_token_waits_for_two_locks_at_once() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000").fence();
        client.run("FLOCK.ACQUIRE b t PX 60000").fence();
        let mut first = server.enqueue("a", "FLOCK.ACQUIRE a u PX 60000 BLOCK 0");
        let mut second = server.enqueue("b", "FLOCK.ACQUIRE b u PX 60000 BLOCK 0");
        client.run("FLOCK.RELEASE a t");
        client.run("FLOCK.RELEASE b t");
        first.receive().fence();
        second.receive().fence();
    });
}

#[test]
fn a_full_queue_of_one_lock_refuses() {
    in_both_protocols_with(
        Server::builder().module_arguments("max-waiters 2"),
        |server, client| {
            client.run("FLOCK.ACQUIRE k t PX 60000").fence();
            client.run("FLOCK.ACQUIRE other t PX 60000").fence();
            let mut first = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
            let second = server.enqueue("k", "FLOCK.ACQUIRE k v PX 60000 BLOCK 0");
            assert_eq!(
                client.run("FLOCK.ACQUIRE k w PX 60000 BLOCK 0").error_word(),
                "QUEUEFULL"
            );
            assert_eq!(client.waiters("k"), 2);
            // Without BLOCK it is only busy; another lock has a queue of its own.
            assert_eq!(client.run("FLOCK.ACQUIRE k w PX 60000"), NIL);
            let _elsewhere = server.enqueue("other", "FLOCK.ACQUIRE other u PX 60000 BLOCK 0");
            // A place that becomes free can be taken.
            drop(second);
            eventually("one left", || client.waiters("k"), |waiters| *waiters == 1);
            let _third = server.enqueue("k", "FLOCK.ACQUIRE k w PX 60000 BLOCK 0");
            client.run("FLOCK.RELEASE k t");
            first.receive().fence();
        },
    );
}

#[test]
fn taking_over_a_place_needs_no_room() {
    in_both_protocols_with(
        Server::builder().module_arguments("max-waiters 1"),
        |server, client| {
            client.run("FLOCK.ACQUIRE k t PX 60000").fence();
            let mut older = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
            let mut newer = server.admin();
            newer.send_line("FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
            assert_eq!(older.receive().error_word(), "SUPERSEDED");
            client.run("FLOCK.RELEASE k t");
            newer.receive().fence();
        },
    );
}

#[test]
fn the_holder_asks_again_though_the_queue_is_full() {
    in_both_protocols_with(
        Server::builder().module_arguments("max-waiters 0"),
        |_, client| {
            let fence = client.run("FLOCK.ACQUIRE k t PX 60000 BLOCK 0").fence();
            assert_eq!(client.run("FLOCK.ACQUIRE k t PX 60000 BLOCK 0"), fence);
        },
    );
}

#[test]
fn all_queues_together_are_limited_too() {
    let builder = Server::builder().module_arguments("max-waiters-total 2");
    in_both_protocols_with(builder, |server, client| {
        for key in ["a", "b", "c"] {
            client.call(("FLOCK.ACQUIRE", key, "t", "PX", 60_000)).fence();
        }
        let _first = server.enqueue("a", "FLOCK.ACQUIRE a u PX 60000 BLOCK 0");
        let second = server.enqueue("b", "FLOCK.ACQUIRE b u PX 60000 BLOCK 0");
        let line = "FLOCK.ACQUIRE c u PX 60000 BLOCK 0";
        assert_eq!(client.run(line).error_word(), "QUEUEFULL");
        drop(second);
        eventually("one left", || client.stat("waiters"), |waiters| *waiters == 1);
        let _third = server.enqueue("c", line);
    });
}

#[test]
fn with_max_waiters_0_none_may_wait() {
    in_both_protocols_with(
        Server::builder().module_arguments("max-waiters 0"),
        |_, client| {
            client.run("FLOCK.ACQUIRE k t PX 60000 BLOCK 0").fence();
            assert_eq!(
                client.run("FLOCK.ACQUIRE k u PX 60000 BLOCK 0").error_word(),
                "QUEUEFULL"
            );
            assert_eq!(client.run("FLOCK.ACQUIRE k u PX 60000"), NIL);
        },
    );
}

#[test]
fn a_limit_that_is_lowered_leaves_those_who_wait() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut first = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        let mut second = server.enqueue("k", "FLOCK.ACQUIRE k v PX 60000 BLOCK 0");
        assert_eq!(client.run("CONFIG SET flock.max-waiters 1"), OK);
        assert_eq!(
            client.run("FLOCK.ACQUIRE k w PX 60000 BLOCK 0").error_word(),
            "QUEUEFULL"
        );
        client.run("FLOCK.RELEASE k t");
        first.receive().fence();
        client.run("FLOCK.RELEASE k u");
        second.receive().fence();
    });
}
