//! Proves that each command is redirected as the server's own are: MOVED, CROSSSLOT, hash tags,
//! replicas, and a slot that nobody serves.

use crate::household::LONG_MS;
use crate::nodes::{wait_for_offset, Cluster, SHARDS};
use crate::pair::Pair;
use crate::stage::on_stage;
use crate::support::cluster::{start_alone, wait_until_the_cluster_is_up};
use crate::support::*;

/// Calls of each command that takes a key.
const CALLS: [&str; 15] = [
    "FLOCK.ACQUIRE {key} t PX 60000",
    "FLOCK.ACQUIRE {key} t PX 60000 BLOCK 0",
    "FLOCK.ACQUIRE {key} * EX 60 BLOCK 0 SHARED SESSION DELAY 5",
    "FLOCK.REFRESH {key} t PX 60000",
    "FLOCK.RELEASE {key} t",
    "FLOCK.PTTL {key}",
    "FLOCK.PTTL {key} t",
    "FLOCK.INFO {key}",
    "FLOCK.BREAK {key}",
    "FLOCK.MACQUIRE 1 {key} t PX 60000",
    "FLOCK.MACQUIRE 1 {key} t PX 60000 BLOCK 0",
    "FLOCK.MREFRESH 1 {key} t PX 60000",
    "FLOCK.MRELEASE 1 {key} t",
    "FLOCK.GUARD {key} t PING",
    "FLOCK.GUARD {key} t SET {key}:data 1",
];
/// The commands that take none, and those that no client may call.
const OTHERS: [&str; 3] = ["flock.apply", "flock.fence", "flock.help"];

fn calls(key: &str) -> Vec<String> {
    // The second key of a guarded command is of the same slot only where there is a tag.
    let data = if key.contains('{') {
        format!("{key}:data")
    } else {
        key.to_owned()
    };
    let fill = |call: &&str| call.replace("{key}:data", &data).replace("{key}", key);
    CALLS.iter().map(fill).collect()
}

#[test]
fn the_calls_here_are_of_all_commands() {
    let server = Server::builder().undressed().start();
    let list = server.admin().run("COMMAND LIST FILTERBY MODULE flock");
    let mut listed: Vec<_> = list.items().iter().map(Reply::text).collect();
    let names = CALLS
        .iter()
        .map(|call| call.split(' ').next().unwrap_or_default().to_lowercase());
    let mut called: Vec<_> = names.chain(OTHERS.map(str::to_owned)).collect();
    // Some servers show internal commands to nobody.
    listed.extend(OTHERS[..2].iter().map(|name| name.to_string()));
    for names in [&mut listed, &mut called] {
        names.sort();
        names.dedup();
    }
    assert_eq!(listed, called);
}

#[test]
fn every_command_is_redirected_to_the_node_of_its_key_and_never_waits() {
    let pair = Pair::start("away");
    let (mut client, moved) = (pair.target().admin(), pair.back().redirection());
    let grants = client.stat("grants");
    // All of one slot.
    for key in ["away", "{away}", "{away}:1", "lock:{away}", "a}{away}{b}"] {
        for line in calls(key) {
            assert_eq!(client.run(&line), moved, "{line}");
            assert_eq!(client.run("MULTI"), OK);
            assert_eq!(client.run(&line), moved, "{line} in a transaction");
            assert_eq!(client.run("EXEC").error_word(), "EXECABORT", "{line}");
            let reply = client.script(&line);
            assert!(matches!(reply, Reply::Error(_)), "{line} in a script: {reply:?}");
        }
        let fence = pair
            .source()
            .admin()
            .call(("FLOCK.ACQUIRE", key, "t", "PX", LONG_MS));
        assert!(fence.fence() > 0, "{key}");
    }
    assert_eq!(client.run("DBSIZE"), 0);
    assert_eq!(client.stat("waiters"), 0);
    assert_eq!(client.stat("grants"), grants);
}

#[test]
fn each_name_is_served_by_exactly_one_node() {
    let pair = Pair::start("x");
    let names = [
        "",
        "x",
        "y",
        "{x}",
        "{x}y",
        "y{x}",
        "{}",
        "{}x",
        "{}{x}",
        "{x",
        "x}",
        "}{x",
        "{{x}}",
        "{x}{y}",
        "foo{bar}{zap}",
        "foo{{bar}}zap",
        "{\u{fc}}",
        "a b",
        "orders:42",
    ];
    for name in names {
        let slot = pair.source().admin().call(("CLUSTER", "KEYSLOT", name)).int();
        let replies = [pair.source(), pair.target()].map(|node| {
            node.admin()
                .call(("FLOCK.ACQUIRE", name, "t", "PX", LONG_MS, "BLOCK", 0))
        });
        let [(fence, moved), ..] = [(&replies[0], &replies[1]), (&replies[1], &replies[0])];
        let (fence, moved) = match fence {
            Reply::Error(_) => (moved, fence),
            _ => (fence, moved),
        };
        assert!(fence.fence() > 0, "{name:?}");
        let place = format!("MOVED {slot} ");
        assert!(moved.error_text().starts_with(&place), "{name:?}: {moved:?}");
    }
}

#[test]
fn several_locks_are_of_one_slot() {
    let node = on_stage(start_alone);
    let mut client = node.admin();
    let call = |template: &str, a: &str, b: &str| template.replace("{a}", a).replace("{b}", b);
    let templates = [
        "FLOCK.MACQUIRE 2 {a} {b} t PX 60000",
        "FLOCK.MACQUIRE 2 {a} {b} t PX 60000 BLOCK 0",
        "FLOCK.MREFRESH 2 {a} {b} t PX 60000",
        "FLOCK.GUARD {a} t SET {b}:data 1",
        "FLOCK.GUARD {a} t EVAL return{} 2 {b} {b}",
        "FLOCK.GUARD {a} t FLOCK.ACQUIRE {b}:inner t PX 60000",
        "FLOCK.GUARD {a} t FLOCK.MACQUIRE 2 {a}:x {b}:y t PX 60000",
        "FLOCK.MRELEASE 2 {a} {b} t",
    ];
    // The server has both slots, and still they are two.
    for (a, b) in [("a", "b"), ("{x}a", "{y}a"), ("x{a}", "x"), ("{}a", "{}b")] {
        client.call(("FLOCK.ACQUIRE", a, "t", "PX", LONG_MS)).fence();
        for template in templates {
            let line = call(template, a, b);
            assert_eq!(client.run(&line).error_word(), "CROSSSLOT", "{line}");
        }
        assert_eq!(client.call(("EXISTS", b)), 0);
        assert_eq!(client.call(("FLOCK.RELEASE", a, "t")), 1);
    }
    assert_eq!(client.stat("waiters_peak"), 0);
    assert_eq!(client.run("DBSIZE"), 0);
    for (a, b) in [("{x}a", "{x}b"), ("x{a}", "y{a}z"), ("u{v}w", "{v}")] {
        for template in templates {
            let line = call(template, a, b);
            let reply = client.run(&line);
            assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        }
    }
}

#[test]
fn a_replica_lets_those_look_who_ask_for_it_and_sends_all_others_to_its_primary() {
    let cluster = Cluster::calm();
    let tag = cluster.tag_of(0, 0);
    let (primary, replica) = (&cluster.nodes[0], &cluster.nodes[SHARDS]);
    let key = format!("{tag}lock");
    let fence = primary
        .admin()
        .call(("FLOCK.ACQUIRE", &key, "t", "PX", LONG_MS))
        .fence();
    wait_for_offset(primary, replica);
    let mut client = replica.admin();
    let slot = client.run(&format!("CLUSTER KEYSLOT {tag}")).int();
    let moved = Reply::Error(format!("MOVED {slot} 127.0.0.1:{}", primary.port()));
    for line in calls(&key) {
        assert_eq!(client.run(&line), moved, "{line}");
    }
    assert_eq!(client.run("READONLY"), OK);
    assert_eq!(*client.call(("FLOCK.INFO", &key)).field("fence"), fence);
    assert!(client.call(("FLOCK.PTTL", &key, "t")).int() > LONG_MS / 2);
    let looks = |line: &String| line.starts_with("FLOCK.INFO") || line.starts_with("FLOCK.PTTL");
    for line in calls(&key).into_iter().filter(|line| !looks(line)) {
        let reply = client.run(&line);
        // A guard is no write of its own: the module itself refuses it.
        let words = ["MOVED", "READONLY"];
        assert!(words.contains(&reply.error_word()), "{line}: {reply:?}");
    }
    assert_eq!(*primary.admin().call(("FLOCK.INFO", &key)).field("fence"), fence);
}

#[test]
fn a_slot_that_nobody_serves_keeps_nobody_waiting() {
    let node = on_stage(start_alone);
    let mut client = node.admin();
    let fence = client.run("FLOCK.ACQUIRE lock t PX 3000").fence();
    let mut waiter = node.enqueue("lock", "FLOCK.ACQUIRE lock u PX 60000 BLOCK 0");
    let slot = client.run("CLUSTER KEYSLOT lock").int();
    assert_eq!(client.run(&format!("CLUSTER DELSLOTS {slot}")), OK);
    for line in calls("lock") {
        assert_eq!(client.run(&line).error_word(), "CLUSTERDOWN", "{line}");
    }
    // Some servers send blocked clients away themselves; else the end of the lease makes the node look.
    let reply = waiter.receive();
    assert!(
        ["CLUSTERDOWN", "UNBLOCKED"].contains(&reply.error_word()),
        "{reply:?}"
    );
    assert_eq!(client.stat("waiters"), 0);
    assert_eq!(client.run(&format!("CLUSTER ADDSLOTS {slot}")), OK);
    wait_until_the_cluster_is_up(&node);
    let mut next = node.admin();
    next.send_line("FLOCK.ACQUIRE lock v PX 60000 BLOCK 0");
    assert!(next.receive().fence() > fence);
}
