//! Proves that BLOCK is as if absent where nobody can wait, that WATCH sees exactly what changed, and that all of it
//! works in MULTI and in scripts.

use crate::support::*;
use crate::{assert_free, assert_held, assert_nobody_waits, ints, Knot};

#[test]
fn block_in_a_transaction_is_one_try() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000").fence();
        let replies = client.transaction(&[
            "FLOCK.MACQUIRE 2 a b u PX 60000 BLOCK 0",
            "FLOCK.MACQUIRE 2 b c u PX 60000 BLOCK 0",
            "FLOCK.MACQUIRE 2 c a u PX 60000 BLOCK 5000",
            "FLOCK.MACQUIRE 2 a b v PX 60000 BLOCK 5000",
        ]);
        assert_eq!(replies[0], NIL);
        let fence = replies[1].fence();
        assert_eq!(replies[2].error_word(), "ERR", "it holds c alone");
        assert_eq!(replies[3], NIL);
        assert_held(client, "c", "u", fence);
        assert_nobody_waits(client);
        assert_eq!(client.stat("waiters_peak"), 0);
    });
}

#[test]
fn block_in_a_script_is_one_try() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000").fence();
        assert_eq!(client.script("FLOCK.MACQUIRE 2 a b u PX 60000 BLOCK 0"), NIL);
        assert_free(client, &["b"]);
        let fence = client.script("FLOCK.MACQUIRE 2 b c u PX 60000 BLOCK 0").fence();
        assert_held(client, "b", "u", fence);
        assert_eq!(client.stat("waiters_peak"), 0);
    });
}

#[test]
fn one_try_does_not_overtake_those_who_wait() {
    let mut knot = Knot::tie();
    for line in [
        "FLOCK.MACQUIRE 2 b c late PX 60000 BLOCK 0",
        "FLOCK.ACQUIRE b late PX 60000 BLOCK 0",
    ] {
        assert_eq!(knot.client.transaction(&[line]), [NIL], "{line}");
        assert_eq!(knot.client.script(line), NIL, "{line}");
    }
    assert_free(&mut knot.client, &["b", "c"]);
    knot.client.run("FLOCK.RELEASE a t");
    knot.assert_many_is_served();
}

#[test]
fn all_commands_work_in_a_transaction_and_in_a_script() {
    in_both_protocols(|_, client| {
        let replies = client.transaction(&[
            "FLOCK.MACQUIRE 2 a b t PX 60000",
            "FLOCK.MREFRESH 2 a b t PX 90000",
            "FLOCK.PTTL b t",
            "FLOCK.MRELEASE 2 a b t",
            "EXISTS a b",
        ]);
        replies[0].fence();
        assert_eq!(replies[1], 2);
        assert!(replies[2].int() > 60_000);
        assert_eq!(ints(&replies[3..]), [2, 0]);

        let fence = client.script("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
        assert_eq!(client.script("FLOCK.MACQUIRE 2 b a t PX 60000"), fence);
        assert_eq!(client.script("FLOCK.MREFRESH 2 a b t PX 60000"), 2);
        assert_eq!(client.script("FLOCK.MRELEASE 2 a b t"), 2);
        assert_free(client, &["a", "b"]);
    });
}

#[test]
fn a_transaction_hands_the_locks_over_before_it_goes_on() {
    let mut knot = Knot::tie();
    let replies = knot.client.transaction(&[
        "FLOCK.RELEASE a t",
        "FLOCK.PTTL a m",
        "FLOCK.PTTL b m",
        "FLOCK.ACQUIRE b late PX 60000",
    ]);
    assert!(replies[1].int() > 0 && replies[2].int() > 0, "{replies:?}");
    assert_eq!(replies[3], NIL);
    knot.assert_many_is_served();
}

#[test]
fn a_script_hands_the_locks_over_before_it_goes_on() {
    let mut knot = Knot::tie();
    let body = "redis.call('FLOCK.RELEASE', 'a', 't') return redis.call('FLOCK.PTTL', 'b', 'm')";
    assert!(knot.client.call(("EVAL", body, 0)).int() > 0);
    knot.assert_many_is_served();
}

/// Watches `key`, runs `line` on another connection, and tells whether a transaction of the first one still goes through.
#[track_caller]
fn survives(server: &Server, key: &str, line: &str) -> bool {
    let mut watcher = server.admin();
    watcher.call(("WATCH", key));
    server.admin().run(line);
    watcher.run("MULTI");
    watcher.run("PING");
    watcher.run("EXEC") != NIL
}

#[test]
fn what_is_refused_does_not_abort_a_transaction_that_watches_one_of_the_keys() {
    let server = Server::start();
    server.admin().run("FLOCK.ACQUIRE a t PX 600000").fence();
    for line in [
        "FLOCK.MACQUIRE 2 a b u PX 60000",
        "FLOCK.MACQUIRE 2 a b u PX 60000 BLOCK 1",
        "FLOCK.MACQUIRE 2 a b t PX 60000",
        "FLOCK.MACQUIRE 2 a b u PX 0",
        "FLOCK.MREFRESH 2 a b t PX 60000",
        "FLOCK.MREFRESH 2 a b u PX 60000",
        "FLOCK.MRELEASE 2 a b u",
    ] {
        for key in ["a", "b"] {
            assert!(survives(&server, key, line), "{key}: {line}");
        }
    }
}

#[test]
fn a_grant_and_a_release_abort_a_transaction_that_watches_one_of_the_keys() {
    for key in ["a", "b"] {
        let server = Server::start();
        for line in [
            "FLOCK.MACQUIRE 2 a b t PX 60000",
            "FLOCK.MRELEASE 2 a b t",
            "FLOCK.MACQUIRE 2 b a t PX 60000 BLOCK 0",
        ] {
            assert!(!survives(&server, key, line), "{key}: {line}");
        }
    }
}

#[test]
fn a_hand_off_aborts_a_transaction_that_watches_the_key_that_was_free() {
    let mut knot = Knot::tie();
    assert!(!survives(&knot.server, "b", "FLOCK.RELEASE a t"));
    knot.assert_many_is_served();
}
