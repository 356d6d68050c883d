//! Proves that every argument is checked before anything changes: names of
//! options, sizes of tokens and labels, bytes of all kinds, arity, and keys of
//! another type. Numbers are in numbers.rs.

use crate::refused::{assert_refused, prepare, words};
use crate::support::*;

const SYNTAX: &str = "ERR syntax error";
const BAD_TOKEN: &str = "ERR the token must be 1 to 1024 bytes";
const BAD_LABEL: &str = "ERR the label must be at most 256 bytes";

#[test]
fn options_come_in_any_order_and_any_case() {
    in_both_protocols(|_, client| {
        let options = ["px 100000", "Block 5", "ABOVE 7", "label Me"];
        for (number, order) in orders_of_four().into_iter().enumerate() {
            let line = order.map(|index| options[index]).join(" ");
            let line = if number % 2 == 0 {
                line
            } else {
                line.to_uppercase()
            };
            let key = format!("k{number}");
            client.run(&format!("fLoCk.AcQuIrE {key} t {line}")).fence();
            let info = client.call(("FLOCK.INFO", &key));
            let label = info.field("holders").items()[0].field("label").text();
            assert!(label.eq_ignore_ascii_case("me"), "{label}");
        }
        client.run("FLOCK.ACQUIRE s t eX 100").fence();
        assert_eq!(client.run("FLOCK.REFRESH s t pX 1000"), 1);
    });
}

/// The 24 orders of the numbers 0 to 3.
fn orders_of_four() -> Vec<[usize; 4]> {
    (0..256)
        .map(|code| [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3])
        .filter(|order| (0..4).all(|index| order.contains(&index)))
        .collect()
}

#[test]
fn all_options_together_come_in_any_order_and_any_case() {
    in_both_protocols(|_, client| {
        let options = [
            "px 100000",
            "block 5",
            "above 7",
            "label me",
            "reentrant",
            "delay 9",
            "session",
        ];
        for (mode, word) in [("shared", "shared"), ("permits", "permits 3")] {
            for first in 0..=options.len() {
                let mut order = options.to_vec();
                order.rotate_left(first % options.len());
                order.insert(first, word);
                let line = match first % 2 {
                    0 => order.join(" "),
                    _ => order.join(" ").to_uppercase(),
                };
                let key = format!("{mode}{first}");
                client.run(&format!("FLOCK.ACQUIRE {key} t {line}")).fence();
                let info = client.call(("FLOCK.INFO", &key));
                assert_eq!(*info.field("mode"), mode, "{line}");
                let label = info.field("holders").items()[0].field("label").text();
                assert!(label.eq_ignore_ascii_case("me"), "{line}: {label}");
            }
        }
    });
}

#[test]
fn options_that_are_unknown_missing_or_given_twice_are_a_syntax_error() {
    in_both_protocols(|_, client| {
        prepare(client);
        for line in [
            "FLOCK.ACQUIRE {key} t BLOCK 5",
            "FLOCK.ACQUIRE {key} t LABEL PX ABOVE 1000",
            "FLOCK.ACQUIRE {key} t PX 1000 EX 1",
            "FLOCK.ACQUIRE {key} t PX 1000 PX 1000",
            "FLOCK.ACQUIRE {key} t EX 1 EX 1",
            "FLOCK.ACQUIRE {key} t PX 1000 BLOCK 1 BLOCK 1",
            "FLOCK.ACQUIRE {key} t PX 1000 ABOVE 1 ABOVE 1",
            "FLOCK.ACQUIRE {key} t PX 1000 LABEL a LABEL a",
            "FLOCK.ACQUIRE {key} t PX 1000 BLOCK",
            "FLOCK.ACQUIRE {key} t PX 1000 ABOVE",
            "FLOCK.ACQUIRE {key} t PX 1000 LABEL",
            "FLOCK.ACQUIRE {key} t PX 1000 EX",
            "FLOCK.ACQUIRE {key} t PX 1000 SHARED SHARED",
            "FLOCK.ACQUIRE {key} t PX 1000 SHARED PERMITS 2",
            "FLOCK.ACQUIRE {key} t PX 1000 PERMITS 2 SHARED",
            "FLOCK.ACQUIRE {key} t PX 1000 PERMITS 2 PERMITS 2",
            "FLOCK.ACQUIRE {key} t PX 1000 REENTRANT REENTRANT",
            "FLOCK.ACQUIRE {key} t PX 1000 DELAY 1 DELAY 1",
            "FLOCK.ACQUIRE {key} t PX 1000 SESSION SESSION",
            "FLOCK.ACQUIRE {key} t PX 1000 PERMITS",
            "FLOCK.ACQUIRE {key} t PX 1000 DELAY",
            "FLOCK.ACQUIRE {key} t PX 1000 SHARED 1",
            "FLOCK.ACQUIRE {key} t PX 1000 SESSION yes",
            "FLOCK.ACQUIRE {key} t SHARED REENTRANT SESSION",
            "FLOCK.ACQUIRE {key} t PX 1000 EXCLUSIVE",
            "FLOCK.ACQUIRE {key} t PX 1000 NX",
            "FLOCK.ACQUIRE {key} t PX 1000 5",
            "FLOCK.ACQUIRE {key} t PX 1000 {}",
            "FLOCK.ACQUIRE {key} t {} 1000",
            "FLOCK.ACQUIRE {key} t PXX 1000",
            "FLOCK.REFRESH {key} t KEEP 1000",
            "FLOCK.REFRESH {key} t {} 1000",
        ] {
            assert_refused(client, SYNTAX, |key| words(line, key, ""));
        }
    });
}

#[test]
fn a_wrong_number_of_arguments_is_the_servers_own_error() {
    in_both_protocols(|_, client| {
        for line in [
            "flock.acquire",
            "flock.acquire k",
            "flock.refresh k t",
            "flock.refresh k t PX",
            "flock.refresh k t PX 1000 EX",
            "flock.refresh k t PX 1000 SHARED",
            "flock.release k",
            "flock.release k t more",
            "flock.pttl",
            "flock.pttl k t more",
            "flock.info",
            "flock.info k more",
            "flock.break",
            "flock.break k more",
        ] {
            let name = line.split(' ').next().unwrap_or_default();
            let error = format!("ERR wrong number of arguments for '{name}' command");
            assert_eq!(client.run(line), Reply::error(&error), "{line}");
        }
    });
}

#[test]
fn values_that_look_like_options_are_values() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE PX BLOCK LABEL ABOVE PX 100000").fence();
        let info = client.run("FLOCK.INFO PX");
        assert_eq!(*info.field("holders").items()[0].field("label"), "ABOVE");
        assert_eq!(client.run("FLOCK.REFRESH PX BLOCK PX 1000"), 1);
        assert_eq!(client.run("FLOCK.RELEASE PX BLOCK"), 1);
        let line = "FLOCK.ACQUIRE SHARED SESSION LABEL REENTRANT PX 100000 PERMITS 2";
        client.run(line).fence();
        let info = client.run("FLOCK.INFO SHARED");
        assert_eq!(*info.field("mode"), "permits");
        assert_eq!(*info.field("holders").items()[0].field("label"), "REENTRANT");
    });
}

#[test]
fn tokens_are_1_to_1024_bytes() {
    in_both_protocols(|_, client| {
        prepare(client);
        for size in [0, 1025, 70_000] {
            let token = vec![b'x'; size];
            for line in [
                "FLOCK.ACQUIRE {key} {} PX 1000",
                "FLOCK.ACQUIRE {key} {} PX 1000 BLOCK 0",
                "FLOCK.REFRESH {key} {} PX 1000",
                "FLOCK.RELEASE {key} {}",
                "FLOCK.PTTL {key} {}",
            ] {
                assert_refused(client, BAD_TOKEN, |key| words(line, key, &token));
            }
        }
        let token = vec![b'x'; 1024];
        client.call(("FLOCK.ACQUIRE", "k", &token, "PX", 60_000)).fence();
        assert_eq!(client.call(("FLOCK.REFRESH", "k", &token, "PX", 60_000)), 1);
        assert!(client.call(("FLOCK.PTTL", "k", &token)).int() > 0);
        assert_eq!(client.call(("FLOCK.RELEASE", "k", &token)), 1);
    });
}

#[test]
fn labels_are_up_to_256_bytes() {
    in_both_protocols(|_, client| {
        prepare(client);
        for size in [257, 70_000] {
            let label = vec![b'x'; size];
            assert_refused(client, BAD_LABEL, |key| {
                words("FLOCK.ACQUIRE {key} t PX 1000 LABEL {}", key, &label)
            });
        }
        let labels = [vec![b'x'; 256], Vec::new(), b"\0\r\n\xff \"".to_vec()];
        for (number, label) in labels.into_iter().enumerate() {
            let key = format!("k{number}");
            client
                .call(("FLOCK.ACQUIRE", &key, "t", "PX", 60_000, "LABEL", &label))
                .fence();
            let info = client.call(("FLOCK.INFO", &key));
            assert_eq!(
                *info.field("holders").items()[0].field("label"),
                Reply::Bulk(label)
            );
        }
    });
}

#[test]
fn keys_and_tokens_are_bytes_of_any_kind() {
    in_both_protocols(|_, client| {
        let names: [&[u8]; 6] = [b"a", b"a\0", b"a\0b", b"\0", b"\r\n\xff\xfe", b"'\" {}"];
        for key in names {
            for (holder, other) in names.iter().zip(names.iter().cycle().skip(1)) {
                client.call(("FLOCK.ACQUIRE", key, holder, "PX", 60_000)).fence();
                assert_eq!(client.call(("FLOCK.ACQUIRE", key, other, "PX", 60_000)), NIL);
                assert_eq!(client.call(("FLOCK.RELEASE", key, other)), 0);
                assert_eq!(client.call(("FLOCK.PTTL", key, other)), -2);
                assert_eq!(client.call(("FLOCK.RELEASE", key, holder)), 1);
            }
        }
        client.call(("FLOCK.ACQUIRE", "", "t", "PX", 60_000)).fence();
        assert_eq!(client.call(("FLOCK.RELEASE", "", "t")), 1);
    });
}

#[test]
fn a_key_of_another_type_is_wrongtype_and_keeps_its_value() {
    in_both_protocols(|_, client| {
        for create in [
            "SET v text",
            "RPUSH v a b",
            "HSET v f 1",
            "SADD v a",
            "ZADD v 1 a",
            "XADD v 1-1 f 1",
        ] {
            client.run("DEL v");
            client.run(create);
            let before = client.run("DUMP v");
            for line in [
                "FLOCK.ACQUIRE v t PX 1000",
                "FLOCK.ACQUIRE v t PX 1000 BLOCK 0",
                "FLOCK.ACQUIRE v * EX 1",
                "FLOCK.ACQUIRE v t PX 1000 SHARED SESSION",
                "FLOCK.ACQUIRE v t PX 1000 PERMITS 2 REENTRANT DELAY 5 BLOCK 0",
                "FLOCK.REFRESH v t PX 1000",
                "FLOCK.RELEASE v t",
                "FLOCK.PTTL v",
                "FLOCK.PTTL v t",
                "FLOCK.INFO v",
                "FLOCK.BREAK v",
            ] {
                let error = "WRONGTYPE Operation against a key holding the wrong kind of value";
                assert_eq!(client.run(line), Reply::error(error), "{line} after {create}");
                assert_eq!(client.run("DUMP v"), before, "{line} after {create}");
            }
        }
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        assert_eq!(client.run("GET k").error_word(), "WRONGTYPE");
        assert_eq!(client.run("TYPE k"), "flocklock");
    });
}
