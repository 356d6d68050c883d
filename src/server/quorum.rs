//! `min-replicas-to-write`: a primary that too few replicas follow takes no writes from clients, so
//! that one which is cut off does not go on for long. A grant from the queue is a write too.

use super::state;
use crate::ffi::call::config_value;
use crate::ffi::info::ServerInfo;
use crate::ffi::Ctx;

/// Looks at the server's settings.
pub fn check(ctx: &Ctx) {
    let number = |name| {
        config_value(ctx, name)
            .and_then(|value| value.parse().ok())
            .unwrap_or(0)
    };
    let (replicas, max_lag) = (number(c"min-replicas-to-write"), number(c"min-replicas-max-lag"));
    // Either at 0 switches the rule off.
    state::with(|state| state.min_replicas = if max_lag == 0 { 0 } else { replicas });
}

/// Whether so few replicas follow that the server refuses writes. It counts them once a second.
pub fn is_missing(ctx: &Ctx) -> bool {
    let needed = state::with(|state| if state.is_primary { state.min_replicas } else { 0 });
    if needed == 0 {
        return false;
    }
    let good = ServerInfo::section(ctx, c"replication").field(c"min_slaves_good_slaves");
    good.and_then(|good| good.parse::<u64>().ok())
        .is_some_and(|good| good < needed)
}
