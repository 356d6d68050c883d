//! Locks in a cluster, on real servers.
//!
//! | file | proves |
//! |---|---|
//! | `redirects.rs` | MOVED and CROSSSLOT for every command, with and without hash tags; a cluster that is down |
//! | `failover.rs` | failovers of every kind while more than 100 clients hold and wait |
//! | `migration.rs` | slots that move, by each way: locks arrive whole, fences grow, waiters are sent after them |
//! | `reshard.rs` | the steps between, with ASK and TRYAGAIN: some keys are here, some there |
//! | `dress.rs` | that the cluster dress of the other suites is one |
//! | `household.rs` | (locks of every kind in one slot, their holders and their waiters) |
//! | `crowd.rs` | (clients that take locks and let go all the time) |
//! | `moving.rs` | (the ways of a slot to another node) |
//! | `rover.rs` | (a client that follows redirections) |
//! | `nodes.rs`, `pair.rs`, `stage.rs` | (three primaries and three replicas; two primaries; one cluster at a time) |
//!
//! `scripts/soak` repeats `failover` and `migration`.

#[path = "../support/mod.rs"]
mod support;

mod crowd;
mod dress;
mod failover;
mod household;
mod migration;
mod moving;
mod nodes;
mod pair;
mod redirects;
mod reshard;
mod rover;
mod stage;
