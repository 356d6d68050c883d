//! The load of the module.

use std::ffi::{c_int, CStr};

use redis_module::raw;

use super::context::{log, Level};
use super::info::ServerInfo;
use super::string::Str;
use super::{api, api_if_present, guard, Ctx};

/// What the module does when it is loaded: register everything, or say why not.
pub type Load = fn(&Ctx, &Server, &[Str]) -> Result<(), String>;

/// The server that loads the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// `redis` or `valkey`.
    pub name: String,
    /// Its own version, such as `8.6.3`.
    pub version: String,
}

impl Server {
    /// The version as numbers: major, minor, patch.
    pub fn release(&self) -> [u32; 3] {
        let mut numbers = self.version.split('.').map(|n| n.parse().unwrap_or(0));
        [(); 3].map(|()| numbers.next().unwrap_or(0))
    }
}

/// Defines the function that the server calls to load the module.
macro_rules! entry_point {
    ($name:expr, $load:expr) => {
        /// Called by the server when it loads the module.
        ///
        /// # Safety
        /// For the server only: `ctx` is its context, `argv` holds `argc` valid strings.
        #[no_mangle]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn RedisModule_OnLoad(
            ctx: *mut redis_module::raw::RedisModuleCtx,
            argv: *mut *mut redis_module::raw::RedisModuleString,
            argc: std::ffi::c_int,
        ) -> std::ffi::c_int {
            // SAFETY: the server's own call, with what it passed.
            unsafe { $crate::ffi::module::init(ctx, argv, argc, $name, 1, $load) }
        }
    };
}

pub(crate) use entry_point;

/// Loads the module; the answer is the one that the server expects of its `OnLoad`.
///
/// # Safety
/// To be called by the server's own call of `RedisModule_OnLoad` with what that was given. Before
/// this the module has no memory allocator.
pub unsafe fn init(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    name: &CStr,
    version: c_int,
    load: Load,
) -> c_int {
    const API_VERSION: c_int = 1;
    // SAFETY: the server's context; fills the pointers of the module API.
    let status = unsafe { raw::Export_RedisModule_Init(ctx, name.as_ptr(), version, API_VERSION) };
    if status != raw::REDISMODULE_OK as c_int {
        return status;
    }
    // SAFETY: the context is valid for this call.
    let ctx = unsafe { Ctx::new(ctx) };
    let loaded = guard(Err("failed inside".to_owned()), || {
        log_panics();
        let server = server(&ctx);
        check_server(&server)?;
        set_options(&ctx);
        // SAFETY: the server's arguments are valid for this call.
        load(&ctx, &server, unsafe { Str::slice(argv, argc) })
    });
    match loaded {
        Ok(()) => raw::REDISMODULE_OK as c_int,
        Err(why) => {
            log(Level::Warning, &format!("not loaded: {why}"));
            raw::REDISMODULE_ERR as c_int
        }
    }
}

/// Panics end in [`guard`]; the server's log is where people look for them.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| log(Level::Warning, &format!("bug: {panic}"))));
}

/// Every function below came with Redis 7.0; each stands for a part of the API that flock cannot
/// do without.
fn check_server(server: &Server) -> Result<(), String> {
    let is_complete = api_if_present!(RedisModule_MonotonicMicroseconds).is_some()
        && api_if_present!(RedisModule_EventLoopAddOneShot).is_some()
        && api_if_present!(RedisModule_SetCommandInfo).is_some()
        && api_if_present!(RedisModule_RegisterEnumConfig).is_some()
        && api_if_present!(RedisModule_GetKeyNameFromOptCtx).is_some()
        && api_if_present!(RedisModule_ReplyWithMap).is_some()
        && api_if_present!(RedisModule_GetCommandKeysWithFlags).is_some()
        && api_if_present!(RedisModule_KeyAtPosWithFlags).is_some();
    if is_complete {
        return Ok(());
    }
    let Server { name, version } = server;
    Err(format!(
        "flock needs Redis 7.0 or Valkey 7.2, or newer; this is {name} {version}"
    ))
}

/// - I/O errors while a value is loaded are the module's to notice: else a truncated DUMP payload
///   ends the server.
/// - The module says itself when a key was modified, so that a refused command does not count.
/// - Bit 5 tells Valkey 9 that values may move with their slots; others ignore it.
fn set_options(ctx: &Ctx) {
    const HANDLE_ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | HANDLE_ATOMIC_SLOT_MIGRATION;
    let set = api!(RedisModule_SetModuleOptions);
    // SAFETY: the context is that of the module's load.
    unsafe { set(ctx.as_ptr(), options as c_int) };
}

/// Valkey also has a `redis_version`, which never changes, so its own comes first.
fn server(ctx: &Ctx) -> Server {
    let info = ServerInfo::section(ctx, c"server");
    let (name, version) = match info.field(c"valkey_version") {
        Some(version) => ("valkey", version),
        None => ("redis", info.field(c"redis_version").unwrap_or_default()),
    };
    Server {
        name: name.to_owned(),
        version,
    }
}
