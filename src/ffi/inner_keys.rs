//! The keys of a command that runs another one: its own, and those of the inner command.

use std::cell::Cell;
use std::ffi::c_int;

use redis_module::raw;

use super::command::Access;
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

/// Tells the server the first key, and the keys of the command that begins at argument `inner_at`.
///
/// To ask for those may lead here again, if that command runs another one as well. The arguments of
/// one request could nest deeper than the stack, so only the first level is looked into: whether
/// nested commands may run at all is for the command itself to say.
pub(super) fn tell(ctx: &Ctx, access: Access, args: &[Str], inner_at: usize) {
    tell_key(ctx, 1, access.flags() as c_int);
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
