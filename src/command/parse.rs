//! Arguments, read as the server itself reads them.

use super::errors::{self, Error};
use crate::ffi::Str;
use crate::lock::{Lease, Token};
use crate::server::state;

/// A decimal integer in the form that Redis accepts (`string2ll`): no sign but one minus, no
/// spaces, no leading zeroes.
pub fn integer(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let is_canonical = match digits {
        b"0" => digits.len() == bytes.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !is_canonical {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// A token: 1 to 1,024 bytes.
pub fn token(arg: &Str) -> Result<&[u8], Error> {
    let bytes = arg.bytes();
    match Token::is_valid(bytes) {
        true => Ok(bytes),
        false => Err(errors::TOKEN_LENGTH),
    }
}

/// The unit of a lease: `PX` or `EX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Milliseconds,
    Seconds,
}

impl Unit {
    pub fn named(option: &[u8]) -> Option<Unit> {
        if option.eq_ignore_ascii_case(b"PX") {
            Some(Unit::Milliseconds)
        } else if option.eq_ignore_ascii_case(b"EX") {
            Some(Unit::Seconds)
        } else {
            None
        }
    }
}

/// A lease from 1 ms to the longest that is allowed; `invalid` is the error for any other length.
pub fn lease(unit: Unit, arg: &Str, invalid: Error) -> Result<Lease, Error> {
    let number = integer(arg.bytes()).ok_or(errors::NOT_AN_INTEGER)?;
    let max_ms = state::with(|state| state.settings.max_lease_ms);
    lease_of(unit, number, max_ms).ok_or(invalid)
}

fn lease_of(unit: Unit, number: i64, max_ms: u64) -> Option<Lease> {
    let number = u64::try_from(number).ok().filter(|n| *n > 0)?;
    let ms = match unit {
        Unit::Milliseconds => number,
        Unit::Seconds => number.checked_mul(1000)?,
    };
    Lease::from_ms(ms).filter(|_| ms <= max_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::time::LEASE_MAX_MS;

    #[test]
    fn integers_are_those_that_redis_takes() {
        for (text, value) in [
            ("0", 0),
            ("1", 1),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(integer(text.as_bytes()), Some(value), "{text}");
        }
        for text in [
            "",
            " ",
            "-",
            " 5",
            "5 ",
            "+5",
            "05",
            "-0",
            "-05",
            "1.5",
            "10ms",
            "1e3",
            "0x1",
            "٣",
            "9223372036854775808",
            "-9223372036854775809",
        ] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_lease_is_at_least_1_ms_and_at_most_2_to_the_62_microseconds() {
        let ms = |number| lease_of(Unit::Milliseconds, number, LEASE_MAX_MS).map(Lease::ms);
        let seconds = |number| lease_of(Unit::Seconds, number, LEASE_MAX_MS).map(Lease::ms);
        assert_eq!(ms(1), Some(1));
        assert_eq!(ms(4_611_686_018_427_387), Some(LEASE_MAX_MS));
        for number in [0, -1, i64::MIN, 4_611_686_018_427_388, i64::MAX] {
            assert_eq!(ms(number), None, "{number}");
        }
        assert_eq!(seconds(4_611_686_018_427), Some(4_611_686_018_427_000));
        assert_eq!(seconds(4_611_686_018_428), None);
        assert_eq!(seconds(i64::MAX), None);
        assert_eq!(lease_of(Unit::Seconds, 2, 1_999), None, "flock.max-lease-ms");
    }
}
