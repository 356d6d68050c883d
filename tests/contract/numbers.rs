//! Proves that numbers are plain decimals, as Redis parses them, and in range;
//! else nothing changes.

use crate::refused::{assert_refused, prepare, words};
use crate::support::*;

const NOT_A_NUMBER: &str = "ERR value is not an integer or out of range";
const NOT_A_TIMEOUT: &str = "ERR timeout is not an integer or out of range";
const BAD_FENCE: &str = "ERR ABOVE must be between 0 and 9007199254740990";
const BAD_PERMITS: &str = "ERR PERMITS must be between 1 and 4294967295";
const BAD_DELAY: &str = "ERR DELAY must be between 0 and 4611686018427387";

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

#[test]
fn what_is_no_plain_decimal_is_refused_and_changes_nothing() {
    in_both_protocols(|_, client| {
        prepare(client);
        for (line, error) in [
            ("FLOCK.ACQUIRE {key} t PX {}", NOT_A_NUMBER),
            ("FLOCK.ACQUIRE {key} t EX {}", NOT_A_NUMBER),
            ("FLOCK.ACQUIRE {key} t PX 1000 ABOVE {}", NOT_A_NUMBER),
            ("FLOCK.ACQUIRE {key} t PX 1000 BLOCK {}", NOT_A_TIMEOUT),
            ("FLOCK.ACQUIRE {key} t PX 1000 PERMITS {}", NOT_A_NUMBER),
            ("FLOCK.ACQUIRE {key} t PX 1000 DELAY {}", NOT_A_NUMBER),
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
fn there_are_1_to_4294967295_permits() {
    in_both_protocols(|_, client| {
        prepare(client);
        for number in [0, -1, 1 << 32, (1 << 32) + 1, i64::MAX, i64::MIN] {
            for more in ["", " BLOCK 0", " REENTRANT"] {
                let line = format!("FLOCK.ACQUIRE {{key}} t PX 1000 PERMITS {{}}{more}");
                assert_refused(client, BAD_PERMITS, |key| words(&line, key, number.to_string()));
            }
        }
        for number in [1, (1i64 << 32) - 1] {
            let request = ("FLOCK.ACQUIRE", "free", "t", "PX", 60_000, "PERMITS", number);
            client.call(request).fence();
            assert_eq!(*client.run("FLOCK.INFO free").field("permits"), number);
            client.run("FLOCK.RELEASE free t");
        }
    });
}

#[test]
fn a_delay_is_0_or_as_long_as_a_lease_at_most() {
    in_both_protocols(|_, client| {
        prepare(client);
        for number in [-1, LONGEST_LEASE_MS + 1, i64::MAX, i64::MIN] {
            for more in ["", " BLOCK 0", " SHARED"] {
                let line = format!("FLOCK.ACQUIRE {{key}} t PX 1000 DELAY {{}}{more}");
                assert_refused(client, BAD_DELAY, |key| words(&line, key, number.to_string()));
            }
        }
        for number in [0, 1, LONGEST_LEASE_MS] {
            let request = ("FLOCK.ACQUIRE", "free", "t", "PX", 60_000, "DELAY", number);
            client.call(request).fence();
            assert_eq!(client.run("FLOCK.RELEASE free t"), 1);
        }
    });
}

/// A server that allows short leases only, still allows long delays.
#[test]
fn the_limit_of_leases_is_none_of_delays() {
    let builder = Server::builder().module_arguments("max-lease-ms 60000");
    in_both_protocols_with(builder, |_, client| {
        client
            .run("FLOCK.ACQUIRE k t PX 60000 DELAY 4611686018427387")
            .fence();
    });
}
