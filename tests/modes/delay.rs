//! Proves DELAY: after a holder was lost its lock is closed, to everybody but
//! those who hold it too, for as long as the holder had asked for.

use crate::look::{closed_ms, look, lose, wait_until_closed, LONG_MS};
use crate::support::*;

#[test]
fn a_lease_that_runs_out_closes_the_lock_to_everybody() {
    in_both_protocols(|_, client| {
        let fence = lose(client, "t", "LABEL gone");
        let seen = look(client, "k");
        assert!(seen.is_closed);
        assert_eq!((seen.fence, seen.holders.len()), (fence, 0));
        let left_ms = closed_ms(client, "k");
        assert!((LONG_MS / 2..=LONG_MS).contains(&left_ms), "{left_ms}");
        assert_eq!(client.run("EXISTS k"), 1);
        assert_eq!(client.run("TYPE k"), "flocklock");
        assert_eq!(client.run("FLOCK.PTTL k"), -2);
        assert_eq!(client.run("FLOCK.PTTL k t"), -2);
        assert_eq!(client.run("FLOCK.REFRESH k t PX 60000"), 0);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
        for token in ["t", "u", "*"] {
            for options in ["", " SHARED", " REENTRANT", " ABOVE 9007199254740990", " DELAY 1"] {
                let line = format!("FLOCK.ACQUIRE k {token} PX 60000{options}");
                assert_eq!(client.run(&line), NIL, "{line}");
            }
        }
        assert_eq!(client.transaction(&["FLOCK.ACQUIRE k t PX 60000 BLOCK 0"]), [NIL]);
        assert_eq!(client.script("FLOCK.ACQUIRE k u PX 60000 BLOCK 0"), NIL);
        assert_eq!(look(client, "k"), seen);
    });
}

#[test]
fn an_open_lock_shows_no_delay() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000 DELAY 5000").fence();
        assert_eq!(*client.run("FLOCK.INFO k").field("delay_ms"), 0);
    });
}

#[test]
fn a_release_closes_nothing() {
    in_both_protocols(|server, client| {
        let fence = client.run("FLOCK.ACQUIRE k t PX 60000 DELAY 600000").fence();
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        assert_eq!(client.run("EXISTS k"), 0);
        assert!(client.run("FLOCK.ACQUIRE k t PX 60000 DELAY 600000").fence() > fence);
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        waiter.receive().fence();
        assert_eq!(client.stat("delays"), 0);
    });
}

#[test]
fn break_of_a_held_lock_closes_nothing() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000 DELAY 600000").fence();
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 DELAY 600000 BLOCK 0");
        assert_eq!(client.run("FLOCK.BREAK k"), 1);
        waiter.receive().fence();
        assert_eq!(client.run("FLOCK.BREAK k"), 1);
        assert_eq!(client.run("EXISTS k"), 0);
    });
}

#[test]
fn without_a_delay_or_with_0_nothing_is_closed() {
    in_both_protocols(|_, client| {
        for options in ["", " DELAY 0"] {
            client.run(&format!("FLOCK.ACQUIRE k t PX 20{options}")).fence();
            eventually("it is gone", || client.run("EXISTS k"), |exists| *exists == 0);
            client.run("FLOCK.ACQUIRE k t PX 60000").fence();
            client.run("FLOCK.RELEASE k t");
        }
        assert_eq!(client.stat("delays"), 0);
    });
}

#[test]
fn of_several_delays_of_one_hold_the_longest_counts() {
    for (first, second) in [
        (LONG_MS, "DELAY 10"),
        (10, "DELAY 600000"),
        (LONG_MS, ""),
        (10, "DELAY 600000 REENTRANT"),
    ] {
        let server = Server::start();
        let mut client = server.client();
        let fence = client
            .run(&format!("FLOCK.ACQUIRE k t PX 60000 DELAY {first}"))
            .fence();
        let again = format!("FLOCK.ACQUIRE k t PX 60000 {second}");
        assert_eq!(client.run(again.trim_end()), fence);
        assert_eq!(client.run("FLOCK.REFRESH k t PX 20"), 1);
        wait_until_closed(&mut client, "k");
        let left_ms = closed_ms(&mut client, "k");
        assert!(left_ms > LONG_MS / 2, "{first}, {second}: {left_ms} ms");
    }
}

#[test]
fn a_delay_that_was_asked_for_in_the_queue_counts_from_the_grant_on() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60 DELAY 600000 BLOCK 0");
        let behind = server.enqueue("k", "FLOCK.ACQUIRE k v PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        let fence = waiter.receive().fence();
        wait_until_closed(client, "k");
        let seen = look(client, "k");
        assert_eq!((seen.fence, seen.queue.len()), (fence, 1));
        drop(behind);
    });
}

/// The one before had none: what it asked for is not what the next one gets.
#[test]
fn a_delay_is_that_of_the_hold_and_not_of_the_lock() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000 DELAY 600000").fence();
        client.run("FLOCK.RELEASE k t");
        client.run("FLOCK.ACQUIRE k t PX 20").fence();
        eventually("it is gone", || client.run("EXISTS k"), |exists| *exists == 0);
    });
}

#[test]
fn readers_that_are_there_stay_and_newcomers_are_kept_out() {
    in_both_protocols(|server, client| {
        let kept = client.run("FLOCK.ACQUIRE k kept PX 600000 SHARED").fence();
        let lost = lose(client, "lost", "SHARED");
        let seen = look(client, "k");
        assert_eq!((seen.fences(), seen.mode.as_str()), (vec![kept], "shared"));
        assert!(lost > kept);
        assert_eq!(client.run("FLOCK.ACQUIRE k new PX 60000 SHARED"), NIL);
        assert_eq!(client.run("FLOCK.ACQUIRE k lost PX 60000 SHARED"), NIL);
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k new PX 60000 SHARED BLOCK 0");
        // Who is in has all its rights.
        assert_eq!(client.run("FLOCK.REFRESH k kept PX 600000"), 1);
        assert_eq!(client.run("FLOCK.ACQUIRE k kept PX 600000 SHARED"), kept);
        assert_eq!(
            client.run("FLOCK.ACQUIRE k kept PX 600000 SHARED REENTRANT"),
            kept
        );
        assert!(client.run("FLOCK.PTTL k").int() > 0);
        for _ in 0..2 {
            assert_eq!(client.run("FLOCK.RELEASE k kept"), 1);
        }
        let seen = look(client, "k");
        assert_eq!(
            (seen.is_closed, seen.holders.len(), seen.queue.len()),
            (true, 0, 1)
        );
        assert_eq!(client.run("FLOCK.ACQUIRE k kept PX 600000 SHARED"), NIL);
        assert_eq!(client.run("FLOCK.BREAK k"), 0);
        waiter.receive().fence();
    });
}

#[test]
fn a_permit_that_was_lost_keeps_newcomers_from_all_permits() {
    in_both_protocols(|_, client| {
        let kept = client.run("FLOCK.ACQUIRE k kept PX 600000 PERMITS 3").fence();
        lose(client, "lost", "PERMITS 3");
        assert_eq!(client.run("FLOCK.ACQUIRE k new PX 60000 PERMITS 3"), NIL);
        assert_eq!(look(client, "k").fences(), [kept]);
        assert_eq!(client.run("FLOCK.BREAK k"), 1);
        client.run("FLOCK.ACQUIRE k new PX 60000 PERMITS 3").fence();
    });
}

#[test]
fn the_loss_of_a_second_holder_does_not_cut_the_delay_of_the_first() {
    in_both_protocols(|_, client| {
        client
            .run("FLOCK.ACQUIRE k second PX 600000 DELAY 10 SHARED")
            .fence();
        lose(client, "first", "SHARED");
        assert_eq!(client.run("FLOCK.REFRESH k second PX 20"), 1);
        eventually(
            "the second is lost too",
            || look(client, "k").holders.len(),
            |holders| *holders == 0,
        );
        assert!(closed_ms(client, "k") > LONG_MS / 2);
    });
}

#[test]
fn the_loss_of_a_second_holder_lengthens_the_delay_of_the_first() {
    in_both_protocols(|_, client| {
        client
            .run(&format!(
                "FLOCK.ACQUIRE k second PX 60000 DELAY {} SHARED",
                2 * LONG_MS
            ))
            .fence();
        lose(client, "first", "SHARED");
        assert_eq!(client.run("FLOCK.REFRESH k second PX 20"), 1);
        eventually(
            "the delay is the longer one",
            || closed_ms(client, "k"),
            |left_ms| *left_ms > LONG_MS,
        );
    });
}

#[test]
fn a_grant_that_is_taken_back_closes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 600000").fence();
    let mut gone = server.connect(Protocol::Resp2);
    let id = gone.id();
    gone.send_line("FLOCK.ACQUIRE k u PX 600000 DELAY 600000 BLOCK 0");
    eventually("u waits", || client.waiters("k"), |waiters| *waiters == 1);
    let mut next = server.enqueue("k", "FLOCK.ACQUIRE k v PX 600000 BLOCK 0");
    client.transaction(&["FLOCK.RELEASE k t", &format!("CLIENT KILL ID {id}")]);
    next.receive().fence();
    assert_eq!(client.stat("grants_undelivered"), 1);
    assert_eq!(client.stat("delays"), 0);
}

#[test]
fn in_a_pause_of_writes_the_lock_reads_as_closed_and_is_closed_after_it() {
    let (primary, replica) = start_with_companion(Server::builder().append_only());
    let mut client = primary.admin();
    let fence = client.run("FLOCK.ACQUIRE k t PX 60000 DELAY 600000").fence();
    let mut waiter = primary.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    client.transaction(&["FLOCK.REFRESH k t PX 40", "CLIENT PAUSE 60000 WRITE"]);
    wait_until_closed(&mut client, "k");
    let seen = look(&mut client, "k");
    assert_eq!((seen.fence, seen.holders.len(), seen.queue.len()), (fence, 0, 1));
    assert_eq!(client.run("FLOCK.PTTL k"), -2);
    assert_eq!(client.run("CLIENT UNPAUSE"), OK);
    eventually("it is counted", || client.stat("delays"), |delays| *delays == 1);
    assert_eq!(look(&mut client, "k"), seen);
    assert_agreement(&primary, &replica);
    assert_eq!(client.run("FLOCK.BREAK k"), 0);
    waiter.receive().fence();
    assert_agreement(&primary, &replica);
}

/// The lease ended in the pause, and from then on the delay counts: not from the pause's end on.
#[test]
fn a_delay_counts_from_the_end_of_the_lease_though_writes_are_paused() {
    let server = Server::builder().undressed().append_only().start();
    let mut client = server.admin();
    client.run("FLOCK.ACQUIRE k t PX 60000 DELAY 600000").fence();
    client.transaction(&["FLOCK.REFRESH k t PX 20", "CLIENT PAUSE 60000 WRITE"]);
    wait_until_closed(&mut client, "k");
    eventually(
        "a part of the delay is over",
        || closed_ms(&mut client, "k"),
        |left_ms| *left_ms < LONG_MS - 300,
    );
    assert_eq!(client.run("CLIENT UNPAUSE"), OK);
    eventually("it is counted", || client.stat("delays"), |delays| *delays == 1);
    let left_ms = closed_ms(&mut client, "k");
    assert!(left_ms < LONG_MS - 300, "{left_ms} ms left");
}

#[test]
fn delays_are_counted_in_info() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    assert_eq!(client.stat("delays"), 0);
    lose(&mut client, "t", "");
    client.run("FLOCK.ACQUIRE k t PX 60000");
    assert_eq!(client.stat("delays"), 1);
    assert_eq!(client.stat("leases_expired"), 1);
    assert_eq!(client.stat("refused_busy"), 1);
    client.run("FLOCK.BREAK k");
    assert_eq!(client.stat("delays"), 1);
    assert_eq!(client.stat("held_locks"), 0);
}

#[test]
fn events_tell_of_the_end_of_the_hold_and_not_of_the_delay() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("CONFIG SET notify-keyspace-events Kd");
    let mut listener = server.admin();
    listener.run("SUBSCRIBE __keyspace@0__:k");
    let mut event = || listener.receive().items()[2].text();
    lose(&mut client, "t", "");
    assert_eq!(event(), "flock.acquire");
    assert_eq!(event(), "flock.expire");
    // Closed by DEL and opened by the end of a short delay: no event of ours for either.
    client.run("DEL k");
    client.run("FLOCK.ACQUIRE k t PX 20 DELAY 20").fence();
    eventually("it is open", || client.run("EXISTS k"), |exists| *exists == 0);
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    for expected in ["flock.acquire", "flock.expire", "flock.acquire"] {
        assert_eq!(event(), expected);
    }
}
