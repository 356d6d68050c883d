//! Automatic failover by sentinels: a primary, two replicas, three sentinels, and callers who ask the
//! sentinels where to go. What a failover may lose is lost; nobody hangs, no fence goes back, and a
//! storage that checks fences keeps out whoever still believes in the old primary.
//!
//! | file | proves |
//! |---|---|
//! | `failover.rs` | a primary that is killed, freezes or is relieved: callers, waiters and holders |
//! | `partition.rs` | a primary that is cut off, and those who still talk to it |
//! | `stage.rs` | the servers and their sentinels |
//! | `caller.rs` | a client that follows the sentinels |
//! | `crowd.rs` | many callers that take locks in turn |
//! | `store.rs` | a storage that checks fences |

#[path = "../support/mod.rs"]
mod support;

mod caller;
mod crowd;
mod failover;
mod partition;
mod stage;
mod store;
