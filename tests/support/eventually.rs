//! Waiting for a condition with a bound, instead of sleeping and hoping.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How long anything may take on a loaded machine before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(20);

const PAUSE_BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Looks again and again until the value satisfies `is_so`, and returns it.
/// After [`PATIENCE`] it fails and prints the last value seen.
pub fn eventually<T: Debug>(what: &str, look: impl FnMut() -> T, is_so: impl Fn(&T) -> bool) -> T {
    eventually_within(PATIENCE, what, look, is_so)
}

/// [`eventually`], with a bound of its own.
pub fn eventually_within<T: Debug>(
    bound: Duration,
    what: &str,
    mut look: impl FnMut() -> T,
    is_so: impl Fn(&T) -> bool,
) -> T {
    let start = Instant::now();
    loop {
        let value = look();
        if is_so(&value) {
            return value;
        }
        assert!(
            start.elapsed() < bound,
            "not so within {bound:?}: {what}; the last look gave {value:?}"
        );
        std::thread::sleep(PAUSE_BETWEEN_LOOKS);
    }
}
