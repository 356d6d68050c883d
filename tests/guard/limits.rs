//! Proves that the server's own limits hold for what is guarded as for what is not: full memory, replicas, too few
//! replicas, pauses.

use std::time::Duration;

use crate::support::*;
use crate::{assert_still_held, guard, guard_words, holding, holding_on};

/// Long enough for a reply to come if it comes, and no test's time.
const A_MOMENT: Duration = Duration::from_millis(50);

#[test]
fn with_full_memory_a_write_is_oom_and_reads_and_deletions_work() {
    let (_server, mut client) = holding_on(Server::builder().undressed());
    let fence = client.run("FLOCK.INFO lock").field("fence").fence();
    client.run("SET data before");
    client.run("SET other text");
    client.run("CONFIG SET maxmemory 1");
    for line in [
        "SET data after",
        "APPEND data more",
        "RPUSH list x",
        "FLOCK.ACQUIRE l t PX 1000",
    ] {
        assert_eq!(guard(&mut client, line).error_word(), "OOM", "{line}");
    }
    let body = "return redis.call('SET', 'data', 'after')";
    let reply = guard_words(&mut client, &["EVAL", body, "0"]);
    assert!(reply.error_text().contains("OOM"), "{reply:?}");
    assert_eq!(guard(&mut client, "GET data"), "before");
    assert_eq!(guard(&mut client, "DEL other"), 1);
    assert_eq!(guard(&mut client, "FLOCK.REFRESH lock tok PX 600000"), 1);
    let body = "return redis.call('GET', 'data')";
    let reply = guard_words(&mut client, &["EVAL_RO", body, "0"]);
    assert_eq!(reply, "before");
    assert_eq!(
        client.run("FLOCK.GUARD lock other SET data x").error_word(),
        "NOTHELD"
    );
    assert_still_held(&mut client, fence);
    client.run("CONFIG SET maxmemory 0");
    assert_eq!(guard(&mut client, "SET data after"), OK);
}

#[test]
fn in_a_transaction_with_full_memory_the_write_is_oom_too() {
    let (server, mut client) = holding_on(Server::builder().undressed());
    client.run("MULTI");
    client.run("FLOCK.GUARD lock tok SET data 1");
    client.run("FLOCK.GUARD lock tok DEL data");
    // Older servers queue nothing any more when memory is full.
    server.admin().run("CONFIG SET maxmemory 1");
    let replies = client.run("EXEC");
    assert_eq!(replies.items()[0].error_word(), "OOM", "{replies:?}");
    assert_eq!(replies.items()[1], 0);
    assert_eq!(client.run("EXISTS data"), 0);
}

#[test]
fn on_a_replica_nothing_is_guarded() {
    let (server, mut client) = holding_on(Server::builder().undressed());
    client.run("SET data before");
    let replica = server.start_replica(Server::builder());
    let mut follower = replica.admin();
    eventually("it has it", || follower.run("GET data"), |data| *data == "before");
    assert!(follower.run("FLOCK.PTTL lock tok").int() > 0);
    for is_writable in [false, true] {
        let read_only = if is_writable { "no" } else { "yes" };
        follower.run(&format!("CONFIG SET replica-read-only {read_only}"));
        for line in ["SET data after", "GET data", "EVAL return{1} 0", "PUBLISH c m"] {
            let reply = guard(&mut follower, line);
            assert_eq!(reply.error_word(), "READONLY", "{line}: {reply:?}");
        }
        let reply = follower.script("FLOCK.GUARD lock tok SET data after");
        assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
    }
    assert_eq!(follower.run("GET data"), "before");
    assert_eq!(follower.run("REPLICAOF NO ONE"), OK);
    assert_eq!(guard(&mut follower, "SET data after"), OK);
}

#[test]
fn with_too_few_replicas_writes_are_refused_and_reads_work() {
    let (_server, mut client) = holding_on(Server::builder().undressed());
    client.run("SET data before");
    client.run("CONFIG SET min-replicas-to-write 1");
    for line in ["SET data after", "DEL data", "INCR number"] {
        assert_eq!(guard(&mut client, line).error_word(), "NOREPLICAS", "{line}");
    }
    let body = "return redis.call('SET', 'data', 'after')";
    let reply = guard_words(&mut client, &["EVAL", body, "0"]);
    assert!(reply.error_text().contains("NOREPLICAS"), "{reply:?}");
    assert_eq!(guard(&mut client, "GET data"), "before");
    assert_eq!(
        client.run("FLOCK.GUARD lock other GET data").error_word(),
        "NOTHELD"
    );
    client.run("CONFIG SET min-replicas-to-write 0");
    assert_eq!(guard(&mut client, "SET data after"), OK);
}

#[test]
fn what_is_sent_in_a_pause_of_writes_is_decided_after_it() {
    let (server, replica) = start_with_companion(Server::builder().append_only());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
    client.run("SET data before");
    assert_eq!(client.run("CLIENT PAUSE 60000 WRITE"), OK);
    let mut callers = ["SET data after", "GET data", "EVAL return{1} 0"].map(|line| {
        let mut caller = server.admin();
        caller.send_line(&format!("FLOCK.GUARD lock tok {line}"));
        caller
    });
    let mut stale = server.admin();
    stale.send_line("FLOCK.GUARD lock other SET data stale");
    for caller in callers.iter_mut().chain([&mut stale]) {
        assert_eq!(caller.receive_within(A_MOMENT), None);
    }
    assert_eq!(client.run("GET data"), "before");
    assert_eq!(client.run("CLIENT UNPAUSE"), OK);
    for caller in &mut callers {
        let reply = caller.receive();
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    }
    assert_eq!(stale.receive().error_word(), "NOTHELD");
    assert_eq!(client.run("GET data"), "after");
    assert_agreement(&server, &replica);
}

#[test]
fn a_lease_that_ends_in_the_pause_is_over_when_the_guard_is_decided() {
    let (server, replica) = start_with_companion(Server::builder().append_only());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
    client.run("SET data before");
    client.transaction(&["FLOCK.REFRESH lock tok PX 60", "CLIENT PAUSE 60000 WRITE"]);
    let mut caller = server.admin();
    caller.send_line("FLOCK.GUARD lock tok SET data after");
    let is_over = |left: &Reply| *left == -2;
    eventually("the lease is over", || client.run("FLOCK.PTTL lock tok"), is_over);
    assert_eq!(client.run("CLIENT UNPAUSE"), OK);
    assert_eq!(caller.receive().error_word(), "NOTHELD");
    assert_eq!(client.run("GET data"), "before");
    assert_agreement(&server, &replica);
}

#[test]
fn a_guard_and_a_pause_in_one_transaction_end_nothing() {
    for commands in [
        ["FLOCK.GUARD lock tok SET data 1", "CLIENT PAUSE 100 WRITE"],
        ["CLIENT PAUSE 100 WRITE", "FLOCK.GUARD lock tok SET data 1"],
        [
            "CLIENT PAUSE 100 ALL",
            "FLOCK.GUARD lock tok FLOCK.RELEASE lock tok",
        ],
        ["CLIENT PAUSE 100 WRITE", "FLOCK.GUARD lock tok DEL lock"],
    ] {
        let (mut server, mut replica) = start_with_companion(Server::builder().append_only());
        let mut client = server.client();
        client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
        client.transaction(&commands);
        server.check();
        replica.check();
        assert_agreement(&server, &replica);
    }
}

#[test]
fn guarded_commands_are_counted_by_the_server_as_what_they_are() {
    let (_server, mut client) = holding();
    guard(&mut client, "SET data 1");
    guard(&mut client, "SET data 2");
    client.run("FLOCK.GUARD lock other SET data 3");
    let set = client.info("commandstats", "cmdstat_set");
    assert!(set.starts_with("calls=2,"), "{set}");
    let guards = client.info("commandstats", "cmdstat_flock.guard");
    assert!(guards.starts_with("calls=3,"), "{guards}");
}
