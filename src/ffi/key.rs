//! Keys and the values they hold.

use std::ffi::c_int;

use redis_module::raw;

use super::api;
use super::context::Ctx;
use super::data_type::{type_of, Value};
use super::string::Str;

/// A key opened for reading or writing; closed when dropped.
pub struct Key<'c> {
    raw: *mut raw::RedisModuleKey,
    _ctx: &'c Ctx,
}

/// What a key holds.
pub enum Content<'k, T> {
    Nothing,
    Ours(&'k mut T),
    /// A value of another type.
    Other,
}

impl<'c> Key<'c> {
    pub fn for_reading(ctx: &'c Ctx, name: &Str) -> Key<'c> {
        Key::open(ctx, name, raw::REDISMODULE_READ)
    }

    pub fn for_writing(ctx: &'c Ctx, name: &Str) -> Key<'c> {
        Key::open(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)
    }

    fn open(ctx: &'c Ctx, name: &Str, mode: u32) -> Key<'c> {
        let open = api!(RedisModule_OpenKey);
        // SAFETY: the context and the name are valid. The result may be null: for reading, where
        // there is no key.
        let raw = unsafe { open(ctx.as_ptr(), name.as_ptr(), mode as c_int) };
        Key {
            raw: raw.cast(),
            _ctx: ctx,
        }
    }

    pub fn content<T: Value>(&mut self) -> Content<'_, T> {
        if self.raw.is_null() {
            return Content::Nothing;
        }
        let get_type = api!(RedisModule_ModuleTypeGetType);
        // SAFETY: the key is open. For a value of the server's own types the API gives null.
        let found = unsafe { get_type(self.raw) };
        if !found.is_null() && found == type_of::<T>() {
            let get_value = api!(RedisModule_ModuleTypeGetValue);
            // SAFETY: the key is open and holds a value of a module's type.
            let value = unsafe { get_value(self.raw) };
            // SAFETY: values of our type are boxes of `T` (data_type.rs). The loan of `self`
            // keeps the key open and any second loan of the value away.
            return unsafe { value.cast::<T>().as_mut() }.map_or(Content::Nothing, Content::Ours);
        }
        let key_type = api!(RedisModule_KeyType);
        // SAFETY: the key is open.
        match unsafe { key_type(self.raw) } as isize {
            raw::REDISMODULE_KEYTYPE_EMPTY => Content::Nothing,
            _ => Content::Other,
        }
    }

    /// Stores a value in a key open for writing, in place of what it held.
    pub fn set<T: Value>(&mut self, value: Box<T>) {
        let value = Box::into_raw(value);
        let set = api!(RedisModule_ModuleTypeSetValue);
        // SAFETY: the key is open and the value a box of the type it is stored under.
        let status = unsafe { set(self.raw, type_of::<T>(), value.cast()) };
        if status != raw::REDISMODULE_OK as c_int {
            // SAFETY: the server did not take the box, so it is still ours.
            drop(unsafe { Box::from_raw(value) });
        }
    }

    /// Deletes a key open for writing.
    pub fn delete(&mut self) {
        let delete = api!(RedisModule_DeleteKey);
        // SAFETY: the key is open; one that is not open for writing is left alone by the API.
        unsafe { delete(self.raw) };
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            let close = api!(RedisModule_CloseKey);
            // SAFETY: the key is open and is closed once, here.
            unsafe { close(self.raw) };
        }
    }
}
