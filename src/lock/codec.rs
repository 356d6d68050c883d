//! A lock as bytes, for RDB files and DUMP payloads. docs/FORMATS.md describes the layout.
//!
//! Leases are written as what was left of them, beside the wall-clock time of writing: an instant
//! of the monotonic clock means nothing to another process.

use super::fence::Fence;
use super::holder::{Holder, Label, Mode, Token};
use super::state::Lock;
use super::time::{Instant, Lease, Now};

/// The version of the layout, kept by the server beside the bytes.
pub const VERSION: u32 = 1;

const EXCLUSIVE: u8 = 0;
const SHARED: u8 = 1;
const PERMITS: u8 = 2;

/// Why bytes are no lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Written by a newer flock.
    NewerVersion(u32),
    /// Cut short, or not what [`encode`] writes.
    Damaged,
}

/// A lock as it was written down: what was left of each lease, and when that was.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The wall clock at the time of writing ([`Now::stamp_ms`]).
    pub at_ms: u64,
    mode: Mode,
    holders: Vec<StoredHolder>,
}

#[derive(Clone, Debug, PartialEq)]
struct StoredHolder {
    token: Token,
    fence: Fence,
    left: Lease,
    label: Option<Label>,
}

impl Stored {
    /// The lock as of `now`, where `elapsed_us` of each lease have passed since it was written.
    pub fn into_lock(self, now: Instant, elapsed_us: u64) -> Lock {
        let mut lock = Lock::vacant();
        for stored in self.holders {
            let deadline = stored.left.minus_micros(elapsed_us).after(now);
            let holder = Holder::new(stored.token, stored.fence, deadline, stored.label);
            lock.push(self.mode, holder);
        }
        lock
    }
}

/// Writes a lock down as of `now`.
pub fn encode(lock: &Lock, now: &Now) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.extend(now.stamp_ms().to_le_bytes());
    let (tag, permits) = match lock.mode() {
        Mode::Exclusive => (EXCLUSIVE, 0),
        Mode::Shared => (SHARED, 0),
        Mode::Permits(n) => (PERMITS, n),
    };
    out.push(tag);
    out.extend(permits.to_le_bytes());
    out.extend((lock.holders().len() as u32).to_le_bytes());
    for holder in lock.holders() {
        out.extend(holder.fence.get().to_le_bytes());
        out.extend(holder.left(now.mono).micros().to_le_bytes());
        put_bytes(&mut out, holder.token.bytes());
        out.push(u8::from(holder.label.is_some()));
        if let Some(label) = &holder.label {
            put_bytes(&mut out, label.bytes());
        }
    }
    out
}

/// Reads a lock that [`encode`] wrote under that version of the layout.
pub fn decode(version: u32, bytes: &[u8]) -> Result<Stored, DecodeError> {
    if version > VERSION {
        return Err(DecodeError::NewerVersion(version));
    }
    let mut input = Input(bytes);
    let stored = input.lock().ok_or(DecodeError::Damaged)?;
    input.0.is_empty().then_some(stored).ok_or(DecodeError::Damaged)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u16).to_le_bytes());
    out.extend(bytes);
}

/// What is left to read. Every read gives `None` once the bytes run out.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn lock(&mut self) -> Option<Stored> {
        let at_ms = self.u64()?;
        let tag = self.u8()?;
        let permits = self.u32()?;
        let mode = match (tag, permits) {
            (EXCLUSIVE, 0) => Mode::Exclusive,
            (SHARED, 0) => Mode::Shared,
            (PERMITS, 1..) => Mode::Permits(permits),
            _ => return None,
        };
        let count = self.u32()?;
        let mut stored = Stored {
            at_ms,
            mode,
            holders: Vec::new(),
        };
        if count == 0 {
            return None;
        }
        for _ in 0..count {
            let holder = self.holder()?;
            let room = mode.permits() == 0 || stored.holders.len() < mode.permits() as usize;
            let known = |h: &StoredHolder| h.token == holder.token || h.fence == holder.fence;
            if !room || stored.holders.iter().any(known) {
                return None;
            }
            stored.holders.push(holder);
        }
        Some(stored)
    }

    fn holder(&mut self) -> Option<StoredHolder> {
        let fence = Fence::new(self.u64()?)?;
        let micros = self.u64()?;
        let left = Lease::from_micros(micros);
        let token = Token::new(self.bytes()?)?;
        let label = match self.u8()? {
            0 => None,
            1 => Some(Label::new(self.bytes()?)?),
            _ => return None,
        };
        (left.micros() == micros).then_some(StoredHolder {
            token,
            fence,
            left,
            label,
        })
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = u16::from_le_bytes(self.array()?);
        self.take(length.into())
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Token, lease in microseconds, label.
    type PlainHolder = (Vec<u8>, u64, Option<Vec<u8>>);

    fn lock(mode: Mode, holders: &[PlainHolder]) -> Lock {
        let mut lock = Lock::vacant();
        for (index, (token, lease_us, label)) in holders.iter().enumerate() {
            let label = label.as_deref().and_then(Label::new);
            let fence = Fence::new(index as u64 + 1).unwrap();
            let token = Token::new(token).unwrap();
            lock.push(mode, Holder::new(token, fence, Instant(1_000 + lease_us), label));
        }
        lock
    }

    const NOW: Now = Now {
        mono: Instant(1_000),
        wall_us: 5_000_000,
    };

    fn any_lock() -> impl Strategy<Value = Lock> {
        let bytes = |max| prop::collection::vec(any::<u8>(), 1..max);
        let label = prop::option::of(prop::collection::vec(any::<u8>(), 0..=256));
        let mode = prop_oneof![
            Just(Mode::Exclusive),
            Just(Mode::Shared),
            (1u32..9).prop_map(Mode::Permits)
        ];
        let holders = prop::collection::vec((bytes(1025), 0u64..1 << 50, label), 1..6);
        (mode, holders).prop_map(|(mode, mut holders)| {
            holders.sort_by(|a, b| a.0.cmp(&b.0));
            holders.dedup_by(|a, b| a.0 == b.0);
            if mode.permits() > 0 {
                holders.truncate(mode.permits() as usize);
            }
            lock(mode, &holders)
        })
    }

    proptest! {
        #[test]
        fn a_lock_comes_back_as_it_was(lock in any_lock()) {
            let stored = decode(VERSION, &encode(&lock, &NOW)).unwrap();
            prop_assert_eq!(stored.at_ms, 5_001);
            prop_assert_eq!(stored.into_lock(NOW.mono, 0), lock);
        }

        #[test]
        fn a_lock_cut_short_anywhere_or_with_bytes_behind_it_is_damaged(lock in any_lock()) {
            let bytes = encode(&lock, &NOW);
            for length in 0..bytes.len() {
                prop_assert_eq!(decode(VERSION, &bytes[..length]), Err(DecodeError::Damaged));
            }
            let longer = [&bytes[..], &[0]].concat();
            prop_assert_eq!(decode(VERSION, &longer), Err(DecodeError::Damaged));
        }

        #[test]
        fn any_bytes_at_all_are_a_lock_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(stored) = decode(VERSION, &bytes) {
                prop_assert!(!stored.into_lock(Instant(0), 0).is_vacant());
            }
        }
    }

    #[test]
    fn the_layout_of_version_1_stays_as_it_is() {
        let lock = lock(Mode::Exclusive, &[(b"tok".to_vec(), 7, Some(b"me".to_vec()))]);
        let golden = [
            &5_001u64.to_le_bytes()[..],
            &[0, 0, 0, 0, 0, 1, 0, 0, 0],
            &1u64.to_le_bytes(),
            &7u64.to_le_bytes(),
            b"\x03\x00tok\x01\x02\x00me",
        ];
        assert_eq!(encode(&lock, &NOW), golden.concat());
    }

    #[test]
    fn time_that_passed_meanwhile_is_taken_off_each_lease() {
        let lock = lock(Mode::Shared, &[(vec![1], 500, None), (vec![2], 5_000, None)]);
        let stored = decode(VERSION, &encode(&lock, &NOW)).unwrap();
        let later = stored.into_lock(Instant(9_000), 1_000);
        let deadlines: Vec<_> = later.holders().iter().map(|h| h.deadline.0).collect();
        assert_eq!(deadlines, [9_000, 13_000]);
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        assert_eq!(decode(2, b""), Err(DecodeError::NewerVersion(2)));
    }
}
