//! The lock as a value of the server: how it is saved, loaded, rewritten and compared.

use std::ffi::CStr;

use super::{clock, propagation, state};
use crate::ffi::context::{log, Flags, Level};
use crate::ffi::data_type::{Digest, Rewrite, Value};
use crate::ffi::params::Params;
use crate::lock::codec::{self, DecodeError};
use crate::lock::{Closure, Fence, Holder, Lock, LockName, Place};

impl Value for Lock {
    const NAME: &'static CStr = c"flocklock";
    const VERSION: u32 = codec::VERSION;

    fn save(&self) -> Vec<u8> {
        codec::encode(self, &clock::now())
    }

    fn load(version: u32, bytes: &[u8], db: i32, key: &[u8]) -> Option<Lock> {
        let stored = match codec::decode(version, bytes) {
            Ok(stored) => stored,
            Err(DecodeError::NewerVersion(version)) => {
                refuse_newer(version);
                return None;
            }
            Err(DecodeError::Damaged) => {
                log(Level::Warning, "a stored lock is damaged and was not loaded");
                return None;
            }
        };
        let now = clock::now();
        let elapsed = propagation::elapsed_micros(stored.at_ms, Flags::of_server(), &now);
        let lock = stored.into_lock(now.mono, elapsed);
        state::with(|state| {
            // At once: the very next command may be one that takes a fence.
            let fences = lock.holders().iter().map(|holder| holder.fence);
            for fence in fences.chain(lock.closure().map(|closure| closure.fence)) {
                state.engine.fences.observe(fence);
            }
            state.todo.adopt.push(Place { db, key }.into());
        });
        Some(lock)
    }

    fn rewrite(&self, aof: &Rewrite) {
        let now = clock::now();
        for holder in self.holders() {
            let params = Params::new().bytes(aof.key());
            let grant = propagation::grant(params, self.mode(), holder, &now);
            aof.emit(propagation::APPLY, &grant);
        }
        if let Some(closure) = self.closure() {
            let params = Params::new().bytes(aof.key());
            aof.emit(propagation::APPLY, &propagation::close(params, closure, &now));
        }
    }

    fn digest(&self, digest: &mut Digest) {
        digest.bytes(self.mode().name().as_bytes());
        digest.integer(self.mode().permits().into());
        digest.end_element();
        for holder in self.holders() {
            digest.bytes(holder.token.bytes());
            digest.integer(holder.fence.get());
            digest.integer(holder.holds().into());
            digest.integer(holder.delay().ms());
            digest.bytes(holder.label().map_or(b"", |label| label.bytes()));
            digest.end_element();
        }
        if let Some(closure) = self.closure() {
            digest.integer(closure.fence.get());
            digest.end_element();
        }
    }

    fn memory(&self) -> usize {
        let of_holders: usize = self.holders().iter().map(Holder::heap_bytes).sum();
        // Each holder also has an entry in the deadline index, and so has a closure.
        const ENTRY: usize = size_of::<(u64, u64, LockName)>();
        let of_closure = self.closure().map_or(0, |_| size_of::<Closure>() + ENTRY);
        size_of::<Lock>() + self.holders().len() * (size_of::<Holder>() + ENTRY) + of_holders + of_closure
    }

    fn unlinked(&mut self, db: i32, key: &[u8]) {
        state::with(|state| {
            let place = Place { db, key };
            state.engine.forget(place, self);
            if state.engine.queues().len(place) > 0 {
                state.todo.settle.push(place.into());
            }
        });
    }

    fn save_register() -> Option<u64> {
        state::with(|state| match state.engine.fences.last() {
            0 => None,
            last => Some(last),
        })
    }

    fn load_register(version: u32, value: u64) -> bool {
        if version > codec::VERSION {
            refuse_newer(version);
            return false;
        }
        if let Some(fence) = Fence::new(value) {
            state::with(|state| state.engine.fences.observe(fence));
        }
        true
    }
}

fn refuse_newer(version: u32) {
    let known = codec::VERSION;
    log(
        Level::Warning,
        &format!("this data was written by a newer flock (format {version}; this one reads up to {known}); upgrade the module"),
    );
}
