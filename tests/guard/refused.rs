//! Proves what cannot be guarded: what blocks, what is about the connection or the server rather than about data, and
//! guards themselves; in every way to ask for it, whether the lock is held or not. Nothing changes by it.

use crate::support::*;
use crate::{assert_still_held, guard, guard_words, holding_in_both, CANNOT};

/// Refused in flock's own words.
const CANNOT_BE_GUARDED: &[&str] = &[
    "BLPOP list 1",
    "BRPOP list 1",
    "BLPOP missing 0",
    "BRPOPLPUSH missing other 0",
    "BLMOVE missing other LEFT LEFT 0",
    "BLMPOP 0 1 missing LEFT",
    "BZPOPMIN missing 0",
    "BZPOPMAX missing 0",
    "BZMPOP 0 1 missing MIN",
    "XREAD BLOCK 0 STREAMS missing $",
    "XREADGROUP GROUP group consumer BLOCK 0 STREAMS stream >",
    "WAIT 1 0",
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH data",
    "UNWATCH",
    "SUBSCRIBE channel",
    "PSUBSCRIBE channel",
    "SSUBSCRIBE channel",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "AUTH default any",
    "HELLO",
    "HELLO 2",
    "HELLO 3",
    "RESET",
    "SELECT 1",
    "SELECT 0",
    "MONITOR",
    "SHUTDOWN",
    "SHUTDOWN NOSAVE",
    "SAVE",
    "BGSAVE",
    "BGREWRITEAOF",
    "REPLICAOF 127.0.0.1 1",
    "SLAVEOF NO ONE",
    "FAILOVER",
    "SYNC",
    "PSYNC ? -1",
    "REPLCONF ACK 0",
    "ASKING",
    "READONLY",
    "READWRITE",
    "FLOCK.GUARD lock tok SET data after",
    "FLOCK.GUARD other tok SET data after",
];

/// Refused in any words.
const REFUSED: &[&str] = &[
    "QUIT",
    "CLIENT SETNAME guarded",
    "CLIENT KILL TYPE normal SKIPME no",
    "CLIENT REPLY OFF",
    "CLIENT PAUSE 60000 ALL",
    "CLIENT TRACKING ON",
    "CLIENT NO-EVICT ON",
    "CLIENT ID",
    "CONFIG SET maxmemory 1",
    "CONFIG GET maxmemory",
    "CONFIG RESETSTAT",
    "CONFIG REWRITE",
    "DEBUG SEGFAULT",
    "DEBUG PROTOCOL attrib",
    "DEBUG SLEEP 0",
    "DEBUG RELOAD",
    "ACL SETUSER guarded on nopass ~* +@all",
    "ACL WHOAMI",
    "MODULE LIST",
    "MODULE UNLOAD flock",
    "SCRIPT LOAD x",
    "SCRIPT FLUSH",
    "FUNCTION FLUSH",
    "CLUSTER RESET",
    "LATENCY RESET",
    "FLOCK.APPLY lock RELEASE 1",
    "FLOCK.APPLY data GRANT 9 thief 60000 1",
    "FLOCK.FENCE 9007199254740000",
    "POST /",
    "HOST: x",
    "NOSUCH",
    "NOSUCH lock tok",
    "NO\r\nSUCH",
    "SET\0 data after",
    "SELECT\0x 1",
    "GET",
    "GET a b",
    "SET data",
    "CONFIG",
    "CLIENT",
    "CLIENT NOSUCH",
    "XGROUP NOSUCH",
];

/// What a test can see of its connection, and what must stay as it is.
#[track_caller]
fn connection(client: &mut Client) -> String {
    let info = client.run("CLIENT INFO").text();
    let is_lasting = |field: &&str| {
        ["id=", "name=", "flags=", "db=", "sub=", "psub=", "user=", "resp="]
            .iter()
            .any(|name| field.starts_with(name))
    };
    let fields: Vec<_> = info.split_whitespace().filter(is_lasting).collect();
    fields.join(" ")
}

/// Runs `ask` with each line; every reply must pass `check`, and afterwards all must be as before.
#[track_caller]
fn assert_nothing_changes(
    lines: &[&str],
    ask: impl Fn(&mut Client, &str) -> Reply,
    check: impl Fn(&str, &Reply),
) {
    holding_in_both(|server, client| {
        client.run("SET data before");
        client.run("RPUSH list item");
        client.run("XGROUP CREATE stream group $ MKSTREAM");
        client.run("FLOCK.ACQUIRE other tok PX 600000").fence();
        let fence = client.run("FLOCK.INFO lock").field("fence").fence();
        let before = connection(client);
        let digest = client.run("DEBUG DIGEST");
        let ran = client.stat("guards_refused");
        for line in lines {
            let reply = ask(client, line);
            check(line, &reply);
            assert_eq!(client.run("PING"), "PONG", "{line}");
            assert_eq!(connection(client), before, "{line}");
        }
        assert_still_held(client, fence);
        assert_eq!(client.run("DEBUG DIGEST"), digest);
        assert_eq!(client.run("GET data"), "before");
        assert_eq!(client.run("CONFIG GET maxmemory").field("maxmemory").text(), "0");
        assert_eq!(client.info("replication", "role"), "master");
        assert_eq!(client.stat("guards_refused"), ran, "that is for NOTHELD");
        assert_eq!(guard(client, "SET data after"), OK);
        assert!(server
            .log()
            .lines()
            .all(|line| !line.contains("Possible SECURITY ATTACK")));
    });
}

fn guarded(client: &mut Client, line: &str) -> Reply {
    guard(client, line)
}

#[track_caller]
fn check_cannot(line: &str, reply: &Reply) {
    assert!(
        reply.error_text().starts_with(CANNOT),
        "{line}: {reply:?}, not {CANNOT}…"
    );
}

#[track_caller]
fn check_error(line: &str, reply: &Reply) {
    assert!(matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    assert_ne!(reply.error_word(), "NOTHELD", "{line}");
}

#[test]
fn what_blocks_or_is_about_the_connection_is_refused_and_nothing_changes() {
    assert_nothing_changes(CANNOT_BE_GUARDED, guarded, check_cannot);
}

#[test]
fn upper_and_lower_case_are_the_same() {
    let in_lower_case = |client: &mut Client, line: &str| guard(client, &line.to_lowercase());
    assert_nothing_changes(CANNOT_BE_GUARDED, in_lower_case, check_cannot);
    let in_mixed_case = |client: &mut Client, line: &str| {
        let mixed = line.char_indices().map(|(index, letter)| match index % 2 {
            0 => letter.to_ascii_uppercase(),
            _ => letter.to_ascii_lowercase(),
        });
        guard(client, &mixed.collect::<String>())
    };
    assert_nothing_changes(CANNOT_BE_GUARDED, in_mixed_case, check_cannot);
}

#[test]
fn what_is_internal_unknown_or_incomplete_is_an_error_and_nothing_changes() {
    assert_nothing_changes(REFUSED, guarded, check_error);
}

#[test]
fn what_is_unknown_is_called_unknown() {
    let lines = ["NOSUCH", "nosuch lock tok", "FLOCK.NOSUCH lock"];
    assert_nothing_changes(&lines, guarded, |line, reply| {
        let text = reply.error_text().to_lowercase();
        assert!(text.starts_with("err unknown"), "{line}: {reply:?}");
    });
}

#[test]
fn in_a_transaction_it_is_refused_too() {
    let in_transaction = |client: &mut Client, line: &str| {
        let line = format!("FLOCK.GUARD lock tok {line}");
        client.transaction(&[&line]).remove(0)
    };
    assert_nothing_changes(CANNOT_BE_GUARDED, in_transaction, check_cannot);
    assert_nothing_changes(REFUSED, in_transaction, check_error);
}

#[test]
fn it_is_refused_whether_the_lock_is_held_or_not() {
    let without_the_lock =
        |client: &mut Client, line: &str| client.run(&format!("FLOCK.GUARD lock nobody {line}"));
    assert_nothing_changes(CANNOT_BE_GUARDED, without_the_lock, check_cannot);
}

/// The server itself keeps scripts from most of it: then the words are the server's. What blocks does not block there,
/// and SELECT is the script's own.
#[test]
fn a_guarded_script_cannot_do_it_either() {
    let in_script = |client: &mut Client, line: &str| {
        let mut all = vec!["EVAL", "return redis.call(unpack(ARGV))", "0"];
        all.extend(line.split(' '));
        guard_words(client, &all)
    };
    let begins = |line: &str, starts: &[&str]| starts.iter().any(|start| line.starts_with(start));
    let lines = [CANNOT_BE_GUARDED, REFUSED].concat();
    let lines: Vec<_> = lines
        .into_iter()
        .filter(|line| !begins(line, &["BLPOP list", "BRPOP list", "SELECT"]))
        .collect();
    assert_nothing_changes(&lines, in_script, |line, reply| {
        // A wait for what is not there is nil at once, and READONLY is the script's own.
        if !begins(line, &["B", "XREAD", "WAIT", "READ"]) {
            check_error(line, reply);
        }
    });
}

#[test]
fn a_guard_in_a_guarded_script_is_refused() {
    let bodies = [
        "return redis.call('FLOCK.GUARD', 'lock', 'tok', 'SET', 'data', 'after')",
        "return redis.pcall('FLOCK.GUARD', 'lock', 'tok', 'SET', 'data', 'after')",
        "return redis.call('flock.guard', 'other', 'tok', 'PING')",
        "return redis.call('FLOCK.GUARD', 'lock', 'nobody', 'PING')",
    ];
    let in_script = |client: &mut Client, body: &str| guard_words(client, &["EVAL", body, "0"]);
    assert_nothing_changes(&bodies, in_script, |body, reply| {
        assert!(reply.error_text().contains(&CANNOT[4..]), "{body}: {reply:?}");
    });
}

#[test]
fn a_guarded_function_cannot_do_it_either() {
    let code = "#!lua name=attempts
        redis.register_function('attempt', function(keys, args) return redis.call(unpack(args)) end)";
    let in_function = |client: &mut Client, line: &str| {
        let loaded = client.call(("FUNCTION", "LOAD", "REPLACE", code));
        assert_eq!(loaded, "attempts");
        let mut all = vec!["FCALL", "attempt", "0"];
        all.extend(line.split(' '));
        guard_words(client, &all)
    };
    let lines = [
        "FLOCK.GUARD lock tok SET data after",
        "MULTI",
        "WATCH data",
        "SUBSCRIBE channel",
        "AUTH default any",
        "CLIENT ID",
        "CONFIG SET maxmemory 1",
        "SHUTDOWN NOSAVE",
        "DEBUG SEGFAULT",
        "SAVE",
        "EVAL x 0",
        "FCALL attempt 0",
    ];
    assert_nothing_changes(&lines, in_function, check_error);
}
