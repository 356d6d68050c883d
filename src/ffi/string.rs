//! Strings of the server.

use redis_module::raw;

use super::api;

/// A string that the server lends for the time of a call: an argument or a key name.
#[repr(transparent)]
pub struct Str(*mut raw::RedisModuleString);

impl Str {
    /// The arguments of a command.
    ///
    /// # Safety
    /// `argv` points to `argc` valid strings that live as long as `'a`, or is null where there are none.
    pub(super) unsafe fn slice<'a>(argv: *mut *mut raw::RedisModuleString, argc: i32) -> &'a [Str] {
        if argv.is_null() {
            return &[];
        }
        // SAFETY: `Str` is a transparent wrapper of one such pointer; the rest is the caller's
        // promise.
        unsafe { std::slice::from_raw_parts(argv.cast::<Str>(), argc as usize) }
    }

    /// # Safety
    /// `string` is valid as long as the result is used.
    pub(super) unsafe fn lent(string: *mut raw::RedisModuleString) -> Str {
        Str(string)
    }

    pub(super) fn as_ptr(&self) -> *mut raw::RedisModuleString {
        self.0
    }

    pub fn bytes(&self) -> &[u8] {
        let mut length = 0;
        let pointer_and_length = api!(RedisModule_StringPtrLen);
        // SAFETY: a `Str` holds a valid string; the API only reads it and writes the length.
        let start = unsafe { pointer_and_length(self.0, &mut length) };
        // SAFETY: the server's string is `length` bytes from `start`, which do not change while
        // it is lent.
        unsafe { std::slice::from_raw_parts(start.cast(), length) }
    }
}

/// A string of ours in the server's form, freed when dropped.
pub struct OwnedStr(Str);

impl OwnedStr {
    pub fn new(bytes: &[u8]) -> OwnedStr {
        let create = api!(RedisModule_CreateString);
        // SAFETY: without a context the string is not tied to one and is ours to free; the API
        // copies the bytes.
        let string = unsafe { create(std::ptr::null_mut(), bytes.as_ptr().cast(), bytes.len()) };
        OwnedStr(Str(string))
    }
}

impl std::ops::Deref for OwnedStr {
    type Target = Str;

    fn deref(&self) -> &Str {
        &self.0
    }
}

impl Drop for OwnedStr {
    fn drop(&mut self) {
        let free = api!(RedisModule_FreeString);
        // SAFETY: the string was created without a context and is freed once, here.
        unsafe { free(std::ptr::null_mut(), self.0 .0) };
    }
}
