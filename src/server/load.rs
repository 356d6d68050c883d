//! The load of the module into a server.

use super::events::ServerEvents;
use super::metrics::FlockInfo;
use super::quirks::Quirks;
use super::{alarm, settings, state};
use crate::ffi::context::{log, Flags, Level};
use crate::ffi::module::Server;
use crate::ffi::{data_type, events, info, Ctx, Str};
use crate::lock::{FenceSource, Lock};

/// Registers all but the commands. An error says what the server refused.
pub fn load(ctx: &Ctx, server: &Server, args: &[Str]) -> Result<(), String> {
    let quirks = Quirks::of(server);
    let follows_moves = !quirks.must_not_follow_moves;
    state::with(|state| {
        state.is_primary = !Flags::of_server().is_replica();
        state.is_cluster = Flags::of_server().is_cluster();
        state.quirks = quirks;
        state.todo.check_settings = true;
        state.todo.check_followers = true;
    });
    let refused =
        |what: &str| format!("the server refused the {what}; is a module with the same names loaded?");
    if !data_type::register::<Lock>(ctx) {
        return Err(refused("data type flocklock"));
    }
    if !events::subscribe::<ServerEvents>(ctx) {
        return Err(refused("event handlers"));
    }
    if follows_moves && !events::subscribe_to_moves::<ServerEvents>(ctx) {
        return Err(refused("keyspace event handler"));
    }
    if has_slot_migrations(server) && !events::subscribe_to_slot_migrations::<ServerEvents>(ctx) {
        return Err(refused("slot migration handler"));
    }
    if !info::register::<FlockInfo>(ctx) {
        return Err(refused("section of INFO"));
    }
    settings::register(ctx, args)?;
    alarm::start()
}

/// Redis 8.4 moves whole slots, and removes their keys without telling the module of each. On Valkey
/// the same event has another meaning, and a moved slot's keys are removed one by one.
fn has_slot_migrations(server: &Server) -> bool {
    server.name == "redis" && server.release() >= [8, 4, 0]
}

/// The line that says what was loaded.
pub fn log_loaded(server: &Server) {
    let source = match state::with(|state| state.engine.fences.source) {
        FenceSource::Clock => "clock",
        FenceSource::Counter => "counter",
    };
    let (
        version,
        Server {
            name,
            version: of_server,
        },
    ) = (env!("CARGO_PKG_VERSION"), server);
    log(
        Level::Notice,
        &format!("flock {version} on {name} {of_server}, fences from the {source}"),
    );
}
