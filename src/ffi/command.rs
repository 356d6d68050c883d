//! Commands: how one is described, and how the server comes to run it.

use std::ffi::{c_int, CStr};
use std::mem::size_of;

use redis_module::raw;

use super::arg;
use super::key_positions;
use super::string::Str;
use super::{api, api_if_present, guard, Ctx};

pub use super::arg::{Arg, Kind};

/// A command of the module.
pub trait Command: 'static {
    const SPEC: Spec;

    /// Runs it; replies exactly once. `args` starts with the command's name.
    fn run(ctx: &Ctx, args: &[Str]);
}

/// All there is to know of a command from outside.
pub struct Spec {
    pub name: &'static CStr,
    /// As the server counts: with the name; negative for "at least".
    pub arity: i32,
    /// The server's command flags, separated by spaces.
    pub flags: &'static CStr,
    /// Only for the server itself: hidden where the server can (Redis 8).
    pub is_internal: bool,
    pub keys: Keys,
    /// ACL categories beside those that follow from the flags, separated by spaces.
    pub acl: &'static str,
    pub summary: &'static CStr,
    pub complexity: &'static CStr,
    /// The version of the module that brought it.
    pub since: &'static CStr,
    pub args: &'static [Arg],
}

/// Which arguments are keys, and what the command does to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    None,
    /// The first argument.
    One(Access),
    /// As many as the first argument says, behind it. The flags need `getkeys-api`.
    Counted(Access),
    /// The first argument, and the keys of the command that begins at that argument. The flags
    /// need `getkeys-api`.
    OneAndInner(Access, usize),
}

/// What a command does to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Update,
    /// May create it.
    Insert,
    Delete,
}

impl Access {
    pub(super) fn flags(self) -> u32 {
        match self {
            Access::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
            Access::Update => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE,
            Access::Insert => {
                raw::REDISMODULE_CMD_KEY_RW
                    | raw::REDISMODULE_CMD_KEY_ACCESS
                    | raw::REDISMODULE_CMD_KEY_INSERT
            }
            Access::Delete => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
        }
    }
}

/// Makes a command known to the server. False if it refuses.
pub fn register<C: Command>(ctx: &Ctx) -> bool {
    let spec = &C::SPEC;
    let flags = spec.flags.to_string_lossy();
    let created = if spec.is_internal {
        // Servers other than Redis 8 do not know the flag and refuse it.
        create::<C>(ctx, &format!("{flags} internal")) || create::<C>(ctx, &flags)
    } else {
        create::<C>(ctx, &flags)
    };
    if !created {
        return false;
    }
    let get = api!(RedisModule_GetCommand);
    // SAFETY: the context is that of the module's load.
    let command = unsafe { get(ctx.as_ptr(), spec.name.as_ptr()) };
    if command.is_null() {
        return false;
    }
    set_acl(command, spec);
    set_info(command, spec)
}

fn create<C: Command>(ctx: &Ctx, flags: &str) -> bool {
    let Ok(flags) = std::ffi::CString::new(flags) else {
        return false;
    };
    // The keys in the form of old: first, last, step. Only one at a fixed place has such a form.
    let has_key = c_int::from(matches!(C::SPEC.keys, Keys::One(_)));
    let create = api!(RedisModule_CreateCommand);
    // SAFETY: the context is that of the module's load; the server copies the strings.
    let status = unsafe {
        create(
            ctx.as_ptr(),
            C::SPEC.name.as_ptr(),
            Some(entry::<C>),
            flags.as_ptr(),
            has_key,
            has_key,
            has_key,
        )
    };
    status == raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn entry<C: Command>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the context is valid for this call.
    let ctx = unsafe { Ctx::new(ctx) };
    let finished = guard(false, || {
        // SAFETY: the server's arguments are valid for this call.
        let args = unsafe { Str::slice(argv, argc) };
        let tells_keys = matches!(C::SPEC.keys, Keys::Counted(_) | Keys::OneAndInner(..));
        match tells_keys && key_positions::are_asked_for(&ctx) {
            true => key_positions::tell(&ctx, C::SPEC.keys, args),
            false => C::run(&ctx, args),
        }
        true
    });
    if !finished {
        ctx.reply_error(c"ERR flock failed inside; please report this with the server's log");
    }
    raw::REDISMODULE_OK as c_int
}

/// Makes an ACL category of the module known, where the server has such (Redis 7.4, Valkey 8.0).
pub fn add_acl_category(ctx: &Ctx, name: &CStr) -> bool {
    let Some(add) = api_if_present!(RedisModule_AddACLCategory) else {
        return false;
    };
    // SAFETY: the context is that of the module's load; the server copies the name.
    unsafe { add(ctx.as_ptr(), name.as_ptr()) == raw::REDISMODULE_OK as c_int }
}

/// Categories for module commands came with Redis 7.2; without them a command stays in none. A
/// category that this server does not know costs the others too, so the rest is tried alone.
fn set_acl(command: *mut raw::RedisModuleCommand, spec: &Spec) {
    let Some(set) = api_if_present!(RedisModule_SetCommandACLCategories) else {
        return;
    };
    let servers_own: Vec<_> = spec.acl.split(' ').filter(|name| *name != "flock").collect();
    for categories in [spec.acl.to_owned(), servers_own.join(" ")] {
        let Ok(categories) = std::ffi::CString::new(categories) else {
            return;
        };
        // SAFETY: the command was just created; the server copies the names.
        if unsafe { set(command, categories.as_ptr()) } == raw::REDISMODULE_OK as c_int {
            return;
        }
    }
}

fn set_info(command: *mut raw::RedisModuleCommand, spec: &Spec) -> bool {
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let mut keys = key_specs(spec.keys);
    let mut lists = Vec::new();
    let args = arg::list(spec.args, &mut lists);
    let info = raw::RedisModuleCommandInfo {
        version: &version,
        summary: spec.summary.as_ptr(),
        complexity: spec.complexity.as_ptr(),
        since: spec.since.as_ptr(),
        history: std::ptr::null_mut(),
        tips: std::ptr::null(),
        arity: spec.arity,
        key_specs: keys.as_mut_ptr(),
        args,
    };
    let set = api!(RedisModule_SetCommandInfo);
    // SAFETY: the command was just created; every list ends with an element of zeroes and, like
    // every string, outlives the call, in which the server copies them.
    unsafe { set(command, &info) == raw::REDISMODULE_OK as c_int }
}

fn key_specs(keys: Keys) -> Vec<raw::RedisModuleCommandKeySpec> {
    use raw::RedisModuleCommandKeySpec as KeySpec;
    // SAFETY: zeroes are a valid value of this plain C struct: the one that ends a list.
    let end: KeySpec = unsafe { std::mem::zeroed() };
    let mut first = end;
    first.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    first.bs.index = raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 { pos: 1 };
    first.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    first.fk.range = raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
        lastkey: 0,
        keystep: 1,
        limit: 0,
    };
    match keys {
        Keys::None => return vec![end],
        Keys::One(access) => first.flags = access.flags().into(),
        Keys::Counted(access) => {
            first.flags = access.flags().into();
            first.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
            first.fk.keynum = raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_2 {
                keynumidx: 0,
                firstkey: 1,
                keystep: 1,
            };
        }
        // Incomplete: so that the server asks the command itself for all of them.
        Keys::OneAndInner(access, _) => {
            first.flags = (access.flags() | raw::REDISMODULE_CMD_KEY_INCOMPLETE).into();
        }
    }
    vec![first, end]
}
