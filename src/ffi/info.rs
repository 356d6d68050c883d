//! INFO: the module's section of it, and what the server says of itself.

use std::ffi::{c_char, c_int, CStr};

use redis_module::raw;

use super::{api, guard, Ctx};

/// A section that is being written.
pub struct Section(*mut raw::RedisModuleInfoCtx);

impl Section {
    pub fn number(&self, name: &CStr, value: u64) {
        let add = api!(RedisModule_InfoAddFieldULongLong);
        // SAFETY: the section is open for the time of this call; the name outlives it.
        unsafe { add(self.0, name.as_ptr(), value) };
    }

    pub fn word(&self, name: &CStr, value: &CStr) {
        let add = api!(RedisModule_InfoAddFieldCString);
        // SAFETY: as above.
        unsafe { add(self.0, name.as_ptr(), value.as_ptr()) };
    }

    /// A field of several named numbers.
    pub fn numbers<'n>(&self, name: &CStr, values: impl Iterator<Item = (&'n CStr, u64)>) {
        let begin = api!(RedisModule_InfoBeginDictField);
        let end = api!(RedisModule_InfoEndDictField);
        // SAFETY: as above.
        unsafe { begin(self.0, name.as_ptr()) };
        values.for_each(|(name, value)| self.number(name, value));
        // SAFETY: the field was begun.
        unsafe { end(self.0) };
    }
}

pub trait Info: 'static {
    fn write(section: &Section);
}

/// Adds the section, under the module's own name. False if the server refuses.
pub fn register<I: Info>(ctx: &Ctx) -> bool {
    let register = api!(RedisModule_RegisterInfoFunc);
    // SAFETY: the context is that of the module's load.
    unsafe { register(ctx.as_ptr(), Some(write::<I>)) == raw::REDISMODULE_OK as c_int }
}

unsafe extern "C" fn write<I: Info>(info: *mut raw::RedisModuleInfoCtx, _for_crash_report: c_int) {
    guard((), || {
        let add = api!(RedisModule_InfoAddSection);
        // SAFETY: the server called with a valid context; without a name of its own the section
        // has the module's.
        if unsafe { add(info, c"".as_ptr()) } == raw::REDISMODULE_OK as c_int {
            I::write(&Section(info));
        }
    });
}

/// One section of the server's INFO.
pub struct ServerInfo<'c> {
    data: *mut raw::RedisModuleServerInfoData,
    ctx: &'c Ctx,
}

impl<'c> ServerInfo<'c> {
    pub fn section(ctx: &'c Ctx, name: &CStr) -> ServerInfo<'c> {
        let get = api!(RedisModule_GetServerInfo);
        // SAFETY: the context is valid; the server copies the name.
        let data = unsafe { get(ctx.as_ptr(), name.as_ptr()) };
        ServerInfo { data, ctx }
    }

    pub fn field(&self, name: &CStr) -> Option<String> {
        let get = api!(RedisModule_ServerInfoGetFieldC);
        // SAFETY: the data came from `GetServerInfo`.
        let value: *const c_char = unsafe { get(self.data, name.as_ptr()) };
        if value.is_null() {
            return None;
        }
        // SAFETY: the API gives a C string that lives as long as the data.
        Some(unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
    }
}

impl Drop for ServerInfo<'_> {
    fn drop(&mut self) {
        let free = api!(RedisModule_FreeServerInfo);
        // SAFETY: the data is ours, and nothing points into it any more.
        unsafe { free(self.ctx.as_ptr(), self.data) };
    }
}
