//! Proves that arguments are checked before anything changes: each refusal in its words, and nothing held, nobody
//! waiting, no fence spent.

use crate::support::*;
use crate::{assert_held, assert_nobody_waits};

/// Each line gets that error, and changes nothing.
#[track_caller]
fn assert_refused(lines: &[(&str, &str)]) {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.ACQUIRE mine t PX 60000").fence();
        for (line, error) in lines {
            let reply = client.run(line);
            if error.contains(' ') {
                assert_eq!(reply, Reply::error(error), "{line}");
            } else {
                assert_eq!(reply.error_word(), *error, "{line}");
            }
            assert_eq!(client.run("DBSIZE"), 1, "{line}");
        }
        assert_held(client, "mine", "t", fence);
        assert!(client.run("FLOCK.PTTL mine t").int() <= 60_000);
        assert_nobody_waits(client);
        assert_eq!(client.stat("last_fence"), fence);
    });
}

const NUMKEYS: &str = "ERR numkeys should be greater than 0";
const TOO_MANY: &str = "ERR Number of keys can't be greater than number of args";
const TWICE: &str = "ERR a lock is named twice";
const SYNTAX: &str = "ERR syntax error";
const NOT_A_NUMBER: &str = "ERR value is not an integer or out of range";

#[test]
fn the_number_of_keys_is_a_number_above_0() {
    assert_refused(&[
        ("FLOCK.MACQUIRE 0 a b t PX 60000", NUMKEYS),
        ("FLOCK.MACQUIRE -1 a b t PX 60000", NUMKEYS),
        ("FLOCK.MACQUIRE x a b t PX 60000", NUMKEYS),
        ("FLOCK.MACQUIRE 1.5 a b t PX 60000", NUMKEYS),
        ("FLOCK.MACQUIRE +2 a b t PX 60000", NUMKEYS),
        ("FLOCK.MACQUIRE  a b t PX 60000", NUMKEYS),
        ("FLOCK.MACQUIRE 2a a b t PX 60000", NUMKEYS),
        ("FLOCK.MACQUIRE 99999999999999999999 a b t PX 60000", NUMKEYS),
        ("FLOCK.MREFRESH 0 mine t PX 1", NUMKEYS),
        ("FLOCK.MREFRESH mine mine t PX 1", NUMKEYS),
        ("FLOCK.MRELEASE 0 mine t", NUMKEYS),
        ("FLOCK.MRELEASE -9223372036854775808 mine t", NUMKEYS),
    ]);
}

#[test]
fn there_are_as_many_keys_as_it_says() {
    assert_refused(&[
        ("FLOCK.MACQUIRE 9 a b t PX 60000", TOO_MANY),
        ("FLOCK.MACQUIRE 1024 a b t PX 60000", TOO_MANY),
        ("FLOCK.MREFRESH 9 mine t PX 1", TOO_MANY),
        ("FLOCK.MRELEASE 9 mine t", TOO_MANY),
        // More than there may ever be: which of the two is said first does not matter.
        ("FLOCK.MACQUIRE 9223372036854775807 a b t PX 60000", "ERR"),
        ("FLOCK.MRELEASE 9223372036854775807 mine t", "ERR"),
        ("FLOCK.MACQUIRE 4294967297 mine t PX 1 BLOCK 0", "ERR"),
        // No token, or no lease, is left behind the keys.
        ("FLOCK.MACQUIRE 5 a b c PX 60000", "ERR"),
        ("FLOCK.MACQUIRE 4 a b c PX 60000", "ERR"),
        ("FLOCK.MACQUIRE 3 a b c PX 60000", "ERR"),
        ("FLOCK.MREFRESH 4 a b PX 60000", "ERR"),
        ("FLOCK.MRELEASE 2 mine t", "ERR"),
    ]);
}

#[test]
fn no_lock_is_named_twice() {
    assert_refused(&[
        ("FLOCK.MACQUIRE 2 a a t PX 60000", TWICE),
        ("FLOCK.MACQUIRE 4 a b c a t PX 60000 BLOCK 0", TWICE),
        ("FLOCK.MACQUIRE 2 mine mine t PX 60000", TWICE),
        ("FLOCK.MREFRESH 2 mine mine t PX 1", TWICE),
        ("FLOCK.MRELEASE 3 a mine mine t", TWICE),
    ]);
}

#[test]
fn the_lease_is_checked_as_by_acquire() {
    const MACQUIRE: &str = "ERR invalid expire time in 'flock.macquire' command";
    const MREFRESH: &str = "ERR invalid expire time in 'flock.mrefresh' command";
    assert_refused(&[
        ("FLOCK.MACQUIRE 2 a b t PX 0", MACQUIRE),
        ("FLOCK.MACQUIRE 2 a b t PX -1", MACQUIRE),
        ("FLOCK.MACQUIRE 2 a b t EX 4611686018428", MACQUIRE),
        ("FLOCK.MACQUIRE 2 a b t PX 4611686018427388 BLOCK 0", MACQUIRE),
        ("FLOCK.MACQUIRE 2 a b t PX 10ms", NOT_A_NUMBER),
        ("FLOCK.MACQUIRE 2 a b t PX 1e3", NOT_A_NUMBER),
        ("FLOCK.MACQUIRE 2 a b t PX 1000 EX 1", SYNTAX),
        ("FLOCK.MACQUIRE 2 a b t PX 1000 PX 1000", SYNTAX),
        ("FLOCK.MACQUIRE 2 a b t BLOCK 0", SYNTAX),
        ("FLOCK.MACQUIRE 1 a t 1000 PX", SYNTAX),
        ("FLOCK.MREFRESH 1 mine t PX 0", MREFRESH),
        ("FLOCK.MREFRESH 1 mine t PX 4611686018427388", MREFRESH),
        ("FLOCK.MREFRESH 1 mine t PX x", NOT_A_NUMBER),
        ("FLOCK.MREFRESH 1 mine t XX 1", SYNTAX),
    ]);
}

#[test]
fn the_options_are_those_of_the_contract() {
    assert_refused(&[
        ("FLOCK.MACQUIRE 2 a b t PX 60000 SHARED", SYNTAX),
        ("FLOCK.MACQUIRE 2 a b t PX 60000 PERMITS 2", SYNTAX),
        ("FLOCK.MACQUIRE 2 a b t PX 60000 REENTRANT", SYNTAX),
        ("FLOCK.MACQUIRE 2 a b t PX 60000 DELAY 5", SYNTAX),
        ("FLOCK.MACQUIRE 2 a b t PX 60000 SESSION", SYNTAX),
        ("FLOCK.MACQUIRE 2 a b t PX 60000 BLOCK", SYNTAX),
        ("FLOCK.MACQUIRE 2 a b t PX 60000 BLOCK 0 BLOCK 0", SYNTAX),
        ("FLOCK.MACQUIRE 2 a b t PX 60000 LABEL x LABEL y", SYNTAX),
        ("FLOCK.MACQUIRE 2 a b t PX 60000 ABOVE 1 ABOVE 1", SYNTAX),
        ("FLOCK.MACQUIRE 2 a b t PX 60000 WHATEVER 1", SYNTAX),
        (
            "FLOCK.MACQUIRE 2 a b t PX 60000 BLOCK x",
            "ERR timeout is not an integer or out of range",
        ),
        (
            "FLOCK.MACQUIRE 2 a b t PX 60000 BLOCK -1",
            "ERR timeout is negative",
        ),
        (
            "FLOCK.MACQUIRE 2 a b t PX 60000 ABOVE -1",
            "ERR ABOVE must be between 0 and 9007199254740990",
        ),
        ("FLOCK.MACQUIRE 2 a b t PX 60000 ABOVE x", NOT_A_NUMBER),
        ("FLOCK.MREFRESH 1 mine t PX 1000 BLOCK 0", "ERR"),
        ("FLOCK.MRELEASE 1 mine t t", "ERR"),
    ]);
}

#[test]
fn too_few_words_are_refused_in_the_servers_own_words() {
    let wrong = |name: &str| format!("ERR wrong number of arguments for '{name}' command");
    assert_refused(&[
        ("FLOCK.MACQUIRE", &wrong("flock.macquire")),
        ("FLOCK.MACQUIRE 1 a t", &wrong("flock.macquire")),
        ("FLOCK.MREFRESH 1 mine", &wrong("flock.mrefresh")),
        ("FLOCK.MRELEASE 1", &wrong("flock.mrelease")),
        ("FLOCK.MRELEASE 1 mine", &wrong("flock.mrelease")),
    ]);
}

#[test]
fn token_and_label_have_their_limits() {
    let server = Server::start();
    let mut client = server.client();
    let length = Reply::error("ERR the token must be 1 to 1024 bytes");
    for token in [vec![], vec![b't'; 1025]] {
        for reply in [
            client.call(("FLOCK.MACQUIRE", 2, "a", "b", &token, "PX", 60_000)),
            client.call(("FLOCK.MREFRESH", 2, "a", "b", &token, "PX", 60_000)),
            client.call(("FLOCK.MRELEASE", 2, "a", "b", &token)),
        ] {
            assert_eq!(reply, length);
        }
    }
    let label = vec![b'l'; 257];
    let reply = client.call(("FLOCK.MACQUIRE", 2, "a", "b", "t", "PX", 60_000, "LABEL", label));
    assert_eq!(reply, Reply::error("ERR the label must be at most 256 bytes"));
    assert_eq!(client.run("DBSIZE"), 0);
    let (token, label) = (vec![0_u8; 1024], vec![0xff_u8; 256]);
    client
        .call((
            "FLOCK.MACQUIRE",
            2,
            "a",
            "b",
            &token,
            "PX",
            60_000,
            "LABEL",
            label,
        ))
        .fence();
    assert_eq!(client.call(("FLOCK.MRELEASE", 2, "a", "b", &token)), 2);
}

#[test]
fn keys_are_bytes_and_may_be_empty_or_look_like_options() {
    let server = Server::start();
    let mut client = server.client();
    let strange: [&[u8]; 5] = [b"", b"PX", b"\0\r\n\xff", b"*", b"2"];
    let mut words: Vec<Vec<u8>> = vec![b"FLOCK.MACQUIRE".to_vec(), b"5".to_vec()];
    words.extend(strange.iter().map(|key| key.to_vec()));
    words.extend(["PX", "PX", "60000"].map(|word| word.as_bytes().to_vec()));
    let fence = client.call(words).fence();
    for key in strange {
        assert_eq!(*client.call(("FLOCK.INFO", key)).field("fence"), fence);
    }
}

#[test]
fn a_lease_longer_than_the_setting_allows_is_refused() {
    let server = Server::builder().module_arguments("max-lease-ms 60000").start();
    let mut client = server.client();
    let reply = client.run("FLOCK.MACQUIRE 2 a b t PX 60001");
    let text = "ERR invalid expire time in 'flock.macquire' command";
    assert_eq!(reply, Reply::error(text));
    client.run("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
    let reply = client.run("FLOCK.MREFRESH 2 a b t EX 61");
    assert_eq!(
        reply,
        Reply::error("ERR invalid expire time in 'flock.mrefresh' command")
    );
    assert!(client.run("FLOCK.PTTL a t").int() > 0);
}
