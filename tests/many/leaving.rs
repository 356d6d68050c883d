//! Proves that a waiter who goes away, however it goes, leaves the queues of all its locks at once; and that a grant
//! which does not reach its caller is taken back on all of them.

use crate::support::*;
use crate::{assert_free, assert_held, assert_nobody_waits, enqueue, Knot};

#[test]
fn a_waiter_that_disconnects_leaves_all_queues() {
    let mut knot = Knot::tie();
    drop(std::mem::replace(&mut knot.many, knot.server.admin()));
    knot.assert_many_has_left();
    assert_eq!(knot.client.stat("grants_undelivered"), 0);
}

#[test]
fn a_waiter_that_is_killed_leaves_all_queues() {
    let mut knot = Knot::tie();
    assert_eq!(knot.client.run(&format!("CLIENT KILL ID {}", knot.many_id)), 1);
    assert_eq!(knot.many.receive(), Reply::Closed);
    knot.assert_many_has_left();
}

#[test]
fn a_waiter_that_is_unblocked_leaves_all_queues() {
    for (how, error) in [("", None), (" TIMEOUT", None), (" ERROR", Some("UNBLOCKED"))] {
        let mut knot = Knot::tie();
        if !knot.server.build().can_unblock_module_clients() {
            return;
        }
        let line = format!("CLIENT UNBLOCK {}{how}", knot.many_id);
        assert_eq!(knot.client.run(&line), 1, "{line}");
        match (knot.many.receive(), error) {
            (reply, None) => assert_eq!(reply, NIL, "{line}"),
            (reply, Some(word)) => assert_eq!(reply.error_word(), word, "{line}"),
        }
        knot.assert_many_has_left();
        assert_eq!(knot.many.run("PING"), "PONG");
    }
}

#[test]
fn the_waiting_token_that_releases_one_of_the_locks_ends_the_whole_wait() {
    for line in [
        "FLOCK.RELEASE a m",
        "FLOCK.RELEASE b m",
        "FLOCK.MRELEASE 1 a m",
        "FLOCK.MRELEASE 1 b m",
        "FLOCK.MRELEASE 2 b a m",
        "FLOCK.MRELEASE 3 x b y m",
    ] {
        let mut knot = Knot::tie();
        assert_eq!(knot.client.run(line), 0, "{line}");
        assert_eq!(knot.many.receive(), NIL, "{line}");
        knot.assert_many_has_left();
        assert_eq!(knot.many.run("PING"), "PONG", "answered once");
    }
}

#[test]
fn a_release_of_another_lock_or_by_another_token_leaves_the_wait() {
    let mut knot = Knot::tie();
    for line in [
        "FLOCK.RELEASE c m",
        "FLOCK.RELEASE a other",
        "FLOCK.RELEASE b t",
        "FLOCK.MRELEASE 2 a b other",
        "FLOCK.MRELEASE 2 c d m",
    ] {
        assert_eq!(knot.client.run(line), 0, "{line}");
        assert_eq!(knot.client.stat("waiters"), 2, "{line}");
    }
    knot.client.run("FLOCK.RELEASE a t");
    knot.assert_many_is_served();
}

#[test]
fn who_leaves_from_between_others_does_not_change_their_order() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.MACQUIRE 2 a b t PX 600000").fence();
    let mut first = enqueue(&server, "FLOCK.ACQUIRE a s PX 600000 BLOCK 0");
    let mut middle = enqueue(&server, "FLOCK.MACQUIRE 2 b a m PX 600000 BLOCK 0");
    let mut last = enqueue(&server, "FLOCK.MACQUIRE 2 a b n PX 600000 BLOCK 0");
    assert_eq!(client.run("FLOCK.RELEASE b m"), 0);
    assert_eq!(middle.receive(), NIL);
    assert_eq!(client.run("FLOCK.MRELEASE 2 a b t"), 2);
    let fence = first.receive().fence();
    assert_free(&mut client, &["b"]);
    assert_eq!(client.run("FLOCK.RELEASE a s"), 1);
    assert!(last.receive().fence() > fence);
}

#[test]
fn a_waiter_that_leaves_just_before_the_release_is_not_granted() {
    let mut knot = Knot::tie();
    let kill = format!("CLIENT KILL ID {}", knot.many_id);
    let replies = knot.client.transaction(&[&kill, "FLOCK.RELEASE a t"]);
    assert_eq!(replies, [Reply::Int(1), Reply::Int(1)]);
    let fence = knot.behind.receive().fence();
    assert_held(&mut knot.client, "b", "s", fence);
    assert_free(&mut knot.client, &["a"]);
    assert_eq!(knot.many.receive(), Reply::Closed);
}

/// What can befall a client between its grant and the delivery.
fn mishaps(id: i64) -> [String; 3] {
    [
        format!("CLIENT KILL ID {id}"),
        format!("CLIENT UNBLOCK {id} TIMEOUT"),
        format!("CLIENT UNBLOCK {id} ERROR"),
    ]
}

#[test]
fn a_grant_that_is_not_delivered_is_taken_back_on_all_of_the_locks() {
    for index in 0..mishaps(0).len() {
        let mut knot = Knot::tie();
        let mut behind_a = enqueue(&knot.server, "FLOCK.ACQUIRE a r PX 600000 BLOCK 0");
        let mishap = &mishaps(knot.many_id)[index];
        if mishap.contains("UNBLOCK") && !knot.server.build().can_unblock_module_clients() {
            continue;
        }
        knot.client.transaction(&["FLOCK.RELEASE a t", mishap]);
        let answer = knot.many.receive();
        if let Reply::Int(fence) = answer {
            // It was told before the mishap met it: then it holds both.
            for key in ["a", "b"] {
                assert_held(&mut knot.client, key, "m", fence);
            }
            assert_eq!(knot.client.run("FLOCK.MRELEASE 2 a b m"), 2, "{mishap}");
        } else {
            assert!(
                matches!(answer, Reply::Nil | Reply::Closed) || answer.error_word() == "UNBLOCKED",
                "{mishap}: {answer:?}"
            );
        }
        let fences = [&mut knot.behind, &mut behind_a].map(|waiter| waiter.receive().fence());
        assert_held(&mut knot.client, "b", "s", fences[0]);
        assert_held(&mut knot.client, "a", "r", fences[1]);
        if !matches!(answer, Reply::Int(_)) {
            assert!(knot.client.stat("grants_undelivered") > 0, "{mishap}");
        }
        assert_nobody_waits(&mut knot.client);
    }
}

#[test]
fn a_grant_that_is_not_delivered_frees_all_of_the_locks_when_nobody_waits() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.MACQUIRE 2 a b t PX 600000").fence();
    let mut waiter = server.connect(Protocol::Resp2);
    let id = waiter.id();
    crate::enqueue_as(&server, &mut waiter, "FLOCK.MACQUIRE 3 b c a m PX 600000 BLOCK 0");
    let kill = format!("CLIENT KILL ID {id}");
    let replies = client.transaction(&["FLOCK.MRELEASE 2 a b t", "FLOCK.PTTL c m", &kill]);
    assert_eq!(replies[0], 2);
    assert!(replies[1].int() > 0, "it was granted in the meantime");
    assert_eq!(waiter.receive(), Reply::Closed);
    eventually("all is free", || client.run("DBSIZE"), |keys| *keys == 0);
    assert_eq!(client.stat("held_locks"), 0);
    client.run("FLOCK.MACQUIRE 3 a b c u PX 600000").fence();
}

#[test]
fn what_the_caller_has_lost_of_an_undelivered_grant_meanwhile_is_not_taken_from_others() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE a t PX 600000").fence();
    let mut waiter = server.connect(Protocol::Resp2);
    let id = waiter.id();
    crate::enqueue_as(&server, &mut waiter, "FLOCK.MACQUIRE 2 a b m PX 600000 BLOCK 0");
    let kill = format!("CLIENT KILL ID {id}");
    let replies = client.transaction(&[
        "FLOCK.RELEASE a t",
        "FLOCK.BREAK b",
        "FLOCK.ACQUIRE b other PX 600000",
        &kill,
    ]);
    let fence = replies[2].fence();
    eventually("a is free", || client.run("EXISTS a"), |exists| *exists == 0);
    assert_held(&mut client, "b", "other", fence);
}

#[test]
fn a_client_that_hangs_up_in_the_moment_of_its_grant_loses_all_of_the_locks() {
    // Whether the server meets the release or the client's end first is up to the kernel. Only if the reply leaves
    // before that end is seen, the leases must end.
    const ATTEMPTS: usize = 20;
    let is_taken_back = (0..ATTEMPTS).any(|_| {
        let mut server = Server::start();
        let mut client = server.client();
        client.run("FLOCK.ACQUIRE a t PX 600000").fence();
        let many = enqueue(&server, "FLOCK.MACQUIRE 2 a b m PX 1000 BLOCK 0");
        let mut behind = [
            enqueue(&server, "FLOCK.ACQUIRE a r PX 600000 BLOCK 0"),
            enqueue(&server, "FLOCK.ACQUIRE b s PX 600000 BLOCK 0"),
        ];
        // A server that was stopped finds both at once: the release, and the waiter's end.
        server.stop();
        client.send_line("FLOCK.RELEASE a t");
        drop(many);
        server.resume();
        assert_eq!(client.receive(), 1);
        for (waiter, (key, token)) in behind.iter_mut().zip([("a", "r"), ("b", "s")]) {
            let fence = waiter.receive().fence();
            assert_held(&mut client, key, token, fence);
        }
        client.stat("grants_undelivered") > 0
    });
    assert!(is_taken_back, "not once in {ATTEMPTS} attempts");
}

#[test]
fn all_clients_are_killed_in_the_release_that_grants_the_first() {
    let knot = &mut Knot::tie_on(Server::builder().undressed().start());
    let kill_all = "CLIENT KILL TYPE NORMAL SKIPME YES";
    knot.client.transaction(&["FLOCK.RELEASE a t", kill_all]);
    assert_eq!(knot.many.receive(), Reply::Closed);
    assert_eq!(knot.behind.receive(), Reply::Closed);
    let mut client = knot.server.admin();
    eventually("all is free", || client.run("DBSIZE"), |keys| *keys == 0);
    assert_nobody_waits(&mut client);
}

#[test]
fn a_superseded_client_that_is_killed_does_not_take_the_newer_one_along() {
    let mut knot = Knot::tie();
    let mut newer = knot.server.admin();
    newer.send_line("FLOCK.MACQUIRE 2 b a m PX 600000 BLOCK 0");
    assert_eq!(knot.many.receive().error_word(), "SUPERSEDED");
    knot.client.run(&format!("CLIENT KILL ID {}", knot.many_id));
    assert_eq!(knot.client.stat("waiters"), 2);
    knot.client.run("FLOCK.RELEASE a t");
    knot.many = newer;
    knot.assert_many_is_served();
}
