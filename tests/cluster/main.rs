//! Locks in a cluster, on real servers.
//!
//! | file | proves |
//! |---|---|
//! | `redirects.rs` | MOVED and CROSSSLOT for every command, with and without hash tags; a cluster that is down |
//! | `failover.rs` | failovers of every kind while more than 100 clients hold and wait |
//! | `household.rs` | (locks of every kind in one slot, their holders and their waiters) |
//! | `crowd.rs`, `history.rs` | (clients that take locks and let go all the time, and what they were told) |
//! | `rover.rs` | (a client that follows redirections) |
//! | `nodes.rs`, `stage.rs` | (three primaries and three replicas, one cluster at a time) |

#[path = "../support/mod.rs"]
mod support;

mod crowd;
mod dress;
mod failover;
mod history;
mod household;
mod migration;
mod moving;
mod nodes;
mod pair;
mod redirects;
mod reshard;
mod rover;

mod stage;
