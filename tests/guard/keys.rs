//! Proves that the keys of the guarded command are seen from outside, beside that of the lock: by COMMAND GETKEYS, and
//! by a cluster, which checks slots and redirects.

use crate::support::*;
use crate::{guard, guard_words, CANNOT};

#[track_caller]
fn keys_of(client: &mut Client, line: &str) -> Vec<String> {
    let reply = client.run(&format!("COMMAND GETKEYS {line}"));
    assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    reply.items().iter().map(Reply::text).collect()
}

/// Each command, and its keys.
const INNER: &[(&str, &[&str])] = &[
    ("GET data", &["data"]),
    ("get data", &["data"]),
    ("SET data value EX 10", &["data"]),
    ("MGET a b c", &["a", "b", "c"]),
    ("MSET a 1 b 2", &["a", "b"]),
    ("DEL a b", &["a", "b"]),
    ("RENAME a b", &["a", "b"]),
    ("EVAL script 2 a b argument", &["a", "b"]),
    ("EVALSHA 0123 1 a argument", &["a"]),
    ("EVAL_RO script 1 a", &["a"]),
    ("FCALL function 2 a b argument", &["a", "b"]),
    ("XREADGROUP GROUP g c COUNT 1 STREAMS s1 s2 > >", &["s1", "s2"]),
    ("XREAD STREAMS s1 s2 0 0", &["s1", "s2"]),
    ("ZUNIONSTORE target 2 a b", &["target", "a", "b"]),
    ("SINTERSTORE target a b", &["target", "a", "b"]),
    ("SORT a STORE b", &["a", "b"]),
    ("BITOP AND target a b", &["target", "a", "b"]),
    ("LMPOP 2 a b LEFT", &["a", "b"]),
    ("OBJECT ENCODING data", &["data"]),
    ("XGROUP CREATE stream g 0", &["stream"]),
    ("FLOCK.RELEASE lock2 tok", &["lock2"]),
    ("FLOCK.MACQUIRE 2 a b tok PX 1000", &["a", "b"]),
];

#[test]
fn command_getkeys_lists_the_lock_and_then_the_commands_keys() {
    let server = Server::start();
    let mut client = server.client();
    for (line, inner) in INNER {
        let keys = keys_of(&mut client, &format!("FLOCK.GUARD lock tok {line}"));
        let expected: Vec<_> = std::iter::once("lock").chain(inner.iter().copied()).collect();
        let mut seen = keys.clone();
        // In the order of the command, or of the server's own answer for it.
        assert_eq!(seen.remove(0), "lock", "{line}");
        seen.sort();
        let mut wanted = expected[1..].to_vec();
        wanted.sort_unstable();
        assert_eq!(seen, wanted, "{line}: {keys:?}");
    }
}

#[test]
fn command_getkeys_lists_the_lock_alone_where_there_are_no_keys() {
    let server = Server::start();
    let mut client = server.client();
    for line in [
        "PING",
        "FLUSHALL",
        "PUBLISH channel message",
        "EVAL script 0 argument",
        "COMMAND COUNT",
        "FLOCK.HELP",
        "MULTI",
        "CONFIG GET x",
    ] {
        let keys = keys_of(&mut client, &format!("FLOCK.GUARD lock tok {line}"));
        assert_eq!(keys, ["lock"], "{line}");
    }
}

/// What the server cannot make sense of has no keys; whether that is an error of COMMAND GETKEYS is all the same.
#[test]
fn command_getkeys_bears_what_makes_no_sense() {
    let server = Server::start();
    let mut client = server.client();
    for line in [
        "NOSUCH a b",
        "GET",
        "SET a",
        "MSET a",
        "EVAL script",
        "EVAL script notanumber a",
        "EVAL script 99 a",
        "EVAL script -1 a",
        "EVAL script 9223372036854775807 a",
        "FCALL function 4294967297 a",
        "XREADGROUP GROUP g",
        "XREAD STREAMS",
        "ZUNIONSTORE target 99 a",
        "LMPOP 0 a LEFT",
        "SORT",
        "MIGRATE host 1",
        "OBJECT",
        "OBJECT NOSUCH a",
        "FLOCK.GUARD",
        "FLOCK.GUARD other",
        "FLOCK.GUARD other tok",
        "FLOCK.GUARD other tok GET data",
        "FLOCK.GUARD other tok FLOCK.GUARD third tok GET data",
        "FLOCK.MACQUIRE 0 a tok PX 1",
        "FLOCK.MACQUIRE 999999 a tok PX 1",
        "FLOCK.APPLY a RELEASE 1",
        "",
    ] {
        match client.run(&format!("COMMAND GETKEYS FLOCK.GUARD lock tok {line}")) {
            Reply::Error(_) => {}
            keys => assert_eq!(keys.items()[0], "lock", "{line}: {keys:?}"),
        }
        assert_eq!(client.run("PING"), "PONG", "{line}");
    }
    for line in ["FLOCK.GUARD", "FLOCK.GUARD lock", "FLOCK.GUARD lock tok"] {
        client.run(&format!("COMMAND GETKEYS {line}"));
        assert_eq!(client.run("PING"), "PONG", "{line}");
    }
}

/// Of most commands a module learns the keys alone, and not what is done to them. So the inner keys may be shown without
/// flags: what the user may do with them is checked when the command runs.
#[test]
fn command_getkeysandflags_says_that_the_lock_is_only_read() {
    let server = Server::start();
    let mut client = server.client();
    for (line, inner) in INNER {
        let reply = client.run(&format!("COMMAND GETKEYSANDFLAGS FLOCK.GUARD lock tok {line}"));
        let entries: Vec<_> = reply.items().iter().map(Reply::items).collect();
        assert_eq!(entries.len(), inner.len() + 1, "{line}: {reply:?}");
        assert_eq!(entries[0][0], "lock", "{line}: {reply:?}");
        let flags = entries[0][1].items();
        assert!(flags.iter().any(|flag| *flag == "RO"), "{line}: {reply:?}");
        assert!(flags.iter().all(|flag| *flag != "RW"), "{line}: {reply:?}");
    }
}

/// So that who asks once for all commands, as cluster clients do, knows that there may be more keys.
#[test]
fn command_info_says_that_the_lock_is_only_read_and_not_the_only_key() {
    let server = Server::start();
    let info = server.client().run("COMMAND INFO FLOCK.GUARD");
    let flags = info.items()[0].items()[8].items()[0].field("flags");
    let flags: Vec<_> = flags.items().iter().map(Reply::text).collect();
    for flag in ["RO", "incomplete"] {
        assert!(flags.iter().any(|own| own == flag), "{flag}: {flags:?}");
    }
}

#[test]
fn in_a_cluster_lock_and_keys_are_of_one_slot() {
    let node = cluster::start_alone();
    let mut client = node.client();
    client.run("FLOCK.ACQUIRE {x}lock tok PX 600000").fence();
    for line in [
        "SET {x}data 1",
        "GET {x}data",
        "EVAL return{KEYS[1]} 1 {x}data",
        "PING",
    ] {
        let reply = client.run(&format!("FLOCK.GUARD {{x}}lock tok {line}"));
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
    for line in [
        "SET {y}data 1",
        "GET data",
        "MSET {x}data 1 {y}data 2",
        "EVAL x 1 {y}data",
        "DEL {x}data {y}data",
    ] {
        let reply = client.run(&format!("FLOCK.GUARD {{x}}lock tok {line}"));
        assert_eq!(reply.error_word(), "CROSSSLOT", "{line}: {reply:?}");
    }
    // What a script does not declare, the server checks when it uses it: against the first that it used, since it does
    // not tell a script of a module's which slot it was called for.
    let body = "#!lua\nredis.call('GET', '{x}data') return redis.call('SET', '{y}data', '1')";
    let reply = client.call(("FLOCK.GUARD", "{x}lock", "tok", "EVAL", body, 1, "{x}data"));
    assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
    assert_eq!(client.run("EXISTS {y}data"), 0);
    for line in ["ASKING", "READONLY", "READWRITE"] {
        let reply = client.run(&format!("FLOCK.GUARD {{x}}lock tok {line}"));
        assert!(reply.error_text().starts_with(CANNOT), "{line}: {reply:?}");
    }
}

#[test]
fn keys_of_another_node_are_redirected() {
    let (owner, other, slot) = cluster::start_two("lock");
    let moved = format!("MOVED {slot} 127.0.0.1:{}", owner.port());
    owner.admin().run("FLOCK.ACQUIRE lock tok PX 600000").fence();
    let mut client = other.client();
    for line in [
        "SET {lock}data 1",
        "GET {lock}data",
        "EVAL x 1 {lock}data",
        "PING",
    ] {
        assert_eq!(guard(&mut client, line), Reply::error(&moved), "{line}");
    }
    // The lock is here and the data are not: that is no single slot.
    let mut here = owner.client();
    let elsewhere = (0..)
        .map(|number| format!("data{number}"))
        .find(|key| here.run(&format!("GET {key}")) != NIL)
        .expect("a key of the other node");
    assert_eq!(here.run(&format!("GET {elsewhere}")).error_word(), "MOVED");
    let reply = guard(&mut here, &format!("SET {elsewhere} 1"));
    assert_eq!(reply.error_word(), "CROSSSLOT", "{reply:?}");
    let body = format!("return redis.call('SET', '{elsewhere}', '1')");
    let reply = guard_words(&mut here, &["EVAL", &body, "0"]);
    assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
    assert_eq!(client.run(&format!("EXISTS {elsewhere}")), 0);
    assert_eq!(guard(&mut here, "SET {lock}data 1"), OK);
}
