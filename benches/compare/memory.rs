//! What one held lock costs in memory, and what stays of it when it is released.

use crate::contenders::TOKEN;
use crate::resp::{encode, Connection};
use crate::server::{Server, Setup};

/// Commands sent before their replies are read.
const BATCH: usize = 1_000;

#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    Flock,
    StringWithTtl,
    StringWithTtlAndFence,
}

pub const FORMS: [Form; 3] = [Form::Flock, Form::StringWithTtl, Form::StringWithTtlAndFence];

pub struct Bytes {
    pub held: f64,
    pub left_after_release: f64,
}

impl Form {
    pub fn name(self) -> &'static str {
        match self {
            Form::Flock => "flock",
            Form::StringWithTtl => "SET with TTL, no fence",
            Form::StringWithTtlAndFence => "SET with TTL + fence key",
        }
    }

    pub fn is_flock(self) -> bool {
        self == Form::Flock
    }

    fn take(self, lock: &str) -> Vec<Vec<u8>> {
        let set = encode(&["SET", lock, TOKEN, "NX", "PX", "3600000"]);
        match self {
            Form::Flock => vec![encode(&["FLOCK.ACQUIRE", lock, TOKEN, "PX", "3600000"])],
            Form::StringWithTtl => vec![set],
            Form::StringWithTtlAndFence => vec![set, encode(&["INCR", &format!("{lock}:fence")])],
        }
    }

    fn release(self, lock: &str) -> Vec<Vec<u8>> {
        vec![match self {
            Form::Flock => encode(&["FLOCK.RELEASE", lock, TOKEN]),
            Form::StringWithTtl | Form::StringWithTtlAndFence => encode(&["DEL", lock]),
        }]
    }
}

pub fn measure(setup: &Setup, form: Form, locks: usize) -> Bytes {
    let server = Server::start(setup);
    let mut connection = server.connect();
    let empty = server.used_memory();
    for_each_lock(&mut connection, locks, |lock| form.take(lock));
    let held = server.used_memory();
    for_each_lock(&mut connection, locks, |lock| form.release(lock));
    let left = server.used_memory();
    Bytes {
        held: (held - empty) / locks as f64,
        left_after_release: ((left - empty) / locks as f64).max(0.0),
    }
}

fn for_each_lock(connection: &mut Connection, locks: usize, commands: impl Fn(&str) -> Vec<Vec<u8>>) {
    for start in (0..locks).step_by(BATCH) {
        let batch: Vec<Vec<u8>> = (start..locks.min(start + BATCH))
            .flat_map(|index| commands(&format!("lock:{index:08}")))
            .collect();
        connection.send(&batch.concat());
        for _ in &batch {
            let reply = connection.read();
            assert!(reply.is_granted(), "{reply:?}");
        }
    }
}
