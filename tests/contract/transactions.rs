//! Proves that BLOCK is as if absent where blocking is refused (MULTI, a
//! script), that WATCH sees exactly what changed, and that all works there.

use crate::support::*;

#[test]
fn block_in_a_transaction_is_one_try() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let replies = client.transaction(&[
            "FLOCK.ACQUIRE k u PX 60000 BLOCK 0",
            "FLOCK.ACQUIRE free u PX 60000 BLOCK 0",
            "FLOCK.ACQUIRE k u PX 60000 BLOCK 5000",
            "FLOCK.ACQUIRE k u PX 60000 BLOCK x",
        ]);
        assert_eq!(replies[0], NIL);
        replies[1].fence();
        assert_eq!(replies[2], NIL);
        assert_eq!(
            replies[3],
            Reply::error("ERR timeout is not an integer or out of range")
        );
        assert_eq!(client.waiters("k"), 0);
        assert_eq!(client.stat("waiters_peak"), 0);
    });
}

#[test]
fn block_in_a_script_is_one_try() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        assert_eq!(client.script("FLOCK.ACQUIRE k u PX 60000 BLOCK 0"), NIL);
        client.script("FLOCK.ACQUIRE free u PX 60000 BLOCK 0").fence();
        assert_eq!(client.waiters("k"), 0);
        assert_eq!(client.stat("waiters_peak"), 0);
    });
}

#[test]
fn with_max_waiters_0_a_transaction_is_only_told_busy() {
    let builder = Server::builder().module_arguments("max-waiters 0");
    in_both_protocols_with(builder, |_, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        assert_eq!(client.transaction(&["FLOCK.ACQUIRE k u PX 60000 BLOCK 0"]), [NIL]);
    });
}

#[test]
fn all_commands_work_in_a_transaction_and_in_a_script() {
    in_both_protocols(|_, client| {
        let replies = client.transaction(&[
            "FLOCK.ACQUIRE k t PX 60000",
            "FLOCK.REFRESH k t PX 90000",
            "FLOCK.PTTL k t",
            "FLOCK.RELEASE k t",
            "FLOCK.INFO k",
            "FLOCK.ACQUIRE k * PX 60000",
            "FLOCK.BREAK k",
        ]);
        let fence = replies[0].fence();
        assert_eq!(replies[1], 1);
        assert!(replies[2].int() > 60_000);
        assert_eq!(replies[3], 1);
        assert_eq!(replies[4], NIL);
        assert!(replies[5].items()[0].fence() > fence);
        assert_eq!(replies[6], 1);

        let fence = client.script("FLOCK.ACQUIRE k t PX 60000").fence();
        assert_eq!(client.script("FLOCK.ACQUIRE k t PX 60000"), fence);
        assert_eq!(client.script("FLOCK.REFRESH k t PX 60000"), 1);
        assert!(client.script("FLOCK.PTTL k t").int() > 0);
        assert_eq!(client.script("FLOCK.RELEASE k t"), 1);
        assert_eq!(client.run("FLOCK.INFO k"), NIL);
    });
}

#[test]
fn a_transaction_hands_the_lock_to_the_queue_before_it_goes_on() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        let replies = client.transaction(&["FLOCK.RELEASE k t", "FLOCK.ACQUIRE k v PX 60000"]);
        assert_eq!(
            replies,
            [Reply::Int(1), NIL],
            "a newcomer does not overtake the queue"
        );
        waiter.receive().fence();
    });
}

#[test]
fn a_script_hands_the_lock_to_the_queue_before_it_goes_on() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        let body = "redis.call('FLOCK.RELEASE', 'k', 't') \
                    return redis.call('FLOCK.ACQUIRE', 'k', 'v', 'PX', '60000')";
        assert_eq!(client.call(("EVAL", body, 0)), NIL);
        waiter.receive().fence();
    });
}

/// Watches `k`, runs `line` on another connection, and tells whether a
/// transaction of the first one still goes through.
#[track_caller]
fn survives(server: &Server, line: &str) -> bool {
    let mut watcher = server.admin();
    watcher.run("WATCH k");
    server.admin().run(line);
    watcher.run("MULTI");
    watcher.run("PING");
    watcher.run("EXEC") != NIL
}

#[test]
fn what_is_refused_does_not_abort_a_transaction_that_watches_the_key() {
    let server = Server::start();
    server.admin().run("FLOCK.ACQUIRE k t PX 600000").fence();
    for line in [
        "FLOCK.ACQUIRE k u PX 60000",
        "FLOCK.ACQUIRE k u PX 60000 BLOCK 1",
        "FLOCK.ACQUIRE k u PX 0",
        "FLOCK.REFRESH k u PX 60000",
        "FLOCK.RELEASE k u",
        "FLOCK.PTTL k t",
        "FLOCK.INFO k",
    ] {
        assert!(survives(&server, line), "{line}");
    }
}

#[test]
fn a_grant_and_a_release_abort_a_transaction_that_watches_the_key() {
    let server = Server::start();
    for line in [
        "FLOCK.ACQUIRE k t PX 60000",
        "FLOCK.RELEASE k t",
        "FLOCK.ACQUIRE k u PX 60000 BLOCK 0",
        "FLOCK.BREAK k",
    ] {
        assert!(!survives(&server, line), "{line}");
    }
}

#[test]
fn a_lease_that_runs_out_aborts_a_transaction_that_watches_the_key() {
    let server = Server::start();
    let mut watcher = server.admin();
    let mut admin = server.admin();
    admin.run("FLOCK.ACQUIRE k t PX 100").fence();
    watcher.run("WATCH k");
    eventually(
        "the lease is over",
        || admin.run("EXISTS k"),
        |exists| *exists == 0,
    );
    watcher.run("MULTI");
    watcher.run("PING");
    assert_eq!(watcher.run("EXEC"), NIL);
}

#[test]
fn the_internal_commands_are_for_primaries_and_files_only() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    for line in [
        "FLOCK.APPLY k GRANT 9 u 60000 1",
        "FLOCK.APPLY k RELEASE 9",
        "FLOCK.FENCE 9",
    ] {
        let name = line.split(' ').next().unwrap_or_default().to_lowercase();
        let reply = client.run(line);
        if server.build().has_internal_commands() {
            assert!(reply.error_text().starts_with("ERR unknown command"), "{reply:?}");
        } else {
            let text = format!("ERR '{name}' is internal: only a primary or an AOF file may send it");
            assert_eq!(reply, Reply::error(&text));
        }
        assert!(
            matches!(client.script(line), Reply::Error(_)),
            "{line} in a script"
        );
        client.run("MULTI");
        client.run(line);
        client.run("EXEC");
    }
    assert!(client.run("FLOCK.PTTL k t").int() > 0);
    assert!(client.run("FLOCK.ACQUIRE l t PX 1000").fence() > 9);
}
