//! flock: fenced distributed locks inside Redis and Valkey.
//!
//! - [`lock`]: the domain. What a lock is and what may happen to it; pure.
//! - [`command`]: one file per command of `FLOCK.*`.
//! - [`server`]: where locks are kept, carried out, replicated, and ended in time.
//! - [`ffi`]: the module API made safe; the only unsafe code.
//!
//! docs/ARCHITECTURE.md traces one FLOCK.ACQUIRE through them.

#![deny(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)]

mod command;
mod ffi;
mod lock;
mod server;

use ffi::module::Server;
use ffi::{Ctx, Str};

/// The server's allocator, so that its `used_memory` and `maxmemory` include flock. Unit tests
/// run without a server, on the system's.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: redis_module::alloc::RedisAlloc = redis_module::alloc::RedisAlloc;

ffi::module::entry_point!(c"flock", load);

fn load(ctx: &Ctx, server: &Server, args: &[Str]) -> Result<(), String> {
    server::load::load(ctx, server, args)?;
    command::table::register(ctx)?;
    server::load::log_loaded(server);
    Ok(())
}
