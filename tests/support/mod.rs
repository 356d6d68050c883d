//! The harness of the integration tests: real servers with the module loaded,
//! real connections, and nothing that depends on luck.
//!
//! | file | what it is for |
//! |---|---|
//! | `module.rs` | builds the module once per test process, so that no test meets a stale one |
//! | `build.rs` | which server executable, and what it can do |
//! | `process.rs` | one server process: its directory, log, signals |
//! | `builder.rs` | what a server is told at its start, and the start |
//! | `server.rs` | stop, restart and inspect a server |
//! | `dress.rs` | the same tests with a reload after each command, with a replica, or in a cluster |
//! | `cluster.rs` | nodes of a cluster |
//! | `replicas.rs` | a primary and its replica: in step, and one in the other's place |
//! | `tags.rs` | names of keys with hash tags, in the cluster dress |
//! | `cable.rs` | a line between processes that is cut and mended |
//! | `client.rs`, `reply.rs` | a connection in RESP2 or RESP3; a reply that can be compared |
//! | `stream.rs` | what a replica is sent, command by command |
//! | `scene.rs` | a server, a client, and what each of its commands sends |
//! | `aof.rs` | what lies in the append-only file, command by command |
//! | `way.rs` | the ways to the disk and back |
//! | `kinds.rs` | locks of every kind, to be carried somewhere |
//! | `lease.rs` | a lease whose true end the test knows |
//! | `history.rs` | what clients were told of fences, and that none goes back |
//! | `bare.rs` | a server without the module |
//! | `postgres.rs` | a PostgreSQL of the test's own |
//! | `wall_clock.rs`, `wall_clock.c` | a server whose wall clock is stepped |
//! | `eventually.rs` | waiting for a condition, with a bound |
//! | `seed.rs` | the seed of random tests |
//! | `crc64.rs` | the checksum of DUMP payloads, to forge some |
//!
//! Environment: `FLOCK_MODULE` (a ready `.so`), `FLOCK_SERVER` (an executable),
//! `FLOCK_DRESS` (`plain`, `reload`, `replica` or `cluster`), `FLOCK_SEED` (of random tests),
//! `FLOCK_SERVERS` (where `scripts/servers` put its servers), `FLOCK_OLD_MODULE` (a `.so` of flock 0.1.0).

// Each test binary compiles its own copy of this folder and uses a part of it.
#![allow(dead_code, unused_imports)]

pub mod aof;
mod bare;
mod build;
mod builder;
mod cable;
mod client;
pub mod cluster;
mod crc64;
mod dress;
mod eventually;
mod history;
mod kinds;
mod lease;
mod module;
mod postgres;
mod process;
mod replicas;
mod reply;
mod scene;
mod seed;
mod server;
mod stream;
mod tags;
mod wall_clock;
mod way;

pub use self::postgres::Postgres;
pub use bare::BareServer;
pub use build::Build;
pub use builder::Builder;
pub use cable::Cable;
pub use client::{Client, Protocol};
pub use crc64::crc64;
pub use dress::{assert_agreement, assert_same_locks, start_companion, Dress};
pub use eventually::{eventually, eventually_within, PATIENCE};
pub use history::{Heard, History};
pub use kinds::{take_every_kind, use_every_kind};
pub use lease::Lease;
pub use module::path as module_path;
pub use process::raise_the_limit_of_open_files;
pub use replicas::{fail_over, promote, start_with_companion, wait_for_replicas, wait_until_primary};
pub use reply::{Reply, NIL, OK};
pub use scene::Scene;
pub use seed::seed;
pub use server::{in_both_protocols, in_both_protocols_with, Server};
pub use stream::ReplicationStream;
pub use wall_clock::{start_with_wall_clock, step_wall_clock};
pub use way::{rewrite, wait_for_own_file, Way, WAYS};
