//! The numbers of a scene.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub callers: usize,
    /// What a caller does between reading the balance and writing it: a sleep stands for it.
    pub work: Duration,
    pub lease: Duration,
}

impl Terms {
    pub fn new(callers: usize, work_ms: u64, lease_ms: u64) -> Terms {
        Terms {
            callers,
            work: Duration::from_millis(work_ms),
            lease: Duration::from_millis(lease_ms),
        }
    }
}
