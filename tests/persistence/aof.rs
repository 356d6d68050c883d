//! Proves what the append-only file carries: what was acknowledged before the
//! power went, a hand-off whole or not at all, and nothing but effects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::rewrite;
use crate::support::*;

fn append_only() -> Builder {
    Server::builder().undressed().append_only()
}

#[test]
fn a_grant_that_was_acknowledged_survives_the_power_cut() {
    let mut server = append_only().start();
    let port = server.port();
    let dark = AtomicBool::new(false);
    let acknowledged: Vec<(String, i64)> = std::thread::scope(|scope| {
        let lights = &dark;
        let clients: Vec<_> = (0..4)
            .map(|caller| scope.spawn(move || acquire_until_dark(port, caller, lights)))
            .collect();
        // Among grants there is no moment better than another.
        std::thread::sleep(Duration::from_millis(300));
        server.kill9();
        dark.store(true, Ordering::Relaxed);
        clients
            .into_iter()
            .flat_map(|client| client.join().expect("a caller"))
            .collect()
    });
    assert!(acknowledged.len() > 10, "only {} grants", acknowledged.len());
    server.restart();
    let mut client = server.admin();
    let newest = acknowledged
        .iter()
        .map(|(_, fence)| *fence)
        .max()
        .expect("a fence");
    for (key, fence) in acknowledged {
        assert_eq!(*client.call(("FLOCK.INFO", &key)).field("fence"), fence, "{key}");
        assert_eq!(client.call(("FLOCK.RELEASE", &key, "tok")), 1, "{key}");
    }
    assert!(client.run("FLOCK.ACQUIRE k tok PX 1000").fence() > newest);
}

/// One lock after the other; the acknowledged ones.
fn acquire_until_dark(port: u16, caller: usize, dark: &AtomicBool) -> Vec<(String, i64)> {
    let mut client = Client::connect(port, Protocol::Resp2).expect("a connection");
    let mut acknowledged = Vec::new();
    while !dark.load(Ordering::Relaxed) {
        let key = format!("lock:{caller}:{}", acknowledged.len());
        match client.call(("FLOCK.ACQUIRE", &key, "tok", "PX", 600_000)) {
            Reply::Int(fence) => acknowledged.push((key, fence)),
            Reply::Closed => break,
            other => panic!("{key}: {other:?}"),
        }
    }
    acknowledged
}

/// The end of the file was being written when the power went: the old holder holds, or the new
/// one does, and never neither or both.
#[test]
fn a_hand_off_that_was_torn_did_not_happen() {
    let mut server = append_only().start();
    let mut client = server.client();
    let fence = client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
    let file = aof::increments(server.directory()).pop().expect("an increment");
    let whole_before = std::fs::metadata(&file).expect("the increment").len();
    client.run("FLOCK.RELEASE k tok");
    let next = waiter.receive().fence();
    server.kill9();
    let bytes = std::fs::read(&file).expect("the increment");
    let hand_off = bytes.len() - whole_before as usize;
    assert!(hand_off > 0);
    // At its start, at a few places in its middle, and whole; the longest first, since loading cuts the file.
    for part in [hand_off, hand_off - 1, hand_off * 3 / 4, hand_off / 2, 10, 0] {
        std::fs::write(&file, &bytes[..whole_before as usize + part]).expect("the increment");
        server.restart();
        let mut client = server.admin();
        let info = client.run("FLOCK.INFO k");
        let (expected, holder) = if part == hand_off {
            (next, "next")
        } else {
            (fence, "tok")
        };
        assert_eq!(*info.field("fence"), expected, "{part} of {hand_off} bytes");
        assert_eq!(
            info.field("holders").items().len(),
            1,
            "{part} of {hand_off} bytes"
        );
        assert!(
            client.call(("FLOCK.PTTL", "k", holder)).int() > 0,
            "{part} of {hand_off} bytes"
        );
        server.kill9();
    }
}

#[test]
fn the_file_holds_effects_and_never_a_clients_command() {
    let server = append_only().start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000 LABEL here").fence();
    client.run("FLOCK.ACQUIRE k other PX 600000");
    client.run("FLOCK.REFRESH k tok PX 500000");
    client.run("FLOCK.RELEASE k tok");
    let names: Vec<_> = aof::newest_commands(server.directory())
        .iter()
        .map(|command| command.split(' ').take(3).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        names,
        [
            "FLOCK.APPLY k GRANT",
            "FLOCK.APPLY k RENEW",
            "FLOCK.APPLY k RELEASE"
        ]
    );
}

#[test]
fn a_rewrite_as_commands_holds_one_grant_for_each_lock() {
    let server = append_only().set("aof-use-rdb-preamble", "no").start();
    let mut client = server.client();
    for round in 0..3 {
        client.run("FLOCK.ACQUIRE k tok PX 600000 LABEL here").fence();
        client.call(("FLOCK.REFRESH", "k", "tok", "PX", 500_000 + round));
    }
    rewrite(&mut server.admin());
    let base = std::fs::read_dir(server.directory().join("appendonlydir"))
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.to_string_lossy().ends_with(".base.aof"))
        .expect("a base made of commands");
    let text = String::from_utf8_lossy(&std::fs::read(base).expect("the base")).into_owned();
    assert_eq!(text.matches("GRANT").count(), 1, "{text}");
    assert_eq!(text.matches("RENEW").count(), 0, "{text}");
    assert_eq!(text.matches("here").count(), 1, "{text}");
}

#[test]
fn locks_that_come_and_go_during_a_rewrite_are_not_lost() {
    for preamble in ["yes", "no"] {
        let mut server = append_only().set("aof-use-rdb-preamble", preamble).start();
        let mut client = server.client();
        // Something for the child to write, so that the rewrite takes its time.
        client.run("DEBUG POPULATE 100000");
        let before = client.run("FLOCK.ACQUIRE before tok PX 600000").fence();
        client.run("FLOCK.ACQUIRE gone tok PX 600000").fence();
        client.run("BGREWRITEAOF");
        client.run("FLOCK.RELEASE gone tok");
        let during = client.run("FLOCK.ACQUIRE during tok PX 600000").fence();
        wait_for_own_file(&mut client);
        server.kill9();
        server.restart();
        let mut client = server.admin();
        assert_eq!(
            *client.run("FLOCK.INFO before").field("fence"),
            before,
            "{preamble}"
        );
        assert_eq!(
            *client.run("FLOCK.INFO during").field("fence"),
            during,
            "{preamble}"
        );
        assert_eq!(client.run("EXISTS gone"), 0, "{preamble}");
    }
}
