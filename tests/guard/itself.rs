//! Proves that a guarded command may do whatever it likes to the very lock that guards it: end it, hand it over, move
//! or overwrite it.

use crate::support::*;
use crate::{assert_still_held, guard, guard_words, holding, holding_in_both};

/// A waiter behind the lock gets it after the guarded `line`, which replies `expected`.
#[track_caller]
fn assert_handed_over(line: &str, expected: &Reply) {
    holding_in_both(|server, client| {
        let mut waiter = server.enqueue("lock", "FLOCK.ACQUIRE lock next PX 600000 BLOCK 0");
        let reply = guard(client, line);
        assert_eq!(reply, *expected, "{line}");
        let fence = waiter.receive().fence();
        assert_eq!(*client.run("FLOCK.INFO lock").field("fence"), fence, "{line}");
        assert!(client.run("FLOCK.PTTL lock next").int() > 0, "{line}");
        let refused = guard(client, "SET data after");
        assert_eq!(refused.error_word(), "NOTHELD", "{line}");
    });
}

#[test]
fn a_guarded_command_that_ends_the_hold_hands_the_lock_over() {
    let one = Reply::Int(1);
    let ok = Reply::Status("OK".to_owned());
    for (line, expected) in [
        ("FLOCK.RELEASE lock tok", &one),
        ("FLOCK.MRELEASE 1 lock tok", &one),
        ("FLOCK.BREAK lock", &one),
        ("DEL lock", &one),
        ("UNLINK lock", &one),
        ("PEXPIREAT lock 1", &one),
        ("RENAME lock elsewhere", &ok),
        ("MOVE lock 1", &one),
        ("SWAPDB 0 1", &ok),
        ("FLUSHALL", &ok),
        ("FLUSHDB ASYNC", &ok),
    ] {
        assert_handed_over(line, expected);
    }
}

#[test]
fn a_guarded_command_that_ends_the_hold_frees_the_lock_when_nobody_waits() {
    for line in [
        "DEL lock",
        "FLOCK.RELEASE lock tok",
        "FLOCK.BREAK lock",
        "FLUSHALL",
    ] {
        let (_server, mut client) = holding();
        let reply = guard(&mut client, line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        assert_eq!(client.run("EXISTS lock"), 0, "{line}");
        assert_eq!(guard(&mut client, "PING").error_word(), "NOTHELD", "{line}");
        client.run("FLOCK.ACQUIRE lock other PX 600000").fence();
    }
}

#[test]
fn a_guarded_command_that_overwrites_the_lock_ends_all_waits() {
    holding_in_both(|server, client| {
        let mut waiter = server.enqueue("lock", "FLOCK.ACQUIRE lock next PX 600000 BLOCK 0");
        assert_eq!(guard(client, "SET lock text"), OK);
        assert_eq!(waiter.receive().error_word(), "WRONGTYPE");
        assert_eq!(client.run("GET lock"), "text");
        assert_eq!(guard(client, "GET lock").error_word(), "WRONGTYPE");
    });
}

#[test]
fn a_guarded_refresh_or_retry_works_on_the_lock() {
    holding_in_both(|_, client| {
        let fence = client.run("FLOCK.INFO lock").field("fence").fence();
        assert_eq!(guard(client, "FLOCK.REFRESH lock tok PX 900000"), 1);
        assert!(guard(client, "FLOCK.PTTL lock tok").int() > 600_000);
        assert_eq!(guard(client, "FLOCK.ACQUIRE lock tok PX 1000"), fence);
        assert_eq!(*guard(client, "FLOCK.INFO lock").field("fence"), fence);
        assert_eq!(guard(client, "TYPE lock"), "flocklock");
        assert_still_held(client, fence);
    });
}

#[test]
fn a_guarded_acquire_never_waits() {
    holding_in_both(|_, client| {
        client.run("FLOCK.ACQUIRE busy other PX 600000").fence();
        for line in [
            "FLOCK.ACQUIRE busy tok PX 600000 BLOCK 0",
            "FLOCK.ACQUIRE busy tok PX 600000 BLOCK 600000",
            "FLOCK.ACQUIRE lock else PX 600000 BLOCK 0",
            "FLOCK.MACQUIRE 2 busy free tok PX 600000 BLOCK 0",
        ] {
            assert_eq!(guard(client, line), NIL, "{line}");
        }
        assert_eq!(client.stat("waiters_peak"), 0);
        // What is free is taken: one lock only by who holds another.
        guard(client, "FLOCK.ACQUIRE free tok PX 600000 BLOCK 0").fence();
        guard(client, "FLOCK.MACQUIRE 2 x y tok PX 600000 BLOCK 0").fence();
        assert_eq!(client.stat("held_locks"), 5);
    });
}

#[test]
fn session_is_refused_or_bound_to_nothing_that_outlives_the_call() {
    holding_in_both(|_, client| {
        let line = "FLOCK.GUARD lock tok FLOCK.ACQUIRE free tok PX 600000 SESSION";
        for reply in [client.run(line), client.transaction(&[line]).remove(0)] {
            assert_eq!(reply.error_word(), "ERR", "{reply:?}");
        }
        assert_eq!(client.run("EXISTS free"), 0);
    });
}

#[test]
fn a_guarded_script_may_end_the_hold_and_go_on() {
    holding_in_both(|server, client| {
        let mut waiter = server.enqueue("lock", "FLOCK.ACQUIRE lock next PX 600000 BLOCK 0");
        // The check and the whole script are one step: it is not interrupted half way.
        let body = "redis.call('SET', KEYS[1], 'first')
            redis.call('FLOCK.RELEASE', KEYS[2], 'tok')
            redis.call('SET', KEYS[1], 'second')
            return redis.call('FLOCK.PTTL', KEYS[2], 'tok')";
        let reply = guard_words(client, &["EVAL", body, "2", "data", "lock"]);
        assert_eq!(reply, -2);
        waiter.receive().fence();
        assert_eq!(client.run("GET data"), "second");
    });
}

#[test]
fn the_lease_may_run_out_while_the_command_runs() {
    let (_server, mut client) = holding();
    let body = "redis.call('FLOCK.REFRESH', 'lock', 'tok', 'PX', '1')
        while redis.call('FLOCK.PTTL', 'lock', 'tok') ~= -2 do end
        redis.call('SET', 'data', 'done')
        return redis.call('FLOCK.REFRESH', 'lock', 'tok', 'PX', '600000')";
    assert_eq!(guard_words(&mut client, &["EVAL", body, "0"]), 0);
    assert_eq!(client.run("GET data"), "done", "checked when it began");
    assert_eq!(guard(&mut client, "PING").error_word(), "NOTHELD");
    eventually(
        "the lock is free",
        || client.run("EXISTS lock"),
        |keys| *keys == 0,
    );
}
