//! Events of the server that the module follows.

use std::ffi::{c_char, c_int, c_void, CStr};

use redis_module::raw;

use super::string::{OwnedStr, Str};
use super::{api, guard, Ctx};

/// What a module does when things happen in the server.
///
/// All but [`Events::before_sleep`] run nested in something else that the server does: there,
/// nothing may be written or replicated.
pub trait Events: 'static {
    /// The event loop is about to sleep. Here keys may be written and effects replicated.
    fn before_sleep(ctx: &Ctx);
    /// The event loop woke up: what was replied before has been sent.
    fn after_sleep();
    fn role_changed(is_primary: bool);
    /// The keys of one database, or of all, are gone.
    fn flushed(db: Option<i32>);
    fn swapped(first: i32, second: i32);
    fn client_gone(id: u64);
    /// A child process was forked, to write an AOF file or a snapshot.
    fn child_born();
    fn child_died();
    /// Settings of the server have changed.
    fn config_changed();
    /// A slot moves to another node of the cluster, or comes from there: a step of it is done.
    fn slots_moved();
    /// The keys of slots that were moved away are gone, without a word of each.
    fn keys_trimmed(is_gone: &dyn Fn(&[u8]) -> bool);
    /// A key has a new name, or a new database.
    fn moved(db: i32, name: &[u8]);
}

/// Follows the events. False if the server does not know one of them.
pub fn subscribe<E: Events>(ctx: &Ctx) -> bool {
    let events: [(u64, raw::RedisModuleEventCallback); 7] = [
        (raw::REDISMODULE_EVENT_EVENTLOOP, Some(event_loop::<E>)),
        (raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, Some(role::<E>)),
        (raw::REDISMODULE_EVENT_FLUSHDB, Some(flush::<E>)),
        (raw::REDISMODULE_EVENT_SWAPDB, Some(swap::<E>)),
        (raw::REDISMODULE_EVENT_CLIENT_CHANGE, Some(client::<E>)),
        (raw::REDISMODULE_EVENT_FORK_CHILD, Some(fork::<E>)),
        (raw::REDISMODULE_EVENT_CONFIG, Some(config::<E>)),
    ];
    events
        .into_iter()
        .all(|(id, callback)| subscribe_to(ctx, id, callback))
}

/// Follows the migration of slots. Only on a Redis since 8.4: elsewhere the events are unknown, or
/// others. False if the server refuses.
pub fn subscribe_to_slot_migrations<E: Events>(ctx: &Ctx) -> bool {
    let (migration, trim) = (
        raw::REDISMODULE_EVENT_CLUSTER_SLOT_MIGRATION,
        raw::REDISMODULE_EVENT_CLUSTER_SLOT_MIGRATION_TRIM,
    );
    subscribe_to(ctx, migration, Some(slots::<E>)) && subscribe_to(ctx, trim, Some(trim_slots::<E>))
}

fn subscribe_to(ctx: &Ctx, id: u64, callback: raw::RedisModuleEventCallback) -> bool {
    let event = raw::RedisModuleEvent { id, dataver: 1 };
    let subscribe = api!(RedisModule_SubscribeToServerEvent);
    // SAFETY: the context is valid; each callback takes the data of the event it is for.
    unsafe { subscribe(ctx.as_ptr(), event, callback) == raw::REDISMODULE_OK as c_int }
}

/// Follows keys that are renamed or moved. False if the server refuses.
pub fn subscribe_to_moves<E: Events>(ctx: &Ctx) -> bool {
    let subscribe = api!(RedisModule_SubscribeToKeyspaceEvents);
    let class = raw::REDISMODULE_NOTIFY_GENERIC;
    // SAFETY: the context is valid.
    unsafe { subscribe(ctx.as_ptr(), class, Some(keyspace::<E>)) == raw::REDISMODULE_OK as c_int }
}

unsafe extern "C" fn event_loop<E: Events>(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    moment: u64,
    _data: *mut c_void,
) {
    guard((), || match moment {
        // SAFETY: the context is valid for this call.
        raw::REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP => E::before_sleep(&unsafe { Ctx::new(ctx) }),
        raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP => E::after_sleep(),
        _ => {}
    });
}

unsafe extern "C" fn role<E: Events>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    role: u64,
    _data: *mut c_void,
) {
    guard((), || {
        E::role_changed(role == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER)
    });
}

unsafe extern "C" fn flush<E: Events>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    moment: u64,
    data: *mut c_void,
) {
    guard((), || {
        if moment != raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
            return;
        }
        // SAFETY: this is the data of a flush event.
        if let Some(flush) = unsafe { data.cast::<raw::RedisModuleFlushInfo>().as_ref() } {
            E::flushed((flush.dbnum >= 0).then_some(flush.dbnum));
        }
    });
}

unsafe extern "C" fn swap<E: Events>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _moment: u64,
    data: *mut c_void,
) {
    guard((), || {
        // SAFETY: this is the data of a swap event.
        if let Some(swap) = unsafe { data.cast::<raw::RedisModuleSwapDbInfo>().as_ref() } {
            E::swapped(swap.dbnum_first, swap.dbnum_second);
        }
    });
}

unsafe extern "C" fn client<E: Events>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    change: u64,
    data: *mut c_void,
) {
    guard((), || {
        if change != raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED {
            return;
        }
        // SAFETY: this is the data of a client event.
        if let Some(client) = unsafe { data.cast::<raw::RedisModuleClientInfo>().as_ref() } {
            E::client_gone(client.id);
        }
    });
}

unsafe extern "C" fn fork<E: Events>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    moment: u64,
    _data: *mut c_void,
) {
    guard((), || match moment {
        raw::REDISMODULE_SUBEVENT_FORK_CHILD_BORN => E::child_born(),
        raw::REDISMODULE_SUBEVENT_FORK_CHILD_DIED => E::child_died(),
        _ => {}
    });
}

unsafe extern "C" fn config<E: Events>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _change: u64,
    _data: *mut c_void,
) {
    guard((), E::config_changed);
}

unsafe extern "C" fn slots<E: Events>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _step: u64,
    _data: *mut c_void,
) {
    guard((), E::slots_moved);
}

unsafe extern "C" fn trim_slots<E: Events>(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    moment: u64,
    data: *mut c_void,
) {
    guard((), || {
        if moment == raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_TRIM_STARTED {
            return;
        }
        // SAFETY: this is the data of a trim event.
        let info = unsafe {
            data.cast::<raw::RedisModuleClusterSlotMigrationTrimInfo>()
                .as_ref()
        };
        let Some(slots) = info.map(|info| info.slots).filter(|slots| !slots.is_null()) else {
            return;
        };
        // SAFETY: the list lives for the time of this call.
        let slots = unsafe { &*slots };
        // SAFETY: it says how many ranges it has.
        let ranges = unsafe { slots.ranges.as_slice(slots.num_ranges as usize) };
        E::keys_trimmed(&|key| {
            let slot = slot_of(key);
            let holds = |range: &raw::RedisModuleSlotRange| (range.start..=range.end).contains(&slot);
            ranges.iter().any(holds)
        });
    });
}

/// The slot of a key. Servers that trim slots have the function.
fn slot_of(key: &[u8]) -> u16 {
    let key_slot = api!(RedisModule_ClusterKeySlot);
    let key = OwnedStr::new(key);
    // SAFETY: the string is valid.
    unsafe { key_slot(key.as_ptr()) as u16 }
}

unsafe extern "C" fn keyspace<E: Events>(
    ctx: *mut raw::RedisModuleCtx,
    _class: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    guard((), || {
        // SAFETY: the server passes the event's name as a C string.
        let event = unsafe { CStr::from_ptr(event) };
        if event == c"rename_to" || event == c"move_to" {
            // SAFETY: the server lends the name for the time of this call.
            let key = unsafe { Str::lent(key) };
            // SAFETY: the context is valid for this call.
            let ctx = unsafe { Ctx::new(ctx) };
            E::moved(ctx.db(), key.bytes());
        }
    });
    raw::REDISMODULE_OK as c_int
}
