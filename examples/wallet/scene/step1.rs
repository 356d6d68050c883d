//! Step 1: the race. Everybody reads, works, writes, and nobody waits for anybody.

use super::outcome::Visit;
use super::redis_wallet::{shop, spend};
use super::{Fallible, Run, Servers, Terms};

pub fn without_a_lock(servers: &Servers, terms: Terms) -> Fallible<Run> {
    shop(servers, terms.callers, |connection, _| {
        spend(connection, terms.work).map(Visit::without_a_lock)
    })
}
