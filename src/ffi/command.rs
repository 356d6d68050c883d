//! Commands: how one is described, and how the server comes to run it.

use std::ffi::{c_char, c_int, CStr};
use std::mem::size_of;

use redis_module::raw;

use super::string::Str;
use super::{api, api_if_present, guard, Ctx};

/// A command of the module.
pub trait Command: 'static {
    const SPEC: Spec;

    /// Runs it; replies exactly once. `args` starts with the command's name.
    fn run(ctx: &Ctx, args: &[Str]);
}

/// All there is to know of a command from outside.
pub struct Spec {
    pub name: &'static CStr,
    /// The syntax in one line, for FLOCK.HELP.
    pub syntax: &'static str,
    /// As the server counts: with the name; negative for "at least".
    pub arity: i32,
    /// The server's command flags, separated by spaces.
    pub flags: &'static CStr,
    /// Only for the server itself: hidden where the server can (Redis 8).
    pub is_internal: bool,
    /// What it does to its one key, the first argument.
    pub key: Access,
    /// ACL categories beside those that follow from the flags, separated by spaces.
    pub acl: &'static str,
    pub summary: &'static CStr,
    pub complexity: &'static CStr,
    /// The version of the module that brought it.
    pub since: &'static CStr,
    pub args: &'static [Arg],
}

/// What a command does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It has no key.
    None,
    Read,
    Update,
    /// May create it.
    Insert,
    Delete,
}

/// One argument, for COMMAND DOCS.
pub struct Arg {
    pub name: &'static CStr,
    pub kind: Kind,
    /// The word before it.
    pub token: Option<&'static CStr>,
    pub is_optional: bool,
}

pub enum Kind {
    Key,
    String,
    Integer,
    OneOf(&'static [Arg]),
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
    let has_key = c_int::from(C::SPEC.key != Access::None);
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
        C::run(&ctx, unsafe { Str::slice(argv, argc) });
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
    let mut keys = key_specs(spec.key);
    let mut lists = Vec::new();
    let args = arg_list(spec.args, &mut lists);
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

fn key_specs(access: Access) -> Vec<raw::RedisModuleCommandKeySpec> {
    use raw::RedisModuleCommandKeySpec as KeySpec;
    // SAFETY: zeroes are a valid value of this plain C struct: the one that ends a list.
    let end: KeySpec = unsafe { std::mem::zeroed() };
    let flags = match access {
        Access::None => return vec![end],
        Access::Read => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
        Access::Update => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE,
        Access::Insert => {
            raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_INSERT
        }
        Access::Delete => raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_DELETE,
    };
    let mut first = end;
    first.flags = flags.into();
    first.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    first.bs.index = raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 { pos: 1 };
    first.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    first.fk.range = raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
        lastkey: 0,
        keystep: 1,
        limit: 0,
    };
    vec![first, end]
}

type ArgList = Vec<raw::RedisModuleCommandArg>;

/// Builds the server's form of some arguments. Every list it needs is kept alive in `lists`.
fn arg_list(args: &[Arg], lists: &mut Vec<ArgList>) -> *mut raw::RedisModuleCommandArg {
    if args.is_empty() {
        return std::ptr::null_mut();
    }
    let mut list: ArgList = args.iter().map(|arg| server_arg(arg, lists)).collect();
    // SAFETY: zeroes are a valid value of this plain C struct: the one that ends a list.
    list.push(unsafe { std::mem::zeroed() });
    // Moving the list into `lists` does not move its elements.
    let first = list.as_mut_ptr();
    lists.push(list);
    first
}

fn server_arg(arg: &Arg, lists: &mut Vec<ArgList>) -> raw::RedisModuleCommandArg {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), |t| t.as_ptr() as *const c_char);
    let (kind, key_spec, subargs) = match arg.kind {
        Kind::Key => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY,
            0,
            &[][..],
        ),
        Kind::String => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
            -1,
            &[][..],
        ),
        Kind::Integer => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
            -1,
            &[][..],
        ),
        Kind::OneOf(args) => (
            raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
            -1,
            args,
        ),
    };
    let optional = match arg.is_optional {
        true => raw::REDISMODULE_CMD_ARG_OPTIONAL,
        false => raw::REDISMODULE_CMD_ARG_NONE,
    };
    raw::RedisModuleCommandArg {
        name: arg.name.as_ptr(),
        type_: kind,
        key_spec_index: key_spec,
        token: pointer(arg.token),
        summary: std::ptr::null(),
        since: std::ptr::null(),
        flags: optional as c_int,
        deprecated_since: std::ptr::null(),
        subargs: arg_list(subargs, lists),
        display_text: std::ptr::null(),
    }
}
