//! Proves what the loss of a session leaves behind: of many holders, of many
//! entries, of a closed lock, of a queue; and connections that the server closes.

use std::time::{Duration, Instant};

use crate::connection::{close, Connection, CLOSINGS};
use crate::look::{look, wait_until_closed};
use crate::support::*;

fn server() -> Server {
    // A reload would make each hold a plain lease.
    Server::builder().undressed().start()
}

#[test]
fn of_many_readers_only_the_one_that_is_gone_is_lost() {
    for (mode, permits) in [("SHARED", 0), ("PERMITS 2", 2)] {
        let server = server();
        let mut client = server.client();
        let mut gone = Connection::open(&server);
        gone.client
            .run(&format!("FLOCK.ACQUIRE k a PX 600000 SESSION {mode}"))
            .fence();
        let kept = client.run(&format!("FLOCK.ACQUIRE k b PX 600000 {mode}")).fence();
        let mut next = server.enqueue("k", "FLOCK.ACQUIRE k w PX 600000 BLOCK 0");
        drop(gone);
        eventually(
            "one of them is left",
            || look(&mut client, "k").holders.len(),
            |holders| *holders == 1,
        );
        let seen = look(&mut client, "k");
        assert_eq!(
            (seen.fences(), seen.permits, seen.queue.len()),
            (vec![kept], permits, 1)
        );
        client.run("FLOCK.RELEASE k b");
        next.receive().fence();
    }
}

#[test]
fn a_session_that_is_lost_frees_a_permit() {
    let server = server();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k a PX 600000 PERMITS 2").fence();
    let mut gone = Connection::open(&server);
    gone.client
        .run("FLOCK.ACQUIRE k b PX 600000 PERMITS 2 SESSION")
        .fence();
    let mut next = server.enqueue("k", "FLOCK.ACQUIRE k c PX 600000 PERMITS 2 BLOCK 0");
    drop(gone);
    next.receive().fence();
    assert_eq!(look(&mut client, "k").holders.len(), 2);
}

#[test]
fn with_a_session_all_entries_of_its_hold_are_lost() {
    let server = server();
    let mut client = server.client();
    let mut holder = Connection::open(&server);
    let line = "FLOCK.ACQUIRE k t PX 600000 REENTRANT SESSION";
    let fence = holder.client.run(line).fence();
    assert_eq!(holder.client.run(line), fence);
    // A third entry, of another connection, which says nothing of a session.
    assert_eq!(client.run("FLOCK.ACQUIRE k t PX 600000 REENTRANT"), fence);
    assert_eq!(look(&mut client, "k").holder().holds, 3);
    holder.close(&mut client);
    eventually(
        "the key is gone",
        || client.run("EXISTS k"),
        |exists| *exists == 0,
    );
    assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
}

#[test]
fn the_loss_of_a_session_with_a_delay_closes_the_lock_from_then_on() {
    for closing in CLOSINGS {
        let server = server();
        let mut client = server.client();
        let mut holder = Connection::open(&server);
        let fence = holder
            .client
            .run("FLOCK.ACQUIRE k t PX 600000 SESSION DELAY 400")
            .fence();
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
        let earliest = Instant::now() + Duration::from_millis(400);
        close(holder, closing, &mut client);
        assert!(waiter.receive().fence() > fence);
        assert!(
            Instant::now() >= earliest,
            "{closing:?}: granted while the lock was closed"
        );
        assert_eq!(client.stat("delays"), 1);
    }
}

#[test]
fn a_lock_closed_by_the_loss_of_a_session_is_closed_to_its_token_too() {
    let server = server();
    let mut client = server.client();
    let mut holder = Connection::open(&server);
    let fence = holder
        .client
        .run("FLOCK.ACQUIRE k t PX 600000 SESSION DELAY 600000")
        .fence();
    let waiting = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
    drop(holder);
    wait_until_closed(&mut client, "k");
    let seen = look(&mut client, "k");
    assert_eq!((seen.fence, seen.holders.len(), seen.queue.len()), (fence, 0, 1));
    assert_eq!(
        client.run("FLOCK.ACQUIRE k t PX 600000 SESSION DELAY 600000"),
        NIL
    );
    assert_eq!(client.run("FLOCK.PTTL k"), -2);
    drop(waiting);
}

#[test]
fn a_connection_that_closes_in_the_pass_of_its_grant_holds_nothing() {
    let server = server();
    let mut client = server.client();
    for blocks in [false, true] {
        let mut holder = Connection::open(&server);
        let kill = format!("CLIENT KILL ID {}", holder.id);
        if blocks {
            client.run("FLOCK.ACQUIRE k t PX 600000").fence();
            holder
                .client
                .send_line("FLOCK.ACQUIRE k u PX 600000 BLOCK 0 SESSION");
            eventually("u waits", || client.waiters("k"), |waiters| *waiters == 1);
            client.transaction(&["FLOCK.RELEASE k t", &kill]);
        } else {
            holder.client.run("MULTI");
            holder.client.run("FLOCK.ACQUIRE k u PX 600000 SESSION");
            holder.client.run(&format!("{kill} SKIPME no"));
            holder.client.send_line("EXEC");
        }
        eventually(
            "it is lost or taken back",
            || {
                (
                    client.stat("sessions_lost") + client.stat("grants_undelivered"),
                    client.run("EXISTS k"),
                )
            },
            |(ends, exists)| *ends == i64::from(blocks) + 1 && *exists == 0,
        );
    }
}

#[test]
fn who_waits_with_a_session_and_goes_leaves_the_queue_and_loses_nothing() {
    let server = server();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 600000").fence();
    let gone = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0 SESSION DELAY 600000");
    let mut next = server.enqueue("k", "FLOCK.ACQUIRE k v PX 600000 BLOCK 0");
    drop(gone);
    eventually("one is left", || client.waiters("k"), |waiters| *waiters == 1);
    client.run("FLOCK.RELEASE k t");
    next.receive().fence();
    assert_eq!(client.stat("sessions_lost"), 0);
}

#[test]
fn a_holder_that_waits_elsewhere_loses_hold_and_wait_together() {
    let server = server();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE busy t PX 600000").fence();
    let mut holder = Connection::open(&server);
    holder.client.run("FLOCK.ACQUIRE k u PX 600000 SESSION").fence();
    holder
        .client
        .send_line("FLOCK.ACQUIRE busy u PX 600000 BLOCK 0 SESSION");
    eventually("u waits", || client.waiters("busy"), |waiters| *waiters == 1);
    let mut next = server.enqueue("k", "FLOCK.ACQUIRE k v PX 600000 BLOCK 0");
    client.run(&format!("CLIENT KILL ID {}", holder.id));
    next.receive().fence();
    assert_eq!(client.waiters("busy"), 0);
}

#[test]
fn a_connection_that_the_server_closes_by_itself_loses_its_holds() {
    for reason in [
        "CONFIG SET timeout 1",
        "ACL DELUSER worker",
        "CLIENT KILL USER worker",
    ] {
        let server = server();
        let mut client = server.client();
        client.run("ACL SETUSER worker on nopass ~* +@all");
        let mut holder = Connection::open(&server);
        holder.client.run("AUTH worker any");
        let fence = holder.client.run("FLOCK.ACQUIRE k t PX 600000 SESSION").fence();
        // One that waits is not idle.
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
        client.run(reason);
        assert!(waiter.receive().fence() > fence, "{reason}");
        assert_eq!(holder.client.receive(), Reply::Closed, "{reason}");
    }
}

/// There, connections are closed by another thread than the one that runs the commands.
#[test]
fn with_io_threads_sessions_end_too() {
    const CONNECTIONS: i64 = 40;
    let server = Server::builder().undressed().set("io-threads", "3").start();
    let mut client = server.client();
    let holders: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let mut holder = Connection::open(&server);
            let request = (
                "FLOCK.ACQUIRE",
                format!("k{number}"),
                "t",
                "PX",
                600_000,
                "SESSION",
            );
            holder.client.call(request).fence();
            holder
        })
        .collect();
    let mut next = server.enqueue("k7", "FLOCK.ACQUIRE k7 u PX 600000 BLOCK 0");
    for (holder, closing) in holders.into_iter().zip(CLOSINGS.into_iter().cycle()) {
        close(holder, closing, &mut client);
    }
    next.receive().fence();
    eventually("the others are gone", || client.run("DBSIZE"), |keys| *keys == 1);
    assert_eq!(client.stat("sessions_lost"), CONNECTIONS);
}

#[test]
fn the_loss_of_a_session_is_an_expiry_to_those_who_listen() {
    let server = server();
    let mut client = server.client();
    client.run("CONFIG SET notify-keyspace-events Kd");
    let mut listener = server.admin();
    listener.run("SUBSCRIBE __keyspace@0__:k");
    let mut holder = Connection::open(&server);
    holder.client.run("FLOCK.ACQUIRE k t PX 600000 SESSION").fence();
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
    drop(holder);
    waiter.receive().fence();
    for expected in ["flock.acquire", "flock.expire", "flock.acquire"] {
        assert_eq!(listener.receive().items()[2], expected);
    }
    // It was no lease that ran out.
    assert_eq!(client.stat("leases_expired"), 0);
    assert_eq!(client.stat("sessions_lost"), 1);
}

#[test]
fn the_loss_of_a_session_aborts_a_transaction_that_watches_the_key() {
    let server = server();
    let mut watcher = server.client();
    let mut client = server.client();
    let mut holder = Connection::open(&server);
    holder.client.run("FLOCK.ACQUIRE k t PX 600000 SESSION").fence();
    watcher.run("WATCH k");
    holder.close(&mut client);
    eventually(
        "the key is gone",
        || client.run("EXISTS k"),
        |exists| *exists == 0,
    );
    watcher.run("MULTI");
    watcher.run("PING");
    assert_eq!(watcher.run("EXEC"), NIL);
}
