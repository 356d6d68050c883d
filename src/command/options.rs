//! The options of FLOCK.ACQUIRE and FLOCK.MACQUIRE: in any order, each at most once.

use super::errors::{self, Error};
use super::parse::{self, Unit};
use crate::ffi::Str;
use crate::lock::fence::ABOVE_MAX;
use crate::lock::holder::LABEL_MAX;
use crate::lock::{Instant, Lease, Mode};

/// How long to wait for a busy lock, in milliseconds; 0 for ever.
#[derive(Clone, Copy)]
pub struct Block(u64);

impl Block {
    /// When the wait ends that begins now; `None` if it has no end.
    pub fn until(self, now: Instant) -> Option<Instant> {
        let Block(ms) = self;
        (ms > 0).then(|| Instant(now.0.saturating_add(ms.saturating_mul(1000))))
    }
}

#[derive(Default)]
pub struct Options<'a> {
    lease: Option<Lease>,
    pub block: Option<Block>,
    pub above: Option<u64>,
    pub label: Option<&'a [u8]>,
    pub mode: Option<Mode>,
    pub delay: Option<Lease>,
    reentrant: Option<()>,
    session: Option<()>,
}

impl<'a> Options<'a> {
    /// `expire_time` is the error for a lease of an impossible length.
    pub fn parse(args: &'a [Str], expire_time: Error) -> Result<Options<'a>, Error> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(name) = args.next() {
            let name = name.bytes();
            if options.set_word(name)? {
                continue;
            }
            let value = args.next().ok_or(errors::SYNTAX)?;
            options.set_value(name, value, expire_time)?;
        }
        Ok(options)
    }

    pub fn lease(&self) -> Result<Lease, Error> {
        self.lease.ok_or(errors::SYNTAX)
    }

    pub fn is_reentrant(&self) -> bool {
        self.reentrant.is_some()
    }

    pub fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Whether there is an option that makes sense for one lock only.
    pub fn is_for_one_lock(&self) -> bool {
        self.mode.is_some() || self.delay.is_some() || self.is_reentrant() || self.has_session()
    }

    /// Sets an option that is one word; false if it is none of them.
    fn set_word(&mut self, name: &[u8]) -> Result<bool, Error> {
        if name.eq_ignore_ascii_case(b"SHARED") {
            set_once(&mut self.mode, Ok(Mode::Shared))?;
        } else if name.eq_ignore_ascii_case(b"REENTRANT") {
            set_once(&mut self.reentrant, Ok(()))?;
        } else if name.eq_ignore_ascii_case(b"SESSION") {
            set_once(&mut self.session, Ok(()))?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn set_value(&mut self, name: &[u8], value: &'a Str, expire_time: Error) -> Result<(), Error> {
        let bytes = value.bytes();
        if let Some(unit) = Unit::named(name) {
            set_once(&mut self.lease, parse::lease(unit, value, expire_time))
        } else if name.eq_ignore_ascii_case(b"BLOCK") {
            set_once(&mut self.block, block(bytes))
        } else if name.eq_ignore_ascii_case(b"ABOVE") {
            set_once(&mut self.above, above(bytes))
        } else if name.eq_ignore_ascii_case(b"LABEL") {
            set_once(&mut self.label, label(bytes))
        } else if name.eq_ignore_ascii_case(b"PERMITS") {
            set_once(&mut self.mode, permits(bytes))
        } else if name.eq_ignore_ascii_case(b"DELAY") {
            set_once(&mut self.delay, delay(bytes))
        } else {
            Err(errors::SYNTAX)
        }
    }
}

/// Each option may be given once.
fn set_once<T>(option: &mut Option<T>, value: Result<T, Error>) -> Result<(), Error> {
    if option.is_some() {
        return Err(errors::SYNTAX);
    }
    *option = Some(value?);
    Ok(())
}

fn block(value: &[u8]) -> Result<Block, Error> {
    let ms = parse::integer(value).ok_or(errors::TIMEOUT_NOT_AN_INTEGER)?;
    let ms = u64::try_from(ms).map_err(|_| errors::TIMEOUT_NEGATIVE)?;
    // A wait is bounded as a lease is, so that its end fits the clock.
    Lease::from_ms(ms)
        .map(|_| Block(ms))
        .ok_or(errors::TIMEOUT_NOT_AN_INTEGER)
}

fn above(value: &[u8]) -> Result<u64, Error> {
    let number = parse::integer(value).ok_or(errors::NOT_AN_INTEGER)?;
    let above = u64::try_from(number).ok().filter(|above| *above <= ABOVE_MAX);
    above.ok_or(errors::ABOVE_RANGE)
}

fn label(value: &[u8]) -> Result<&[u8], Error> {
    match value.len() <= LABEL_MAX {
        true => Ok(value),
        false => Err(errors::LABEL_LENGTH),
    }
}

fn permits(value: &[u8]) -> Result<Mode, Error> {
    let number = parse::integer(value).ok_or(errors::NOT_AN_INTEGER)?;
    let permits = u32::try_from(number).ok().filter(|n| *n > 0);
    permits.map(Mode::Permits).ok_or(errors::PERMITS_RANGE)
}

fn delay(value: &[u8]) -> Result<Lease, Error> {
    let number = parse::integer(value).ok_or(errors::NOT_AN_INTEGER)?;
    let delay = u64::try_from(number).ok().and_then(Lease::from_ms);
    delay.ok_or(errors::DELAY_RANGE)
}
