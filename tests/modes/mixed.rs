//! Proves that one token holds a lock in one mode only, and that requests of all
//! modes stand in one queue.

use crate::look::{granted, look, Look};
use crate::support::*;

const HELD: &str = "ERR this token holds the lock in another mode; release it first";
const WAITS: &str = "ERR this token waits for the lock in another mode, or together with other locks";

const MODES: [&str; 4] = ["", " SHARED", " PERMITS 2", " PERMITS 3"];

/// Each pair of two different modes.
fn pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    MODES
        .into_iter()
        .flat_map(|first| MODES.map(|second| (first, second)))
        .filter(|(first, second)| first != second)
}

#[test]
fn a_holder_that_asks_in_another_mode_is_told_so_at_once_and_keeps_what_it_has() {
    in_both_protocols(|_, client| {
        for (held, asked) in pairs() {
            client
                .run(&format!("FLOCK.ACQUIRE k t PX 60000 LABEL first{held}"))
                .fence();
            let before = look(client, "k");
            for more in [
                "",
                " BLOCK 0",
                " REENTRANT",
                " BLOCK 0 REENTRANT DELAY 9 LABEL second",
            ] {
                let line = format!("FLOCK.ACQUIRE k t PX 600000{asked}{more}");
                assert_eq!(client.run(&line), Reply::error(HELD), "{line} after {held:?}");
            }
            assert_unchanged(client, &before);
            assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        }
    });
}

#[track_caller]
fn assert_unchanged(client: &mut Client, before: &Look) {
    assert_eq!(look(client, "k"), *before);
    let left_ms = client.run("FLOCK.PTTL k t").int();
    assert!((1..=60_000).contains(&left_ms), "{left_ms}");
}

#[test]
fn a_holder_is_told_so_too_while_others_hold_and_wait() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000 SHARED").fence();
        client.run("FLOCK.ACQUIRE k u PX 60000 SHARED").fence();
        let _writer = server.enqueue("k", "FLOCK.ACQUIRE k w PX 60000 BLOCK 0");
        let before = look(client, "k");
        for line in [
            "FLOCK.ACQUIRE k t PX 600000 BLOCK 0",
            "FLOCK.ACQUIRE k t PX 600000",
            "FLOCK.ACQUIRE k t PX 600000 PERMITS 2 BLOCK 0",
        ] {
            assert_eq!(client.run(line), Reply::error(HELD), "{line}");
            assert_eq!(client.transaction(&[line]), [Reply::error(HELD)], "{line}");
            assert!(client.script(line).error_text().starts_with(HELD), "{line}");
        }
        assert_unchanged(client, &before);
    });
}

#[test]
fn what_a_token_holds_elsewhere_does_not_matter() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000").fence();
        client.run("FLOCK.ACQUIRE b t PX 60000 SHARED").fence();
        client.run("FLOCK.ACQUIRE c t PX 60000 PERMITS 2").fence();
        // After its release the token is as new.
        client.run("FLOCK.RELEASE a t");
        client.run("FLOCK.ACQUIRE a t PX 60000 SHARED").fence();
    });
}

#[test]
fn a_waiter_that_asks_in_another_mode_is_told_so_and_keeps_its_place() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k holder PX 60000").fence();
        for (waiting, asked) in pairs() {
            let mut waiter = server.enqueue("k", &format!("FLOCK.ACQUIRE k t PX 60000 BLOCK 0{waiting}"));
            for block in ["", " BLOCK 0"] {
                let line = format!("FLOCK.ACQUIRE k t PX 60000{asked}{block}");
                let reply = client.run(&line);
                assert_eq!(reply.error_word(), "ERR", "{line} after {waiting:?}");
                // Two different numbers of PERMITS are two errors at once; either may be told.
                if !(waiting.contains("PERMITS") && asked.contains("PERMITS")) {
                    assert_eq!(reply, Reply::error(WAITS), "{line} after {waiting:?}");
                }
            }
            assert_eq!(client.waiters("k"), 1, "{waiting:?}");
            assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
            assert_eq!(waiter.receive(), NIL, "{waiting:?}");
        }
    });
}

#[test]
fn in_its_own_mode_a_newer_client_takes_over_the_place() {
    in_both_protocols(|server, client| {
        for mode in MODES {
            client.run("FLOCK.ACQUIRE k holder PX 60000").fence();
            let line = format!("FLOCK.ACQUIRE k t PX 60000 BLOCK 0{mode}");
            let mut older = server.enqueue("k", &line);
            let mut newer = server.admin();
            newer.send_line(&line);
            assert_eq!(older.receive().error_word(), "SUPERSEDED", "{mode:?}");
            assert_eq!(client.run(&format!("FLOCK.ACQUIRE k t PX 60000{mode}")), NIL);
            assert_eq!(client.waiters("k"), 1, "{mode:?}");
            client.run("FLOCK.RELEASE k holder");
            let fence = newer.receive().fence();
            assert_eq!(look(client, "k").fences(), [fence], "{mode:?}");
            client.run("FLOCK.RELEASE k t");
        }
    });
}

#[test]
fn each_mode_keeps_the_others_out() {
    in_both_protocols(|_, client| {
        for (held, asked) in pairs() {
            if held.contains("PERMITS") && asked.contains("PERMITS") {
                continue; // an error, in permits.rs
            }
            client.run(&format!("FLOCK.ACQUIRE k t PX 60000{held}")).fence();
            let line = format!("FLOCK.ACQUIRE k u PX 60000{asked}");
            assert_eq!(client.run(&line), NIL, "{line} beside {held:?}");
            client.run("FLOCK.BREAK k");
        }
    });
}

#[test]
fn requests_of_all_modes_are_served_in_the_order_of_their_arrival() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k first PX 60000").fence();
        let enqueue = |token: &str, mode: &str| {
            let line = format!("FLOCK.ACQUIRE k {token} PX 60000 BLOCK 0{mode}");
            server.enqueue("k", &line)
        };
        let mut readers = ["a", "b"].map(|token| enqueue(token, " SHARED"));
        let mut permits = ["c", "d", "e"].map(|token| enqueue(token, " PERMITS 2"));
        let mut late_reader = enqueue("f", " SHARED");
        let mut writer = enqueue("g", "");
        client.run("FLOCK.RELEASE k first");
        granted(&mut readers);
        let seen = look(client, "k");
        assert_eq!(
            seen.queue,
            ["permits", "permits", "permits", "shared", "exclusive"]
        );
        client.run("FLOCK.RELEASE k a");
        assert_eq!(client.waiters("k"), 5, "a reader is left");
        client.run("FLOCK.RELEASE k b");
        granted(&mut permits[..2]);
        assert_eq!(look(client, "k").mode, "permits");
        client.run("FLOCK.RELEASE k c");
        permits[2].receive().fence();
        client.run("FLOCK.RELEASE k d");
        assert_eq!(client.waiters("k"), 2, "a permit is taken");
        client.run("FLOCK.RELEASE k e");
        late_reader.receive().fence();
        client.run("FLOCK.RELEASE k f");
        writer.receive().fence();
        client.run("FLOCK.RELEASE k g");
        assert_eq!(client.run("EXISTS k"), 0);
    });
}

#[test]
fn the_mode_of_a_lock_is_that_of_its_next_holder_once_it_is_free() {
    in_both_protocols(|_, client| {
        for (mode, name, permits) in [
            (" PERMITS 3", "permits", 3),
            ("", "exclusive", 1),
            (" SHARED", "shared", 0),
            (" PERMITS 2", "permits", 2),
        ] {
            client.run(&format!("FLOCK.ACQUIRE k t PX 60000{mode}")).fence();
            let seen = look(client, "k");
            assert_eq!((seen.mode.as_str(), seen.permits), (name, permits));
            assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
        }
    });
}

/// Found by the model: it came to hold the lock twice, and its replica only once.
#[test]
fn a_token_whose_lock_is_moved_to_where_it_waits_holds_it_once() {
    for mode in ["SHARED", "PERMITS 2"] {
        let (server, replica) = start_with_companion(Server::builder());
        let mut client = server.client();
        let fence = client.run(&format!("FLOCK.ACQUIRE a t PX 600000 {mode}")).fence();
        client.run("FLOCK.ACQUIRE k w PX 600000").fence();
        let mut waiter = server.enqueue("k", &format!("FLOCK.ACQUIRE k t PX 900000 BLOCK 0 {mode}"));
        assert_eq!(client.run("RENAME a k"), OK);
        assert_eq!(waiter.receive(), fence, "{mode}");
        assert_eq!(look(&mut client, "k").fences(), [fence], "{mode}");
        assert!(client.run("FLOCK.PTTL k t").int() > 600_000, "{mode}");
        assert_agreement(&server, &replica);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1, "{mode}");
        assert_eq!(client.run("EXISTS k"), 0, "{mode}");
    }
}
