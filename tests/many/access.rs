//! Proves that all keys of a request are seen by ACL, COMMAND GETKEYS and the slots of a cluster, and that a set whose
//! slot moves away is waited for no longer.

use crate::support::*;
use crate::{assert_free, assert_held, assert_nobody_waits, enqueue};

/// A call that fits each of the commands, for two keys.
const CALLS: [&str; 3] = [
    "FLOCK.MACQUIRE 2 {a} {b} t PX 60000",
    "FLOCK.MREFRESH 2 {a} {b} t PX 60000",
    "FLOCK.MRELEASE 2 {a} {b} t",
];

fn call(template: &str, a: &str, b: &str) -> String {
    template.replace("{a}", a).replace("{b}", b)
}

#[test]
fn command_getkeys_lists_all_keys_and_nothing_else() {
    let server = Server::start();
    let mut client = server.client();
    for template in CALLS {
        let keys = client.run(&format!("COMMAND GETKEYS {}", call(template, "x", "y")));
        let keys: Vec<_> = keys.items().iter().map(Reply::text).collect();
        assert_eq!(keys, ["x", "y"], "{template}");
    }
}

#[test]
fn command_getkeys_bears_any_number_of_keys() {
    let server = Server::start();
    let mut client = server.client();
    for count in ["0", "-1", "x", "3", "99", "4294967296", "9223372036854775807", ""] {
        for name in ["FLOCK.MACQUIRE", "FLOCK.MREFRESH", "FLOCK.MRELEASE"] {
            let line = format!("COMMAND GETKEYS {name} {count} a t PX 60000");
            match client.run(&line) {
                Reply::Error(_) => {}
                keys => assert!(keys.items().len() <= 4, "{line}: {keys:?}"),
            }
        }
    }
}

#[test]
fn a_user_needs_every_one_of_the_keys() {
    let server = Server::start();
    let mut client = server.client();
    client.run("ACL SETUSER worker on nopass ~own:* +@all");
    client.run("FLOCK.MACQUIRE 2 other:a other:b t PX 600000").fence();
    let mut worker = server.admin();
    worker.run("AUTH worker any");
    for template in CALLS {
        for (a, b) in [("own:a", "other:b"), ("other:a", "own:b"), ("other:a", "other:b")] {
            let line = call(template, a, b);
            assert_eq!(worker.run(&line).error_word(), "NOPERM", "{line}");
        }
    }
    assert_free(&mut client, &["own:a", "own:b"]);
    assert!(client.run("FLOCK.PTTL other:a t").int() > 60_000);
    for (template, expected) in CALLS.iter().zip([None, Some(2), Some(2)]) {
        let reply = worker.run(&call(template, "own:a", "own:b"));
        match expected {
            None => assert!(reply.fence() > 0),
            Some(count) => assert_eq!(reply, count, "{template}"),
        }
    }
}

#[test]
fn a_user_who_may_only_read_may_not_take_them() {
    let server = Server::start();
    let mut client = server.client();
    client.run("ACL SETUSER reader on nopass %R~* +@all");
    let mut reader = server.admin();
    reader.run("AUTH reader any");
    for template in CALLS {
        let line = call(template, "a", "b");
        assert_eq!(reader.run(&line).error_word(), "NOPERM", "{line}");
    }
    client.run("ACL SETUSER half on nopass %R~a ~b +@all");
    reader.run("AUTH half any");
    for template in CALLS {
        let line = call(template, "a", "b");
        assert_eq!(reader.run(&line).error_word(), "NOPERM", "{line}");
    }
}

#[test]
fn a_user_who_may_not_run_the_command_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    client.run("ACL SETUSER single on nopass ~* +flock.acquire +flock.release");
    let mut single = server.admin();
    single.run("AUTH single any");
    single.run("FLOCK.ACQUIRE a t PX 60000").fence();
    for template in CALLS {
        let line = call(template, "a", "b");
        assert_eq!(single.run(&line).error_word(), "NOPERM", "{line}");
    }
}

#[test]
fn the_commands_write_and_are_known_to_the_server() {
    let server = Server::start();
    let mut client = server.client();
    for template in CALLS {
        let name = template.split(' ').next().unwrap_or_default().to_lowercase();
        let info = client.call(("COMMAND", "INFO", &name));
        let flags = info.items()[0].items()[2].items();
        assert!(flags.iter().any(|flag| *flag == "write"), "{name}: {flags:?}");
        let docs = client.call(("COMMAND", "DOCS", &name));
        assert!(!docs.field(&name).field("summary").text().is_empty(), "{name}");
        let help = client.run("FLOCK.HELP");
        let mut lines = help.items().iter().map(Reply::text);
        assert!(lines.any(|line| line.to_lowercase().starts_with(&name)), "{name}");
    }
}

#[test]
fn a_full_memory_refuses_new_locks_and_lets_old_ones_go() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
    client.run("CONFIG SET maxmemory 1");
    assert_eq!(client.run("FLOCK.MACQUIRE 2 c d t PX 60000").error_word(), "OOM");
    assert_eq!(client.run("FLOCK.MREFRESH 2 a b t PX 60000"), 2);
    assert_eq!(client.run("FLOCK.MRELEASE 2 a b t"), 2);
}

#[test]
fn in_a_cluster_all_keys_are_of_one_slot() {
    let node = cluster::start_alone();
    let mut client = node.client();
    for template in CALLS {
        let line = call(template, "a", "b");
        assert_eq!(client.run(&line).error_word(), "CROSSSLOT", "{line}");
        let line = format!("{} BLOCK 0", call(CALLS[0], "{x}a", "{y}b"));
        assert_eq!(client.run(&line).error_word(), "CROSSSLOT", "{line}");
    }
    let fence = client.run("FLOCK.MACQUIRE 3 {x}a {x}b x t PX 60000").fence();
    assert_held(&mut client, "{x}b", "t", fence);
    let mut waiter = enqueue(&node, "FLOCK.MACQUIRE 2 {x}b {x}c m PX 60000 BLOCK 0");
    assert_free(&mut client, &["{x}c"]);
    assert_eq!(client.run("FLOCK.MREFRESH 3 {x}a {x}b x t PX 60000"), 3);
    assert_eq!(client.run("FLOCK.MRELEASE 3 {x}a {x}b x t"), 3);
    let next = waiter.receive().fence();
    assert_held(&mut client, "{x}c", "m", next);
}

#[test]
fn keys_of_another_node_are_redirected_and_never_waited_for() {
    let (owner, other, slot) = cluster::start_two("lock");
    let mut client = other.client();
    let moved = format!("MOVED {slot} 127.0.0.1:{}", owner.port());
    for template in CALLS {
        let line = call(template, "{lock}a", "{lock}b");
        assert_eq!(client.run(&line), Reply::error(&moved), "{line}");
    }
    let line = format!("{} BLOCK 0", call(CALLS[0], "{lock}a", "{lock}b"));
    assert_eq!(client.run(&line), Reply::error(&moved), "{line}");
}

#[test]
fn who_waits_for_a_set_is_sent_away_when_its_slot_moves() {
    let (owner, target, slot) = cluster::start_two("lock");
    let (mut source, mut destination) = (owner.admin(), target.admin());
    let fence = source.run("FLOCK.ACQUIRE {lock}a t PX 600000").fence();
    let mut many = enqueue(&owner, "FLOCK.MACQUIRE 2 {lock}a {lock}b m PX 600000 BLOCK 0");
    let mut behind = enqueue(&owner, "FLOCK.ACQUIRE {lock}b s PX 600000 BLOCK 0");
    let (owner_id, target_id) = (cluster::id_of(&owner), cluster::id_of(&target));
    let line = format!("CLUSTER SETSLOT {slot} IMPORTING {owner_id}");
    assert_eq!(destination.run(&line), OK);
    let line = format!("CLUSTER SETSLOT {slot} MIGRATING {target_id}");
    assert_eq!(source.run(&line), OK);
    let line = format!("MIGRATE 127.0.0.1 {} {{lock}}a 0 5000", target.port());
    assert_eq!(source.run(&line), OK);
    let line = format!("CLUSTER SETSLOT {slot} NODE {target_id}");
    for node in [&mut destination, &mut source] {
        assert_eq!(node.run(&line), OK);
    }
    for waiter in [&mut many, &mut behind] {
        match waiter.receive() {
            Reply::Closed => {}
            reply => {
                let words = ["MOVED", "TRYAGAIN", "UNBLOCKED"];
                assert!(words.contains(&reply.error_word()), "{reply:?}");
            }
        }
    }
    assert_nobody_waits(&mut source);
    assert_held(&mut destination, "{lock}a", "t", fence);
    assert_free(&mut destination, &["{lock}b"]);
}
