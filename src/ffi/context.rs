//! What the server lets a module do at some moment: reply, propagate, look around.

use std::ffi::{c_int, CStr};
use std::time::{SystemTime, UNIX_EPOCH};

use redis_module::raw;

use super::params::{call_with, Params};
use super::string::Str;
use super::{api, api_if_present};

/// The context of one call from the server. It cannot be kept: only a reference is ever given.
pub struct Ctx(*mut raw::RedisModuleCtx);

/// Severity of a log line.
#[derive(Clone, Copy)]
pub enum Level {
    Notice,
    Warning,
}

macro_rules! reply {
    ($self:ident, $function:ident $(, $argument:expr)*) => {{
        let function = api!($function);
        // SAFETY: the context is valid for this call, and the arguments outlive it: the server
        // copies what it replies with.
        unsafe { function($self.0 $(, $argument)*) };
    }};
}

impl Ctx {
    /// # Safety
    /// `ctx` is valid as long as the result is used.
    pub(super) unsafe fn new(ctx: *mut raw::RedisModuleCtx) -> Ctx {
        Ctx(ctx)
    }

    pub(super) fn as_ptr(&self) -> *mut raw::RedisModuleCtx {
        self.0
    }

    pub fn reply_integer(&self, integer: u64) {
        reply!(self, RedisModule_ReplyWithLongLong, integer as i64);
    }

    pub fn reply_signed(&self, integer: i64) {
        reply!(self, RedisModule_ReplyWithLongLong, integer);
    }

    pub fn reply_null(&self) {
        reply!(self, RedisModule_ReplyWithNull);
    }

    pub fn reply_bool(&self, value: bool) {
        reply!(self, RedisModule_ReplyWithBool, c_int::from(value));
    }

    pub fn reply_bytes(&self, bytes: &[u8]) {
        reply!(
            self,
            RedisModule_ReplyWithStringBuffer,
            bytes.as_ptr().cast(),
            bytes.len()
        );
    }

    pub fn reply_array(&self, length: usize) {
        reply!(self, RedisModule_ReplyWithArray, length as i64);
    }

    /// A map in RESP3, a flat array in RESP2.
    pub fn reply_map(&self, length: usize) {
        reply!(self, RedisModule_ReplyWithMap, length as i64);
    }

    /// An error; its first word is the code.
    pub fn reply_error(&self, error: &CStr) {
        reply!(self, RedisModule_ReplyWithError, error.as_ptr());
    }

    pub fn reply_wrong_arity(&self) {
        reply!(self, RedisModule_WrongArity);
    }

    /// The number of the selected database.
    pub fn db(&self) -> i32 {
        let selected = api!(RedisModule_GetSelectedDb);
        // SAFETY: the context is valid.
        unsafe { selected(self.0) }
    }

    /// Selects a database, for an event's context, which starts in any.
    pub fn select_db(&self, db: i32) {
        let select = api!(RedisModule_SelectDb);
        // SAFETY: the context is valid; a number out of range is refused by the server.
        unsafe { select(self.0, db) };
    }

    /// The id of the client this call is for.
    pub fn client_id(&self) -> u64 {
        let id = api!(RedisModule_GetClientId);
        // SAFETY: the context is valid.
        unsafe { id(self.0) }
    }

    pub fn flags(&self) -> Flags {
        let flags = api!(RedisModule_GetContextFlags);
        // SAFETY: the context is valid.
        Flags(unsafe { flags(self.0) } as u32)
    }

    /// Sends a command to replicas and the AOF file.
    ///
    /// Not while writes are paused ([`writes_are_paused`]) in a context that is no write command:
    /// that ends the server. Not in a callback nested in a command of the server: that sends the
    /// command, too.
    pub fn replicate(&self, command: &CStr, params: &Params) {
        let replicate = api!(RedisModule_Replicate);
        // SAFETY: the context is valid; the format describes the words, whose strings outlive
        // the call, and the server copies them.
        unsafe { call_with!(replicate, params, self.0, command.as_ptr()) };
    }

    /// Sends the running command on as it came; counts as a change of the data set either way.
    pub fn replicate_verbatim(&self) {
        let replicate = api!(RedisModule_ReplicateVerbatim);
        // SAFETY: the context is that of a running command.
        unsafe { replicate(self.0) };
    }

    /// Tells those who watch or cache a key that it changed.
    pub fn signal_modified(&self, key: &Str) {
        let signal = api!(RedisModule_SignalModifiedKey);
        // SAFETY: the context and the string are valid.
        unsafe { signal(self.0, key.as_ptr()) };
    }

    /// Sends a keyspace event of the class for modules, `d`.
    pub fn notify(&self, event: &CStr, key: &Str) {
        let notify = api!(RedisModule_NotifyKeyspaceEvent);
        let class = raw::REDISMODULE_NOTIFY_MODULE as c_int;
        // SAFETY: the context and both strings are valid.
        unsafe { notify(self.0, class, event.as_ptr(), key.as_ptr()) };
    }

    /// Whether a client with that id is connected.
    pub fn has_client(&self, id: u64) -> bool {
        let info = api!(RedisModule_GetClientInfoById);
        // SAFETY: without a place for the details the API only says whether the client exists.
        unsafe { info(std::ptr::null_mut(), id) == raw::REDISMODULE_OK as c_int }
    }
}

/// Where and how a call runs: the server's `REDISMODULE_CTX_FLAGS_*`.
#[derive(Clone, Copy)]
pub struct Flags(u32);

impl Flags {
    /// Not among the bindings: REDISMODULE_CTX_FLAGS_DENY_BLOCKING.
    const DENY_BLOCKING: u32 = 1 << 21;

    /// Outside of any call, with what holds for the whole server.
    pub fn of_server() -> Flags {
        let flags = api!(RedisModule_GetContextFlags);
        // SAFETY: the API allows no context; it then tells only of the server.
        Flags(unsafe { flags(std::ptr::null_mut()) } as u32)
    }

    fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    /// Whether the client of this call must not be blocked: in a transaction or a script, in a
    /// call from another module, from a primary, or while an AOF file is read.
    pub fn blocking_is_denied(self) -> bool {
        self.has(Flags::DENY_BLOCKING | raw::REDISMODULE_CTX_FLAGS_MULTI | raw::REDISMODULE_CTX_FLAGS_LUA)
            || self.is_replayed()
    }

    /// Whether the command is run by a script, or by a command of a module.
    pub fn is_inside_a_command(self) -> bool {
        let is_called = self.has(Flags::DENY_BLOCKING) && !self.has(raw::REDISMODULE_CTX_FLAGS_MULTI);
        is_called || self.is_in_script()
    }

    /// Whether a script runs, of whichever kind.
    pub fn is_in_script(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LUA)
    }

    /// Whether the command comes from a primary or from an AOF file.
    pub fn is_replayed(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED) || self.is_loading()
    }

    pub fn is_loading(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LOADING)
    }

    pub fn is_replica(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_SLAVE)
    }

    pub fn has_aof(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_AOF)
    }

    pub fn is_cluster(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_CLUSTER)
    }

    /// Whether the server persists at all, by snapshots or by AOF.
    pub fn is_persistent(self) -> bool {
        self.has_aof() || self.has(raw::REDISMODULE_CTX_FLAGS_RDB)
    }
}

/// Whether writes are paused: CLIENT PAUSE, a failover, a shutdown that waits for replicas.
/// Whatever replicates must then wait.
pub fn writes_are_paused() -> bool {
    let avoid = api!(RedisModule_AvoidReplicaTraffic);
    // SAFETY: the function takes nothing and reads the server's state.
    unsafe { avoid() != 0 }
}

/// The server's monotonic clock, in microseconds.
pub fn monotonic_micros() -> u64 {
    let read = api!(RedisModule_MonotonicMicroseconds);
    // SAFETY: the function takes nothing and reads a clock.
    unsafe { read() }
}

/// The server's wall clock, in microseconds since 1970. Before 7.2 it tells only milliseconds; the
/// digits below are the operating system's.
pub fn wall_micros() -> u64 {
    let micros = match api_if_present!(RedisModule_Microseconds) {
        // SAFETY: the function takes nothing and reads a clock.
        Some(read) => unsafe { read() },
        None => {
            let read = api!(RedisModule_Milliseconds);
            // The next millisecond may begin between the two clocks: then they are read again.
            loop {
                let before = micros_below_the_millisecond();
                // SAFETY: as above.
                let ms: i64 = unsafe { read() };
                let after = micros_below_the_millisecond();
                if before <= after {
                    break ms.saturating_mul(1000).saturating_add(after);
                }
            }
        }
    };
    u64::try_from(micros).unwrap_or(0)
}

fn micros_below_the_millisecond() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |time| i64::from(time.subsec_micros() % 1000))
}

/// Writes a line to the server's log. A NUL in it would end it early, so it becomes a space.
pub fn log(level: Level, line: &str) {
    let level = match level {
        Level::Notice => c"notice",
        Level::Warning => c"warning",
    };
    let Ok(line) = std::ffi::CString::new(line.replace('\0', " ")) else {
        return;
    };
    let log = api!(RedisModule_Log);
    // SAFETY: the API allows no context, and logs in the name of "module" then; the format takes
    // one C string.
    unsafe {
        log(
            std::ptr::null_mut(),
            level.as_ptr(),
            c"<flock> %s".as_ptr(),
            line.as_ptr(),
        )
    };
}

/// Wakes the server's event loop from any thread.
pub fn wake_event_loop() {
    extern "C" fn nothing(_: *mut std::ffi::c_void) {}
    let add = api!(RedisModule_EventLoopAddOneShot);
    // SAFETY: this function may be called from any thread; the callback takes no data.
    unsafe { add(Some(nothing), std::ptr::null_mut()) };
}
