//! Blocked clients: how they come to wait, and how each gets exactly one answer.

use std::ffi::{CStr, CString};
use std::rc::Rc;

use super::{alarm, state};
use crate::ffi::blocked::{self, Handle, HandleId, Waiting};
use crate::ffi::call::{self, Owner};
use crate::ffi::context::wake_event_loop;
use crate::ffi::{Ctx, Str};
use crate::lock::{Answer, Effect, Fence, Instant, LockName, Place, Request, Session};

/// A client that waits for a lock.
#[derive(Debug)]
pub struct Caller {
    handle: Handle<Acquire>,
    client: u64,
    names: Names,
    /// The token, where the server made it: then it belongs to the reply.
    made_token: Option<MadeToken>,
}

/// The locks of one grant: one, or many at once.
pub type Names = Rc<[LockName]>;

/// A token that the server made.
pub type MadeToken = [u8; 26];

/// An answer on its way to a client.
pub struct Delivery {
    answer: Answer,
    /// Where the client is to go instead, if its lock has moved to another node.
    redirection: Option<Rc<CStr>>,
    made_token: Option<MadeToken>,
    names: Names,
    client: u64,
    is_delivered: bool,
}

/// A grant that was replied with in this pass of the event loop. If its client is closed before
/// the loop sleeps, the reply was not sent.
pub struct FreshGrant {
    client: u64,
    names: Names,
    fence: Fence,
}

/// Puts the client of this command into the queue of each lock; it must be one that may be blocked. False if
/// the server does not block it: then the command must reply.
pub fn wait(
    ctx: &Ctx,
    places: &[Place],
    request: &Request,
    made_token: Option<MadeToken>,
    until: Option<Instant>,
    now: Instant,
) -> bool {
    let may_unblock = state::with(|state| !state.quirks.must_not_unblock);
    let Some(handle) = blocked::block::<Acquire>(ctx, may_unblock) else {
        return false;
    };
    let handle_id = handle.id();
    let caller = Caller {
        handle,
        client: ctx.client_id(),
        names: places.iter().map(|place| LockName::from(*place)).collect(),
        made_token,
    };
    let effects = state::with(|state| {
        if let Some(id) = state.engine.wait(places, request, caller, until, now) {
            state.waiting.insert(handle_id, id);
        }
        state.take_effects()
    });
    answer_all(effects);
    alarm::arm();
    true
}

/// Sends the answers among some effects that are nothing but answers.
pub fn answer_all(effects: Vec<Effect<Caller>>) {
    for effect in effects {
        if let Effect::Answered(caller, answer) = effect {
            caller.answer(answer);
        }
    }
}

/// Sends waiters away whose lock this node of a cluster does not serve any more, with an error
/// that clients of a cluster follow by themselves.
pub fn redirect_all(ctx: &Ctx, key: &Str, effects: Vec<Effect<Caller>>) {
    if effects.is_empty() {
        return;
    }
    let error = match call::owner_of(ctx, key) {
        Some(Owner::OtherNode { slot, address }) => format!("MOVED {slot} {address}"),
        // Its slot is on its way: the server itself knows whom to ask for what has left already.
        Some(Owner::ThisNode) => "TRYAGAIN the lock is moving to another node with its slot".to_owned(),
        None => "UNBLOCKED no node serves the slot of this lock".to_owned(),
    };
    let error: Option<Rc<CStr>> = CString::new(error).ok().map(|error| error.into());
    for effect in effects {
        if let Effect::Answered(caller, answer) = effect {
            caller.deliver(answer, error.clone());
        }
    }
}

impl Caller {
    pub fn answer(self, answer: Answer) {
        self.deliver(answer, None);
    }

    fn deliver(self, answer: Answer, redirection: Option<Rc<CStr>>) {
        state::with(|state| state.waiting.remove(&self.handle.id()));
        self.handle.answer(Delivery {
            answer,
            redirection,
            made_token: self.made_token,
            names: self.names,
            client: self.client,
            is_delivered: false,
        });
    }
}

/// The waiting side of FLOCK.ACQUIRE.
#[derive(Debug)]
pub struct Acquire;

impl Waiting for Acquire {
    type Answer = Delivery;

    fn reply(ctx: &Ctx, delivery: &mut Delivery) {
        delivery.is_delivered = true;
        match delivery.answer {
            Answer::Granted { fence, .. } => {
                reply_fence(ctx, fence, delivery.made_token.as_ref());
                let grant = FreshGrant {
                    client: delivery.client,
                    names: Rc::clone(&delivery.names),
                    fence,
                };
                state::with(|state| state.fresh_grants.push(grant));
            }
            Answer::TimedOut | Answer::Released => ctx.reply_null(),
            Answer::Superseded => ctx.reply_error(
                c"SUPERSEDED a newer request with the same token took over this place in the queue",
            ),
            Answer::WrongType => {
                ctx.reply_error(c"WRONGTYPE Operation against a key holding the wrong kind of value");
            }
            Answer::Unblocked => {
                ctx.reply_error(c"UNBLOCKED this server has become a replica; ask the primary");
            }
            Answer::SlotMoved => {
                let error = delivery.redirection.as_deref();
                ctx.reply_error(error.unwrap_or(c"UNBLOCKED this node does not serve the lock any more"));
            }
        }
    }

    fn done(delivery: Delivery) {
        if delivery.is_delivered {
            return;
        }
        state::with(|state| {
            if let Answer::Granted { fence, .. } = delivery.answer {
                state.todo.take_back.push((delivery.names, fence));
            }
            if state.quirks.close_unanswered {
                state.todo.unanswered.push(delivery.client);
            }
        });
        wake_event_loop();
    }

    fn timed_out(ctx: &Ctx, id: HandleId) {
        ctx.reply_null();
        leave(id);
    }

    fn disconnected(id: HandleId) {
        leave(id);
    }
}

/// The reply to a grant: the fence, and the token where the server made it.
pub fn reply_fence(ctx: &Ctx, fence: Fence, made_token: Option<&MadeToken>) {
    match made_token {
        None => ctx.reply_integer(fence.get()),
        Some(token) => {
            ctx.reply_array(2);
            ctx.reply_integer(fence.get());
            ctx.reply_bytes(token);
        }
    }
}

/// Takes a client out of its queue that needs no answer of ours. One that was answered already is
/// in no queue, and its answer finds out by itself whether it arrives.
fn leave(id: HandleId) {
    let caller = state::with(|state| {
        let waiter = state.waiting.remove(&id)?;
        let caller = state.engine.cancel(waiter);
        state.todo.settle.append(&mut state.engine.take_unsettled());
        caller
    });
    drop(caller);
}

/// What was replied with in the last pass of the loop has left.
pub fn replies_sent() {
    state::with(|state| {
        for grant in state.fresh_grants.drain(..) {
            state.engine.arrived(grant.fence);
        }
    });
}

/// A client was closed. A grant that was replied with since the loop last slept never left, and the
/// holds of its session are over.
pub fn client_gone(client: u64) {
    let has_lost = state::with(|state| {
        let lost = state.fresh_grants.iter().position(|grant| grant.client == client);
        if let Some(index) = lost {
            let grant = state.fresh_grants.swap_remove(index);
            state.todo.take_back.push((grant.names, grant.fence));
        }
        let session = Session(client);
        let holds = state.engine.holds_of(session);
        let has_lost = lost.is_some() || !holds.is_empty();
        let holds = holds.into_iter().map(|(name, fence)| (name, fence, session));
        state.todo.lost_sessions.extend(holds);
        has_lost
    });
    if has_lost {
        wake_event_loop();
    }
}
