//! Proves what each transition sends to replicas, word for word: absolute
//! effects with the fence that was given, and nothing for what changed nothing.

use crate::connection::Connection;
use crate::look::{wait_until_closed, LONG_MS};
use crate::support::*;

/// The command, with `LEFT` for the number behind the fence where that is what was left of about
/// this many ms: not more, and not much less.
#[track_caller]
fn with_left(command: &str, about_ms: i64) -> String {
    let mut words: Vec<_> = command.split(' ').collect();
    let left_ms: i64 = words[4].parse().expect("a time");
    assert!((about_ms - 60_000..=about_ms).contains(&left_ms), "{command}");
    words[4] = "LEFT";
    words.join(" ")
}

fn transaction(commands: &[String]) -> Vec<String> {
    let ends = |word: &str| [word.to_owned()];
    [&ends("MULTI"), commands, &ends("EXEC")].concat()
}

#[test]
fn a_grant_says_how_it_is_held() {
    for (options, sent) in [
        ("", ""),
        ("SHARED", " SHARED"),
        ("PERMITS 3", " PERMITS 3"),
        ("REENTRANT", ""),
        ("DELAY 500", " DELAY 500"),
        ("DELAY 0", ""),
        ("SESSION", ""),
        (
            "SESSION LABEL me DELAY 500 REENTRANT PERMITS 4294967295 ABOVE 7",
            " PERMITS 4294967295 DELAY 500 LABEL me",
        ),
        ("LABEL SHARED SHARED DELAY 1", " SHARED DELAY 1 LABEL SHARED"),
    ] {
        let mut scene = Scene::start();
        let line = format!("FLOCK.ACQUIRE k tok PX 60000 {options}");
        let fence = scene.client.run(line.trim_end()).fence();
        let expected = format!("FLOCK.APPLY k GRANT {fence} tok 60000 AT{sent}");
        assert_eq!(scene.sent(), [expected], "{options}");
    }
}

#[test]
fn one_more_entry_is_sent_with_the_number_of_holds() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.ACQUIRE k tok PX 600000 REENTRANT");
    let sent = scene.sent_by("FLOCK.ACQUIRE k tok PX 900000 REENTRANT");
    assert_eq!(sent, [format!("FLOCK.APPLY k RENEW {fence} 900000 AT HOLDS 2")]);
    // The lease of before is longer: what is left of it counts.
    let sent = scene.sent_by("FLOCK.ACQUIRE k tok PX 1000 REENTRANT");
    let left = with_left(&sent[0], 900_000);
    assert_eq!(left, format!("FLOCK.APPLY k RENEW {fence} LEFT AT HOLDS 3"));
    assert_eq!(sent.len(), 1);
    // A refresh, and a retry that lengthens the lease, leave the number as it is.
    let sent = scene.sent_by("FLOCK.REFRESH k tok PX 600000");
    assert_eq!(sent, [format!("FLOCK.APPLY k RENEW {fence} 600000 AT HOLDS 3")]);
    let sent = scene.sent_by("FLOCK.ACQUIRE k tok PX 900000");
    assert_eq!(sent, [format!("FLOCK.APPLY k RENEW {fence} 900000 AT HOLDS 3")]);
    assert_eq!(scene.sent_by("FLOCK.ACQUIRE k tok PX 1000"), [""; 0]);
}

#[test]
fn one_hold_less_is_sent_as_such_and_the_last_as_a_release() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.ACQUIRE k tok PX 600000 REENTRANT DELAY 500");
    for _ in 0..2 {
        scene.acquire("FLOCK.ACQUIRE k tok PX 600000 REENTRANT");
    }
    for holds in [" HOLDS 2", ""] {
        let sent = scene.sent_by("FLOCK.RELEASE k tok");
        let left = with_left(&sent[0], LONG_MS);
        assert_eq!(
            left,
            format!("FLOCK.APPLY k RENEW {fence} LEFT AT{holds} DELAY 500")
        );
        assert_eq!(sent.len(), 1);
    }
    assert_eq!(
        scene.sent_by("FLOCK.RELEASE k tok"),
        [format!("FLOCK.APPLY k RELEASE {fence}")]
    );
}

#[test]
fn a_longer_delay_of_a_retry_is_sent_and_a_shorter_one_is_not() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.ACQUIRE k tok PX 600000 DELAY 500");
    assert_eq!(scene.sent_by("FLOCK.ACQUIRE k tok PX 1000 DELAY 400"), [""; 0]);
    let sent = scene.sent_by("FLOCK.ACQUIRE k tok PX 1000 DELAY 700");
    let left = with_left(&sent[0], LONG_MS);
    assert_eq!(left, format!("FLOCK.APPLY k RENEW {fence} LEFT AT DELAY 700"));
    let sent = scene.sent_by("FLOCK.REFRESH k tok PX 900000");
    assert_eq!(sent, [format!("FLOCK.APPLY k RENEW {fence} 900000 AT DELAY 700")]);
}

#[test]
fn what_is_refused_sends_nothing() {
    let mut scene = Scene::start();
    scene.acquire("FLOCK.ACQUIRE k tok PX 60000 SHARED");
    scene.acquire("FLOCK.ACQUIRE p tok PX 60000 PERMITS 1");
    for line in [
        "FLOCK.ACQUIRE k tok PX 90000",
        "FLOCK.ACQUIRE k tok PX 90000 PERMITS 2 REENTRANT",
        "FLOCK.ACQUIRE k other PX 90000 REENTRANT",
        "FLOCK.ACQUIRE p other PX 90000 PERMITS 1 DELAY 5",
        "FLOCK.ACQUIRE p other PX 90000 PERMITS 2",
        "FLOCK.ACQUIRE k tok PX 60000 SHARED DELAY -1",
        "FLOCK.ACQUIRE k tok PX 1 SHARED SESSION",
    ] {
        assert_eq!(scene.sent_by(line), [""; 0], "{line}");
    }
}

#[test]
fn a_row_of_readers_is_granted_in_one_transaction() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.ACQUIRE k tok PX 60000");
    let mut readers = ["a", "b", "c"].map(|token| {
        let line = format!("FLOCK.ACQUIRE k {token} PX 70000 SHARED BLOCK 0 LABEL {token}");
        scene.server.enqueue("k", &line)
    });
    scene.client.run("FLOCK.RELEASE k tok");
    let mut expected = vec![format!("FLOCK.APPLY k RELEASE {fence}")];
    for (reader, token) in readers.iter_mut().zip(["a", "b", "c"]) {
        let fence = reader.receive().fence();
        expected.push(format!(
            "FLOCK.APPLY k GRANT {fence} {token} 70000 AT SHARED LABEL {token}"
        ));
    }
    assert_eq!(scene.sent(), transaction(&expected));
}

#[test]
fn the_end_of_one_of_many_is_its_own_and_nothing_else() {
    let mut scene = Scene::start();
    let short = scene.acquire("FLOCK.ACQUIRE k short PX 600000 PERMITS 2");
    let long = scene.acquire("FLOCK.ACQUIRE k long PX 600000 PERMITS 2");
    let mut next = scene
        .server
        .enqueue("k", "FLOCK.ACQUIRE k next PX 70000 PERMITS 2 BLOCK 0");
    scene.client.run("FLOCK.REFRESH k short PX 20");
    let fence = next.receive().fence();
    let mut expected = vec![format!("FLOCK.APPLY k RENEW {short} 20 AT")];
    expected.extend(transaction(&[
        format!("FLOCK.APPLY k EXPIRE {short}"),
        format!("FLOCK.APPLY k GRANT {fence} next 70000 AT PERMITS 2"),
    ]));
    assert_eq!(scene.sent(), expected);
    let sent = scene.sent_by("FLOCK.RELEASE k long");
    assert_eq!(sent, [format!("FLOCK.APPLY k RELEASE {long}")]);
}

#[test]
fn break_ends_each_hold_by_its_fence_in_one_transaction() {
    let mut scene = Scene::start();
    let fences =
        ["a", "b"].map(|token| scene.acquire(&format!("FLOCK.ACQUIRE k {token} PX 60000 SHARED DELAY 500")));
    let sent = scene.sent_by("FLOCK.BREAK k");
    let expected = fences.map(|fence| format!("FLOCK.APPLY k BREAK {fence}"));
    assert_eq!(sent, transaction(&expected));
}

#[test]
fn a_closure_is_sent_with_the_end_of_the_hold_and_the_opening_by_itself() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.ACQUIRE k tok PX 600000 DELAY 300");
    scene.client.run("FLOCK.REFRESH k tok PX 20");
    let open = format!("FLOCK.APPLY k OPEN {fence}");
    let mut sent = Vec::new();
    eventually(
        "it is open",
        || {
            sent.extend(scene.sent());
            sent.clone()
        },
        |sent| sent.contains(&open),
    );
    sent[3] = with_left(&sent[3], 300);
    let mut expected = vec![format!("FLOCK.APPLY k RENEW {fence} 20 AT DELAY 300")];
    expected.extend(transaction(&[
        format!("FLOCK.APPLY k EXPIRE {fence}"),
        format!("FLOCK.APPLY k CLOSE {fence} LEFT AT"),
    ]));
    expected.push(open);
    assert_eq!(sent, expected);
}

#[test]
fn the_end_of_a_delay_and_the_next_grant_are_one_transaction() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.ACQUIRE k tok PX 600000 DELAY 100");
    let mut waiter = scene.server.enqueue("k", "FLOCK.ACQUIRE k next PX 70000 BLOCK 0");
    scene.client.run("FLOCK.REFRESH k tok PX 20");
    let next = waiter.receive().fence();
    let sent = scene.sent();
    assert_eq!(sent.len(), 9, "{sent:#?}");
    let expected = transaction(&[
        format!("FLOCK.APPLY k OPEN {fence}"),
        format!("FLOCK.APPLY k GRANT {next} next 70000 AT"),
    ]);
    assert_eq!(sent[5..], expected);
}

#[test]
fn break_of_a_closed_lock_is_an_opening() {
    for is_waited_for in [false, true] {
        let mut scene = Scene::start();
        let fence = scene.acquire("FLOCK.ACQUIRE k tok PX 20 DELAY 600000");
        wait_until_closed(&mut scene.client, "k");
        let waiter =
            is_waited_for.then(|| scene.server.enqueue("k", "FLOCK.ACQUIRE k next PX 70000 BLOCK 0"));
        scene.sent();
        let open = format!("FLOCK.APPLY k OPEN {fence}");
        let sent = scene.sent_by("FLOCK.BREAK k");
        match waiter {
            None => assert_eq!(sent, [open]),
            Some(mut waiter) => {
                let next = waiter.receive().fence();
                let grant = format!("FLOCK.APPLY k GRANT {next} next 70000 AT");
                assert_eq!(sent, transaction(&[open, grant]));
            }
        }
    }
}

#[test]
fn a_closed_lock_sends_nothing_for_what_it_refuses() {
    let mut scene = Scene::start();
    scene.acquire("FLOCK.ACQUIRE k tok PX 20 DELAY 600000");
    wait_until_closed(&mut scene.client, "k");
    scene.sent();
    for line in [
        "FLOCK.ACQUIRE k tok PX 60000",
        "FLOCK.ACQUIRE k tok PX 60000 BLOCK 5 REENTRANT",
        "FLOCK.REFRESH k tok PX 60000",
        "FLOCK.RELEASE k tok",
    ] {
        assert_eq!(scene.sent_by(line), [""; 0], "{line}");
    }
}

#[test]
fn a_lost_session_is_sent_as_what_it_is() {
    for (options, is_waited_for) in [
        ("", false),
        ("", true),
        (" DELAY 600000", false),
        (" DELAY 600000", true),
    ] {
        let mut scene = Scene::start();
        let mut holder = Connection::open(&scene.server);
        let line = format!("FLOCK.ACQUIRE k tok PX 60000 SESSION{options}");
        let fence = holder.client.run(&line).fence();
        let waiter =
            is_waited_for.then(|| scene.server.enqueue("k", "FLOCK.ACQUIRE k next PX 70000 BLOCK 0"));
        assert_eq!(
            scene.sent(),
            [format!("FLOCK.APPLY k GRANT {fence} tok 60000 AT{options}")]
        );
        drop(holder);
        let mut sent = scene.sent_by_itself();
        let mut expected = vec![format!("FLOCK.APPLY k SESSION {fence}")];
        match (options, waiter) {
            ("", None) => {}
            ("", Some(mut waiter)) => {
                let next = waiter.receive().fence();
                expected.push(format!("FLOCK.APPLY k GRANT {next} next 70000 AT"));
                expected = transaction(&expected);
            }
            (_, _waiting) => {
                sent[2] = with_left(&sent[2], LONG_MS);
                expected.push(format!("FLOCK.APPLY k CLOSE {fence} LEFT AT"));
                expected = transaction(&expected);
            }
        }
        assert_eq!(sent, expected);
    }
}

#[test]
fn a_session_that_moves_to_another_connection_is_not_sent() {
    let mut scene = Scene::start();
    let mut older = Connection::open(&scene.server);
    older.client.run("FLOCK.ACQUIRE k tok PX 60000 SESSION").fence();
    scene.sent();
    assert_eq!(scene.sent_by("FLOCK.ACQUIRE k tok PX 1000 SESSION"), [""; 0]);
    let mut admin = scene.server.admin();
    older.close(&mut admin);
    assert_eq!(scene.sent(), [""; 0]);
}
