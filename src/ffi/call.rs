//! Commands of the server that the module runs itself.

use std::ffi::{c_int, CStr, CString};
use std::marker::PhantomData;

use redis_module::raw;

use super::params::{call_with, Params};
use super::string::Str;
use super::{api, Ctx};

/// The reply to a command, freed when dropped.
struct Reply(*mut raw::RedisModuleCallReply);

impl Reply {
    /// `None` if the server did not run the command at all.
    fn of(ctx: &Ctx, command: &CStr, params: &Params) -> Option<Reply> {
        let call = api!(RedisModule_Call);
        // SAFETY: the context is valid; the format describes the words, whose strings outlive the
        // call.
        let reply = unsafe { call_with!(call, params, ctx.as_ptr(), command.as_ptr()) };
        (!reply.is_null()).then(|| Reply(reply))
    }

    /// The reply as it goes over the wire.
    fn protocol(&self) -> &[u8] {
        let protocol = api!(RedisModule_CallReplyProto);
        let mut length = 0;
        // SAFETY: the reply is alive.
        let start = unsafe { protocol(self.0, &mut length) };
        if start.is_null() {
            return b"";
        }
        // SAFETY: the API says there are `length` bytes, which live as long as the reply.
        unsafe { std::slice::from_raw_parts(start.cast(), length) }
    }

    fn root(&self) -> Part<'_> {
        Part(self.0, PhantomData)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        let free = api!(RedisModule_FreeCallReply);
        // SAFETY: the reply is ours and is freed once, here.
        unsafe { free(self.0) };
    }
}

/// A reply or an element of one, which lives as long as the whole.
#[derive(Clone, Copy)]
struct Part<'r>(*mut raw::RedisModuleCallReply, PhantomData<&'r Reply>);

impl<'r> Part<'r> {
    /// One element of an array.
    fn element(self, index: usize) -> Option<Part<'r>> {
        let element = api!(RedisModule_CallReplyArrayElement);
        // SAFETY: the reply is alive; asked for an element of what is no array, the API gives null.
        let value = unsafe { element(self.0, index) };
        (!value.is_null()).then_some(Part(value, PhantomData))
    }

    fn elements(self) -> impl Iterator<Item = Part<'r>> {
        (0..).map_while(move |index| self.element(index))
    }

    /// `None` where it is no integer.
    fn integer(self) -> Option<i64> {
        let kind = api!(RedisModule_CallReplyType);
        // SAFETY: the reply is alive.
        let kind: c_int = unsafe { kind(self.0) };
        let integer = api!(RedisModule_CallReplyInteger);
        // SAFETY: the reply is alive.
        (kind == raw::REDISMODULE_REPLY_INTEGER as c_int).then(|| unsafe { integer(self.0) })
    }

    fn text(self) -> Option<String> {
        let string = api!(RedisModule_CallReplyStringPtr);
        let mut length = 0;
        // SAFETY: the reply is alive; null where it is no string.
        let start = unsafe { string(self.0, &mut length) };
        if start.is_null() {
            return None;
        }
        // SAFETY: the API says there are `length` bytes from `start`.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast(), length) };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// What `CONFIG GET` says of a setting, in the server's own words.
pub fn config_value(ctx: &Ctx, name: &'static CStr) -> Option<String> {
    let reply = Reply::of(ctx, c"CONFIG", &Params::new().word(c"GET").word(name))?;
    reply.root().element(1)?.text()
}

/// Closes the connection of a client.
pub fn kill_client(ctx: &Ctx, id: u64) {
    Reply::of(
        ctx,
        c"CLIENT",
        &Params::new().word(c"KILL").word(c"ID").integer(id),
    );
}

/// Whether this node of a cluster would serve a client's command for that key now. The server
/// checks a module's commands as it checks a client's: a key of another node's slot is refused,
/// and so is a missing key of a slot that is on its way to another node.
pub fn serves(ctx: &Ctx, key: &Str) -> bool {
    Reply::of(ctx, c"EXISTS", &Params::new().string(key))
        .is_some_and(|reply| reply.root().integer().is_some())
}

/// Where a slot of a cluster is, as this node knows it.
#[derive(Debug, PartialEq)]
pub enum Owner {
    ThisNode,
    /// `address` is host and port.
    OtherNode {
        slot: u16,
        address: String,
    },
}

/// The owner of a key's slot; `None` if it has none.
pub fn owner_of(ctx: &Ctx, key: &Str) -> Option<Owner> {
    let cluster = |params: Params| Reply::of(ctx, c"CLUSTER", &params);
    let slot = cluster(Params::new().word(c"KEYSLOT").string(key))?;
    let slot = u16::try_from(slot.root().integer()?).ok()?;
    // CLUSTER SLOTS would be easier to read, but ends Valkey 8.1 where no client's command runs.
    let nodes = cluster(Params::new().word(c"NODES"))?.root().text()?;
    owner_among(&nodes, slot)
}

/// Finds the owner in the text of CLUSTER NODES. A line has the node's id, its address
/// (`ip:port@busport,hostname`), its flags, five more fields, and then its slots: `7`, `0-99`, or
/// `[…]` for one that is on its way.
fn owner_among(nodes: &str, slot: u16) -> Option<Owner> {
    let has_slot = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<u16>(), last.parse::<u16>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&slot),
            _ => false,
        }
    };
    let line = nodes.lines().find(|line| line.split(' ').skip(8).any(has_slot))?;
    let mut fields = line.split(' ').skip(1);
    let (address, flags) = (fields.next()?, fields.next()?);
    if flags.split(',').any(|flag| flag == "myself") {
        return Some(Owner::ThisNode);
    }
    let address = address.split('@').next()?.to_owned();
    Some(Owner::OtherNode { slot, address })
}

/// The flags of a command, as COMMAND INFO has them; `None` if the server does not know it.
pub fn command_flags(ctx: &Ctx, name: &[u8]) -> Option<Vec<String>> {
    let params = Params::new().word(c"INFO").bytes(name);
    let reply = Reply::of(ctx, c"COMMAND", &params)?;
    let flags = reply.root().element(0)?.element(2)?;
    Some(flags.elements().filter_map(Part::text).collect())
}

/// Runs a command for the client of this call, as its user, and replies with its reply. What it
/// changes is replicated. False if the server gave no reply at all: then the caller must reply.
///
/// `as_script`: with the checks that the server makes for commands of a script, in place of those
/// it makes for commands of a client: a replica's data, too few replicas, a full disk. Commands that
/// run scripts are exempt, for the server makes these checks inside.
///
/// `denies_with_err`: the server says ERR where it denies the user something, and any client is told NOPERM.
pub fn run_for_client(ctx: &Ctx, command: &[Str], as_script: bool, denies_with_err: bool) -> bool {
    let Some((name, args)) = command.split_first() else {
        return false;
    };
    // The API wants the name as a C string; no command has a NUL in it.
    let Ok(name) = CString::new(name.bytes()) else {
        ctx.reply_error(c"ERR unknown command");
        return true;
    };
    // Propagate; check the user's rights; errors as replies; refuse where memory is out; in the
    // client's own protocol.
    let params = b"!CEM0"
        .iter()
        .fold(Params::new(), |params, flag| params.flag(*flag));
    let params = match as_script {
        true => params.flag(b'S'),
        false => params,
    };
    let Some(reply) = Reply::of(ctx, &name, &params.strings(args)) else {
        return false;
    };
    if let Some(error) = amended_error(ctx, &reply, denies_with_err) {
        ctx.reply_error(&error);
        return true;
    }
    let reply_with = api!(RedisModule_ReplyWithCallReply);
    // SAFETY: the context and the reply are valid.
    unsafe { reply_with(ctx.as_ptr(), reply.0) == raw::REDISMODULE_OK as c_int }
}

/// The error that stands for a reply, where the server has spoilt it.
fn amended_error(ctx: &Ctx, reply: &Reply, denies_with_err: bool) -> Option<CString> {
    let kind = api!(RedisModule_CallReplyType);
    // SAFETY: the reply is alive.
    let kind: c_int = unsafe { kind(reply.0) };
    if kind == raw::REDISMODULE_REPLY_ERROR as c_int {
        if !denies_with_err {
            return None;
        }
        let text = reply.root().text()?;
        let refusal = text.strip_prefix("ERR acl verification failed")?;
        return CString::new(format!("NOPERM acl verification failed{refusal}")).ok();
    }
    if kind != raw::REDISMODULE_REPLY_UNKNOWN as c_int {
        return None;
    }
    // Valkey since 8.1 keeps the error of a GETSET or GETDEL back, if a module follows events of
    // keys. It then comes before the reply to the next call.
    let next = Reply::of(ctx, c"PING", &Params::new())?;
    let held_back = next
        .protocol()
        .split(|byte| *byte == b'\r')
        .next()?
        .strip_prefix(b"-")?;
    CString::new(held_back).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_slot_is_found_among_the_nodes() {
        let nodes = "\
            aa 127.0.0.1:7001@17001,host myself,master - 0 0 1 connected 0-99 105 [7->-bb]\n\
            bb 127.0.0.1:7002@17002 master - 0 0 2 connected 100-104 200-300\n\
            cc 127.0.0.1:7003@17003 slave bb 0 0 2 connected\n";
        let other = |slot| {
            Some(Owner::OtherNode {
                slot,
                address: "127.0.0.1:7002".to_owned(),
            })
        };
        assert_eq!(owner_among(nodes, 7), Some(Owner::ThisNode));
        assert_eq!(owner_among(nodes, 105), Some(Owner::ThisNode));
        assert_eq!(owner_among(nodes, 100), other(100));
        assert_eq!(owner_among(nodes, 300), other(300));
        assert_eq!(owner_among(nodes, 400), None);
    }
}
