//! Proves that the command runs while the token holds the lock, and never else: never held, released, run out, taken
//! by another, broken, removed; and that both are counted.

use std::time::{Duration, Instant};

use crate::support::*;
use crate::{guard, guard_words, holding, holding_in_both, holding_on, NOT_HELD};

/// Under the guard of `token` nothing runs.
#[track_caller]
fn assert_not_held(client: &mut Client, token: &str) {
    let refused = client.stat("guards_refused");
    let ran = client.stat("guards");
    for line in ["SET data changed", "GET data", "DEL data", "INCR data", "PING"] {
        let reply = client.run(&format!("FLOCK.GUARD lock {token} {line}"));
        assert_eq!(reply, Reply::error(NOT_HELD), "{line}");
    }
    assert_eq!(client.run("GET data"), "before");
    assert_eq!(client.stat("guards_refused"), refused + 5);
    assert_eq!(client.stat("guards"), ran);
}

#[test]
fn the_holder_runs_any_command_and_gets_its_reply() {
    holding_in_both(|_, client| {
        assert_eq!(guard(client, "SET data 1"), OK);
        assert_eq!(guard(client, "INCR data"), 2);
        assert_eq!(guard(client, "GET data"), "2");
        assert_eq!(guard(client, "get missing"), NIL);
        assert_eq!(client.run("flock.guard lock tok del data"), 1);
        assert_eq!(guard(client, "PING"), "PONG");
        assert_eq!(client.run("EXISTS data"), 0);
        assert_eq!(client.stat("guards"), 6);
        assert_eq!(client.stat("guards_refused"), 0);
        assert_eq!(client.stat("grants"), 1, "it takes no lock");
    });
}

#[test]
fn nothing_runs_for_who_never_held() {
    holding_in_both(|_, client| {
        client.run("SET data before");
        assert_not_held(client, "other");
        assert_not_held(client, "TOK");
        assert_not_held(client, "*");
        client.run("FLOCK.RELEASE lock tok");
        assert_not_held(client, "other");
        assert_eq!(client.run("EXISTS lock"), 0, "and no lock comes about");
    });
}

#[test]
fn nothing_runs_after_the_release() {
    holding_in_both(|_, client| {
        client.run("SET data before");
        client.run("FLOCK.RELEASE lock tok");
        assert_not_held(client, "tok");
    });
}

#[test]
fn nothing_runs_after_another_got_the_lock() {
    holding_in_both(|server, client| {
        client.run("SET data before");
        let mut waiter = server.enqueue("lock", "FLOCK.ACQUIRE lock next PX 600000 BLOCK 0");
        client.run("FLOCK.RELEASE lock tok");
        waiter.receive().fence();
        assert_not_held(client, "tok");
        assert_eq!(client.run("FLOCK.GUARD lock next SET data after"), OK);
    });
}

#[test]
fn nothing_runs_for_who_waits() {
    holding_in_both(|server, client| {
        client.run("SET data before");
        let _waiter = server.enqueue("lock", "FLOCK.ACQUIRE lock next PX 600000 BLOCK 0");
        assert_not_held(client, "next");
    });
}

#[test]
fn nothing_runs_after_the_lock_is_broken_or_removed() {
    for line in [
        "FLOCK.BREAK lock",
        "DEL lock",
        "RENAME lock elsewhere",
        "PEXPIREAT lock 1",
        "SWAPDB 1 2",
    ] {
        let (_server, mut client) = holding();
        client.run("SET data before");
        client.run(line);
        if line == "SWAPDB 1 2" {
            assert_eq!(guard(&mut client, "SET data after"), OK, "other databases");
        } else {
            assert_not_held(&mut client, "tok");
        }
    }
    let (_server, mut client) = holding();
    client.run("FLUSHALL");
    client.run("SET data before");
    assert_not_held(&mut client, "tok");
}

#[test]
fn nothing_runs_after_the_end_of_the_lease() {
    const LEASE: Duration = Duration::from_millis(200);
    holding_in_both(|_, client| {
        client.run("SET data before");
        let before = Instant::now();
        assert_eq!(client.run("FLOCK.REFRESH lock tok PX 200"), 1);
        let reply = loop {
            let reply = guard(client, "GET data");
            if reply != "before" {
                break reply;
            }
        };
        assert!(before.elapsed() >= LEASE, "refused before the lease was over");
        assert_eq!(reply, Reply::error(NOT_HELD));
        assert_not_held(client, "tok");
        // Who comes again holds it again.
        client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
        assert_eq!(guard(client, "SET data after"), OK);
    });
}

/// Between two looks of the server's loop a lease may be over and its key still be there.
#[test]
fn the_lease_counts_and_not_whether_the_key_is_still_there() {
    let (_server, mut client) = holding();
    client.run("SET data before");
    let body = "redis.call('FLOCK.REFRESH', 'lock', 'tok', 'PX', '1')
        while redis.call('FLOCK.PTTL', 'lock', 'tok') ~= -2 do end
        return {redis.call('EXISTS', 'lock'), redis.pcall('FLOCK.GUARD', 'lock', 'tok', 'SET', 'data', 'after')}";
    let reply = client.call(("EVAL", body, 0));
    assert_eq!(reply.items()[1].error_word(), "NOTHELD", "{reply:?}");
    assert_eq!(client.run("GET data"), "before");
}

#[test]
fn each_of_several_holders_guards_with_its_own_token() {
    for (mode, label) in [("SHARED", "shared"), ("PERMITS 2", "permits")] {
        let server = Server::start();
        let mut client = server.client();
        client.run("SET data before");
        for token in ["x", "y"] {
            client
                .run(&format!("FLOCK.ACQUIRE lock {token} PX 600000 {mode}"))
                .fence();
            let line = format!("FLOCK.GUARD lock {token} GET data");
            assert_eq!(client.run(&line), "before", "{label}");
        }
        assert_not_held(&mut client, "z");
        client.run("FLOCK.RELEASE lock x");
        assert_not_held(&mut client, "x");
        assert_eq!(client.run("FLOCK.GUARD lock y GET data"), "before", "{label}");
    }
}

#[test]
fn a_hold_that_was_entered_twice_guards_until_it_is_left_twice() {
    let (_server, mut client) = holding();
    client.run("SET data before");
    client.run("FLOCK.ACQUIRE lock tok PX 600000 REENTRANT").fence();
    assert_eq!(client.run("FLOCK.RELEASE lock tok"), 1);
    assert_eq!(guard(&mut client, "GET data"), "before");
    assert_eq!(client.run("FLOCK.RELEASE lock tok"), 1);
    assert_not_held(&mut client, "tok");
}

#[test]
fn a_lock_in_its_delay_guards_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.run("SET data before");
    client.run("FLOCK.ACQUIRE lock tok PX 20 DELAY 600000").fence();
    eventually(
        "the lease is over",
        || client.run("FLOCK.PTTL lock tok"),
        |left| *left == -2,
    );
    assert_not_held(&mut client, "tok");
    assert_eq!(client.run("EXISTS lock"), 1, "it is closed");
}

#[test]
fn each_of_the_locks_of_a_set_guards() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.MACQUIRE 2 a b tok PX 600000").fence();
    assert_eq!(client.run("FLOCK.GUARD a tok SET data 1"), OK);
    assert_eq!(client.run("FLOCK.GUARD b tok SET data 2"), OK);
    client.run("FLOCK.RELEASE a tok");
    let reply = client.run("FLOCK.GUARD a tok SET data 3");
    assert_eq!(reply.error_word(), "NOTHELD");
    assert_eq!(client.run("FLOCK.GUARD b tok GET data"), "2");
}

#[test]
fn a_lock_of_another_database_guards_nothing_here() {
    let (_server, mut client) = holding();
    client.run("SELECT 1");
    client.run("SET data before");
    assert_not_held(&mut client, "tok");
    client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
    assert_eq!(guard(&mut client, "SET data here"), OK);
    assert_eq!(client.run("GET data"), "here");
    client.run("SELECT 0");
    assert_eq!(client.run("EXISTS data"), 0);
}

#[test]
fn a_key_of_another_type_is_wrongtype_and_nothing_runs() {
    holding_in_both(|_, client| {
        client.run("SET text tok");
        let reply = client.run("FLOCK.GUARD text tok SET data 1");
        let error = "WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(reply, Reply::error(error));
        assert_eq!(client.run("EXISTS data"), 0);
        assert_eq!(client.run("GET text"), "tok");
    });
}

#[test]
fn a_guard_without_a_token_or_a_command_is_refused() {
    holding_in_both(|_, client| {
        for line in ["FLOCK.GUARD", "FLOCK.GUARD lock", "FLOCK.GUARD lock tok"] {
            let error = "ERR wrong number of arguments for 'flock.guard' command";
            assert_eq!(client.run(line), Reply::error(error), "{line}");
        }
        let length = Reply::error("ERR the token must be 1 to 1024 bytes");
        for token in [vec![], vec![b't'; 1025]] {
            assert_eq!(client.call(("FLOCK.GUARD", "lock", token, "PING")), length);
        }
    });
}

#[test]
fn tokens_keys_and_arguments_are_bytes() {
    let server = Server::start();
    let mut client = server.client();
    let bytes: Vec<u8> = (0..=255).collect();
    client
        .call(("FLOCK.ACQUIRE", &bytes, &bytes, "PX", 600_000))
        .fence();
    let reply = client.call(("FLOCK.GUARD", &bytes, &bytes, "SET", "data", &bytes));
    assert_eq!(reply, OK);
    let reply = client.call(("FLOCK.GUARD", &bytes, &bytes, "GET", "data"));
    assert_eq!(reply.bytes(), bytes);
    let large = vec![b'x'; 5_000_000];
    let reply = client.call(("FLOCK.GUARD", &bytes, &bytes, "SET", "large", &large));
    assert_eq!(reply, OK);
    let reply = client.call(("FLOCK.GUARD", &bytes, &bytes, "GETDEL", "large"));
    assert_eq!(reply.bytes(), large);
}

#[test]
fn a_guarded_write_aborts_a_transaction_that_watches_its_key_and_not_the_locks() {
    let (server, mut client) = holding_on(Server::builder().undressed());
    for (watched, line, aborts) in [
        ("data", "SET data 1", true),
        ("lock", "SET data 2", false),
        ("data", "GET data", false),
        ("lock", "GET data", false),
    ] {
        let mut watcher = server.admin();
        watcher.call(("WATCH", watched));
        guard(&mut client, line);
        watcher.run("MULTI");
        watcher.run("PING");
        assert_eq!(watcher.run("EXEC") == NIL, aborts, "{watched}: {line}");
    }
}

/// Whoever guards with a token was told of its grant, also where the waiting connection was closed before the reply.
#[test]
fn a_grant_under_which_a_command_ran_is_not_taken_back() {
    let (server, mut client) = holding();
    let mut waiter = server.admin();
    let kill = format!("CLIENT KILL ID {}", waiter.id());
    waiter.send_line("FLOCK.ACQUIRE lock next PX 600000 BLOCK 0");
    eventually("it waits", || client.waiters("lock"), |waiters| *waiters == 1);
    let guarded = "FLOCK.GUARD lock next SET data 1";
    let replies = client.transaction(&["FLOCK.RELEASE lock tok", guarded, &kill]);
    assert_eq!(replies[1], OK);
    // Its fence or the end, whichever the server came to first.
    waiter.receive();
    assert_eq!(client.run("FLOCK.GUARD lock next GET data"), "1");
    assert_eq!(client.stat("grants_undelivered"), 0);
    assert_eq!(client.run("FLOCK.RELEASE lock next"), 1);
}

#[test]
fn a_guarded_read_is_tracked_for_its_client() {
    if !Build::get().is_since((8, 0), (8, 0)) {
        println!("skipped: this server does not track what modules read for a client");
        return;
    }
    let (server, mut client) = holding();
    let mut listener = server.admin();
    let line = format!("CLIENT TRACKING ON REDIRECT {}", listener.id());
    listener.run("SUBSCRIBE __redis__:invalidate");
    assert_eq!(client.run(&line), OK);
    let script = "return redis.call('GET', KEYS[1])";
    for (index, guarded) in [vec!["GET", "data"], vec!["EVAL", script, "1", "data"]]
        .into_iter()
        .enumerate()
    {
        guard_words(&mut client, &guarded);
        server.admin().call(("SET", "data", index));
        let heard = listener.receive();
        assert_eq!(heard.items()[2].items()[0], "data", "{guarded:?}: {heard:?}");
    }
}

#[test]
fn a_guarded_write_wakes_those_who_block_on_its_key() {
    let (server, mut client) = holding();
    let mut popper = server.admin();
    popper.send_line("BLPOP list 0");
    eventually(
        "it blocks",
        || client.info("clients", "blocked_clients"),
        |blocked| blocked == "1",
    );
    assert_eq!(guard(&mut client, "RPUSH list item"), 1);
    let reply = popper.receive();
    assert_eq!(reply.items()[1], "item");
    assert_eq!(client.run("EXISTS list"), 0);
}

#[test]
fn a_guarded_write_is_told_to_those_who_cache_its_key() {
    let (server, mut client) = holding();
    client.run("SET data before");
    let mut cache = server.connect(Protocol::Resp3);
    assert_eq!(cache.run("CLIENT TRACKING ON"), OK);
    assert_eq!(cache.run("GET data"), "before");
    assert_eq!(guard(&mut client, "SET data after"), OK);
    match cache.receive() {
        Reply::Push(words) => assert_eq!(words[1].items()[0], "data", "{words:?}"),
        other => panic!("no invalidation: {other:?}"),
    }
}
