//! Proves SESSION: a hold that also ends when its connection closes, however
//! that closes, and whoever waits is served at once.

use crate::connection::{close, Connection, CLOSINGS};
use crate::look::look;
use crate::support::*;

fn server() -> Server {
    // A reload would make each hold a plain lease.
    Server::builder().undressed().start()
}

#[test]
fn a_hold_ends_with_its_connection_and_the_next_is_served() {
    for closing in CLOSINGS {
        let server = server();
        let mut client = server.client();
        let mut holder = Connection::open(&server);
        let fence = holder.client.run("FLOCK.ACQUIRE k t PX 600000 SESSION").fence();
        assert!(look(&mut client, "k").holder().has_session);
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
        close(holder, closing, &mut client);
        assert!(waiter.receive().fence() > fence, "{closing:?}");
        assert_eq!(client.run("FLOCK.PTTL k t"), -2, "{closing:?}");
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0, "{closing:?}");
        assert_eq!(client.run("FLOCK.REFRESH k t PX 1000"), 0, "{closing:?}");
        assert!(!look(&mut client, "k").holder().has_session, "{closing:?}");
    }
}

#[test]
fn without_anybody_waiting_the_key_goes_with_the_connection() {
    for closing in CLOSINGS {
        let server = server();
        let mut client = server.client();
        let mut holder = Connection::open(&server);
        holder.client.run("FLOCK.ACQUIRE k t PX 600000 SESSION").fence();
        close(holder, closing, &mut client);
        eventually(
            "the key is gone",
            || client.run("EXISTS k"),
            |exists| *exists == 0,
        );
        assert_eq!(client.stat("sessions_lost"), 1, "{closing:?}");
        assert_eq!(client.stat("held_locks"), 0, "{closing:?}");
    }
}

#[test]
fn a_hold_from_the_queue_ends_with_the_connection_that_waited() {
    for closing in CLOSINGS {
        let server = server();
        let mut client = server.client();
        client.run("FLOCK.ACQUIRE k t PX 600000").fence();
        let mut holder = Connection::open(&server);
        holder
            .client
            .send_line("FLOCK.ACQUIRE k u PX 600000 BLOCK 0 SESSION");
        eventually("u waits", || client.waiters("k"), |waiters| *waiters == 1);
        let mut next = server.enqueue("k", "FLOCK.ACQUIRE k v PX 600000 BLOCK 0");
        client.run("FLOCK.RELEASE k t");
        let fence = holder.client.receive().fence();
        assert!(look(&mut client, "k").holder().has_session);
        close(holder, closing, &mut client);
        assert!(next.receive().fence() > fence, "{closing:?}");
        assert_eq!(client.stat("grants_undelivered"), 0, "{closing:?}");
        assert_eq!(client.stat("sessions_lost"), 1, "{closing:?}");
    }
}

#[test]
fn info_tells_of_a_session_as_of_any_yes_or_no() {
    for (protocol, yes) in [
        (Protocol::Resp2, Reply::Int(1)),
        (Protocol::Resp3, Reply::Bool(true)),
    ] {
        let server = Server::builder().undressed().protocol(protocol).start();
        let mut client = server.client();
        client.run("FLOCK.ACQUIRE k t PX 60000 SESSION").fence();
        let info = client.run("FLOCK.INFO k");
        assert_eq!(*info.field("holders").items()[0].field("session"), yes);
    }
}

#[test]
fn all_holds_of_a_connection_end_with_it_in_every_database() {
    let server = server();
    let mut client = server.client();
    let mut holder = Connection::open(&server);
    let mut waiters = Vec::new();
    for number in 0..40 {
        let database = number % 3;
        holder.client.call(("SELECT", database));
        let key = format!("k{number}");
        holder
            .client
            .call(("FLOCK.ACQUIRE", &key, "t", "PX", 600_000, "SESSION"))
            .fence();
        let line = format!("FLOCK.ACQUIRE {key} u PX 600000 BLOCK 0");
        waiters.push(server.enqueue_in(database, &key, &line));
    }
    // What it holds without SESSION stays, and so does what others hold.
    holder.client.run("SELECT 0");
    let plain = holder.client.run("FLOCK.ACQUIRE plain t PX 600000").fence();
    drop(holder);
    for waiter in &mut waiters {
        waiter.receive().fence();
    }
    assert_eq!(look(&mut client, "plain").fences(), [plain]);
    assert_eq!(client.stat("sessions_lost"), 40);
}

#[test]
fn the_lease_still_applies() {
    let server = server();
    let mut client = server.client();
    let mut holder = Connection::open(&server);
    holder.client.run("FLOCK.ACQUIRE k t PX 30 SESSION").fence();
    let mut waiter = server.connect(Protocol::Resp2);
    let fence = waiter.run("FLOCK.ACQUIRE k u PX 600000 BLOCK 0").fence();
    assert_eq!(holder.client.run("FLOCK.RELEASE k t"), 0);
    // The end of the connection is not the end of another's hold.
    holder.close(&mut client);
    assert_eq!(look(&mut client, "k").fences(), [fence]);
    assert_eq!(client.stat("sessions_lost"), 0);
    assert_eq!(client.stat("leases_expired"), 1);
}

#[test]
fn after_its_release_a_hold_has_no_session_any_more() {
    for next in ["u", "t"] {
        let server = server();
        let mut client = server.client();
        let mut holder = Connection::open(&server);
        holder.client.run("FLOCK.ACQUIRE k t PX 600000 SESSION").fence();
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        let fence = client.run(&format!("FLOCK.ACQUIRE k {next} PX 600000")).fence();
        holder.close(&mut client);
        let seen = look(&mut client, "k");
        assert_eq!((seen.holder().fence, seen.holder().has_session), (fence, false));
        assert_eq!(client.stat("sessions_lost"), 0);
    }
}

#[test]
fn a_key_that_was_removed_takes_its_session_with_it() {
    for removal in [
        "DEL k",
        "FLUSHALL",
        "FLOCK.BREAK k",
        "SET k text",
        "PEXPIREAT k 1",
    ] {
        let server = server();
        let mut client = server.client();
        let mut holder = Connection::open(&server);
        holder
            .client
            .run("FLOCK.ACQUIRE k t PX 600000 SESSION DELAY 600000")
            .fence();
        client.run(removal);
        client.run("DEL k");
        let fence = client.run("FLOCK.ACQUIRE k t PX 600000").fence();
        holder.close(&mut client);
        assert_eq!(look(&mut client, "k").fences(), [fence], "{removal}");
        assert_eq!(client.stat("sessions_lost"), 0, "{removal}");
    }
}

#[test]
fn reset_and_other_commands_do_not_end_a_session() {
    let server = server();
    let mut client = server.client();
    let mut holder = Connection::open(&server);
    let fence = holder.client.run("FLOCK.ACQUIRE k t PX 600000 SESSION").fence();
    for line in [
        "HELLO 3",
        "SELECT 5",
        "RESET",
        "FLOCK.ACQUIRE other t PX 1000",
        "FLOCK.RELEASE other t",
    ] {
        holder.client.run(line);
    }
    let seen = look(&mut client, "k");
    assert_eq!((seen.holder().fence, seen.holder().has_session), (fence, true));
    assert_eq!(holder.client.run("FLOCK.REFRESH k t PX 600000"), 1);
    holder.close(&mut client);
    eventually(
        "the key is gone",
        || client.run("EXISTS k"),
        |exists| *exists == 0,
    );
}

#[test]
fn a_script_has_no_connection_of_its_own() {
    const ERROR: &str =
        "ERR SESSION needs a connection of the caller's own; a script or a guarded command has none";
    let server = server();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE held t PX 60000").fence();
    for line in [
        "FLOCK.ACQUIRE k t PX 60000 SESSION",
        "FLOCK.ACQUIRE k t PX 60000 SESSION BLOCK 0",
        "FLOCK.ACQUIRE held t PX 600000 SESSION",
        "FLOCK.ACQUIRE held u PX 60000 SESSION",
    ] {
        let reply = client.script(line);
        assert!(reply.error_text().starts_with(ERROR), "{line}: {reply:?}");
    }
    assert_eq!(client.run("EXISTS k"), 0);
    assert!(client.run("FLOCK.PTTL held").int() <= 60_000);
    assert!(!look(&mut client, "held").holder().has_session);
}

#[test]
fn in_a_transaction_the_session_is_that_of_its_connection() {
    let server = server();
    let mut client = server.client();
    let mut holder = Connection::open(&server);
    let replies = holder
        .client
        .transaction(&["FLOCK.ACQUIRE k t PX 600000 SESSION", "SET other 1"]);
    replies[0].fence();
    assert!(look(&mut client, "k").holder().has_session);
    holder.close(&mut client);
    eventually(
        "the key is gone",
        || client.run("EXISTS k"),
        |exists| *exists == 0,
    );
}
