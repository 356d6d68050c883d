//! Proves what each transition sends to replicas, word for word: absolute
//! effects with the fence that was given, and nothing for what changed nothing.

use crate::support::*;

#[test]
fn a_grant_is_sent_with_its_fence_and_lease() {
    let mut scene = Scene::start();
    let fence = scene.client.run("FLOCK.ACQUIRE k tok PX 60000").fence();
    assert_eq!(
        scene.sent(),
        [format!("FLOCK.APPLY k GRANT {fence} tok 60000 AT")]
    );
}

#[test]
fn a_label_is_sent_with_the_grant_and_above_is_in_the_fence() {
    let mut scene = Scene::start();
    let above = 1i64 << 52;
    let line = format!("FLOCK.ACQUIRE k tok EX 60 LABEL build-17 ABOVE {above}");
    let fence = scene.client.run(&line).fence();
    assert_eq!(fence, above + 1);
    assert_eq!(
        scene.sent(),
        [format!("FLOCK.APPLY k GRANT {fence} tok 60000 AT LABEL build-17")]
    );
}

#[test]
fn a_token_that_the_server_made_is_sent_as_it_is() {
    let mut scene = Scene::start();
    let reply = scene.client.run("FLOCK.ACQUIRE k * PX 60000");
    let [fence, token] = reply.items() else {
        panic!("fence and token: {reply:?}");
    };
    let expected = format!("FLOCK.APPLY k GRANT {} {} 60000 AT", fence.int(), token.text());
    assert_eq!(scene.sent(), [expected]);
}

#[test]
fn what_is_refused_sends_nothing() {
    let mut scene = Scene::start();
    scene.acquire("FLOCK.ACQUIRE k tok PX 60000");
    for line in [
        "FLOCK.ACQUIRE k other PX 60000",
        "FLOCK.ACQUIRE k other PX 60000 ABOVE 9007199254740000",
        "FLOCK.ACQUIRE k other PX 60000 BLOCK 5",
        "FLOCK.ACQUIRE k other PX 0",
        "FLOCK.REFRESH k other PX 60000",
        "FLOCK.REFRESH free tok PX 60000",
        "FLOCK.RELEASE k other",
        "FLOCK.RELEASE free tok",
        "FLOCK.BREAK free",
        "FLOCK.PTTL k",
        "FLOCK.INFO k",
    ] {
        assert_eq!(scene.sent_by(line), [""; 0], "{line}");
    }
}

#[test]
fn a_refresh_is_sent_whether_longer_or_shorter() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.ACQUIRE k tok PX 60000");
    for lease_ms in [90_000, 30_000] {
        let sent = scene.sent_by(&format!("FLOCK.REFRESH k tok PX {lease_ms}"));
        assert_eq!(sent, [format!("FLOCK.APPLY k RENEW {fence} {lease_ms} AT")]);
    }
}

#[test]
fn a_retry_is_sent_only_where_it_lengthens_the_lease() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.ACQUIRE k tok PX 60000");
    assert_eq!(scene.sent_by("FLOCK.ACQUIRE k tok PX 30000"), [""; 0]);
    let sent = scene.sent_by("FLOCK.ACQUIRE k tok PX 90000");
    assert_eq!(sent, [format!("FLOCK.APPLY k RENEW {fence} 90000 AT")]);
}

#[test]
fn an_end_is_sent_as_what_it_was() {
    let mut scene = Scene::start();
    for (line, verb) in [("FLOCK.RELEASE k tok", "RELEASE"), ("FLOCK.BREAK k", "BREAK")] {
        let fence = scene.acquire("FLOCK.ACQUIRE k tok PX 60000");
        assert_eq!(scene.sent_by(line), [format!("FLOCK.APPLY k {verb} {fence}")]);
    }
    let fence = scene.client.run("FLOCK.ACQUIRE k tok PX 20").fence();
    assert_eq!(scene.sent(), [format!("FLOCK.APPLY k GRANT {fence} tok 20 AT")]);
    assert_eq!(scene.sent_by_itself(), [format!("FLOCK.APPLY k EXPIRE {fence}")]);
}

/// A replica must never show the lock free, or held by both.
#[test]
fn a_hand_off_is_one_transaction() {
    let ways = [("FLOCK.RELEASE k tok", "RELEASE"), ("FLOCK.BREAK k", "BREAK")];
    for (line, verb) in ways {
        let mut scene = Scene::start();
        let fence = scene.acquire("FLOCK.ACQUIRE k tok PX 60000");
        let mut waiter = scene
            .server
            .enqueue("k", "FLOCK.ACQUIRE k next PX 70000 BLOCK 0 LABEL me");
        scene.client.run(line);
        let next = waiter.receive().fence();
        let expected = [
            "MULTI".to_owned(),
            format!("FLOCK.APPLY k {verb} {fence}"),
            format!("FLOCK.APPLY k GRANT {next} next 70000 AT LABEL me"),
            "EXEC".to_owned(),
        ];
        assert_eq!(scene.sent(), expected);
    }
}

#[test]
fn a_hand_off_at_the_leases_end_is_one_transaction() {
    let mut scene = Scene::start();
    let mut waiter = {
        scene.client.run("FLOCK.ACQUIRE k tok PX 200").fence();
        scene.server.enqueue("k", "FLOCK.ACQUIRE k next PX 70000 BLOCK 0")
    };
    let fence = scene.client.run("FLOCK.INFO k").field("fence").int();
    let next = waiter.receive().fence();
    let sent = scene.sent();
    let expected = [
        format!("FLOCK.APPLY k GRANT {fence} tok 200 AT"),
        "MULTI".to_owned(),
        format!("FLOCK.APPLY k EXPIRE {fence}"),
        format!("FLOCK.APPLY k GRANT {next} next 70000 AT"),
        "EXEC".to_owned(),
    ];
    assert_eq!(sent, expected);
}

#[test]
fn a_wait_that_ends_without_a_grant_sends_nothing() {
    let mut scene = Scene::start();
    scene.acquire("FLOCK.ACQUIRE k tok PX 60000");
    let vanishing = scene.server.enqueue("k", "FLOCK.ACQUIRE k gone PX 60000 BLOCK 0");
    drop(vanishing);
    let mut waiter = scene
        .server
        .enqueue("k", "FLOCK.ACQUIRE k other PX 60000 BLOCK 0");
    assert_eq!(scene.sent_by("FLOCK.RELEASE k other"), [""; 0]);
    assert_eq!(waiter.receive(), NIL);
    let mut older = scene.server.enqueue("k", "FLOCK.ACQUIRE k same PX 60000 BLOCK 0");
    let mut newer = scene.server.admin();
    assert_eq!(newer.run("FLOCK.ACQUIRE k same PX 60000 BLOCK 10"), NIL);
    assert_eq!(older.receive().error_word(), "SUPERSEDED");
    assert_eq!(scene.sent(), [""; 0]);
}

#[test]
fn a_grant_that_was_not_delivered_is_sent_back() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.ACQUIRE k tok PX 60000");
    let mut waiter = scene.server.connect(Protocol::Resp2);
    let id = waiter.id();
    waiter.send_line("FLOCK.ACQUIRE k next PX 70000 BLOCK 0");
    eventually("it waits", || scene.client.waiters("k"), |waiters| *waiters == 1);
    let kill = format!("CLIENT KILL ID {id}");
    scene.client.transaction(&["FLOCK.RELEASE k tok", &kill]);
    eventually(
        "the grant is taken back",
        || scene.client.run("EXISTS k"),
        |exists| *exists == 0,
    );
    let next = scene.client.stat("last_fence");
    let expected = [
        "MULTI".to_owned(),
        format!("FLOCK.APPLY k RELEASE {fence}"),
        format!("FLOCK.APPLY k GRANT {next} next 70000 AT"),
        "EXEC".to_owned(),
        format!("FLOCK.APPLY k UNDELIVERED {next}"),
    ];
    assert_eq!(scene.sent(), expected);
}

#[test]
fn transactions_and_scripts_send_their_effects_together() {
    let mut scene = Scene::start();
    let replies = scene.client.transaction(&[
        "FLOCK.ACQUIRE k tok PX 60000",
        "SET data 1",
        "FLOCK.RELEASE k tok",
    ]);
    let fence = replies[0].fence();
    let expected = [
        "MULTI".to_owned(),
        format!("FLOCK.APPLY k GRANT {fence} tok 60000 AT"),
        "SET data 1".to_owned(),
        format!("FLOCK.APPLY k RELEASE {fence}"),
        "EXEC".to_owned(),
    ];
    assert_eq!(scene.sent(), expected);
    let fence = scene.client.script("FLOCK.ACQUIRE k tok PX 60000").fence();
    assert_eq!(
        scene.sent(),
        [format!("FLOCK.APPLY k GRANT {fence} tok 60000 AT")]
    );
}

#[test]
fn a_key_that_is_removed_is_the_servers_own_command_and_then_the_next_grant() {
    for removal in ["DEL k", "FLUSHALL", "UNLINK k"] {
        let mut scene = Scene::start();
        scene.acquire("FLOCK.ACQUIRE k tok PX 60000");
        let mut waiter = scene.server.enqueue("k", "FLOCK.ACQUIRE k next PX 70000 BLOCK 0");
        scene.client.run(removal);
        let next = waiter.receive().fence();
        let sent = scene.sent();
        let expected = [
            removal.to_owned(),
            format!("FLOCK.APPLY k GRANT {next} next 70000 AT"),
        ];
        assert_eq!(sent, expected);
    }
}

#[test]
fn each_effect_is_sent_for_its_own_database() {
    let mut scene = Scene::start();
    scene.client.run("SELECT 3");
    scene.client.run("FLOCK.ACQUIRE k tok PX 30").fence();
    let replica = scene.server.start_replica(Server::builder());
    let mut follower = replica.admin();
    scene.client.run("SELECT 0");
    scene.client.run("FLOCK.ACQUIRE k tok PX 60000").fence();
    let keys = |follower: &mut Client, database: u32| {
        follower.call(("SELECT", database));
        follower.run("EXISTS k").int()
    };
    // The lease of database 3 ended by itself, while the last command was for database 0.
    eventually(
        "the end arrives",
        || keys(&mut follower, 3),
        |exists| *exists == 0,
    );
    eventually(
        "the grant is there",
        || keys(&mut follower, 0),
        |exists| *exists == 1,
    );
}

#[test]
fn the_register_is_for_the_file_alone() {
    let server = Server::builder()
        .undressed()
        .append_only()
        .set("aof-use-rdb-preamble", "no")
        .start();
    let mut client = server.client();
    let mut stream = ReplicationStream::attach(&server);
    client.run("FLOCK.ACQUIRE k tok PX 60000").fence();
    assert_eq!(stream.commands_so_far(&mut client).len(), 1);
    client.run("BGREWRITEAOF");
    eventually(
        "the register is in the file",
        || aof::newest_commands(server.directory()),
        |commands| commands.iter().any(|command| command.starts_with("FLOCK.FENCE")),
    );
    assert_eq!(stream.commands_so_far(&mut client), [""; 0]);
}
