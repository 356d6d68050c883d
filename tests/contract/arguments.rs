//! Proves that every argument is checked before anything changes: numbers,
//! names of options, sizes of tokens and labels, bytes of all kinds, arity,
//! and keys of another type.

use crate::support::*;

const NOT_A_NUMBER: &str = "ERR value is not an integer or out of range";
const NOT_A_TIMEOUT: &str = "ERR timeout is not an integer or out of range";
const SYNTAX: &str = "ERR syntax error";
const BAD_TOKEN: &str = "ERR the token must be 1 to 1024 bytes";
const BAD_LABEL: &str = "ERR the label must be at most 256 bytes";
const BAD_FENCE: &str = "ERR ABOVE must be between 0 and 9007199254740990";

/// The longest lease, in ms: 2^62 µs.
const LONGEST_LEASE_MS: i64 = 4_611_686_018_427_387;
const LARGEST_ABOVE: i64 = (1 << 53) - 2;

/// What Redis does not parse as an integer.
const NO_NUMBERS: [&str; 16] = [
    "",
    " ",
    " 5",
    "5 ",
    "+5",
    "05",
    "-",
    "-0",
    "1.5",
    "10ms",
    "1e3",
    "0x10",
    "nan",
    "5\0",
    "9223372036854775808",
    "-9223372036854775809",
];

/// Everything of a lock that an error must leave alone. The lease that is left
/// shrinks by itself, so it is compared by what it was set to.
#[track_caller]
fn state(client: &mut Client, key: &str) -> String {
    let info = client.call(("FLOCK.INFO", key));
    if info == NIL {
        return "free".to_owned();
    }
    let holder = &info.field("holders").items()[0];
    let minutes_left = (holder.field("ttl_ms").int() + 30_000) / 60_000;
    format!(
        "{:?} {:?} {minutes_left} min, {:?} waiting",
        info.field("fence"),
        holder.field("label"),
        info.field("waiters")
    )
}

/// Runs a command that must fail with `error`, on a free lock, a lock of the
/// token `mine`, and a lock of another, and changes none of them.
#[track_caller]
fn assert_refused(client: &mut Client, error: &str, command: impl Fn(&str) -> Vec<Vec<u8>>) {
    for key in ["free", "mine", "busy"] {
        let before = state(client, key);
        let arguments = command(key);
        let shown: Vec<_> = arguments
            .iter()
            .map(|word| word.escape_ascii().to_string())
            .collect();
        assert_eq!(client.call(arguments), Reply::error(error), "{shown:?}");
        assert_eq!(state(client, key), before, "{shown:?} changed {key}");
    }
}

/// A free lock, one of the token `t`, and one of another.
#[track_caller]
fn prepare(client: &mut Client) {
    client.run("FLOCK.ACQUIRE mine t PX 600000 LABEL first").fence();
    client.run("FLOCK.ACQUIRE busy other PX 600000").fence();
}

/// The words of a line; `{key}` stands for a key, `{}` for a value of any bytes.
fn words(line: &str, key: &str, value: impl AsRef<[u8]>) -> Vec<Vec<u8>> {
    line.split(' ')
        .map(|word| match word {
            "{key}" => key.as_bytes().to_vec(),
            "{}" => value.as_ref().to_vec(),
            word => word.as_bytes().to_vec(),
        })
        .collect()
}

#[test]
fn what_is_no_plain_decimal_is_refused_and_changes_nothing() {
    in_both_protocols(|_, client| {
        prepare(client);
        for (line, error) in [
            ("FLOCK.ACQUIRE {key} t PX {}", NOT_A_NUMBER),
            ("FLOCK.ACQUIRE {key} t EX {}", NOT_A_NUMBER),
            ("FLOCK.ACQUIRE {key} t PX 1000 ABOVE {}", NOT_A_NUMBER),
            ("FLOCK.ACQUIRE {key} t PX 1000 BLOCK {}", NOT_A_TIMEOUT),
            ("FLOCK.REFRESH {key} t PX {}", NOT_A_NUMBER),
            ("FLOCK.REFRESH {key} t EX {}", NOT_A_NUMBER),
        ] {
            for text in NO_NUMBERS {
                assert_refused(client, error, |key| words(line, key, text));
            }
        }
    });
}

#[test]
fn a_lease_out_of_range_is_an_invalid_expire_time() {
    in_both_protocols(|_, client| {
        prepare(client);
        let longest_s = LONGEST_LEASE_MS / 1000;
        let cases = [
            ("PX", 0),
            ("PX", -1),
            ("PX", i64::MIN),
            ("PX", LONGEST_LEASE_MS + 1),
            ("PX", i64::MAX),
            ("EX", 0),
            ("EX", -1),
            ("EX", longest_s + 1),
            ("EX", i64::MAX / 1000),
            ("EX", i64::MAX),
            ("EX", i64::MIN),
        ];
        for (unit, number) in cases {
            for command in ["acquire", "refresh"] {
                let error = format!("ERR invalid expire time in 'flock.{command}' command");
                let line = format!("FLOCK.{command} {{key}} t {unit} {{}}");
                assert_refused(client, &error, |key| words(&line, key, number.to_string()));
            }
        }
    });
}

#[test]
fn the_longest_and_the_shortest_lease_are_accepted() {
    in_both_protocols(|_, client| {
        let longest = format!("PX {LONGEST_LEASE_MS}");
        client.run(&format!("FLOCK.ACQUIRE k t {longest}")).fence();
        let left_ms = client.run("FLOCK.PTTL k t").int();
        assert!(
            (LONGEST_LEASE_MS - 600_000..=LONGEST_LEASE_MS).contains(&left_ms),
            "{left_ms}"
        );
        assert_eq!(client.run(&format!("FLOCK.REFRESH k t {longest}")), 1);
        client.run("FLOCK.ACQUIRE short t PX 1").fence();
        client.run("FLOCK.ACQUIRE seconds t EX 4611686018427").fence();
    });
}

#[test]
fn a_negative_wait_is_refused() {
    in_both_protocols(|_, client| {
        prepare(client);
        for number in ["-1", "-9223372036854775808"] {
            assert_refused(client, "ERR timeout is negative", |key| {
                words("FLOCK.ACQUIRE {key} t PX 1000 BLOCK {}", key, number)
            });
        }
    });
}

#[test]
fn a_wait_is_as_long_as_a_lease_at_most() {
    in_both_protocols(|_, client| {
        prepare(client);
        for number in [LONGEST_LEASE_MS + 1, i64::MAX] {
            assert_refused(client, NOT_A_TIMEOUT, |key| {
                words("FLOCK.ACQUIRE {key} t PX 1000 BLOCK {}", key, number.to_string())
            });
        }
        let longest = format!("FLOCK.ACQUIRE free t PX 1000 BLOCK {LONGEST_LEASE_MS}");
        client.run(&longest).fence();
    });
}

#[test]
fn above_is_limited_to_53_bits() {
    in_both_protocols(|_, client| {
        prepare(client);
        for number in [-1, LARGEST_ABOVE + 1, i64::MAX, i64::MIN] {
            assert_refused(client, BAD_FENCE, |key| {
                words("FLOCK.ACQUIRE {key} t PX 1000 ABOVE {}", key, number.to_string())
            });
        }
        let fence = client.run(&format!("FLOCK.ACQUIRE free t PX 1000 ABOVE {LARGEST_ABOVE}"));
        assert_eq!(fence, LARGEST_ABOVE + 1);
    });
}

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
