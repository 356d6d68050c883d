//! The harness of the integration tests: real servers with the module loaded,
//! real connections, and nothing that depends on luck.
//!
//! | file | what it is for |
//! |---|---|
//! | `module.rs` | builds the module once per test process, so that no test meets a stale one |
//! | `build.rs` | which server executable, and what it can do |
//! | `process.rs` | one server process: its directory, log, signals |
//! | `server.rs` | start, restart and inspect a server |
//! | `dress.rs` | the same tests with a reload after each command, or with a replica |
//! | `client.rs`, `reply.rs` | a connection in RESP2 or RESP3; a reply that can be compared |
//! | `stream.rs` | what a replica is sent, command by command |
//! | `aof.rs` | what lies in the append-only file, command by command |
//! | `lease.rs` | a lease whose true end the test knows |
//! | `bare.rs` | a server without the module |
//! | `postgres.rs` | a PostgreSQL of the test's own |
//! | `wall_clock.rs`, `wall_clock.c` | a server whose wall clock is stepped |
//! | `eventually.rs` | waiting for a condition, with a bound |
//! | `seed.rs` | the seed of random tests |
//! | `crc64.rs` | the checksum of DUMP payloads, to forge some |
//!
//! Environment: `FLOCK_MODULE` (a ready `.so`), `FLOCK_SERVER` (an executable),
//! `FLOCK_DRESS` (`plain`, `reload` or `replica`), `FLOCK_SEED` (of random tests).

// Each test binary compiles its own copy of this folder and uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod aof;
mod bare;
mod build;
mod client;
mod crc64;
mod dress;
mod eventually;
mod lease;
mod module;
mod postgres;
mod process;
mod reply;
mod seed;
mod server;
mod stream;
mod wall_clock;

pub use self::postgres::Postgres;
pub use bare::BareServer;
pub use build::Build;
pub use client::{Client, Protocol};
pub use crc64::crc64;
pub use dress::{assert_agreement, start_companion, Dress};
pub use eventually::{eventually, eventually_within, PATIENCE};
pub use lease::Lease;
pub use module::path as module_path;
pub use process::raise_the_limit_of_open_files;
pub use reply::{Reply, NIL, OK};
pub use seed::seed;
pub use server::{in_both_protocols, in_both_protocols_with, Builder, Server};
pub use stream::ReplicationStream;
pub use wall_clock::{start_with_wall_clock, step_wall_clock};
