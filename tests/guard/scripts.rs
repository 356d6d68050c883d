//! Proves that a guarded script or function reads, decides and writes as one step under the lock; and that a guard works
//! in scripts and in transactions, but never a script in a guard in a script, which would end the server.

use crate::support::*;
use crate::{assert_still_held, guard, guard_words, holding, holding_in_both, NOT_HELD};

/// Reads a balance, decides, and writes it.
const SPEND: &str = "local balance = tonumber(redis.call('GET', KEYS[1]))
    local price = tonumber(ARGV[1])
    if balance < price then return redis.error_reply('POOR only ' .. balance) end
    redis.call('SET', KEYS[1], balance - price)
    redis.call('RPUSH', KEYS[2], ARGV[2])
    return balance - price";

#[test]
fn a_guarded_script_reads_decides_and_writes() {
    holding_in_both(|_, client| {
        client.run("SET balance 100");
        let spend = |client: &mut Client, token: &str, price: &str| {
            let words = [
                "FLOCK.GUARD",
                "lock",
                token,
                "EVAL",
                SPEND,
                "2",
                "balance",
                "log",
                price,
                token,
            ];
            client.call(&words[..])
        };
        assert_eq!(spend(client, "tok", "30"), 70);
        assert_eq!(spend(client, "tok", "70"), 0);
        assert_eq!(spend(client, "tok", "1"), Reply::error("POOR only 0"));
        assert_eq!(spend(client, "other", "0"), Reply::error(NOT_HELD));
        assert_eq!(client.run("GET balance"), "0");
        assert_eq!(client.run("LLEN log"), 2);
        client.run("FLOCK.RELEASE lock tok");
        assert_eq!(spend(client, "tok", "0"), Reply::error(NOT_HELD));
        assert_eq!(client.run("LLEN log"), 2);
    });
}

#[test]
fn a_guarded_script_is_called_by_its_digest() {
    holding_in_both(|_, client| {
        let sha = client
            .call(("SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])"))
            .text();
        for name in ["EVALSHA", "evalsha"] {
            let before = guard(client, "GET data");
            let reply = guard_words(client, &[name, &sha, "1", "data"]);
            assert!(reply.int() > 0, "{before:?}");
        }
        assert_eq!(client.run("GET data"), "2");
        client.run("SCRIPT FLUSH");
        let reply = guard_words(client, &["EVALSHA", &sha, "1", "data"]);
        assert_eq!(reply.error_word(), "NOSCRIPT");
        // What a guarded EVAL has run is known afterwards.
        guard_words(
            client,
            &["EVAL", "return redis.call('INCR', KEYS[1])", "1", "data"],
        );
        assert_eq!(guard_words(client, &["EVALSHA", &sha, "1", "data"]), 4);
    });
}

#[test]
fn a_guarded_function_reads_decides_and_writes() {
    holding_in_both(|_, client| {
        let code = format!(
            "#!lua name=shop
            redis.register_function('spend', function(KEYS, ARGV) {SPEND} end)
            redis.register_function{{function_name='look', flags={{'no-writes'}},
                callback=function(KEYS, ARGV) return redis.call('GET', KEYS[1]) end}}"
        );
        assert_eq!(client.call(("FUNCTION", "LOAD", code)), "shop");
        client.run("SET balance 100");
        assert_eq!(guard(client, "FCALL spend 2 balance log 30 first"), 70);
        assert_eq!(guard(client, "FCALL_RO look 1 balance"), "70");
        assert_eq!(guard(client, "FCALL look 1 balance"), "70");
        let poor = guard(client, "FCALL spend 2 balance log 71 second");
        assert_eq!(poor, Reply::error("POOR only 70"));
        assert!(matches!(
            guard(client, "FCALL_RO spend 2 balance log 1 x"),
            Reply::Error(_)
        ));
        assert!(matches!(guard(client, "FCALL nosuch 0"), Reply::Error(_)));
        client.run("FLOCK.BREAK lock");
        let reply = guard(client, "FCALL spend 2 balance log 1 third");
        assert_eq!(reply, Reply::error(NOT_HELD));
        assert_eq!(client.run("GET balance"), "70");
        assert_eq!(client.run("LLEN log"), 1);
    });
}

#[test]
fn a_guarded_script_that_may_only_read_cannot_write() {
    holding_in_both(|_, client| {
        client.run("SET data before");
        let read = guard_words(
            client,
            &["EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "data"],
        );
        assert_eq!(read, "before");
        let sha = client
            .call(("SCRIPT", "LOAD", "return redis.call('GET', KEYS[1])"))
            .text();
        assert_eq!(guard_words(client, &["EVALSHA_RO", &sha, "1", "data"]), "before");
        for body in [
            "return redis.call('SET', KEYS[1], 'after')",
            "return redis.call('FLOCK.RELEASE', 'lock', 'tok')",
            "return redis.call('FLOCK.ACQUIRE', 'other', 'tok', 'PX', '1000')",
        ] {
            let reply = guard_words(client, &["EVAL_RO", body, "1", "data"]);
            assert!(matches!(reply, Reply::Error(_)), "{body}: {reply:?}");
            let sha = client.call(("SCRIPT", "LOAD", body)).text();
            let reply = guard_words(client, &["EVALSHA_RO", &sha, "1", "data"]);
            assert!(matches!(reply, Reply::Error(_)), "{body}: {reply:?}");
        }
        assert_eq!(client.run("GET data"), "before");
        assert_eq!(client.run("EXISTS other"), 0);
    });
}

#[test]
fn a_guard_in_a_script_runs_or_is_an_error_of_the_script() {
    holding_in_both(|_, client| {
        assert_eq!(client.script("FLOCK.GUARD lock tok SET data 1"), OK);
        assert_eq!(client.script("FLOCK.GUARD lock tok INCR data"), 2);
        assert_eq!(client.script("FLOCK.GUARD lock tok GET data"), "2");
        let reply = client.script("FLOCK.GUARD lock other SET data 3");
        assert_eq!(reply.error_word(), "NOTHELD", "{reply:?}");
        let body = "local reply = redis.pcall('FLOCK.GUARD', 'lock', 'other', 'SET', 'data', '3')
            redis.call('RPUSH', 'log', reply.err)
            return redis.call('FLOCK.GUARD', 'lock', 'tok', 'HSET', 'hash', 'field', 'value')";
        assert_eq!(client.call(("EVAL", body, 0)), 1);
        assert!(client.run("LPOP log").text().starts_with("NOTHELD"));
        assert_eq!(client.run("GET data"), "2");
        let reply = client.script("FLOCK.GUARD lock tok GET hash");
        assert_eq!(reply.error_word(), "WRONGTYPE", "{reply:?}");
    });
}

/// The server asserts that no script runs in another: also a module must not start one there.
#[test]
fn a_guarded_script_in_a_script_is_refused_and_ends_nothing() {
    holding_in_both(|_, client| {
        let fence = client.run("FLOCK.INFO lock").field("fence").fence();
        let code = "#!lua name=lib
            redis.register_function('f', function() return redis.call('SET', 'data', 'x') end)
            redis.register_function('g', function(keys, args) return redis.call(unpack(args)) end)";
        client.call(("FUNCTION", "LOAD", "REPLACE", code));
        let sha = client
            .call(("SCRIPT", "LOAD", "return redis.call('SET', 'data', 'x')"))
            .text();
        let inner: [&[&str]; 6] = [
            &["EVAL", "return redis.call('SET', 'data', 'x')", "0"],
            &["EVAL_RO", "return 1", "0"],
            &["EVALSHA", &sha, "0"],
            &["EVALSHA_RO", &sha, "0"],
            &["FCALL", "f", "0"],
            &["FCALL_RO", "f", "0"],
        ];
        for words in inner {
            for outer in [
                &["EVAL", "return redis.call(unpack(ARGV))", "0"][..],
                &["EVAL", "return redis.pcall(unpack(ARGV))", "0"],
                &["FCALL", "g", "0"],
            ] {
                let all: Vec<_> = [outer, &["FLOCK.GUARD", "lock", "tok"], words].concat();
                let reply = client.call(all);
                assert!(matches!(reply, Reply::Error(_)), "{outer:?} {words:?}: {reply:?}");
                assert_eq!(client.run("PING"), "PONG", "{outer:?} {words:?}");
            }
        }
        assert_eq!(client.run("EXISTS data"), 0);
        assert_still_held(client, fence);
        assert_eq!(guard_words(client, inner[0]), OK);
    });
}

#[test]
fn a_script_that_may_only_read_cannot_write_through_a_guard() {
    holding_in_both(|_, client| {
        client.run("SET data before");
        for (body, name) in [
            (
                "return redis.call('FLOCK.GUARD', 'lock', 'tok', 'SET', 'data', 'after')",
                "EVAL_RO",
            ),
            (
                "#!lua flags=no-writes\nreturn redis.call('FLOCK.GUARD', 'lock', 'tok', 'DEL', 'data')",
                "EVAL",
            ),
        ] {
            let reply = client.call((name, body, 0));
            assert!(matches!(reply, Reply::Error(_)), "{name}: {reply:?}");
            assert_eq!(client.run("GET data"), "before", "{name}");
        }
    });
}

#[test]
fn after_a_guarded_script_that_failed_the_next_guard_works() {
    holding_in_both(|_, client| {
        let fence = client.run("FLOCK.INFO lock").field("fence").fence();
        for body in [
            "error('boom')",
            "return redis.call('FLOCK.GUARD', 'lock', 'tok', 'PING')",
            "return redis.call('NOSUCH')",
            "syntax(",
        ] {
            let reply = guard_words(client, &["EVAL", body, "0"]);
            assert!(matches!(reply, Reply::Error(_)), "{body}: {reply:?}");
            assert_eq!(guard(client, "SET data 1"), OK, "after {body}");
            assert_eq!(
                client.script("FLOCK.GUARD lock tok GET data"),
                "1",
                "after {body}"
            );
        }
        assert_still_held(client, fence);
    });
}

#[test]
fn guards_in_a_transaction_are_decided_one_by_one() {
    holding_in_both(|server, client| {
        let mut waiter = server.enqueue("lock", "FLOCK.ACQUIRE lock next PX 600000 BLOCK 0");
        let replies = client.transaction(&[
            "FLOCK.GUARD lock tok SET data 1",
            "FLOCK.GUARD lock next SET data 2",
            "FLOCK.RELEASE lock tok",
            "FLOCK.GUARD lock tok SET data 3",
            "FLOCK.GUARD lock next INCR data",
            "FLOCK.GUARD lock next LPOP data",
        ]);
        assert_eq!(replies[0], OK);
        assert_eq!(replies[1], Reply::error(NOT_HELD));
        assert_eq!(replies[2], 1);
        assert_eq!(replies[3], Reply::error(NOT_HELD));
        assert_eq!(replies[4], 2);
        assert_eq!(replies[5].error_word(), "WRONGTYPE");
        waiter.receive().fence();
        assert_eq!(client.run("GET data"), "2");
        assert_eq!(client.stat("guards_refused"), 2);
    });
}

#[test]
fn a_guarded_script_that_hangs_can_be_killed() {
    let (server, mut client) = holding();
    client.run("CONFIG SET lua-time-limit 20");
    let waiter = server.enqueue("lock", "FLOCK.ACQUIRE lock next PX 600000 BLOCK 0");
    let mut hanging = server.admin();
    hanging.send(("FLOCK.GUARD", "lock", "tok", "EVAL", "while true do end", 0));
    let mut other = server.admin();
    let is_busy = |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with("BUSY"));
    eventually("the script hangs", || other.run("GET data"), is_busy);
    // A waiter may leave meanwhile.
    drop(waiter);
    assert_eq!(other.run("SCRIPT KILL"), OK);
    assert!(matches!(hanging.receive(), Reply::Error(_)));
    assert_eq!(guard(&mut client, "SET data 1"), OK);
    eventually("nobody waits", || client.stat("waiters"), |waiters| *waiters == 0);
    assert_eq!(client.run("FLOCK.RELEASE lock tok"), 1);
    assert_eq!(client.run("EXISTS lock"), 0);
}
