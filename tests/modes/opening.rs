//! Proves what opens a closed lock: the end of its delay, by itself and not
//! early; BREAK; and whatever removes the key. Whoever waits is served then.

use std::time::{Duration, Instant};

use crate::look::{closed_ms, granted, look, lose, wait_until_closed, LONG_MS};
use crate::support::*;

/// Takes `k` with a short lease and a delay behind it. Returns its fence, and the first moment at
/// which the lock may be open again.
#[track_caller]
fn take_short(client: &mut Client, delay_ms: u64) -> (i64, Instant) {
    let earliest = Instant::now() + Duration::from_millis(100 + delay_ms);
    let line = format!("FLOCK.ACQUIRE k t PX 100 DELAY {delay_ms}");
    (client.run(&line).fence(), earliest)
}

/// Waits until the lease of `t` is over; on a slow machine the delay may be over by then too.
#[track_caller]
fn wait_until_lost(client: &mut Client) {
    eventually(
        "the lease is over",
        || client.run("FLOCK.PTTL k t"),
        |left| *left == -2,
    );
}

#[test]
fn the_end_of_the_delay_serves_the_first_in_line_without_traffic() {
    in_both_protocols(|server, client| {
        let fence = client.run("FLOCK.ACQUIRE k t PX 600000 DELAY 400").fence();
        let mut first = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
        let mut second = server.enqueue("k", "FLOCK.ACQUIRE k v PX 600000 BLOCK 0");
        let earliest = Instant::now() + Duration::from_millis(500);
        client.run("FLOCK.REFRESH k t PX 100");
        // Nobody sends anything now.
        assert!(first.receive().fence() > fence);
        assert!(Instant::now() >= earliest, "granted while the lock was closed");
        let seen = look(client, "k");
        assert_eq!((seen.is_closed, seen.queue.len()), (false, 1));
        client.run("FLOCK.RELEASE k u");
        second.receive().fence();
    });
}

#[test]
fn the_end_of_the_delay_lets_a_whole_row_of_readers_in() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k w PX 600000 DELAY 300").fence();
        let mut readers = ["a", "b", "c"].map(|token| {
            let line = format!("FLOCK.ACQUIRE k {token} PX 600000 SHARED BLOCK 0");
            server.enqueue("k", &line)
        });
        let earliest = Instant::now() + Duration::from_millis(320);
        client.run("FLOCK.REFRESH k w PX 20");
        granted(&mut readers);
        assert!(Instant::now() >= earliest, "granted while the lock was closed");
        assert_eq!(look(client, "k").holders.len(), 3);
    });
}

#[test]
fn a_closed_lock_that_nobody_waits_for_vanishes_by_itself() {
    in_both_protocols(|_, client| {
        let (_, earliest) = take_short(client, 300);
        eventually(
            "the key is gone",
            || client.run("EXISTS k"),
            |exists| *exists == 0,
        );
        assert!(Instant::now() >= earliest, "opened too early");
        assert_eq!(client.run("FLOCK.INFO k"), NIL);
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    });
}

#[test]
fn a_delay_counts_from_the_end_of_the_lease_as_it_was_refreshed() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 600000 DELAY 200").fence();
        let earliest = Instant::now() + Duration::from_millis(500);
        assert_eq!(client.run("FLOCK.REFRESH k t PX 300"), 1);
        client.run("FLOCK.ACQUIRE k u PX 600000 BLOCK 0").fence();
        assert!(Instant::now() >= earliest, "granted while the lock was closed");
    });
}

#[test]
fn the_time_that_a_lock_stays_closed_shrinks() {
    in_both_protocols(|_, client| {
        lose(client, "t", "");
        let before = closed_ms(client, "k");
        eventually(
            "it shrinks",
            || closed_ms(client, "k"),
            |left_ms| *left_ms < before,
        );
    });
}

#[test]
fn a_wait_that_ends_while_the_lock_is_closed_is_nil() {
    in_both_protocols(|server, client| {
        lose(client, "t", "");
        let start = Instant::now();
        assert_eq!(client.run("FLOCK.ACQUIRE k u PX 60000 BLOCK 50"), NIL);
        assert!(start.elapsed() >= Duration::from_millis(50), "early");
        assert_eq!(client.waiters("k"), 0);
        // Also of the token that lost it, which waits as any other.
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k t PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
        assert_eq!(waiter.receive(), NIL);
        assert!(look(client, "k").is_closed);
    });
}

#[test]
fn break_opens_at_once_and_serves_those_who_wait() {
    in_both_protocols(|server, client| {
        let fence = lose(client, "t", "");
        let mut first = server.enqueue("k", "FLOCK.ACQUIRE k t PX 600000 BLOCK 0");
        let mut second = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
        assert_eq!(client.run("FLOCK.BREAK k"), 0);
        assert!(first.receive().fence() > fence);
        let seen = look(client, "k");
        assert_eq!(
            (seen.is_closed, seen.holders.len(), seen.queue.len()),
            (false, 1, 1)
        );
        // Opened, it is as any other.
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        second.receive().fence();
    });
}

#[test]
fn break_of_a_closed_lock_that_nobody_waits_for_leaves_nothing() {
    in_both_protocols(|_, client| {
        lose(client, "t", "");
        assert_eq!(client.run("FLOCK.BREAK k"), 0);
        assert_eq!(client.run("EXISTS k"), 0);
        assert_eq!(client.run("FLOCK.INFO k"), NIL);
    });
}

#[test]
fn break_ends_those_who_hold_a_closed_lock_too() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k a PX 600000 SHARED").fence();
        client
            .run("FLOCK.ACQUIRE k b PX 600000 DELAY 600000 SHARED")
            .fence();
        lose(client, "c", "SHARED");
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k w PX 600000 BLOCK 0");
        assert_eq!(client.run("FLOCK.BREAK k"), 2);
        let fence = waiter.receive().fence();
        assert_eq!(look(client, "k").fences(), [fence]);
    });
}

#[test]
fn whatever_removes_the_key_opens_the_lock() {
    for removal in [
        "DEL k",
        "UNLINK k",
        "FLUSHALL",
        "RENAME k elsewhere",
        "MOVE k 1",
        "SWAPDB 0 1",
        "PEXPIREAT k 1",
    ] {
        let server = Server::start();
        let mut client = server.client();
        let fence = lose(&mut client, "t", "");
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
        client.run(removal);
        assert!(waiter.receive().fence() > fence, "{removal}");
        assert!(!look(&mut client, "k").is_closed, "{removal}");
    }
}

#[test]
fn a_value_of_another_type_over_a_closed_lock_ends_all_waits() {
    let server = Server::start();
    let mut client = server.client();
    lose(&mut client, "t", "");
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
    client.run("SET k text");
    assert_eq!(waiter.receive().error_word(), "WRONGTYPE");
    assert_eq!(client.run("GET k"), "text");
}

#[test]
fn a_closed_lock_that_is_moved_stays_closed_at_its_new_place() {
    for (line, database, place) in [
        ("RENAME k elsewhere", 0, "elsewhere"),
        ("MOVE k 3", 3, "k"),
        ("SWAPDB 0 3", 3, "k"),
    ] {
        let server = Server::start();
        let mut client = server.client();
        let fence = lose(&mut client, "t", "");
        client.run(line);
        client.run(&format!("SELECT {database}"));
        let acquire = format!("FLOCK.ACQUIRE {place} t PX 60000");
        assert_eq!(client.run(&acquire), NIL, "{line}");
        let seen = look(&mut client, place);
        assert_eq!((seen.fence, seen.is_closed), (fence, true), "{line}");
        assert_eq!(client.call(("FLOCK.BREAK", place)), 0, "{line}");
        assert!(client.run(&acquire).fence() > fence, "{line}");
    }
}

#[test]
fn a_closed_lock_that_was_moved_opens_on_time_at_its_new_place() {
    for (line, database, place) in [
        ("RENAME k elsewhere", 0, "elsewhere"),
        ("MOVE k 3", 3, "k"),
        ("SWAPDB 0 3", 3, "k"),
    ] {
        let server = Server::start();
        let mut client = server.client();
        let (fence, earliest) = take_short(&mut client, 1_500);
        wait_until_lost(&mut client);
        client.run(line);
        let mut waiter = server.admin();
        waiter.run(&format!("SELECT {database}"));
        waiter.send_line(&format!("FLOCK.ACQUIRE {place} u PX 600000 BLOCK 0"));
        assert!(waiter.receive().fence() > fence, "{line}");
        assert!(
            Instant::now() >= earliest,
            "{line}: granted while the lock was closed"
        );
    }
}

#[test]
fn a_closed_lock_that_was_moved_and_left_alone_vanishes_too() {
    if !Build::get().tells_of_moves() {
        return; // there it opens when a command next touches it
    }
    for (line, database) in [("RENAME k elsewhere", 0), ("MOVE k 3", 3), ("SWAPDB 0 3", 3)] {
        let server = Server::start();
        let mut client = server.client();
        take_short(&mut client, 1_500);
        wait_until_lost(&mut client);
        client.run(line);
        client.run(&format!("SELECT {database}"));
        eventually("the key is gone", || client.run("DBSIZE"), |keys| *keys == 0);
    }
}

/// Waits do end in a pause; grants wait for its end.
#[test]
fn a_delay_that_ends_in_a_pause_of_writes_serves_after_it() {
    let (primary, replica) = start_with_companion(Server::builder().append_only());
    let mut client = primary.admin();
    client.run("FLOCK.ACQUIRE k t PX 60000 DELAY 300").fence();
    let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
    let start = Instant::now();
    client.transaction(&["FLOCK.REFRESH k t PX 20", "CLIENT PAUSE 700 WRITE"]);
    waiter.receive().fence();
    assert!(
        start.elapsed() >= Duration::from_millis(700),
        "granted while writes were paused"
    );
    assert!(!look(&mut client, "k").is_closed);
    assert_agreement(&primary, &replica);
}

#[test]
fn a_very_long_delay_is_a_delay() {
    in_both_protocols(|_, client| {
        client
            .run("FLOCK.ACQUIRE k t PX 20 DELAY 4611686018427387")
            .fence();
        wait_until_closed(client, "k");
        assert!(closed_ms(client, "k") > LONG_MS);
        assert_eq!(client.run("FLOCK.ACQUIRE k u PX 60000"), NIL);
        assert_eq!(client.run("FLOCK.BREAK k"), 0);
    });
}

/// Whether a transaction that watches `k` is aborted by what happens meanwhile.
#[track_caller]
fn is_aborted(server: &Server, meanwhile: impl FnOnce()) -> bool {
    let mut watcher = server.admin();
    watcher.run("WATCH k");
    meanwhile();
    watcher.run("MULTI");
    watcher.run("PING");
    watcher.run("EXEC") == NIL
}

#[test]
fn closing_and_opening_abort_a_transaction_that_watches_the_key() {
    // A reload touches every watched key.
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 600000 DELAY 600000").fence();
    assert!(is_aborted(&server, || {
        client.run("FLOCK.REFRESH k t PX 20");
        wait_until_closed(&mut client, "k");
    }));
    assert!(!is_aborted(&server, || assert_eq!(
        client.run("FLOCK.ACQUIRE k t PX 60000"),
        NIL
    )));
    assert!(is_aborted(&server, || assert_eq!(client.run("FLOCK.BREAK k"), 0)));
}
