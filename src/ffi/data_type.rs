//! A data type of ours: what the server does with values of it.

use std::ffi::{c_int, c_void, CStr};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::params::{call_with, Params};
use super::string::Str;
use super::{api, guard, Ctx};

/// A value that a key may hold. Exactly one type implements this: the server keeps one pointer
/// for it.
pub trait Value: Sized + Send + 'static {
    /// Nine characters.
    const NAME: &'static CStr;
    /// The version of what [`Value::save`] writes.
    const VERSION: u32;

    /// The value as bytes, for a snapshot or a DUMP.
    fn save(&self) -> Vec<u8>;
    /// The value of such bytes, for the key of that name; `None` if they are none.
    fn load(version: u32, bytes: &[u8], db: i32, key: &[u8]) -> Option<Self>;
    /// The commands that build the value anew.
    fn rewrite(&self, aof: &Rewrite);
    /// What must be the same on a replica.
    fn digest(&self, digest: &mut Digest);
    /// Bytes of memory beside the server's own for the key.
    fn memory(&self) -> usize;
    /// The key is about to lose the value, which may live on under another name. No command may
    /// run and no key be opened here.
    fn unlinked(&mut self, db: i32, key: &[u8]);

    /// What the module keeps beside all keys; `None` if there is nothing worth writing.
    fn save_register() -> Option<u64>;
    /// Brings back what [`Value::save_register`] wrote; false if it is of a newer version.
    fn load_register(version: u32, value: u64) -> bool;
}

static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(std::ptr::null_mut());

pub(super) fn type_of<T: Value>() -> *mut raw::RedisModuleType {
    TYPE.load(Ordering::Relaxed)
}

/// Makes the type known to the server. False if it refuses.
pub fn register<T: Value>(ctx: &Ctx) -> bool {
    let mut methods = raw::RedisModuleTypeMethods {
        version: raw::REDISMODULE_TYPE_METHOD_VERSION.into(),
        rdb_load: Some(rdb_load::<T>),
        rdb_save: Some(rdb_save::<T>),
        aof_rewrite: Some(aof_rewrite::<T>),
        mem_usage: Some(mem_usage::<T>),
        digest: Some(digest::<T>),
        free: Some(free::<T>),
        aux_load: Some(aux_load::<T>),
        aux_save: Some(aux_save::<T>),
        aux_save_triggers: raw::REDISMODULE_AUX_BEFORE_RDB as c_int,
        free_effort: None,
        unlink: None,
        copy: None,
        defrag: None,
        mem_usage2: None,
        free_effort2: None,
        unlink2: Some(unlink2::<T>),
        copy2: None,
        aux_save2: Some(aux_save2::<T>),
    };
    let create = api!(RedisModule_CreateDataType);
    let version = T::VERSION as c_int;
    // SAFETY: the server copies the methods; each takes a value of `T` only.
    let created = unsafe { create(ctx.as_ptr(), T::NAME.as_ptr(), version, &mut methods) };
    TYPE.store(created, Ordering::Relaxed);
    !created.is_null()
}

/// A value that the server holds.
///
/// # Safety
/// `value` came from [`into_server`] and is alive, and nobody changes it meanwhile.
unsafe fn borrow<'v, T: Value>(value: *const c_void) -> &'v T {
    // SAFETY: the caller's promise.
    unsafe { &*value.cast::<T>() }
}

fn into_server<T: Value>(value: T) -> *mut c_void {
    Box::into_raw(Box::new(value)).cast()
}

unsafe extern "C" fn rdb_load<T: Value>(io: *mut raw::RedisModuleIO, version: c_int) -> *mut c_void {
    guard(std::ptr::null_mut(), || {
        let load = api!(RedisModule_LoadStringBuffer);
        let mut length = 0;
        // SAFETY: the server called with a valid stream. Null stands for an error in it.
        let buffer = unsafe { load(io, &mut length) };
        if buffer.is_null() {
            return std::ptr::null_mut();
        }
        // SAFETY: the API says there are `length` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.cast(), length) };
        let (db, key) = place_of(io);
        let value = T::load(
            version as u32,
            bytes,
            db,
            key.as_ref().map_or(b"", |key| key.bytes()),
        );
        let free = api!(RedisModule_Free);
        // SAFETY: the buffer is ours, and nothing points into it any more.
        unsafe { free(buffer.cast()) };
        value.map_or(std::ptr::null_mut(), into_server)
    })
}

/// The key that a value is loaded for; the server may not say which.
fn place_of(io: *mut raw::RedisModuleIO) -> (i32, Option<Str>) {
    let db = api!(RedisModule_GetDbIdFromIO);
    let key = api!(RedisModule_GetKeyNameFromIO);
    // SAFETY: only called by `rdb_load`, with the valid stream it was given.
    let db = unsafe { db(io) };
    // SAFETY: as above.
    let key = unsafe { key(io) }.cast_mut();
    // SAFETY: the server lends the name for the time of the load.
    (db, (!key.is_null()).then(|| unsafe { Str::lent(key) }))
}

unsafe extern "C" fn rdb_save<T: Value>(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    guard((), || {
        // SAFETY: the server passes a value of this type.
        let bytes = unsafe { borrow::<T>(value) }.save();
        let save = api!(RedisModule_SaveStringBuffer);
        // SAFETY: the stream is valid and the bytes outlive the call.
        unsafe { save(io, bytes.as_ptr().cast(), bytes.len()) };
    });
}

/// An AOF file being rewritten, at one key.
pub struct Rewrite<'a> {
    io: *mut raw::RedisModuleIO,
    key: Str,
    lent: PhantomData<&'a ()>,
}

impl Rewrite<'_> {
    pub fn key(&self) -> &[u8] {
        self.key.bytes()
    }

    pub fn emit(&self, command: &CStr, params: &Params) {
        let emit = api!(RedisModule_EmitAOF);
        // SAFETY: the stream is valid; the format describes the words, whose strings outlive the
        // call.
        unsafe { call_with!(emit, params, self.io, command.as_ptr()) };
    }
}

unsafe extern "C" fn aof_rewrite<T: Value>(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    guard((), || {
        // SAFETY: the server lends the name for the time of this call.
        let key = unsafe { Str::lent(key) };
        let lent = PhantomData;
        // SAFETY: the server passes a value of this type.
        unsafe { borrow::<T>(value) }.rewrite(&Rewrite { io, key, lent });
    });
}

unsafe extern "C" fn mem_usage<T: Value>(value: *const c_void) -> usize {
    // SAFETY: the server passes a value of this type.
    guard(0, || unsafe { borrow::<T>(value) }.memory())
}

/// The digest of one value, for DEBUG DIGEST.
pub struct Digest(*mut raw::RedisModuleDigest);

impl Digest {
    pub fn bytes(&mut self, bytes: &[u8]) {
        let add = api!(RedisModule_DigestAddStringBuffer);
        // SAFETY: the digest is valid for this call, and the bytes outlive it.
        unsafe { add(self.0, bytes.as_ptr().cast(), bytes.len()) };
    }

    pub fn integer(&mut self, integer: u64) {
        let add = api!(RedisModule_DigestAddLongLong);
        // SAFETY: the digest is valid for this call.
        unsafe { add(self.0, integer as i64) };
    }

    /// Ends one element of a set, whose order does not count.
    pub fn end_element(&mut self) {
        let end = api!(RedisModule_DigestEndSequence);
        // SAFETY: the digest is valid for this call.
        unsafe { end(self.0) };
    }
}

unsafe extern "C" fn digest<T: Value>(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the server passes a value of this type.
    guard((), || unsafe { borrow::<T>(value) }.digest(&mut Digest(digest)));
}

/// May run on a background thread, so it reaches nothing but the value.
unsafe extern "C" fn free<T: Value>(value: *mut c_void) {
    guard((), || {
        // SAFETY: the value is a box of this type (`into_server`, `Key::set`), given up by the
        // server, and `Send`.
        drop(unsafe { Box::from_raw(value.cast::<T>()) });
    });
}

unsafe extern "C" fn unlink2<T: Value>(options: *mut raw::RedisModuleKeyOptCtx, value: *const c_void) {
    guard((), || {
        let key = api!(RedisModule_GetKeyNameFromOptCtx);
        let db = api!(RedisModule_GetDbIdFromOptCtx);
        // SAFETY: the server called with valid options.
        let key = unsafe { key(options) };
        // SAFETY: as above.
        let db = unsafe { db(options) };
        if key.is_null() {
            return;
        }
        // SAFETY: the server lends the name, which it does not change.
        let key = unsafe { Str::lent(key.cast_mut()) };
        // SAFETY: the server passes a value of this type. It runs this under its global lock
        // while no key is open that lends the value out: our own commands delete a key only
        // after their last use of its value.
        let value = unsafe { &mut *value.cast_mut().cast::<T>() };
        value.unlinked(db, key.bytes());
    });
}

unsafe extern "C" fn aux_load<T: Value>(io: *mut raw::RedisModuleIO, version: c_int, _when: c_int) -> c_int {
    guard(raw::REDISMODULE_ERR as c_int, || {
        let load = api!(RedisModule_LoadUnsigned);
        let failed = api!(RedisModule_IsIOError);
        // SAFETY: the server called with a valid stream.
        let value = unsafe { load(io) };
        // SAFETY: as above.
        let failed = unsafe { failed(io) != 0 };
        match !failed && T::load_register(version as u32, value) {
            true => raw::REDISMODULE_OK as c_int,
            false => raw::REDISMODULE_ERR as c_int,
        }
    })
}

fn save_unsigned(io: *mut raw::RedisModuleIO, value: u64) {
    let save = api!(RedisModule_SaveUnsigned);
    // SAFETY: only called by the two functions below, with the valid stream they were given.
    unsafe { save(io, value) };
}

/// Redis 7.0 has no `aux_save2` and opens a record whatever this writes, so it always writes.
unsafe extern "C" fn aux_save<T: Value>(io: *mut raw::RedisModuleIO, _when: c_int) {
    guard((), || save_unsigned(io, T::save_register().unwrap_or(0)));
}

/// Since 7.2: where nothing is written, the file has no trace of the module.
unsafe extern "C" fn aux_save2<T: Value>(io: *mut raw::RedisModuleIO, _when: c_int) {
    guard((), || {
        if let Some(value) = T::save_register() {
            save_unsigned(io, value);
        }
    });
}
