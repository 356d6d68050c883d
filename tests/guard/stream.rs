//! Proves that replicas and files are told what the guarded command did, in its own words, and nothing of the guard.

use crate::support::*;
use crate::{guard, guard_words};

/// A server with a stream, whose client holds `lock` with `tok`.
#[track_caller]
fn scene() -> Scene {
    let mut scene = Scene::start();
    scene.acquire("FLOCK.ACQUIRE lock tok PX 600000");
    scene
}

#[track_caller]
fn sent_by_guarded(scene: &mut Scene, words: &[&str]) -> Vec<String> {
    let reply = guard_words(&mut scene.client, words);
    assert!(!matches!(reply, Reply::Error(_)), "{words:?}: {reply:?}");
    scene.sent()
}

#[test]
fn a_guarded_write_is_sent_as_the_write_alone() {
    let mut scene = scene();
    for line in [
        "SET data 1",
        "INCR data",
        "APPEND data 5",
        "MSET a 1 b 2",
        "HSET hash f v",
        "LPUSH list x y",
        "RENAME a c",
        "DEL b c",
        "PUBLISH channel message",
    ] {
        let words: Vec<_> = line.split(' ').collect();
        assert_eq!(sent_by_guarded(&mut scene, &words), [line], "{line}");
    }
}

#[test]
fn what_changes_nothing_sends_nothing() {
    let mut scene = scene();
    scene.client.run("SET data text");
    scene.sent();
    for line in [
        "FLOCK.GUARD lock tok GET data",
        "FLOCK.GUARD lock tok DEL missing",
        "FLOCK.GUARD lock tok SET data other NX",
        "FLOCK.GUARD lock tok INCR data",
        "FLOCK.GUARD lock tok PING",
        "FLOCK.GUARD lock tok EVAL return{1} 0",
        "FLOCK.GUARD lock tok NOSUCH",
        "FLOCK.GUARD lock tok SELECT 1",
        "FLOCK.GUARD lock tok MULTI",
        "FLOCK.GUARD lock other SET data stale",
        "FLOCK.GUARD missing tok SET data stale",
        "FLOCK.GUARD data tok SET data stale",
    ] {
        assert_eq!(scene.sent_by(line), [""; 0], "{line}");
    }
}

/// What the server rewrites for its replicas, it rewrites here too.
#[test]
fn each_write_is_sent_as_it_would_be_without_a_guard() {
    const FILL: [&str; 6] = [
        "FLUSHALL",
        "FLOCK.ACQUIRE lock tok PX 600000",
        "SET text 1",
        "SADD set a b c",
        "RPUSH list a b c",
        "XADD stream 1-1 f v",
    ];
    let mut scene = Scene::start();
    for line in [
        "INCRBYFLOAT text 0.5",
        "SPOP set 3",
        "GETDEL text",
        "GETEX text PERSIST",
        "LPOP list 3",
        "LMPOP 1 list LEFT COUNT 2",
        "XADD stream MAXLEN = 1 2-1 f v",
        "EXPIRE text -1",
        "PEXPIREAT text 99999999999999",
        "SET text 2 PXAT 99999999999999",
        "SORT set ALPHA STORE target",
        "SETRANGE text 3 x",
        "FLUSHALL",
        "FLOCK.BREAK free",
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let mut sent = [true, false].map(|is_guarded| {
            for line in FILL {
                scene.client.run(line);
            }
            scene.sent();
            let reply = match is_guarded {
                true => guard_words(&mut scene.client, &words),
                false => scene.client.run(line),
            };
            assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
            scene.sent()
        });
        // A number of members is taken out at random.
        for commands in &mut sent {
            for command in commands.iter_mut() {
                let mut words: Vec<_> = command.split(' ').collect();
                words.sort_unstable();
                *command = words.join(" ");
            }
        }
        assert_eq!(sent[0], sent[1], "{line}");
    }
}

#[test]
fn the_writes_of_a_guarded_script_are_one_transaction() {
    let mut scene = scene();
    let body = "redis.call('SET', 'a', '1') redis.call('GET', 'a') redis.call('INCR', 'b')
        return redis.call('RPUSH', 'c', ARGV[1])";
    let expected = ["MULTI", "SET a 1", "INCR b", "RPUSH c x", "EXEC"];
    assert_eq!(sent_by_guarded(&mut scene, &["EVAL", body, "0", "x"]), expected);
    let sha = scene.client.call(("SCRIPT", "LOAD", body)).text();
    assert_eq!(
        sent_by_guarded(&mut scene, &["EVALSHA", &sha, "0", "x"]),
        expected
    );
    let one = "return redis.call('SET', 'a', '1')";
    assert_eq!(sent_by_guarded(&mut scene, &["EVAL", one, "0"]), ["SET a 1"]);
    let code = format!("#!lua name=lib\nredis.register_function('f', function(KEYS, ARGV) {body} end)");
    scene.client.call(("FUNCTION", "LOAD", code));
    scene.sent();
    assert_eq!(sent_by_guarded(&mut scene, &["FCALL", "f", "0", "x"]), expected);
}

#[test]
fn what_a_failed_script_wrote_before_is_sent() {
    let mut scene = scene();
    let body = "redis.call('SET', 'a', '1') return redis.call('INCR', 'lock')";
    let reply = guard_words(&mut scene.client, &["EVAL", body, "0"]);
    assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
    assert_eq!(scene.sent(), ["SET a 1"]);
}

#[test]
fn a_guard_in_a_transaction_or_a_script_sends_its_write_among_the_others() {
    let mut scene = scene();
    scene.client.transaction(&[
        "SET a 1",
        "FLOCK.GUARD lock tok SET b 2",
        "FLOCK.GUARD lock other SET c 3",
        "SET d 4",
    ]);
    assert_eq!(scene.sent(), ["MULTI", "SET a 1", "SET b 2", "SET d 4", "EXEC"]);
    let body = "redis.call('SET', 'a', '1')
        redis.call('FLOCK.GUARD', 'lock', 'tok', 'SET', 'b', '2')
        return redis.call('SET', 'd', '4')";
    scene.client.call(("EVAL", body, 0));
    assert_eq!(scene.sent(), ["MULTI", "SET a 1", "SET b 2", "SET d 4", "EXEC"]);
    scene.client.transaction(&["FLOCK.GUARD lock tok SET b 2"]);
    let sent = scene.sent();
    let without_brackets: Vec<_> = sent.iter().filter(|c| *c != "MULTI" && *c != "EXEC").collect();
    assert_eq!(without_brackets, ["SET b 2"], "{sent:?}");
}

#[test]
fn a_guarded_lock_command_is_sent_as_its_effect() {
    let mut scene = scene();
    let fence = scene.client.run("FLOCK.INFO lock").field("fence").fence();
    let acquire = ["FLOCK.ACQUIRE", "other", "tok", "PX", "60000"];
    let sent = sent_by_guarded(&mut scene, &acquire);
    let next = scene.client.run("FLOCK.INFO other").field("fence").fence();
    assert_eq!(sent, [format!("FLOCK.APPLY other GRANT {next} tok 60000 AT")]);
    let mut waiter = scene
        .server
        .enqueue("lock", "FLOCK.ACQUIRE lock next PX 70000 BLOCK 0");
    let sent = sent_by_guarded(&mut scene, &["FLOCK.RELEASE", "lock", "tok"]);
    let granted = waiter.receive().fence();
    let expected = [
        "MULTI".to_owned(),
        format!("FLOCK.APPLY lock RELEASE {fence}"),
        format!("FLOCK.APPLY lock GRANT {granted} next 70000 AT"),
        "EXEC".to_owned(),
    ];
    assert_eq!(sent, expected);
}

/// A lease that is over is the server's to end, in its own time: a guard that meets it first writes nothing for it.
#[test]
fn a_guard_that_meets_the_end_of_a_lease_sends_nothing_of_its_own() {
    let mut scene = scene();
    let fence = scene.client.run("FLOCK.INFO lock").field("fence").fence();
    assert_eq!(scene.client.run("FLOCK.REFRESH lock tok PX 20"), 1);
    let mut expected = vec![format!("FLOCK.APPLY lock RENEW {fence} 20 AT")];
    let mut is_over = || {
        let reply = guard(&mut scene.client, "SET data 1");
        if reply == OK {
            expected.push("SET data 1".to_owned());
        }
        reply
    };
    eventually("the lease is over", &mut is_over, |reply| *reply != OK);
    expected.push(format!("FLOCK.APPLY lock EXPIRE {fence}"));
    let mut sent = Vec::new();
    eventually(
        "the end is sent",
        || {
            sent.extend(scene.sent());
            sent.len()
        },
        |count| *count >= expected.len(),
    );
    assert_eq!(sent, expected);
}

#[test]
fn a_replica_and_the_file_have_what_the_primary_has() {
    let (mut server, replica) = start_with_companion(Server::builder().append_only());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
    for line in [
        "SET data 1",
        "INCR data",
        "SADD set a b c d e",
        "SPOP set 2",
        "RPUSH list a b",
    ] {
        let reply = guard(&mut client, line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    }
    let body = "for i = 1, 10 do redis.call('RPUSH', 'list', i) end return redis.call('LLEN', 'list')";
    assert_eq!(guard_words(&mut client, &["EVAL", body, "0"]), 12);
    assert_eq!(
        client.run("FLOCK.GUARD lock other SET data stale").error_word(),
        "NOTHELD"
    );
    assert_agreement(&server, &replica);
    let digest = client.run("DEBUG DIGEST");
    server.kill9();
    let commands = aof::newest_commands(server.directory());
    assert!(
        commands.iter().all(|command| !command.contains("GUARD")),
        "{commands:?}"
    );
    server.restart();
    let mut client = server.admin();
    assert_eq!(client.run("DEBUG DIGEST"), digest);
    assert_eq!(client.run("GET data"), "2");
    assert_eq!(guard(&mut client, "INCR data"), 3);
}
