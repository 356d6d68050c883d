//! Proves that a waiter who goes away leaves the queue at once, however it
//! goes; and that a grant which could not be delivered is taken back and goes
//! to the next, so that whoever is told a fence holds the lock, and only they.

mod support;

use support::*;

/// A lock held by `t`, with the waiters `u` and `v` behind it.
struct Scene {
    server: Server,
    client: Client,
    first: Client,
    first_id: i64,
    second: Client,
}

fn scene() -> Scene {
    scene_on(Server::start())
}

fn scene_on(server: Server) -> Scene {
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 600000").fence();
    let mut first = server.connect(Protocol::Resp2);
    let first_id = first.id();
    first.send_line("FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
    eventually("u waits", || client.waiters("k"), |waiters| *waiters == 1);
    let second = server.enqueue("k", "FLOCK.ACQUIRE k v PX 600000 BLOCK 0");
    Scene {
        server,
        client,
        first,
        first_id,
        second,
    }
}

/// After the first waiter has left, the release is for the second.
#[track_caller]
fn assert_second_is_next(client: &mut Client, second: &mut Client) {
    eventually("one left", || client.waiters("k"), |waiters| *waiters == 1);
    assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
    let fence = second.receive().fence();
    assert_eq!(*client.run("FLOCK.INFO k").field("fence"), fence);
    assert_eq!(client.waiters("k"), 0);
    assert_eq!(client.stat("grants_undelivered"), 0);
}

#[test]
fn a_waiter_that_disconnects_leaves_the_queue() {
    let mut scene = scene();
    drop(scene.first);
    assert_second_is_next(&mut scene.client, &mut scene.second);
}

#[test]
fn a_waiter_that_is_killed_leaves_the_queue() {
    let mut scene = scene();
    assert_eq!(scene.client.run(&format!("CLIENT KILL ID {}", scene.first_id)), 1);
    assert_eq!(scene.first.receive(), Reply::Closed);
    assert_second_is_next(&mut scene.client, &mut scene.second);
}

#[test]
fn a_waiter_that_is_unblocked_gets_nil_or_an_error_and_leaves_the_queue() {
    for (how, expected) in [("", None), (" TIMEOUT", None), (" ERROR", Some("UNBLOCKED"))] {
        let mut scene = scene();
        if !scene.server.build().can_unblock_module_clients() {
            return;
        }
        let line = format!("CLIENT UNBLOCK {}{how}", scene.first_id);
        assert_eq!(scene.client.run(&line), 1);
        match (scene.first.receive(), expected) {
            (reply, None) => assert_eq!(reply, NIL, "{how}"),
            (reply, Some(word)) => assert_eq!(reply.error_word(), word, "{how}"),
        }
        assert_eq!(scene.client.run(&line), 0, "twice");
        assert_second_is_next(&mut scene.client, &mut scene.second);
        // The client is free for other commands, and may come again.
        assert_eq!(scene.first.run("PING"), "PONG");
        assert_eq!(scene.first.run("FLOCK.ACQUIRE k u PX 1000"), NIL);
    }
}

#[test]
fn a_waiter_that_leaves_just_before_the_release_is_not_granted() {
    let mut scene = scene();
    let kill = format!("CLIENT KILL ID {}", scene.first_id);
    let replies = scene.client.transaction(&[&kill, "FLOCK.RELEASE k t"]);
    assert_eq!(replies, [Reply::Int(1), Reply::Int(1)]);
    let fence = scene.second.receive().fence();
    assert_eq!(*scene.client.run("FLOCK.INFO k").field("fence"), fence);
    assert_eq!(scene.first.receive(), Reply::Closed);
}

/// What can befall a client between its grant and the delivery.
fn mishaps(id: i64) -> [String; 3] {
    [
        format!("CLIENT KILL ID {id}"),
        format!("CLIENT UNBLOCK {id} TIMEOUT"),
        format!("CLIENT UNBLOCK {id} ERROR"),
    ]
}

/// The first waiter's answer, and who holds the lock because of it: `u` if it
/// was told a fence, else whoever is next.
#[track_caller]
fn assert_told_the_truth(scene: &mut Scene, mishap: &str) -> bool {
    let answer = scene.first.receive();
    match &answer {
        Reply::Int(fence) => {
            assert_eq!(
                *scene.client.run("FLOCK.INFO k").field("fence"),
                *fence,
                "{mishap}"
            );
            assert!(scene.client.run("FLOCK.PTTL k u").int() > 0, "{mishap}");
            return true;
        }
        Reply::Nil | Reply::Closed => {}
        error => assert_eq!(error.error_word(), "UNBLOCKED", "{mishap}"),
    }
    eventually(
        &format!("the grant is taken back after {mishap} and {answer:?}"),
        || scene.client.run("FLOCK.PTTL k u"),
        |left| *left == -2,
    );
    false
}

#[test]
fn a_grant_that_is_not_delivered_goes_to_the_next() {
    for index in 0..mishaps(0).len() {
        let mut scene = scene();
        let mishap = &mishaps(scene.first_id)[index];
        if mishap.contains("UNBLOCK") && !scene.server.build().can_unblock_module_clients() {
            continue;
        }
        scene.client.transaction(&["FLOCK.RELEASE k t", mishap]);
        if assert_told_the_truth(&mut scene, mishap) {
            assert_eq!(scene.client.waiters("k"), 1, "{mishap}");
            assert_eq!(scene.client.run("FLOCK.RELEASE k u"), 1, "{mishap}");
        } else {
            assert_eq!(scene.client.stat("grants_undelivered"), 1, "{mishap}");
        }
        let fence = scene.second.receive().fence();
        assert_eq!(
            *scene.client.run("FLOCK.INFO k").field("fence"),
            fence,
            "{mishap}"
        );
        assert!(scene.client.run("FLOCK.PTTL k v").int() > 0, "{mishap}");
    }
}

#[test]
fn a_grant_that_is_not_delivered_frees_the_lock_when_nobody_waits() {
    for index in 0..mishaps(0).len() {
        let mut scene = scene();
        let mishap = &mishaps(scene.first_id)[index];
        if mishap.contains("UNBLOCK") && !scene.server.build().can_unblock_module_clients() {
            continue;
        }
        scene.client.run("FLOCK.RELEASE k v");
        assert_eq!(scene.second.receive(), NIL);
        scene.client.transaction(&["FLOCK.RELEASE k t", mishap]);
        if assert_told_the_truth(&mut scene, mishap) {
            assert_eq!(scene.client.run("FLOCK.RELEASE k u"), 1, "{mishap}");
        }
        let line = "FLOCK.ACQUIRE k w PX 1000";
        eventually(
            "the lock is free",
            || scene.client.run(line),
            |reply| *reply != NIL,
        );
    }
}

#[test]
fn all_waiters_are_killed_in_the_release_that_grants_the_first() {
    let mut scene = scene_on(Server::builder().undressed().start());
    let kill_all = "CLIENT KILL TYPE NORMAL SKIPME YES";
    scene.client.transaction(&["FLOCK.RELEASE k t", kill_all]);
    assert_eq!(scene.first.receive(), Reply::Closed);
    assert_eq!(scene.second.receive(), Reply::Closed);
    let mut client = scene.server.admin();
    let line = "FLOCK.ACQUIRE k w PX 60000";
    eventually("the lock is free", || client.run(line), |reply| *reply != NIL);
    assert_eq!(client.waiters("k"), 0);
    assert_eq!(client.stat("waiters"), 0);
}

#[test]
fn a_client_that_hangs_up_in_the_moment_of_its_grant_loses_it() {
    // Whether the server meets the release or the client's end first is up to the
    // kernel. Only if the reply leaves before that end is seen, the lease must end.
    const ATTEMPTS: usize = 20;
    let is_taken_back = (0..ATTEMPTS).any(|_| {
        let mut server = Server::start();
        let mut client = server.client();
        client.run("FLOCK.ACQUIRE k t PX 600000").fence();
        let first = server.enqueue("k", "FLOCK.ACQUIRE k u PX 1000 BLOCK 0");
        let mut second = server.enqueue("k", "FLOCK.ACQUIRE k v PX 600000 BLOCK 0");
        hang_up_and_release(&mut server, first, &mut client);
        let fence = second.receive().fence();
        assert_eq!(*client.run("FLOCK.INFO k").field("fence"), fence);
        client.stat("grants_undelivered") == 1
    });
    assert!(is_taken_back, "not once in {ATTEMPTS} attempts");
}

/// A server that was stopped finds both at once: the release, and the waiter's end.
fn hang_up_and_release(server: &mut Server, waiter: Client, client: &mut Client) {
    server.stop();
    client.send_line("FLOCK.RELEASE k t");
    drop(waiter);
    server.resume();
    assert_eq!(client.receive(), 1);
}

#[test]
fn a_client_that_is_closed_over_its_backlog_with_the_reply_to_its_wait_loses_the_grant() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 600000").fence();
    // It does not read what it asked for, so the server has to keep it.
    let mut slow = server.connect(Protocol::Resp2);
    slow.send(("EVAL", "return string.rep('x', 30000000)", 0));
    slow.send_line("FLOCK.ACQUIRE k u PX 600000 BLOCK 0");
    eventually("u waits", || client.waiters("k"), |waiters| *waiters == 1);
    let mut second = server.enqueue("k", "FLOCK.ACQUIRE k v PX 600000 BLOCK 0");
    client.call("MULTI");
    client.call((
        "CONFIG",
        "SET",
        "client-output-buffer-limit",
        "normal 1000000 0 0",
    ));
    client.run("FLOCK.RELEASE k t");
    assert_eq!(client.run("EXEC").items()[1], 1);
    let fence = second.receive().fence();
    assert_eq!(*client.run("FLOCK.INFO k").field("fence"), fence);
    assert_eq!(client.stat("grants_undelivered"), 1);
}

#[test]
fn a_superseded_client_that_is_killed_does_not_take_the_newer_one_along() {
    let mut scene = scene();
    let mut newer = scene.server.admin();
    newer.send_line("FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    assert_eq!(scene.first.receive().error_word(), "SUPERSEDED");
    scene.client.run(&format!("CLIENT KILL ID {}", scene.first_id));
    assert_eq!(scene.client.waiters("k"), 2);
    scene.client.run("FLOCK.RELEASE k t");
    newer.receive().fence();
}

#[test]
fn a_client_may_wait_again_and_again() {
    let server = Server::start();
    let mut client = server.client();
    let mut waiter = server.admin();
    client.run("FLOCK.ACQUIRE k t PX 600000").fence();
    for round in 0..50 {
        waiter.send_line("FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        eventually("u waits", || client.waiters("k"), |waiters| *waiters == 1);
        if round % 2 == 0 {
            client.run("FLOCK.RELEASE k u");
            assert_eq!(waiter.receive(), NIL);
        } else {
            client.run("FLOCK.RELEASE k t");
            waiter.receive().fence();
            client.send_line("FLOCK.ACQUIRE k t PX 600000 BLOCK 0");
            waiter.run("FLOCK.RELEASE k u");
            client.receive().fence();
        }
    }
}
