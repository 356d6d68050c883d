//! A replica of the engine's locks: it has nothing but what the effects say, and must agree.

use std::collections::BTreeMap;

use super::{Caller, Key};
use crate::lock::{Effect, Engine, FenceSource, Holder, Lock, Place, Renewal, Terms};

pub struct Replica {
    engine: Engine<Caller>,
    locks: BTreeMap<Key, Lock>,
}

impl Replica {
    pub fn new() -> Replica {
        Replica {
            engine: Engine::new(FenceSource::Clock),
            locks: BTreeMap::new(),
        }
    }

    /// Follows one effect. A holder that the effect names is written down as it stands in the
    /// primary's lock, unless a later effect has ended it.
    pub fn follow(&mut self, key: Key, primary: &Lock, effect: &Effect<Caller>) {
        let mut lock = self.locks.remove(&key).unwrap_or_default();
        let name = [key];
        let place = Place { db: 0, key: &name };
        match *effect {
            Effect::Granted(fence) => {
                assert!(lock.closure().is_none(), "nobody is granted a closed lock");
                if let Some(holder) = primary.holder_of_fence(fence) {
                    let holder = written_down(holder);
                    self.engine.apply_grant(place, &mut lock, primary.mode(), holder);
                }
            }
            Effect::Renewed(fence) => {
                if let Some(holder) = primary.holder_of_fence(fence) {
                    let renewal = Renewal {
                        deadline: holder.deadline,
                        holds: holder.holds(),
                        delay: holder.delay(),
                    };
                    let is_known = self.engine.apply_renewal(place, &mut lock, fence, renewal);
                    assert!(is_known, "only a hold that was granted is renewed");
                }
            }
            Effect::Ended(fence, _) => {
                self.engine.apply_end(place, &mut lock, fence);
            }
            Effect::Closed(fence) => {
                let until = primary.closure().map(|closure| closure.until);
                self.engine.apply_closure(place, &mut lock, fence, until);
            }
            Effect::Opened(fence) => {
                self.engine.apply_closure(place, &mut lock, fence, None);
            }
            Effect::Answered(..) => unreachable!("answers are not replicated"),
        }
        if !lock.is_vacant() {
            self.locks.insert(key, lock);
        }
    }

    pub fn remove(&mut self, key: Key) -> Option<Lock> {
        let mut lock = self.locks.remove(&key)?;
        self.engine.forget(Place { db: 0, key: &[key] }, &mut lock);
        Some(lock)
    }

    pub fn rename(&mut self, from: Key, to: Key) {
        self.remove(to);
        if let Some(lock) = self.remove(from) {
            self.locks.insert(to, lock);
        }
    }

    pub fn flush(&mut self) {
        self.locks.clear();
        self.engine.flush(None);
    }

    /// Whether it has the lock as the primary has it.
    pub fn agrees(&self, key: Key, primary: Option<&Lock>) -> bool {
        let of_primary = primary.map_or(&[][..], |lock| lock.holders());
        let of_primary = of_primary.iter().map(written_down);
        let lock = self.locks.get(&key);
        let holders = lock.map_or(&[][..], |lock| lock.holders());
        let has_mode = holders.is_empty() || lock.map(Lock::mode) == primary.map(Lock::mode);
        let has_closure = lock.and_then(Lock::closure) == primary.and_then(Lock::closure);
        has_mode && has_closure && holders.iter().cloned().eq(of_primary)
    }
}

/// A holder as it is sent: without the connection, which is the primary's own.
fn written_down(holder: &Holder) -> Holder {
    let terms = Terms {
        session: None,
        ..holder.terms().clone()
    };
    Holder::new(holder.token.clone(), holder.fence, holder.deadline, terms)
}
