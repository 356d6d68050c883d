//! Commands of the server that the module runs itself.

use std::ffi::{c_int, CStr};

use redis_module::raw;

use super::params::{call_with, Params};
use super::string::Str;
use super::{api, Ctx};

/// The reply to a command, freed when dropped.
struct Reply(*mut raw::RedisModuleCallReply);

impl Reply {
    /// `None` if the server did not run the command at all.
    fn of(ctx: &Ctx, command: &CStr, params: &Params) -> Option<Reply> {
        let call = api!(RedisModule_Call);
        // SAFETY: the context is valid; the format describes the words, whose strings outlive the
        // call.
        let reply = unsafe { call_with!(call, params, ctx.as_ptr(), command.as_ptr()) };
        (!reply.is_null()).then(|| Reply(reply))
    }

    /// The text of one element of an array.
    fn element(&self, index: usize) -> Option<String> {
        let element = api!(RedisModule_CallReplyArrayElement);
        // SAFETY: the reply is alive; asked for an element of what is no array, the API gives null.
        let value = unsafe { element(self.0, index) };
        if value.is_null() {
            return None;
        }
        let string = api!(RedisModule_CallReplyStringPtr);
        let mut length = 0;
        // SAFETY: the element lives as long as the reply; null where it is no string.
        let start = unsafe { string(value, &mut length) };
        if start.is_null() {
            return None;
        }
        // SAFETY: the API says there are `length` bytes from `start`.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast(), length) };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    fn is_integer(&self) -> bool {
        let kind = api!(RedisModule_CallReplyType);
        // SAFETY: the reply is alive.
        let kind: c_int = unsafe { kind(self.0) };
        kind == raw::REDISMODULE_REPLY_INTEGER as c_int
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        let free = api!(RedisModule_FreeCallReply);
        // SAFETY: the reply is ours and is freed once, here.
        unsafe { free(self.0) };
    }
}

/// What `CONFIG GET` says of a setting, in the server's own words.
pub fn config_value(ctx: &Ctx, name: &'static CStr) -> Option<String> {
    Reply::of(ctx, c"CONFIG", &Params::new().word(c"GET").word(name))?.element(1)
}

/// Closes the connection of a client.
pub fn kill_client(ctx: &Ctx, id: u64) {
    Reply::of(
        ctx,
        c"CLIENT",
        &Params::new().word(c"KILL").word(c"ID").integer(id),
    );
}

/// Whether this node of a cluster would serve a client's command for that key now. The server
/// checks a module's commands as it checks a client's: a key of another node's slot is refused,
/// and so is a missing key of a slot that is on its way to another node.
pub fn serves(ctx: &Ctx, key: &Str) -> bool {
    Reply::of(ctx, c"EXISTS", &Params::new().string(key)).is_some_and(|reply| reply.is_integer())
}
