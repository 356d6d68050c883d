//! A wallet that many callers spend from at once, and what keeps its balance right, or does not.
//!
//! This folder is compiled twice: into the example `wallet`, which shows the scenes on your servers, and into
//! `tests/races`, which holds them to their outcome. So what is shown is what is tested.
//!
//! | file | what it is |
//! |---|---|
//! | `servers.rs` | the servers of a scene, and how to connect to them |
//! | `terms.rs` | the numbers of a scene: how many callers, how long the work and the lease |
//! | `hammer.rs` | many callers from one start line |
//! | `outcome.rs` | what callers met, and whether the balance agrees |
//! | `redis_wallet.rs`, `postgres_wallet.rs` | the balance, where nothing and where something watches the writes |
//! | `flock.rs`, `hand_made.rs` | the locks: this module's, and those that people build from SET |
//! | `watchdog.rs` | keeps a lease while the work goes on, and cancels the work when it cannot |
//! | `step1.rs` to `step6.rs` | the scenes |

// The example and the tests each use a part of it.
#![allow(dead_code)]

pub mod flock;
pub mod hammer;
pub mod hand_made;
pub mod outcome;
pub mod postgres_wallet;
pub mod redis_wallet;
pub mod servers;
pub mod step1;
pub mod step2;
pub mod step3;
pub mod step4;
pub mod step5;
pub mod step6;
pub mod terms;
pub mod watchdog;

pub use outcome::{Check, Purchase, Run};
pub use servers::Servers;
pub use terms::Terms;

/// What is in the wallet when a scene begins.
pub const BALANCE: i64 = 100;
/// What each caller wants to spend.
pub const PRICE: i64 = 10;
/// How many callers such a wallet can serve.
pub const AFFORDABLE: usize = (BALANCE / PRICE) as usize;

/// A scene ends with an error where a server fails, not where the balance is wrong: that is an outcome.
pub type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
