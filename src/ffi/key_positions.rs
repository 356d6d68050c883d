//! Which arguments of a command are keys, where the server asks the command itself: because it runs
//! another command, whose keys are its own; or because most servers, when they route a command in a
//! cluster, do not go by key specs with a count.

use std::cell::Cell;
use std::ffi::c_int;

use redis_module::raw;

use super::command::{Access, Keys};
use super::string::Str;
use super::{api, Ctx};

/// Whether the server wants to know the keys of a command, instead of running it.
pub(super) fn are_asked_for(ctx: &Ctx) -> bool {
    let is_request = api!(RedisModule_IsKeysPositionRequest);
    // SAFETY: the context is valid.
    unsafe { is_request(ctx.as_ptr()) != 0 }
}

thread_local! {
    /// Whether the keys of an inner command are being asked for.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Tells the server the keys of a command that was called with these arguments.
pub(super) fn tell(ctx: &Ctx, keys: Keys, args: &[Str]) {
    match keys {
        Keys::None => {}
        Keys::One(access) => tell_key(ctx, 1, access.flags() as c_int),
        Keys::Counted(access) => tell_counted(ctx, access, args),
        Keys::OneAndInner(access, inner_at) => {
            tell_key(ctx, 1, access.flags() as c_int);
            tell_inner(ctx, args, inner_at);
        }
    }
}

/// A count that makes no sense stands for no keys: the command will say what is wrong.
fn tell_counted(ctx: &Ctx, access: Access, args: &[Str]) {
    const FIRST: usize = 2;
    let count = args.get(1).and_then(|arg| std::str::from_utf8(arg.bytes()).ok());
    let count: usize = count.and_then(|count| count.parse().ok()).unwrap_or(0);
    if count <= args.len().saturating_sub(FIRST) {
        for position in FIRST..FIRST + count {
            tell_key(ctx, position as c_int, access.flags() as c_int);
        }
    }
}

/// To ask for the keys of an inner command may lead here again, if that one runs another as well. The
/// arguments of one request could nest deeper than the stack, so only the first level is looked
/// into: whether nested commands may run at all is for the command itself to say.
fn tell_inner(ctx: &Ctx, args: &[Str], inner_at: usize) {
    if IS_INSIDE.replace(true) {
        return;
    }
    if let Some(inner) = args.get(inner_at..).filter(|inner| !inner.is_empty()) {
        tell_keys_of(ctx, inner, inner_at as c_int);
    }
    IS_INSIDE.set(false);
}

fn tell_keys_of(ctx: &Ctx, inner: &[Str], offset: c_int) {
    let get_keys = api!(RedisModule_GetCommandKeysWithFlags);
    let argv: *const *mut raw::RedisModuleString = inner.as_ptr().cast();
    let (mut count, mut flags) = (0, std::ptr::null_mut());
    // SAFETY: a `Str` is a transparent wrapper of the pointer that the API wants, and it reads no
    // more than so many of them. It writes the number of keys and a list of their flags.
    let positions = unsafe {
        get_keys(
            ctx.as_ptr(),
            argv.cast_mut(),
            inner.len() as c_int,
            &mut count,
            &mut flags,
        )
    };
    // Null for an unknown command, one without keys, or wrong arguments: the call will tell.
    if positions.is_null() {
        return;
    }
    // SAFETY: the API says there are `count` positions.
    let list = unsafe { std::slice::from_raw_parts(positions, count as usize) };
    // SAFETY: and as many flags, which are none where the server finds the keys by place alone.
    let flags_list = unsafe { std::slice::from_raw_parts(flags, count as usize) };
    for (position, flags) in list.iter().zip(flags_list) {
        tell_key(ctx, offset + position, *flags);
    }
    let free = api!(RedisModule_Free);
    // SAFETY: both lists are ours to free, once, here.
    unsafe { free(positions.cast()) };
    // SAFETY: as above.
    unsafe { free(flags.cast()) };
}

fn tell_key(ctx: &Ctx, position: c_int, flags: c_int) {
    let tell = api!(RedisModule_KeyAtPosWithFlags);
    // SAFETY: the server asked for the positions of keys.
    unsafe { tell(ctx.as_ptr(), position, flags) };
}
