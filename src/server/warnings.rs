//! Settings of the server that endanger locks, and the log lines that say so.

use super::state;
use crate::ffi::call::config_value;
use crate::ffi::context::{log, Level};
use crate::ffi::Ctx;
use crate::lock::FenceSource;

/// What has been warned of and still is so, so that it is said once.
#[derive(Clone, Copy, Default)]
pub struct Warned {
    eviction: bool,
    lost_counter: bool,
    split_counter: bool,
}

/// Looks at the server's settings, and warns of what is new.
pub fn check(ctx: &Ctx) {
    let policy = config_value(ctx, c"maxmemory-policy").unwrap_or_default();
    let source = state::with(|state| state.engine.fences.source);
    let now = Warned {
        eviction: policy.starts_with("allkeys-"),
        lost_counter: source == FenceSource::Counter && !ctx.flags().is_persistent(),
        split_counter: source == FenceSource::Counter && ctx.flags().is_cluster(),
    };
    let before = state::with(|state| std::mem::replace(&mut state.warned, now));
    if now.eviction && !before.eviction {
        let line = format!(
            "maxmemory-policy is {policy}: the server may evict a held lock, which ends it; use noeviction or volatile-*"
        );
        log(Level::Warning, &line);
    }
    if now.lost_counter && !before.lost_counter {
        log(
            Level::Warning,
            "flock.fence-source is counter without persistence: fences start again at 1 after a restart; enable AOF or RDB, or use clock",
        );
    }
    if now.split_counter && !before.split_counter {
        log(
            Level::Warning,
            "flock.fence-source is counter in a cluster: each node counts for itself, so the fences of a lock that moves while it is free may fall back; use clock",
        );
    }
}
