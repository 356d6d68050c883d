//! Proves that the reply is the command's own, byte for byte, in RESP2 and RESP3: each type there is, nested, empty,
//! large and binary, and errors of all kinds.

use crate::holding_on;
use crate::raw::RawClient;
use crate::samples::{ERRORS, READS, SCRIPTS, WRITES};
use crate::support::*;

/// A raw connection, and an ordinary one that holds the lock.
struct Scene {
    _server: Server,
    client: Client,
    raw: RawClient,
}

impl Scene {
    #[track_caller]
    fn start(protocol: Protocol) -> Scene {
        let (server, client) = holding_on(Server::builder());
        Scene {
            raw: RawClient::connect(&server, protocol),
            _server: server,
            client,
        }
    }

    /// Some of everything.
    #[track_caller]
    fn fill(&mut self) {
        for line in [
            "SET text hello",
            "SET number 41",
            "SET empty ",
            "RPUSH list a b c",
            "HSET hash f1 v1 f2 v2",
            "SADD set m1 m2 m3",
            "SADD numbers 1 2 3",
            "ZADD zset 1.5 a 2 b inf c -inf d 0.1 e",
            "XADD stream 1-1 f v g w",
            "XADD stream 2-1 f v",
            "XGROUP CREATE stream group 0",
            "GEOADD geo 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
            "PFADD hll a b c",
            "SETBIT bits 7 1",
        ] {
            let reply = self.client.run(line);
            assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        }
    }

    /// The bytes of the reply to the command itself.
    #[track_caller]
    fn direct(&mut self, words: &[&[u8]]) -> Vec<u8> {
        self.raw.call(words)
    }

    /// The bytes of the reply to the command under the guard.
    #[track_caller]
    fn guarded(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut all: Vec<&[u8]> = vec![b"FLOCK.GUARD", b"lock", b"tok"];
        all.extend(words);
        self.raw.call(&all)
    }

    /// Both replies are the same, of a command that changes nothing; returns them.
    #[track_caller]
    fn assert_same(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let direct = self.direct(words);
        let guarded = self.guarded(words);
        let shown = words.join(&b' ').escape_ascii().to_string();
        assert_eq!(
            guarded.escape_ascii().to_string(),
            direct.escape_ascii().to_string(),
            "{shown}"
        );
        direct
    }

    #[track_caller]
    fn assert_same_line(&mut self, line: &str) -> Vec<u8> {
        let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        self.assert_same(&words)
    }
}

const PROTOCOLS: [Protocol; 2] = [Protocol::Resp2, Protocol::Resp3];

#[test]
fn the_reply_of_each_kind_of_read_is_unchanged() {
    for protocol in PROTOCOLS {
        let mut scene = Scene::start(protocol);
        scene.fill();
        for line in READS {
            scene.assert_same_line(line);
        }
    }
}

#[test]
fn an_error_of_each_kind_is_unchanged() {
    for protocol in PROTOCOLS {
        let mut scene = Scene::start(protocol);
        scene.fill();
        for line in ERRORS {
            let reply = scene.assert_same_line(line);
            assert_eq!(reply[0], b'-', "{line}: {}", reply.escape_ascii());
        }
    }
}

/// Redis 7.0 itself begins a true denial like that, and there flock says NOPERM.
#[test]
fn an_error_that_a_script_words_like_a_denial_is_unchanged() {
    if !Build::get().is_since((7, 2), (7, 2)) {
        println!("skipped: on this server it is taken for a denial");
        return;
    }
    for protocol in PROTOCOLS {
        let body = b"return redis.error_reply('ERR acl verification failed, or so')";
        Scene::start(protocol).assert_same(&[b"EVAL", body, b"0"]);
    }
}

#[test]
fn the_reply_of_each_kind_of_write_is_unchanged() {
    for protocol in PROTOCOLS {
        let mut scene = Scene::start(protocol);
        for line in WRITES {
            let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
            let replies = [false, true].map(|is_guarded| {
                scene.client.run("FLUSHALL");
                scene.client.run("CONFIG SET flock.fence-source counter");
                scene.client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
                scene.fill();
                match is_guarded {
                    true => scene.guarded(&words),
                    false => scene.direct(&words),
                }
            });
            let [direct, guarded] = replies.map(|reply| reply.escape_ascii().to_string());
            if line.starts_with("FLOCK") {
                assert_eq!(guarded.as_bytes()[0], b':', "{line}");
                assert_eq!(guarded.len(), direct.len(), "{line}");
            } else {
                assert_eq!(guarded, direct, "{line}");
            }
        }
    }
}

#[test]
fn whatever_a_script_replies_is_unchanged() {
    for protocol in PROTOCOLS {
        let mut scene = Scene::start(protocol);
        scene.fill();
        for script in SCRIPTS {
            for body in [(*script).to_owned(), format!("redis.setresp(3) {script}")] {
                scene.assert_same(&[b"EVAL", body.as_bytes(), b"0"]);
            }
        }
    }
}

#[test]
fn the_types_of_resp3_do_come_through() {
    let mut scene = Scene::start(Protocol::Resp3);
    scene.fill();
    let mut reply_to = |line: &str| {
        let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
        scene.guarded(&words).escape_ascii().to_string()
    };
    assert!(reply_to("HGETALL hash").starts_with("%2"));
    assert!(reply_to("SMEMBERS set").starts_with("~3"));
    assert!(reply_to("ZSCORE zset a").starts_with(",1.5"));
    assert!(reply_to("ZSCORE zset c").starts_with(",inf"));
    assert!(reply_to("GET missing").starts_with('_'));
    assert!(reply_to("INFO keyspace").starts_with('='));
    let mut of_script = |body: &str| {
        let body = format!("redis.setresp(3) {body}");
        scene
            .guarded(&[b"EVAL", body.as_bytes(), b"0"])
            .escape_ascii()
            .to_string()
    };
    assert!(of_script("return true").starts_with("#t"));
    assert!(of_script("return {double=3.25}").starts_with(",3.25"));
    assert!(of_script("return {map={a=1}}").starts_with("%1"));
    assert!(of_script("return {set={a=true}}").starts_with("~1"));
    assert!(of_script("return {big_number='123'}").starts_with("(123"));
    assert!(of_script("return {verbatim_string={format='txt',string='x'}}").starts_with("=5"));
}

#[test]
fn what_is_large_or_deep_or_binary_is_unchanged() {
    for protocol in PROTOCOLS {
        let mut scene = Scene::start(protocol);
        let large: Vec<u8> = (0..8_000_000_u32).map(|index| (index % 251) as u8).collect();
        scene.client.call(("SET", "large", &large));
        scene.assert_same(&[b"GET", b"large"]);
        let every_byte: Vec<u8> = (0..=255).collect();
        scene.client.call(("SET", &every_byte, &every_byte));
        scene.assert_same(&[b"GET", &every_byte]);
        scene.assert_same(&[b"ECHO", &every_byte]);
        for number in 0..100 {
            let mut words = vec!["RPUSH".to_owned(), "list".to_owned()];
            words.extend((0..1000).map(|index| format!("item-{number}-{index}")));
            scene.client.call(words);
        }
        scene.assert_same(&[b"LRANGE", b"list", b"0", b"-1"]);
        let deep = "local t = {} for i = 1, 100 do t = {t, i} end return t";
        scene.assert_same(&[b"EVAL", deep.as_bytes(), b"0"]);
        scene.assert_same(&[b"COMMAND"]);
    }
}

#[test]
fn in_a_transaction_it_is_unchanged_too() {
    for protocol in PROTOCOLS {
        let mut scene = Scene::start(protocol);
        scene.fill();
        for line in [
            "HGETALL hash",
            "ZSCORE zset a",
            "GET missing",
            "GET list",
            "SMEMBERS set",
        ] {
            let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
            let mut in_transaction = |is_guarded: bool| {
                assert_eq!(scene.raw.call(&[b"MULTI"]), b"+OK\r\n");
                let queued = match is_guarded {
                    true => scene.guarded(&words),
                    false => scene.direct(&words),
                };
                assert_eq!(queued, b"+QUEUED\r\n", "{line}");
                scene.raw.call(&[b"EXEC"]).escape_ascii().to_string()
            };
            assert_eq!(in_transaction(true), in_transaction(false), "{line}");
        }
    }
}
