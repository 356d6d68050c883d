//! The server's clocks. The module does not ask the operating system for the time itself, but for the
//! digits that a server before 7.2 does not tell: where a test or an operator shifts the server's
//! clock, flock goes with it.

use crate::ffi::context::{monotonic_micros, wall_micros};
use crate::lock::{Instant, Now};

pub fn now() -> Now {
    Now {
        mono: monotonic(),
        wall_us: wall_micros(),
    }
}

pub fn monotonic() -> Instant {
    Instant(monotonic_micros())
}
