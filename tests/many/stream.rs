//! Proves what replicas and files are told: one effect for each lock, all effects of one step in one MULTI, nothing for
//! what changed nothing; and that what comes of it elsewhere is the same.

use crate::support::*;
use crate::{assert_free, assert_held, enqueue, enqueue_as};

/// The commands of one MULTI without their order: which lock comes first is nobody's business.
#[track_caller]
fn one_transaction(sent: Vec<String>) -> Vec<String> {
    let [multi, effects @ .., exec] = &sent[..] else {
        panic!("no transaction: {sent:?}");
    };
    assert_eq!([multi.as_str(), exec.as_str()], ["MULTI", "EXEC"], "{sent:?}");
    let mut effects = effects.to_vec();
    effects.sort();
    effects
}

/// As it comes out of [`one_transaction`].
fn sorted<const N: usize>(mut effects: [String; N]) -> Vec<String> {
    effects.sort();
    effects.to_vec()
}

#[test]
fn a_grant_is_one_effect_for_each_lock_in_one_transaction() {
    let mut scene = Scene::start();
    let line = "FLOCK.MACQUIRE 3 a b c tok EX 60 LABEL build-17 ABOVE 4503599627370496";
    let fence = scene.client.run(line).fence();
    assert_eq!(fence, 4503599627370497);
    let grants =
        ["a", "b", "c"].map(|key| format!("FLOCK.APPLY {key} GRANT {fence} tok 60000 AT LABEL build-17"));
    assert_eq!(one_transaction(scene.sent()), sorted(grants));
}

#[test]
fn one_lock_alone_is_one_command() {
    let mut scene = Scene::start();
    let fence = scene.client.run("FLOCK.MACQUIRE 1 a tok PX 60000").fence();
    assert_eq!(
        scene.sent(),
        [format!("FLOCK.APPLY a GRANT {fence} tok 60000 AT")]
    );
    assert_eq!(
        scene.sent_by("FLOCK.MREFRESH 1 a tok PX 90000"),
        [format!("FLOCK.APPLY a RENEW {fence} 90000 AT")]
    );
    assert_eq!(
        scene.sent_by("FLOCK.MRELEASE 1 a tok"),
        [format!("FLOCK.APPLY a RELEASE {fence}")]
    );
}

#[test]
fn what_changes_nothing_sends_nothing() {
    let mut scene = Scene::start();
    scene.acquire("FLOCK.MACQUIRE 2 a b tok PX 60000");
    scene.client.run("SET text 1");
    scene.sent();
    for line in [
        "FLOCK.MACQUIRE 2 a c other PX 60000",
        "FLOCK.MACQUIRE 2 c b other PX 60000 BLOCK 5",
        "FLOCK.MACQUIRE 2 a b tok PX 30000",
        "FLOCK.MACQUIRE 2 a c tok PX 60000",
        "FLOCK.MACQUIRE 2 c text other PX 60000",
        "FLOCK.MACQUIRE 2 c c other PX 60000",
        "FLOCK.MREFRESH 3 a b c tok PX 90000",
        "FLOCK.MREFRESH 2 a b other PX 90000",
        "FLOCK.MRELEASE 2 a b other",
        "FLOCK.MRELEASE 2 c d tok",
    ] {
        assert_eq!(scene.sent_by(line), [""; 0], "{line}");
    }
}

#[test]
fn a_wait_that_ends_without_a_grant_sends_nothing() {
    let mut scene = Scene::start();
    scene.acquire("FLOCK.ACQUIRE a tok PX 60000");
    let line = "FLOCK.MACQUIRE 2 a b m PX 60000 BLOCK 0";
    drop(enqueue(&scene.server, line));
    let is_none = |waiters: &i64| *waiters == 0;
    eventually("it is gone", || scene.client.stat("waiters"), is_none);
    let mut older = enqueue(&scene.server, line);
    let mut newer = scene.server.admin();
    assert_eq!(newer.run("FLOCK.MACQUIRE 2 b a m PX 60000 BLOCK 10"), NIL);
    assert_eq!(older.receive().error_word(), "SUPERSEDED");
    let mut released = enqueue(&scene.server, line);
    scene.client.run("FLOCK.RELEASE b m");
    assert_eq!(released.receive(), NIL);
    assert_eq!(scene.sent(), [""; 0]);
}

#[test]
fn a_refresh_and_a_release_of_all_are_one_transaction_each() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.MACQUIRE 2 a b tok PX 60000");
    let sent = scene.sent_by("FLOCK.MREFRESH 2 a b tok PX 30000");
    let renewals = ["a", "b"].map(|key| format!("FLOCK.APPLY {key} RENEW {fence} 30000 AT"));
    assert_eq!(one_transaction(sent), sorted(renewals));
    let sent = scene.sent_by("FLOCK.MACQUIRE 2 b a tok PX 90000");
    let renewals = ["a", "b"].map(|key| format!("FLOCK.APPLY {key} RENEW {fence} 90000 AT"));
    assert_eq!(one_transaction(sent), sorted(renewals));
    let sent = scene.sent_by("FLOCK.MRELEASE 3 a free b tok");
    let releases = ["a", "b"].map(|key| format!("FLOCK.APPLY {key} RELEASE {fence}"));
    assert_eq!(one_transaction(sent), sorted(releases));
}

#[test]
fn a_retry_sends_only_the_leases_that_it_lengthens() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.MACQUIRE 2 a b tok PX 60000");
    scene.client.run("FLOCK.REFRESH a tok PX 900000");
    scene.sent();
    assert_eq!(
        scene.sent_by("FLOCK.MACQUIRE 2 a b tok PX 300000"),
        [format!("FLOCK.APPLY b RENEW {fence} 300000 AT")]
    );
}

/// A replica must never show one of the locks free, or only some of them granted.
#[test]
fn a_hand_off_is_one_transaction() {
    let mut scene = Scene::start();
    let ways = [("FLOCK.RELEASE a tok", "RELEASE"), ("FLOCK.BREAK a", "BREAK")];
    for (line, verb) in ways {
        let fence = scene.acquire("FLOCK.ACQUIRE a tok PX 60000");
        let waiting = "FLOCK.MACQUIRE 2 a b m PX 70000 BLOCK 0 LABEL me";
        let mut waiter = enqueue(&scene.server, waiting);
        scene.client.run(line);
        let next = waiter.receive().fence();
        let sent = scene.sent();
        assert_eq!(
            sent[1],
            format!("FLOCK.APPLY a {verb} {fence}"),
            "first, as it came"
        );
        let expected = [
            format!("FLOCK.APPLY a {verb} {fence}"),
            format!("FLOCK.APPLY a GRANT {next} m 70000 AT LABEL me"),
            format!("FLOCK.APPLY b GRANT {next} m 70000 AT LABEL me"),
        ];
        assert_eq!(one_transaction(sent), sorted(expected));
        scene.sent_by("FLOCK.MRELEASE 2 a b m");
    }
}

#[test]
fn a_release_of_many_with_its_hand_offs_is_one_transaction() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.MACQUIRE 2 a b tok PX 60000");
    let mut many = enqueue(&scene.server, "FLOCK.MACQUIRE 2 c a m PX 70000 BLOCK 0");
    let mut single = enqueue(&scene.server, "FLOCK.ACQUIRE b s PX 70000 BLOCK 0");
    assert_eq!(scene.client.run("FLOCK.MRELEASE 2 a b tok"), 2);
    let (first, second) = (many.receive().fence(), single.receive().fence());
    let expected = [
        format!("FLOCK.APPLY a RELEASE {fence}"),
        format!("FLOCK.APPLY b RELEASE {fence}"),
        format!("FLOCK.APPLY a GRANT {first} m 70000 AT"),
        format!("FLOCK.APPLY c GRANT {first} m 70000 AT"),
        format!("FLOCK.APPLY b GRANT {second} s 70000 AT"),
    ];
    assert_eq!(one_transaction(scene.sent()), sorted(expected));
}

#[test]
fn a_hand_off_at_the_end_of_a_lease_is_one_transaction() {
    let mut scene = Scene::start();
    let fence = scene.acquire("FLOCK.ACQUIRE a tok PX 60000");
    let mut waiter = enqueue(&scene.server, "FLOCK.MACQUIRE 2 a b m PX 70000 BLOCK 0");
    assert_eq!(scene.client.run("FLOCK.REFRESH a tok PX 20"), 1);
    let next = waiter.receive().fence();
    let mut sent = scene.sent();
    assert_eq!(sent.remove(0), format!("FLOCK.APPLY a RENEW {fence} 20 AT"));
    let expected = [
        format!("FLOCK.APPLY a EXPIRE {fence}"),
        format!("FLOCK.APPLY a GRANT {next} m 70000 AT"),
        format!("FLOCK.APPLY b GRANT {next} m 70000 AT"),
    ];
    assert_eq!(one_transaction(sent), sorted(expected));
}

#[test]
fn a_removal_is_the_servers_own_command_and_then_the_grants() {
    for removal in ["DEL a", "FLUSHALL"] {
        let mut scene = Scene::start();
        scene.acquire("FLOCK.ACQUIRE a tok PX 60000");
        let mut waiter = enqueue(&scene.server, "FLOCK.MACQUIRE 2 a b m PX 70000 BLOCK 0");
        scene.client.run(removal);
        let next = waiter.receive().fence();
        let mut sent = scene.sent();
        assert_eq!(sent.remove(0), removal);
        let grants = ["a", "b"].map(|key| format!("FLOCK.APPLY {key} GRANT {next} m 70000 AT"));
        assert_eq!(one_transaction(sent), sorted(grants));
    }
}

#[test]
fn a_grant_that_was_not_delivered_is_sent_back_for_all_locks_at_once() {
    let mut scene = Scene::start();
    scene.acquire("FLOCK.ACQUIRE a tok PX 60000");
    let mut waiter = scene.server.connect(Protocol::Resp2);
    let id = waiter.id();
    enqueue_as(
        &scene.server,
        &mut waiter,
        "FLOCK.MACQUIRE 2 a b m PX 70000 BLOCK 0",
    );
    let kill = format!("CLIENT KILL ID {id}");
    scene.client.transaction(&["FLOCK.RELEASE a tok", &kill]);
    eventually(
        "all is free",
        || scene.client.run("EXISTS a b"),
        |keys| *keys == 0,
    );
    let next = scene.client.stat("last_fence");
    let mut sent = scene.sent();
    let taken_back = sent.split_off(5);
    let undelivered = ["a", "b"].map(|key| format!("FLOCK.APPLY {key} UNDELIVERED {next}"));
    assert_eq!(one_transaction(taken_back), sorted(undelivered));
    assert_eq!(one_transaction(sent).len(), 3);
}

#[test]
fn effects_in_a_transaction_of_the_callers_are_in_its_order() {
    let mut scene = Scene::start();
    let lines = ["SET data 1", "FLOCK.MACQUIRE 1 a tok PX 60000", "SET data 2"];
    let fence = scene.client.transaction(&lines)[1].fence();
    let expected = [
        "MULTI".to_owned(),
        "SET data 1".to_owned(),
        format!("FLOCK.APPLY a GRANT {fence} tok 60000 AT"),
        "SET data 2".to_owned(),
        "EXEC".to_owned(),
    ];
    assert_eq!(scene.sent(), expected);
    let fence = scene.client.script("FLOCK.MACQUIRE 2 b c tok PX 60000").fence();
    let grants = ["b", "c"].map(|key| format!("FLOCK.APPLY {key} GRANT {fence} tok 60000 AT"));
    assert_eq!(one_transaction(scene.sent()), sorted(grants));
}

#[test]
fn each_way_to_the_disk_and_back_brings_all_of_them() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        let mut client = server.admin();
        let fence = client
            .run("FLOCK.MACQUIRE 3 a b c tok PX 600000 LABEL here")
            .fence();
        assert_eq!(client.run("FLOCK.RELEASE b tok"), 1);
        way.travel(&mut server);
        let mut client = server.admin();
        assert_free(&mut client, &["b"]);
        for key in ["a", "c"] {
            assert_held(&mut client, key, "tok", fence);
        }
        assert_eq!(client.run("FLOCK.MACQUIRE 2 c a tok PX 600000"), fence, "{way:?}");
        let next = client.run("FLOCK.MACQUIRE 2 b d other PX 600000").fence();
        assert!(next > fence, "{way:?}");
        assert_eq!(client.run("FLOCK.MRELEASE 2 a c tok"), 2, "{way:?}");
    }
}

#[test]
fn a_grant_that_was_torn_did_not_happen_for_any_of_them() {
    let mut server = Server::builder().undressed().append_only().start();
    let mut client = server.client();
    client.run("SET data 1");
    let file = aof::increments(server.directory()).pop().expect("an increment");
    let whole_before = std::fs::metadata(&file).expect("the increment").len() as usize;
    let fence = client.run("FLOCK.MACQUIRE 3 a b c tok PX 600000").fence();
    server.kill9();
    let bytes = std::fs::read(&file).expect("the increment");
    let grant = bytes.len() - whole_before;
    // The longest first, since loading cuts the file.
    for part in [grant, grant - 1, grant * 3 / 4, grant / 2, grant / 4] {
        std::fs::write(&file, &bytes[..whole_before + part]).expect("the increment");
        server.restart();
        let mut client = server.admin();
        if part == grant {
            for key in ["a", "b", "c"] {
                assert_held(&mut client, key, "tok", fence);
            }
        } else {
            assert_eq!(client.run("KEYS *").items().len(), 1, "{part} of {grant} bytes");
        }
        server.kill9();
    }
}

#[test]
fn a_replica_agrees_and_goes_on_after_its_promotion() {
    let (mut server, replica) = start_with_companion(Server::builder());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE a tok PX 600000").fence();
    let mut waiter = enqueue(&server, "FLOCK.MACQUIRE 3 a b c m PX 600000 BLOCK 0 LABEL me");
    let before = client.run("FLOCK.MACQUIRE 2 d e tok PX 600000").fence();
    assert_eq!(client.run("FLOCK.MREFRESH 2 d e tok PX 500000"), 2);
    client.run("FLOCK.RELEASE a tok");
    let fence = waiter.receive().fence();
    assert_agreement(&server, &replica);
    assert!(client.run("WAIT 1 20000").int() > 0);
    server.kill9();

    let mut client = replica.admin();
    assert_eq!(
        client.run("FLOCK.MREFRESH 2 d e tok PX 1").error_word(),
        "READONLY"
    );
    assert_eq!(
        client.run("FLOCK.MACQUIRE 1 z tok PX 1000").error_word(),
        "READONLY"
    );
    assert_eq!(client.run("FLOCK.MRELEASE 2 d e tok").error_word(), "READONLY");
    assert_eq!(client.run("REPLICAOF NO ONE"), OK);
    for key in ["a", "b", "c"] {
        assert_held(&mut client, key, "m", fence);
    }
    assert_held(&mut client, "e", "tok", before);
    assert_eq!(client.run("FLOCK.MACQUIRE 3 c b a m PX 600000"), fence);
    let mut next = enqueue(&replica, "FLOCK.MACQUIRE 2 c z n PX 600000 BLOCK 0");
    assert_eq!(client.run("FLOCK.MRELEASE 3 a b c m"), 3);
    assert!(next.receive().fence() > fence);
}
