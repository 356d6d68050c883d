//! Clients that wait for an answer.
//!
//! The server's rule: for each blocked client, `RedisModule_UnblockClient` is called exactly
//! once, also if the client has gone meanwhile; after that the handle is dead. [`Handle`] is
//! neither `Copy` nor `Clone`; [`Handle::answer`] consumes it, and dropping it is the other way.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

use redis_module::raw;

use super::{api, guard, Ctx};

/// What becomes of blocked clients and their answers.
pub trait Waiting: 'static {
    type Answer: 'static;

    /// Replies to the client, which is still there. Nothing but a reply may happen here.
    fn reply(ctx: &Ctx, answer: &mut Self::Answer);
    /// The server is done with an answer, whether it was replied with or not.
    fn done(answer: Self::Answer);
    /// CLIENT UNBLOCK … TIMEOUT: reply, and drop the handle.
    fn timed_out(ctx: &Ctx, id: HandleId);
    /// The client is gone, or was unblocked with an error. If the handle is still held, drop
    /// it. This may run while the server is in any state: change nothing that is replicated.
    fn disconnected(id: HandleId);
}

/// A blocked client, which waits for one answer. To drop the handle is to give up a client that
/// is answered otherwise, or gone.
#[derive(Debug)]
pub struct Handle<W>(*mut raw::RedisModuleBlockedClient, PhantomData<W>);

/// Tells blocked clients apart, as long as they are blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandleId(usize);

/// Blocks the client of a command, without a time limit of the server's. `None` if the server
/// does not block it: then the command must reply.
///
/// Only where [`super::context::Flags::blocking_is_denied`] is false: elsewhere this may end the
/// server. `may_unblock`: whether CLIENT UNBLOCK finds this client.
pub fn block<W: Waiting>(ctx: &Ctx, may_unblock: bool) -> Option<Handle<W>> {
    let block = api!(RedisModule_BlockClient);
    let timed_out: raw::RedisModuleCmdFunc = if may_unblock { Some(timed_out::<W>) } else { None };
    // SAFETY: the context is that of a running command; the callbacks take what `answer` passes.
    let client = unsafe { block(ctx.as_ptr(), Some(reply::<W>), timed_out, Some(done::<W>), 0) };
    if client.is_null() {
        return None;
    }
    let on_disconnect = api!(RedisModule_SetDisconnectCallback);
    // SAFETY: the client has just been blocked.
    unsafe { on_disconnect(client, Some(disconnected::<W>)) };
    Some(Handle(client, PhantomData))
}

impl<W: Waiting> Handle<W> {
    pub fn id(&self) -> HandleId {
        HandleId(self.0 as usize)
    }

    /// Unblocks the client; it gets its answer before the event loop sleeps next.
    pub fn answer(self, answer: W::Answer) {
        let client = self.0;
        std::mem::forget(self);
        unblock(client, Box::into_raw(Box::new(answer)).cast());
    }
}

/// Once for each blocked client: when its handle is consumed or dropped.
fn unblock(client: *mut raw::RedisModuleBlockedClient, answer: *mut c_void) {
    let unblock = api!(RedisModule_UnblockClient);
    // SAFETY: only the end of a handle leads here, so this is the one call for its client. The
    // answer is null, or a box that `done` frees.
    unsafe { unblock(client, answer) };
}

impl<W> Drop for Handle<W> {
    fn drop(&mut self) {
        unblock(self.0, std::ptr::null_mut());
    }
}

/// The answer behind a blocked client's private data.
///
/// # Safety
/// `data` is what [`Handle::answer`] passed, and not yet freed.
unsafe fn answer_of<'a, W: Waiting>(data: *mut c_void) -> Option<&'a mut W::Answer> {
    // SAFETY: the caller's promise; null where the handle was let go.
    unsafe { data.cast::<W::Answer>().as_mut() }
}

unsafe extern "C" fn reply<W: Waiting>(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    guard(raw::REDISMODULE_OK as c_int, || {
        let data = api!(RedisModule_GetBlockedClientPrivateData);
        // SAFETY: the server calls this with the context of an unblocked client.
        let data = unsafe { data(ctx) };
        // SAFETY: that client's private data is what `answer` passed.
        if let Some(answer) = unsafe { answer_of::<W>(data) } {
            // SAFETY: the context is valid for this call.
            W::reply(&unsafe { Ctx::new(ctx) }, answer);
        }
        raw::REDISMODULE_OK as c_int
    })
}

unsafe extern "C" fn timed_out<W: Waiting>(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    guard(raw::REDISMODULE_OK as c_int, || {
        let handle = api!(RedisModule_GetBlockedClientHandle);
        // SAFETY: the server calls this with the context of a blocked client.
        let id = HandleId(unsafe { handle(ctx) } as usize);
        // SAFETY: the context is valid for this call.
        W::timed_out(&unsafe { Ctx::new(ctx) }, id);
        raw::REDISMODULE_OK as c_int
    })
}

unsafe extern "C" fn disconnected<W: Waiting>(
    _ctx: *mut raw::RedisModuleCtx,
    client: *mut raw::RedisModuleBlockedClient,
) {
    guard((), || W::disconnected(HandleId(client as usize)));
}

unsafe extern "C" fn done<W: Waiting>(_ctx: *mut raw::RedisModuleCtx, data: *mut c_void) {
    guard((), || {
        // SAFETY: the server calls this once, last, with what `answer` passed, and never with
        // null.
        W::done(*unsafe { Box::from_raw(data.cast::<W::Answer>()) });
    });
}
