//! A lock as bytes, for RDB files and DUMP payloads. docs/FORMATS.md describes the layout.
//!
//! Leases are written as what was left of them, beside the wall-clock time of writing: an instant
//! of the monotonic clock means nothing to another process.

use super::fence::Fence;
use super::holder::{Holder, Label, Mode, Terms, Token};
use super::state::{Closure, Lock};
use super::time::{Instant, Lease, Now};

/// The version of the layout, kept by the server beside the bytes. Version 1 knew neither
/// closures nor counted holds nor delays.
pub const VERSION: u32 = 2;

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
    closure: Option<(Fence, Lease)>,
    holders: Vec<StoredHolder>,
}

#[derive(Clone, Debug, PartialEq)]
struct StoredHolder {
    token: Token,
    fence: Fence,
    left: Lease,
    terms: Terms,
}

impl Stored {
    /// The lock as of `now`, where `elapsed_us` of each lease have passed since it was written.
    pub fn into_lock(self, now: Instant, elapsed_us: u64) -> Lock {
        let mut lock = Lock::vacant();
        for stored in self.holders {
            let mut terms = stored.terms;
            let (left, delay) = stored.left.and_delay_minus_micros(terms.delay, elapsed_us);
            terms.delay = delay;
            let holder = Holder::new(stored.token, stored.fence, left.after(now), terms);
            lock.push(self.mode, holder);
        }
        lock.closure = self.closure.map(|(fence, left)| {
            let until = left.minus_micros(elapsed_us).after(now);
            Box::new(Closure::new(fence, until))
        });
        lock
    }
}

/// Writes a lock down as of `now`. A session is not written: its connection means nothing to
/// another process, and the lease stays.
pub fn encode(lock: &Lock, now: &Now) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend(now.stamp_ms().to_le_bytes());
    let (tag, permits) = match lock.mode() {
        Mode::Exclusive => (EXCLUSIVE, 0),
        Mode::Shared => (SHARED, 0),
        Mode::Permits(n) => (PERMITS, n),
    };
    out.push(tag);
    out.extend(permits.to_le_bytes());
    out.push(u8::from(lock.closure().is_some()));
    if let Some(closure) = lock.closure() {
        out.extend(closure.fence.get().to_le_bytes());
        out.extend(closure.left(now.mono).micros().to_le_bytes());
    }
    out.extend((lock.holders().len() as u32).to_le_bytes());
    for holder in lock.holders() {
        out.extend(holder.fence.get().to_le_bytes());
        out.extend(holder.left(now.mono).micros().to_le_bytes());
        put_bytes(&mut out, holder.token.bytes());
        out.push(u8::from(holder.label().is_some()));
        if let Some(label) = holder.label() {
            put_bytes(&mut out, label.bytes());
        }
        out.extend(holder.holds().to_le_bytes());
        out.extend(holder.delay().micros().to_le_bytes());
    }
    out
}

/// Reads a lock that [`encode`] wrote under that version of the layout.
pub fn decode(version: u32, bytes: &[u8]) -> Result<Stored, DecodeError> {
    if version > VERSION {
        return Err(DecodeError::NewerVersion(version));
    }
    let mut input = Input { bytes, version };
    let stored = input.lock().ok_or(DecodeError::Damaged)?;
    input
        .bytes
        .is_empty()
        .then_some(stored)
        .ok_or(DecodeError::Damaged)
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u16).to_le_bytes());
    out.extend(bytes);
}

/// What is left to read. Every read gives `None` once the bytes run out.
struct Input<'a> {
    bytes: &'a [u8],
    version: u32,
}

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
        let closure = match self.version {
            1 => None,
            _ => self.closure()?,
        };
        let count = self.u32()?;
        if count == 0 && closure.is_none() {
            return None;
        }
        let mut stored = Stored {
            at_ms,
            mode,
            closure,
            holders: Vec::new(),
        };
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

    fn closure(&mut self) -> Option<Option<(Fence, Lease)>> {
        match self.u8()? {
            0 => Some(None),
            1 => Some(Some((self.fence()?, self.lease()?))),
            _ => None,
        }
    }

    fn holder(&mut self) -> Option<StoredHolder> {
        let fence = self.fence()?;
        let left = self.lease()?;
        let token = Token::new(self.bytes()?)?;
        let label = match self.u8()? {
            0 => None,
            1 => Some(Label::new(self.bytes()?)?),
            _ => return None,
        };
        let mut terms = Terms {
            label,
            ..Terms::default()
        };
        if self.version > 1 {
            terms.holds = self.u32().filter(|holds| *holds > 0)?;
            terms.delay = self.lease()?;
        }
        Some(StoredHolder {
            token,
            fence,
            left,
            terms,
        })
    }

    fn fence(&mut self) -> Option<Fence> {
        Fence::new(self.u64()?)
    }

    fn lease(&mut self) -> Option<Lease> {
        let micros = self.u64()?;
        let lease = Lease::from_micros(micros);
        (lease.micros() == micros).then_some(lease)
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
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Token, lease in microseconds, terms.
    type PlainHolder = (Vec<u8>, u64, Terms);

    fn lock(mode: Mode, holders: Vec<PlainHolder>) -> Lock {
        let mut lock = Lock::vacant();
        for (index, (token, lease_us, terms)) in holders.into_iter().enumerate() {
            let fence = Fence::new(index as u64 + 1).unwrap();
            let token = Token::new(&token).unwrap();
            lock.push(mode, Holder::new(token, fence, Instant(1_000 + lease_us), terms));
        }
        lock
    }

    fn closed(mut lock: Lock, fence: u64, until: u64) -> Lock {
        let closure = Closure::new(Fence::new(fence).unwrap(), Instant(until));
        lock.closure = Some(Box::new(closure));
        lock
    }

    fn labelled(label: &[u8]) -> Terms {
        Terms {
            label: Label::new(label),
            ..Terms::default()
        }
    }

    const NOW: Now = Now {
        mono: Instant(1_000),
        wall_us: 5_000_000,
    };

    fn any_terms() -> impl Strategy<Value = Terms> {
        let label = prop::option::of(prop::collection::vec(any::<u8>(), 0..=256));
        (label, 1u32.., 0u64..1 << 62).prop_map(|(label, holds, delay_us)| Terms {
            label: label.as_deref().and_then(Label::new),
            holds,
            delay: Lease::from_micros(delay_us),
            session: None,
        })
    }

    fn any_lock() -> impl Strategy<Value = Lock> {
        let bytes = |max| prop::collection::vec(any::<u8>(), 1..max);
        let mode = prop_oneof![
            Just(Mode::Exclusive),
            Just(Mode::Shared),
            (1u32..9).prop_map(Mode::Permits)
        ];
        let holders = prop::collection::vec((bytes(1025), 0u64..1 << 50, any_terms()), 0..6);
        let closure = prop::option::of((1u64..9, 1_000u64..1 << 50));
        (mode, holders, closure).prop_map(|(mode, mut holders, closure)| {
            holders.sort_by(|a, b| a.0.cmp(&b.0));
            holders.dedup_by(|a, b| a.0 == b.0);
            if mode.permits() > 0 {
                holders.truncate(mode.permits() as usize);
            }
            match closure {
                Some((fence, until)) => closed(lock(mode, holders), fence, until),
                None if holders.is_empty() => closed(lock(mode, holders), 1, 2_000),
                None => lock(mode, holders),
            }
        })
    }

    proptest! {
        #[test]
        fn a_lock_comes_back_as_it_was(lock in any_lock()) {
            let stored = decode(VERSION, &encode(&lock, &NOW)).unwrap();
            prop_assert_eq!(stored.at_ms, 5_001);
            let back = stored.into_lock(NOW.mono, 0);
            prop_assert_eq!(back, lock);
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
        fn any_bytes_at_all_are_a_lock_or_an_error(
            version in 1..=VERSION,
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            if let Ok(stored) = decode(version, &bytes) {
                prop_assert!(!stored.into_lock(Instant(0), 0).is_vacant());
            }
        }
    }

    #[test]
    fn a_lock_of_version_1_can_still_be_read() {
        let golden = [
            &5_001u64.to_le_bytes()[..],
            &[0, 0, 0, 0, 0, 1, 0, 0, 0],
            &1u64.to_le_bytes(),
            &7u64.to_le_bytes(),
            b"\x03\x00tok\x01\x02\x00me",
        ];
        let stored = decode(1, &golden.concat()).unwrap();
        let expected = lock(Mode::Exclusive, vec![(b"tok".to_vec(), 7, labelled(b"me"))]);
        assert_eq!(stored.into_lock(NOW.mono, 0), expected);
    }

    #[test]
    fn the_layout_of_version_2_stays_as_it_is() {
        let terms = Terms {
            holds: 3,
            delay: Lease::from_micros(9),
            ..labelled(b"me")
        };
        let lock = closed(
            lock(Mode::Permits(5), vec![(b"tok".to_vec(), 7, terms)]),
            4,
            1_006,
        );
        let golden = [
            &5_001u64.to_le_bytes()[..],
            &[2, 5, 0, 0, 0, 1],
            &4u64.to_le_bytes(),
            &6u64.to_le_bytes(),
            &1u32.to_le_bytes(),
            &1u64.to_le_bytes(),
            &7u64.to_le_bytes(),
            b"\x03\x00tok\x01\x02\x00me",
            &3u32.to_le_bytes(),
            &9u64.to_le_bytes(),
        ];
        assert_eq!(encode(&lock, &NOW), golden.concat());
    }

    #[test]
    fn time_that_passed_meanwhile_is_taken_off_each_lease_and_then_off_its_delay() {
        let delayed = Terms {
            delay: Lease::from_micros(800),
            ..Terms::default()
        };
        let holders = vec![
            (vec![1], 500, delayed.clone()),
            (vec![2], 5_000, delayed),
            (vec![3], 100, Terms::default()),
        ];
        let lock = closed(lock(Mode::Shared, holders), 9, 4_000);
        let stored = decode(VERSION, &encode(&lock, &NOW)).unwrap();
        let later = stored.into_lock(Instant(9_000), 1_000);
        let left: Vec<_> = later
            .holders()
            .iter()
            .map(|h| (h.deadline.0, h.delay().micros()))
            .collect();
        assert_eq!(left, [(9_000, 300), (13_000, 800), (9_000, 0)]);
        assert_eq!(
            later.closure().map(|closure| closure.until),
            Some(Instant(11_000))
        );
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        assert_eq!(decode(3, b""), Err(DecodeError::NewerVersion(3)));
    }
}
