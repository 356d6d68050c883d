//! What comes back after the server was down: holders, tokens, fences, labels
//! and leases; and the fence register, which must stay ahead of locks that are
//! long gone.
//!
//! | file | proves |
//! |---|---|
//! | `return.rs` | each way to the disk and back brings the same locks |
//! | `register.rs` | fences grow on through each way, without the help of the clock |
//! | `rdb.rs` | snapshots: with waiters, without the module, of a newer format, on a failed disk |
//! | `aof.rs` | the append-only file: its rewrite, its torn end, the power cut |
//! | `payload.rs` | DUMP and RESTORE |

#[path = "../support/mod.rs"]
mod support;

mod aof;
mod payload;
mod rdb;
mod register;
mod r#return;

use support::{rewrite, Way, WAYS};
