//! Proves that whatever ends the hold of one of the locks moves the queue on, and that a value of another type under one
//! of the names, from before or meanwhile, is WRONGTYPE and keeps its place.

use crate::support::*;
use crate::{assert_free, assert_held, assert_nobody_waits, enqueue, enqueue_as, Knot};

#[test]
fn whatever_ends_the_hold_of_one_of_the_locks_grants_the_set() {
    for line in [
        "DEL a",
        "UNLINK a",
        "FLUSHDB",
        "FLUSHALL",
        "FLUSHALL ASYNC",
        "FLOCK.BREAK a",
        "FLOCK.REFRESH a t PX 20",
        "PEXPIRE a 20",
        "PEXPIREAT a 1",
        "RENAME a elsewhere",
        "MOVE a 1",
        "SWAPDB 0 1",
    ] {
        let mut knot = Knot::tie();
        let reply = knot.client.run(line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        knot.assert_many_is_served();
        assert_eq!(knot.client.run("FLOCK.PTTL a t"), -2, "{line}");
    }
}

#[test]
fn in_a_transaction_and_in_a_script_too() {
    for line in ["DEL a", "FLUSHALL", "FLOCK.BREAK a", "RENAME a elsewhere"] {
        let mut knot = Knot::tie();
        knot.client.transaction(&[line]);
        knot.assert_many_is_served();
        let mut knot = Knot::tie();
        let reply = knot.client.script(line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        knot.assert_many_is_served();
    }
}

#[test]
fn a_newcomer_in_the_same_transaction_does_not_overtake() {
    for line in ["DEL a", "FLUSHALL", "RENAME a elsewhere", "FLOCK.RELEASE a t"] {
        for newcomer in [
            "FLOCK.ACQUIRE a late PX 60000",
            "FLOCK.ACQUIRE b late PX 60000",
            "FLOCK.MACQUIRE 2 b a late PX 60000",
        ] {
            let mut knot = Knot::tie();
            let replies = knot.client.transaction(&[line, newcomer]);
            assert_eq!(replies[1], NIL, "{line}, {newcomer}");
            knot.assert_many_is_served();
        }
    }
}

#[test]
fn one_removal_is_not_enough_when_others_hold_the_rest() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["a", "b"] {
        client.call(("FLOCK.ACQUIRE", key, "t", "PX", 600_000)).fence();
    }
    let mut many = enqueue(&server, "FLOCK.MACQUIRE 2 a b m PX 600000 BLOCK 0");
    assert_eq!(client.run("DEL a"), 1);
    assert_free(&mut client, &["a"]);
    assert_eq!(client.run("FLOCK.ACQUIRE a late PX 60000"), NIL);
    assert_eq!(client.stat("waiters"), 1);
    assert_eq!(client.run("FLOCK.BREAK b"), 1);
    let fence = many.receive().fence();
    for key in ["a", "b"] {
        assert_held(&mut client, key, "m", fence);
    }
}

#[test]
fn a_flush_with_many_waiters_serves_all_that_it_can() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.MACQUIRE 4 a b c d t PX 600000").fence();
    let mut first = enqueue(&server, "FLOCK.MACQUIRE 2 a b m PX 600000 BLOCK 0");
    let mut second = enqueue(&server, "FLOCK.MACQUIRE 2 b c n PX 600000 BLOCK 0");
    let mut third = enqueue(&server, "FLOCK.ACQUIRE d s PX 600000 BLOCK 0");
    assert_eq!(client.run("FLUSHALL"), OK);
    let fence = first.receive().fence();
    third.receive().fence();
    assert_free(&mut client, &["c"]);
    assert_eq!(client.run("FLUSHALL"), OK);
    assert!(second.receive().fence() > fence);
    assert_free(&mut client, &["a", "d"]);
}

#[test]
fn a_flush_of_all_databases_serves_the_waiters_of_each() {
    let server = Server::start();
    let mut client = server.client();
    let mut waiters = [0, 5, 9].map(|database| {
        client.call(("SELECT", database));
        client.run("FLOCK.ACQUIRE a t PX 600000").fence();
        let mut many = server.admin();
        many.call(("SELECT", database));
        enqueue_as(&server, &mut many, "FLOCK.MACQUIRE 2 a b m PX 600000 BLOCK 0");
        (database, many)
    });
    client.run("SELECT 3");
    assert_eq!(client.run("FLUSHALL"), OK);
    for (database, many) in &mut waiters {
        let fence = many.receive().fence();
        client.call(("SELECT", *database));
        for key in ["a", "b"] {
            assert_held(&mut client, key, "m", fence);
        }
    }
    client.run("SELECT 3");
    assert_eq!(client.run("DBSIZE"), 0);
}

#[test]
fn who_leaves_from_another_database_makes_way_there() {
    let server = Server::start();
    let mut client = server.client();
    client.run("SELECT 5");
    client.run("FLOCK.ACQUIRE a t PX 600000").fence();
    let mut many = server.admin();
    many.run("SELECT 5");
    let id = many.id();
    enqueue_as(&server, &mut many, "FLOCK.MACQUIRE 2 a b m PX 600000 BLOCK 0");
    let mut behind = server.admin();
    behind.run("SELECT 5");
    enqueue_as(&server, &mut behind, "FLOCK.ACQUIRE b s PX 600000 BLOCK 0");
    let line = format!("CLIENT KILL ID {id}");
    assert_eq!(server.admin().run(&line), 1);
    let fence = behind.receive().fence();
    assert_held(&mut client, "b", "s", fence);
    client.run("SELECT 0");
    assert_eq!(client.run("DBSIZE"), 0);
}

#[test]
fn what_happens_in_another_database_is_no_concern_of_the_queue() {
    let mut knot = Knot::tie();
    let mut other = knot.server.admin();
    other.run("SELECT 1");
    other.run("FLOCK.MACQUIRE 2 a b m PX 600000").fence();
    assert_eq!(other.run("FLUSHDB"), OK);
    assert_eq!(other.run("SWAPDB 1 2"), OK);
    assert_eq!(knot.client.stat("waiters"), 2);
    assert!(knot.client.run("FLOCK.PTTL a t").int() > 0);
    knot.client.run("FLOCK.RELEASE a t");
    knot.assert_many_is_served();
}

#[test]
fn a_lock_that_is_swapped_in_under_a_waiter_is_waited_for() {
    let mut knot = Knot::tie();
    let mut other = knot.server.admin();
    other.run("SELECT 1");
    let fence = other.run("FLOCK.ACQUIRE b u PX 600000").fence();
    assert_eq!(knot.client.run("SWAPDB 0 1"), OK);
    // Here `a` is free now, and `b` is held.
    assert_held(&mut knot.client, "b", "u", fence);
    assert_free(&mut knot.client, &["a"]);
    assert_eq!(knot.client.run("FLOCK.ACQUIRE a late PX 60000"), NIL);
    assert_eq!(knot.client.run("FLOCK.RELEASE b u"), 1);
    knot.assert_many_is_served();
}

#[test]
fn a_lock_that_comes_under_a_name_that_was_free_is_waited_for() {
    for way in ["rename", "restore", "move"] {
        let mut knot = Knot::tie();
        let client = &mut knot.client;
        let fence = client.run("FLOCK.ACQUIRE other u PX 600000").fence();
        match way {
            "rename" => assert_eq!(client.run("RENAME other b"), OK),
            "restore" => {
                let payload = client.run("DUMP other");
                assert_eq!(client.call(("RESTORE", "b", 0, payload.bytes())), OK);
            }
            _ => {
                client.run("RENAME other b2");
                client.run("SELECT 1");
                client.run("FLOCK.ACQUIRE b u PX 600000").fence();
                assert_eq!(client.run("MOVE b 0"), 1);
                client.run("SELECT 0");
            }
        }
        assert!(
            client.run("FLOCK.INFO b").field("fence").fence() >= fence,
            "{way}"
        );
        assert_eq!(client.run("FLOCK.RELEASE a t"), 1, "{way}");
        assert_free(client, &["a"]);
        assert_eq!(client.run("FLOCK.RELEASE b u"), 1, "{way}");
        knot.assert_many_is_served();
    }
}

#[test]
fn a_member_of_another_type_is_wrongtype_and_nothing_is_held() {
    in_both_protocols(|_, client| {
        client.run("SET text 1");
        client.run("RPUSH list 1");
        for line in [
            "FLOCK.MACQUIRE 2 a text t PX 60000",
            "FLOCK.MACQUIRE 3 list a b t PX 60000",
            "FLOCK.MACQUIRE 2 a text t PX 60000 BLOCK 0",
            "FLOCK.MREFRESH 2 a text t PX 60000",
            "FLOCK.MRELEASE 2 list a t",
        ] {
            let text = "WRONGTYPE Operation against a key holding the wrong kind of value";
            assert_eq!(client.run(line), Reply::error(text), "{line}");
        }
        assert_free(client, &["a", "b"]);
        assert_nobody_waits(client);
        assert_eq!(client.run("GET text"), "1");
        assert_eq!(client.run("LLEN list"), 1);
    });
}

#[test]
fn a_member_of_another_type_behind_a_busy_one_is_wrongtype_too() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE a other PX 60000").fence();
        client.run("SET text 1");
        for line in [
            "FLOCK.MACQUIRE 2 a text t PX 60000",
            "FLOCK.MACQUIRE 2 a text t PX 60000 BLOCK 0",
            "FLOCK.MACQUIRE 2 text a t PX 60000 BLOCK 0",
        ] {
            assert_eq!(client.run(line).error_word(), "WRONGTYPE", "{line}");
        }
        assert_nobody_waits(client);
    });
}

#[test]
fn a_value_over_the_held_lock_ends_the_wait_for_all() {
    for line in [
        "SET a text",
        "MSET other 1 a text",
        "RENAME list a",
        "SUNIONSTORE a set",
    ] {
        let mut knot = Knot::tie();
        knot.client.run("RPUSH list 1");
        knot.client.run("SADD set 1");
        let reply = knot.client.run(line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        assert_eq!(knot.many.receive().error_word(), "WRONGTYPE", "{line}");
        let fence = knot.behind.receive().fence();
        assert_held(&mut knot.client, "b", "s", fence);
        assert_nobody_waits(&mut knot.client);
        assert_ne!(knot.client.run("TYPE a"), "flocklock", "{line}");
        assert_eq!(knot.client.run("EXISTS a"), 1, "{line}");
    }
}

#[test]
fn a_value_under_the_name_that_was_free_ends_the_wait_when_the_others_are_free_at_the_latest() {
    let mut knot = Knot::tie();
    let mut behind_a = enqueue(&knot.server, "FLOCK.ACQUIRE a r PX 600000 BLOCK 0");
    assert_eq!(knot.client.run("SET b text"), OK);
    assert_eq!(knot.client.run("FLOCK.RELEASE a t"), 1);
    assert_eq!(knot.many.receive().error_word(), "WRONGTYPE");
    let fence = behind_a.receive().fence();
    assert_held(&mut knot.client, "a", "r", fence);
    assert_eq!(knot.behind.receive().error_word(), "WRONGTYPE");
    assert_eq!(knot.client.run("GET b"), "text");
    assert_nobody_waits(&mut knot.client);
}

#[test]
fn a_value_that_is_gone_again_before_anybody_looks_does_no_harm() {
    let mut knot = Knot::tie();
    knot.client.transaction(&["SET b text", "DEL b"]);
    assert_eq!(knot.client.stat("waiters"), 2);
    knot.client.run("FLOCK.RELEASE a t");
    knot.assert_many_is_served();
}

#[test]
fn what_was_granted_together_is_lost_one_by_one() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.run("FLOCK.MACQUIRE 3 a b c t PX 600000").fence();
    client.run("DEL a");
    assert_eq!(client.run("FLOCK.MREFRESH 3 a b c t PX 60000"), 2);
    client.run("RENAME b z");
    assert_held(&mut client, "z", "t", fence);
    assert_eq!(client.run("FLOCK.MREFRESH 3 a b c t PX 60000"), 1);
    assert_eq!(client.run("FLOCK.MRELEASE 3 a b c t"), 1);
    assert_eq!(client.run("FLOCK.MRELEASE 1 z t"), 1);
    assert_eq!(client.run("DBSIZE"), 0);
}
