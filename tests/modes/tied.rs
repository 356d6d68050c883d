//! Proves which connection a hold is tied to: after retries over others, when its
//! key is moved, in a pause of writes, and that a reload or another role unties it.

use std::time::Duration;

use crate::connection::Connection;
use crate::look::{look, wait_until_closed};
use crate::support::*;

fn server() -> Server {
    Server::builder().undressed().start()
}

/// A lock `k` of `t`, tied to the connection that is returned.
#[track_caller]
fn tied(server: &Server, options: &str) -> (i64, Connection) {
    let mut holder = Connection::open(server);
    let line = format!("FLOCK.ACQUIRE k t PX 600000 SESSION {options}");
    let fence = holder.client.run(line.trim_end()).fence();
    (fence, holder)
}

#[track_caller]
fn wait_until_gone(client: &mut Client, key: &str) {
    eventually(
        "the key is gone",
        || client.call(("EXISTS", key)),
        |exists| *exists == 0,
    );
}

#[test]
fn a_retry_with_session_moves_the_hold_to_the_newer_connection() {
    for block in ["", " BLOCK 0"] {
        let server = server();
        let mut client = server.client();
        let (fence, older) = tied(&server, "");
        let mut newer = Connection::open(&server);
        let line = format!("FLOCK.ACQUIRE k t PX 600000 SESSION{block}");
        assert_eq!(newer.client.run(&line), fence);
        older.close(&mut client);
        let seen = look(&mut client, "k");
        assert_eq!((seen.holder().fence, seen.holder().has_session), (fence, true));
        assert_eq!(seen.holder().holds, 1);
        assert_eq!(client.stat("sessions_lost"), 0);
        newer.close(&mut client);
        wait_until_gone(&mut client, "k");
        assert_eq!(client.stat("sessions_lost"), 1);
    }
}

/// The older one is closed, and its loss not dealt with yet, when the newer one is told the fence.
#[test]
fn a_retry_in_the_very_pass_that_closes_the_older_connection_keeps_the_hold() {
    let server = server();
    let mut client = server.client();
    let (fence, older) = tied(&server, "DELAY 600000");
    let mut newer = Connection::open(&server);
    let kill = format!("CLIENT KILL ID {}", older.id);
    let replies = newer
        .client
        .transaction(&[&kill, "FLOCK.ACQUIRE k t PX 600000 SESSION"]);
    assert_eq!(replies[1], fence);
    older.close(&mut client);
    let seen = look(&mut client, "k");
    assert_eq!((seen.holder().fence, seen.holder().has_session), (fence, true));
    assert_eq!(client.stat("sessions_lost"), 0);
    newer.close(&mut client);
    wait_until_closed(&mut client, "k");
}

#[test]
fn a_retry_over_the_same_connection_changes_nothing() {
    let server = server();
    let mut client = server.client();
    let (fence, mut holder) = tied(&server, "");
    for _ in 0..3 {
        assert_eq!(holder.client.run("FLOCK.ACQUIRE k t PX 600000 SESSION"), fence);
    }
    holder.close(&mut client);
    wait_until_gone(&mut client, "k");
    assert_eq!(client.stat("sessions_lost"), 1);
}

#[test]
fn a_retry_without_session_and_a_refresh_leave_the_hold_where_it_is() {
    let server = server();
    let mut client = server.client();
    let (fence, holder) = tied(&server, "");
    assert_eq!(client.run("FLOCK.ACQUIRE k t PX 900000"), fence);
    assert_eq!(client.run("FLOCK.REFRESH k t PX 600000"), 1);
    assert!(look(&mut client, "k").holder().has_session);
    holder.close(&mut client);
    wait_until_gone(&mut client, "k");
}

#[test]
fn a_retry_with_session_ties_a_hold_that_was_not_tied() {
    let server = server();
    let mut client = server.client();
    let fence = client.run("FLOCK.ACQUIRE k t PX 600000").fence();
    assert!(!look(&mut client, "k").holder().has_session);
    let (again, holder) = tied(&server, "");
    assert_eq!(again, fence);
    assert!(look(&mut client, "k").holder().has_session);
    holder.close(&mut client);
    wait_until_gone(&mut client, "k");
}

#[test]
fn the_newer_of_two_that_wait_with_one_token_is_the_one_that_counts() {
    let server = server();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k first PX 600000").fence();
    let line = "FLOCK.ACQUIRE k t PX 600000 BLOCK 0 SESSION";
    let mut older = Connection::open(&server);
    older.client.send_line(line);
    eventually("t waits", || client.waiters("k"), |waiters| *waiters == 1);
    let mut newer = Connection::open(&server);
    newer.client.send_line(line);
    assert_eq!(older.client.receive().error_word(), "SUPERSEDED");
    client.run("FLOCK.RELEASE k first");
    let fence = newer.client.receive().fence();
    older.close(&mut client);
    let seen = look(&mut client, "k");
    assert_eq!((seen.holder().fence, seen.holder().has_session), (fence, true));
    newer.close(&mut client);
    wait_until_gone(&mut client, "k");
}

/// The same token in two locks, each with a connection of its own.
#[test]
fn each_lock_of_a_token_has_its_own_connection() {
    let server = server();
    let mut client = server.client();
    let (_, first) = tied(&server, "");
    let mut second = Connection::open(&server);
    second.client.run("FLOCK.ACQUIRE l t PX 600000 SESSION").fence();
    first.close(&mut client);
    wait_until_gone(&mut client, "k");
    assert!(look(&mut client, "l").holder().has_session);
    second.close(&mut client);
    wait_until_gone(&mut client, "l");
}

const MOVES: [(&str, u32, &str); 3] = [
    ("RENAME k elsewhere", 0, "elsewhere"),
    ("MOVE k 3", 3, "k"),
    ("SWAPDB 0 3", 3, "k"),
];

/// Where the server tells of moves by itself; else once a command has touched the lock.
#[test]
fn a_hold_that_was_moved_ends_with_its_connection_at_its_new_place() {
    for (line, database, place) in MOVES {
        for is_touched in [false, true] {
            if !is_touched && !Build::get().tells_of_moves() {
                continue;
            }
            let server = server();
            let mut client = server.client();
            let (fence, holder) = tied(&server, "");
            client.run(line);
            client.call(("SELECT", database));
            if is_touched {
                assert_eq!(
                    client.call(("FLOCK.REFRESH", place, "t", "PX", 600_000)),
                    1,
                    "{line}"
                );
            }
            let seen = look(&mut client, place);
            assert_eq!(
                (seen.holder().fence, seen.holder().has_session),
                (fence, true),
                "{line}"
            );
            holder.close(&mut client);
            wait_until_gone(&mut client, place);
            assert_eq!(client.stat("sessions_lost"), 1, "{line}");
        }
    }
}

#[test]
fn a_hold_that_was_moved_closes_its_new_place_and_not_its_old_one() {
    for (line, database, place) in MOVES {
        let server = server();
        let mut client = server.client();
        let (fence, holder) = tied(&server, "DELAY 600000");
        client.run(line);
        let successor = client.run("FLOCK.ACQUIRE k u PX 600000").fence();
        client.call(("SELECT", database));
        assert_eq!(
            client.call(("FLOCK.REFRESH", place, "t", "PX", 600_000)),
            1,
            "{line}"
        );
        let mut waiter = server.connect(Protocol::Resp2);
        waiter.call(("SELECT", database));
        waiter.send_line(&format!("FLOCK.ACQUIRE {place} v PX 600000 BLOCK 0"));
        eventually("v waits", || client.waiters(place), |waiters| *waiters == 1);
        drop(holder);
        wait_until_closed(&mut client, place);
        assert_eq!(look(&mut client, place).fence, fence, "{line}");
        client.run("SELECT 0");
        assert_eq!(look(&mut client, "k").fences(), [successor], "{line}");
    }
}

#[test]
fn a_restored_copy_is_not_tied() {
    let server = server();
    let mut client = server.client();
    let (fence, holder) = tied(&server, "");
    let payload = client.run("DUMP k");
    assert_eq!(client.call(("RESTORE", "copy", 0, payload.bytes())), OK);
    assert!(!look(&mut client, "copy").holder().has_session);
    holder.close(&mut client);
    wait_until_gone(&mut client, "k");
    assert_eq!(look(&mut client, "copy").fences(), [fence]);
    assert_eq!(client.run("FLOCK.RELEASE copy t"), 1);
}

#[test]
fn a_reload_unties_a_hold_until_it_is_tied_again() {
    let server = server();
    let mut client = server.client();
    let (fence, holder) = tied(&server, "");
    assert_eq!(client.run("DEBUG RELOAD"), OK);
    assert!(!look(&mut client, "k").holder().has_session);
    holder.close(&mut client);
    assert_eq!(look(&mut client, "k").fences(), [fence]);
    assert_eq!(client.stat("sessions_lost"), 0);
    let (again, holder) = tied(&server, "");
    assert_eq!(again, fence);
    holder.close(&mut client);
    wait_until_gone(&mut client, "k");
}

/// A primary with AOF, and its replica with AOF too: to replicate in a pause ends the server.
fn pair() -> (Server, Server) {
    start_with_companion(Server::builder().append_only())
}

#[test]
fn a_connection_that_closes_in_a_pause_of_writes_loses_its_hold_after_it() {
    for options in ["", "DELAY 600000"] {
        let (primary, replica) = pair();
        let mut client = primary.admin();
        let (fence, holder) = tied(&primary, options);
        let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
        assert_eq!(client.run("CLIENT PAUSE 60000 WRITE"), OK);
        holder.close(&mut client);
        assert_eq!(
            waiter.receive_within(Duration::from_millis(50)),
            None,
            "granted in a pause"
        );
        assert_eq!(client.run("EXISTS k"), 1);
        assert_eq!(client.run("CLIENT UNPAUSE"), OK);
        if options.is_empty() {
            assert!(waiter.receive().fence() > fence);
        } else {
            wait_until_closed(&mut client, "k");
            assert_eq!(client.run("FLOCK.BREAK k"), 0);
            waiter.receive().fence();
        }
        assert_eq!(client.stat("sessions_lost"), 1);
        assert_agreement(&primary, &replica);
    }
}

#[test]
fn a_connection_and_a_pause_that_come_together_end_nothing_else() {
    for commands in [
        ["CLIENT KILL ID {id}", "CLIENT PAUSE 200 WRITE"],
        ["CLIENT PAUSE 200 WRITE", "CLIENT KILL ID {id}"],
        ["CLIENT KILL ID {id}", "CLIENT PAUSE 200 ALL"],
        ["CLIENT PAUSE 200 ALL", "CLIENT KILL ID {id}"],
    ] {
        let (primary, replica) = pair();
        let mut client = primary.admin();
        let (fence, holder) = tied(&primary, "");
        let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
        let lines = commands.map(|line| line.replace("{id}", &holder.id.to_string()));
        client.transaction(&lines.each_ref().map(String::as_str));
        assert!(waiter.receive().fence() > fence, "{commands:?}");
        assert_agreement(&primary, &replica);
    }
}

#[test]
fn a_hold_that_was_released_in_the_transaction_that_closes_its_connection_is_released() {
    let server = server();
    let mut client = server.client();
    let (_, holder) = tied(&server, "DELAY 600000");
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
    let kill = format!("CLIENT KILL ID {}", holder.id);
    client.transaction(&["FLOCK.RELEASE k t", &kill]);
    waiter.receive().fence();
    assert_eq!(client.stat("delays"), 0);
}

#[test]
fn a_replica_knows_of_no_sessions_and_a_promoted_one_has_plain_leases() {
    let (mut primary, replica) = pair();
    let (fence, holder) = tied(&primary, "DELAY 600000");
    let mut client = primary.admin();
    assert_eq!(client.run("WAIT 1 20000"), 1);
    let mut successor = replica.admin();
    assert!(!look(&mut successor, "k").holder().has_session);
    primary.kill9();
    drop(holder);
    assert_eq!(successor.run("REPLICAOF NO ONE"), OK);
    let seen = look(&mut successor, "k");
    assert_eq!((seen.holder().fence, seen.holder().has_session), (fence, false));
    // Here it can be tied anew.
    let mut holder = Connection::open(&replica);
    assert_eq!(holder.client.run("FLOCK.ACQUIRE k t PX 600000 SESSION"), fence);
    drop(holder);
    wait_until_closed(&mut successor, "k");
}

/// Roles change, the connection stays: its end means nothing on a replica, nor when it is a
/// primary again.
#[test]
fn a_demoted_primary_ends_no_holds_of_connections_that_close() {
    let (primary, replica) = pair();
    let (fence, holder) = tied(&primary, "");
    let mut client = primary.admin();
    let mut successor = fail_over(&primary, &replica);
    primary.wait_for_link();
    holder.close(&mut client);
    assert_agreement(&replica, &primary);
    assert_eq!(look(&mut successor, "k").fences(), [fence]);
    assert_eq!(client.run("REPLICAOF NO ONE"), OK);
    let seen = look(&mut client, "k");
    assert_eq!((seen.holder().fence, seen.holder().has_session), (fence, false));
    assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
}
