//! Settings of the module, for CONFIG GET, SET and REWRITE.

use std::ffi::{c_char, c_int, c_longlong, c_void, CStr};

use redis_module::raw;

use super::{api, guard, Ctx};

/// A setting that is a number.
pub struct Number {
    /// Without the module's name.
    pub name: &'static CStr,
    pub min: i64,
    pub max: i64,
    pub get: fn() -> i64,
    pub set: fn(i64),
}

/// A setting that is one of some words, each of which stands for its place in the list.
pub struct Choice {
    pub name: &'static CStr,
    pub words: &'static [&'static CStr],
    pub get: fn() -> usize,
    pub set: fn(usize),
}

/// A setting that is yes or no.
pub struct Switch {
    pub name: &'static CStr,
    pub get: fn() -> bool,
    pub set: fn(bool),
}

/// Registers settings, each with its present value for the default, then lets the server apply
/// what its configuration says of them. False if it refuses one.
pub fn register(
    ctx: &Ctx,
    numbers: &'static [Number],
    choices: &'static [Choice],
    switches: &'static [Switch],
) -> bool {
    numbers.iter().all(|n| register_number(ctx, n))
        && choices.iter().all(|c| register_choice(ctx, c))
        && switches.iter().all(|s| register_switch(ctx, s))
        && {
            let load = api!(RedisModule_LoadConfigs);
            // SAFETY: the context is that of the module's load.
            unsafe { load(ctx.as_ptr()) == raw::REDISMODULE_OK as c_int }
        }
}

fn register_number(ctx: &Ctx, number: &'static Number) -> bool {
    let register = api!(RedisModule_RegisterNumericConfig);
    // SAFETY: the context is that of the module's load; the callbacks are given `number`.
    let status = unsafe {
        register(
            ctx.as_ptr(),
            number.name.as_ptr(),
            (number.get)(),
            raw::REDISMODULE_CONFIG_DEFAULT,
            number.min,
            number.max,
            Some(get_number),
            Some(set_number),
            None,
            std::ptr::from_ref(number).cast_mut().cast(),
        )
    };
    status == raw::REDISMODULE_OK as c_int
}

fn register_choice(ctx: &Ctx, choice: &'static Choice) -> bool {
    let mut words: Vec<_> = choice.words.iter().map(|word| word.as_ptr()).collect();
    let values: Vec<_> = (0..choice.words.len() as c_int).collect();
    let register = api!(RedisModule_RegisterEnumConfig);
    // SAFETY: the context is that of the module's load; the server copies words and values; the
    // callbacks are given `choice`.
    let status = unsafe {
        register(
            ctx.as_ptr(),
            choice.name.as_ptr(),
            (choice.get)() as c_int,
            raw::REDISMODULE_CONFIG_DEFAULT,
            words.as_mut_ptr(),
            values.as_ptr(),
            values.len() as c_int,
            Some(get_choice),
            Some(set_choice),
            None,
            std::ptr::from_ref(choice).cast_mut().cast(),
        )
    };
    status == raw::REDISMODULE_OK as c_int
}

fn register_switch(ctx: &Ctx, switch: &'static Switch) -> bool {
    let register = api!(RedisModule_RegisterBoolConfig);
    // SAFETY: the context is that of the module's load; the callbacks are given `switch`.
    let status = unsafe {
        register(
            ctx.as_ptr(),
            switch.name.as_ptr(),
            (switch.get)().into(),
            raw::REDISMODULE_CONFIG_DEFAULT,
            Some(get_switch),
            Some(set_switch),
            None,
            std::ptr::from_ref(switch).cast_mut().cast(),
        )
    };
    status == raw::REDISMODULE_OK as c_int
}

/// The setting that a callback is for.
///
/// # Safety
/// `data` is what the setting was registered with, which lives for ever.
unsafe fn setting<S>(data: *mut c_void) -> &'static S {
    // SAFETY: the caller's promise.
    unsafe { &*data.cast::<S>() }
}

unsafe extern "C" fn get_number(_name: *const c_char, data: *mut c_void) -> c_longlong {
    // SAFETY: registered with a `Number`.
    guard(0, || (unsafe { setting::<Number>(data) }.get)())
}

unsafe extern "C" fn set_number(
    _name: *const c_char,
    value: c_longlong,
    data: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard(raw::REDISMODULE_ERR as c_int, || {
        // SAFETY: registered with a `Number`.
        (unsafe { setting::<Number>(data) }.set)(value);
        raw::REDISMODULE_OK as c_int
    })
}

unsafe extern "C" fn get_choice(_name: *const c_char, data: *mut c_void) -> c_int {
    // SAFETY: registered with a `Choice`.
    guard(0, || (unsafe { setting::<Choice>(data) }.get)() as c_int)
}

unsafe extern "C" fn set_choice(
    _name: *const c_char,
    value: c_int,
    data: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard(raw::REDISMODULE_ERR as c_int, || {
        // SAFETY: registered with a `Choice`.
        (unsafe { setting::<Choice>(data) }.set)(value as usize);
        raw::REDISMODULE_OK as c_int
    })
}

unsafe extern "C" fn get_switch(_name: *const c_char, data: *mut c_void) -> c_int {
    // SAFETY: registered with a `Switch`.
    guard(0, || (unsafe { setting::<Switch>(data) }.get)().into())
}

unsafe extern "C" fn set_switch(
    _name: *const c_char,
    value: c_int,
    data: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    guard(raw::REDISMODULE_ERR as c_int, || {
        // SAFETY: registered with a `Switch`.
        (unsafe { setting::<Switch>(data) }.set)(value != 0);
        raw::REDISMODULE_OK as c_int
    })
}
