//! Proves SHARED: many readers or one writer, in the order of their arrival.

use crate::look::{granted, look};
use crate::support::*;

#[test]
fn readers_hold_together_each_under_a_fence_of_its_own() {
    in_both_protocols(|_, client| {
        let fences = ["a", "b", "c"].map(|token| {
            let line = format!("FLOCK.ACQUIRE k {token} PX 60000 SHARED LABEL of-{token}");
            client.run(&line).fence()
        });
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
        let seen = look(client, "k");
        assert_eq!((seen.mode.as_str(), seen.permits), ("shared", 0));
        assert_eq!(seen.fences(), fences);
        assert_eq!(seen.fence, fences[2]);
        let labels: Vec<_> = seen.holders.iter().map(|hold| hold.label.as_str()).collect();
        assert_eq!(labels, ["of-a", "of-b", "of-c"]);
        assert!(seen
            .holders
            .iter()
            .all(|hold| hold.holds == 1 && !hold.has_session));
        assert_eq!(client.stat("held_locks"), 1);
        assert_eq!(client.stat("grants"), 3);
    });
}

#[test]
fn a_reader_that_asks_again_is_told_the_same_and_is_still_one_holder() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.ACQUIRE k a PX 60000 SHARED").fence();
        client.run("FLOCK.ACQUIRE k b PX 60000 SHARED").fence();
        assert_eq!(client.run("FLOCK.ACQUIRE k a PX 90000 SHARED"), fence);
        assert_eq!(client.run("FLOCK.ACQUIRE k a PX 1 SHARED BLOCK 0"), fence);
        assert!(client.run("FLOCK.PTTL k a").int() > 60_000);
        assert_eq!(look(client, "k").holders.len(), 2);
        assert_eq!(client.run("FLOCK.RELEASE k a"), 1);
        assert_eq!(client.run("FLOCK.RELEASE k a"), 0);
    });
}

#[test]
fn readers_keep_a_writer_out_until_the_last_of_them_goes() {
    in_both_protocols(|server, client| {
        for token in ["a", "b", "c"] {
            client
                .call(("FLOCK.ACQUIRE", "k", token, "PX", 60_000, "SHARED"))
                .fence();
        }
        assert_eq!(client.run("FLOCK.ACQUIRE k w PX 60000"), NIL);
        let mut writer = server.enqueue("k", "FLOCK.ACQUIRE k w PX 60000 BLOCK 0");
        for token in ["b", "a"] {
            assert_eq!(client.call(("FLOCK.RELEASE", "k", token)), 1);
            assert_eq!(client.waiters("k"), 1);
        }
        let last = look(client, "k").fence;
        assert_eq!(client.run("FLOCK.RELEASE k c"), 1);
        assert!(writer.receive().fence() > last);
        assert_eq!(look(client, "k").mode, "exclusive");
    });
}

#[test]
fn a_writer_keeps_readers_out() {
    in_both_protocols(|server, client| {
        let fence = client.run("FLOCK.ACQUIRE k w PX 60000").fence();
        assert_eq!(client.run("FLOCK.ACQUIRE k a PX 60000 SHARED"), NIL);
        let mut reader = server.enqueue("k", "FLOCK.ACQUIRE k a PX 60000 BLOCK 0 SHARED");
        let seen = look(client, "k");
        assert_eq!((seen.mode.as_str(), seen.permits), ("exclusive", 1));
        assert_eq!(seen.queue, ["shared"]);
        client.run("FLOCK.RELEASE k w");
        assert!(reader.receive().fence() > fence);
    });
}

#[test]
fn a_waiting_writer_is_not_passed_by_readers_that_come_later() {
    in_both_protocols(|server, client| {
        let fence = client.run("FLOCK.ACQUIRE k a PX 60000 SHARED").fence();
        let mut writer = server.enqueue("k", "FLOCK.ACQUIRE k w PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.ACQUIRE k b PX 60000 SHARED"), NIL);
        let mut reader = server.enqueue("k", "FLOCK.ACQUIRE k c PX 60000 SHARED BLOCK 0");
        let seen = look(client, "k");
        assert_eq!(seen.queue, ["exclusive", "shared"]);
        assert_eq!(seen.fences(), [fence]);
        // The reader that is in may ask again: it waits for nobody.
        assert_eq!(client.run("FLOCK.ACQUIRE k a PX 60000 SHARED BLOCK 0"), fence);
        client.run("FLOCK.RELEASE k a");
        let written = writer.receive().fence();
        assert_eq!(client.run("FLOCK.ACQUIRE k d PX 60000 SHARED"), NIL);
        assert_eq!(client.waiters("k"), 1);
        client.run("FLOCK.RELEASE k w");
        assert!(reader.receive().fence() > written);
        // Nobody waits any more, so readers are welcome.
        client.run("FLOCK.ACQUIRE k d PX 60000 SHARED").fence();
    });
}

#[test]
fn one_release_grants_the_whole_row_of_readers_up_to_the_next_writer() {
    in_both_protocols(|server, client| {
        let first = client.run("FLOCK.ACQUIRE k w PX 60000").fence();
        let mut readers: Vec<_> = (0..5)
            .map(|n| server.enqueue("k", &format!("FLOCK.ACQUIRE k r{n} PX 60000 SHARED BLOCK 0")))
            .collect();
        let mut writer = server.enqueue("k", "FLOCK.ACQUIRE k x PX 60000 BLOCK 0");
        let mut behind = server.enqueue("k", "FLOCK.ACQUIRE k r9 PX 60000 SHARED BLOCK 0");
        client.run("FLOCK.RELEASE k w");
        // By the time of the reply all of them hold it.
        let seen = look(client, "k");
        assert_eq!(seen.queue, ["exclusive", "shared"]);
        let fences = granted(&mut readers);
        assert!(fences[0] > first);
        assert_eq!(seen.fences(), fences);
        for n in 0..5 {
            assert_eq!(client.waiters("k"), 2, "the writer comes after reader {n}");
            assert_eq!(client.run(&format!("FLOCK.RELEASE k r{n}")), 1);
        }
        assert!(writer.receive().fence() > fences[4]);
        assert_eq!(client.waiters("k"), 1);
        client.run("FLOCK.RELEASE k x");
        behind.receive().fence();
        assert_eq!(client.stat("handoffs"), 7);
    });
}

#[test]
fn writers_and_readers_take_turns_in_the_order_of_their_arrival() {
    let server = Server::start();
    let mut client = server.client();
    let mut last = client.run("FLOCK.ACQUIRE k w PX 60000").fence();
    let rows: [(&str, &[&str]); 5] = [
        ("SHARED", &["a", "b", "c"]),
        ("", &["d"]),
        ("", &["e"]),
        ("SHARED", &["f"]),
        ("", &["g"]),
    ];
    let mut waiting: Vec<Vec<Client>> = Vec::new();
    for (mode, tokens) in rows {
        let line = |token| format!("FLOCK.ACQUIRE k {token} PX 60000 BLOCK 0 {mode}");
        let row = tokens
            .iter()
            .map(|token| server.enqueue("k", line(token).trim_end()));
        waiting.push(row.collect());
    }
    client.run("FLOCK.RELEASE k w");
    for ((_, tokens), row) in rows.iter().zip(&mut waiting) {
        let fences = granted(row);
        assert!(fences[0] > last);
        assert_eq!(look(&mut client, "k").fences(), fences);
        last = fences[fences.len() - 1];
        for token in *tokens {
            assert_eq!(client.call(("FLOCK.RELEASE", "k", token)), 1);
        }
    }
    assert_eq!(client.run("EXISTS k"), 0);
}

/// A way in which a writer leaves the head of the queue; with the reply it gets.
const DEPARTURES: [(&str, Reply); 4] = [
    ("its wait ends", NIL),
    ("FLOCK.RELEASE k w", NIL),
    ("CLIENT KILL ID {id}", Reply::Closed),
    ("CLIENT UNBLOCK {id}", NIL),
];

#[test]
fn when_a_waiting_writer_leaves_the_readers_behind_it_come_in_at_once() {
    for (departure, reply) in DEPARTURES {
        let server = Server::start();
        if departure.contains("UNBLOCK") && !server.build().can_unblock_module_clients() {
            continue;
        }
        let mut client = server.client();
        client.run("FLOCK.ACQUIRE k a PX 600000 SHARED").fence();
        let mut writer = server.connect(Protocol::Resp2);
        let id = writer.id().to_string();
        let wait_ms = if departure == "its wait ends" { 5_000 } else { 0 };
        writer.send_line(&format!("FLOCK.ACQUIRE k w PX 600000 BLOCK {wait_ms}"));
        eventually("w waits", || client.waiters("k"), |waiters| *waiters == 1);
        let mut readers = ["b", "c"].map(|token| {
            let line = format!("FLOCK.ACQUIRE k {token} PX 600000 SHARED BLOCK 0");
            server.enqueue("k", &line)
        });
        if wait_ms == 0 {
            client.run(&departure.replace("{id}", &id));
        }
        assert_eq!(writer.receive(), reply, "{departure}");
        let fences = granted(&mut readers);
        assert_eq!(look(&mut client, "k").fences()[1..], fences, "{departure}");
    }
}

#[test]
fn the_lease_of_each_reader_is_its_own() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k long PX 600000 SHARED").fence();
        client.run("FLOCK.ACQUIRE k short PX 30 SHARED").fence();
        let mut writer = server.enqueue("k", "FLOCK.ACQUIRE k w PX 60000 BLOCK 0");
        eventually(
            "one reader is left",
            || look(client, "k").holders.len(),
            |holders| *holders == 1,
        );
        assert_eq!(client.waiters("k"), 1);
        assert_eq!(client.run("FLOCK.PTTL k short"), -2);
        assert_eq!(client.run("FLOCK.RELEASE k short"), 0);
        assert_eq!(client.run("FLOCK.REFRESH k short PX 60000"), 0);
        assert_eq!(client.run("FLOCK.REFRESH k long PX 20"), 1);
        writer.receive().fence();
    });
}

#[test]
fn pttl_without_a_token_is_of_the_longest_hold() {
    in_both_protocols(|_, client| {
        for (token, lease_ms) in [("a", 100_000), ("b", 900_000), ("c", 500_000)] {
            client
                .call(("FLOCK.ACQUIRE", "k", token, "PX", lease_ms, "SHARED"))
                .fence();
        }
        assert!((500_001..=900_000).contains(&client.run("FLOCK.PTTL k").int()));
        assert!((0..=100_000).contains(&client.run("FLOCK.PTTL k a").int()));
        client.run("FLOCK.RELEASE k b");
        assert!((100_001..=500_000).contains(&client.run("FLOCK.PTTL k").int()));
    });
}

#[test]
fn break_ends_all_readers_and_says_how_many() {
    in_both_protocols(|server, client| {
        for token in ["a", "b", "c"] {
            client
                .call(("FLOCK.ACQUIRE", "k", token, "PX", 60_000, "SHARED"))
                .fence();
        }
        let mut writer = server.enqueue("k", "FLOCK.ACQUIRE k w PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.BREAK k"), 3);
        writer.receive().fence();
        assert_eq!(client.run("FLOCK.RELEASE k a"), 0);
        assert_eq!(client.stat("breaks"), 3);
    });
}

#[test]
fn whatever_removes_the_key_ends_all_readers() {
    for removal in [
        "DEL k",
        "FLUSHALL",
        "RENAME k elsewhere",
        "PEXPIREAT k 1",
        "SWAPDB 0 1",
    ] {
        let server = Server::start();
        let mut client = server.client();
        for token in ["a", "b"] {
            client
                .call(("FLOCK.ACQUIRE", "k", token, "PX", 600_000, "SHARED"))
                .fence();
        }
        let mut writer = server.enqueue("k", "FLOCK.ACQUIRE k w PX 600000 BLOCK 0");
        client.run(removal);
        let fence = writer.receive().fence();
        assert_eq!(look(&mut client, "k").fences(), [fence], "{removal}");
    }
}

#[test]
fn in_a_transaction_and_in_a_script_readers_do_as_elsewhere() {
    in_both_protocols(|server, client| {
        let replies = client.transaction(&[
            "FLOCK.ACQUIRE k a PX 60000 SHARED",
            "FLOCK.ACQUIRE k b PX 60000 SHARED",
            "FLOCK.ACQUIRE k w PX 60000 BLOCK 0",
        ]);
        assert!(replies[1].fence() > replies[0].fence());
        assert_eq!(replies[2], NIL);
        client.script("FLOCK.ACQUIRE k c PX 60000 SHARED").fence();
        let mut writer = server.enqueue("k", "FLOCK.ACQUIRE k w PX 60000 BLOCK 0");
        assert_eq!(client.script("FLOCK.ACQUIRE k d PX 60000 SHARED BLOCK 0"), NIL);
        let replies = client.transaction(&["FLOCK.RELEASE k a", "FLOCK.RELEASE k b", "FLOCK.RELEASE k c"]);
        assert_eq!(replies, [1, 1, 1].map(Reply::Int));
        writer.receive().fence();
    });
}
