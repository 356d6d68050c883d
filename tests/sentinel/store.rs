//! A storage that checks fences, in its shortest form.

use std::collections::HashMap;
use std::sync::Mutex;

/// Refuses a fence that is older than the newest it has seen.
#[derive(Default)]
pub struct Store {
    newest: Mutex<HashMap<String, i64>>,
}

impl Store {
    /// Whether the write was accepted.
    pub fn write(&self, name: &str, fence: i64) -> bool {
        let mut newest = self.newest.lock().expect("the store");
        let seen = newest.entry(name.to_owned()).or_insert(0);
        let is_accepted = fence >= *seen;
        *seen = fence.max(*seen);
        is_accepted
    }
}
