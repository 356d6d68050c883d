//! What happens to locks without anybody asking for it, as the server notices it.

use super::Real;
use crate::lock::model::ops::Op;
use crate::lock::model::{after_ms, Caller, Key, Told, KEYS};
use crate::lock::{Answer, Instant, Lock, Place, Session, WaiterId};

impl Real {
    pub fn befall(&mut self, caller: Caller, op: &Op) -> Told {
        match *op {
            Op::TakeBack { key } => self.take_back(key),
            Op::Leave { back, .. } => {
                if let Some(left) = caller.checked_sub(back) {
                    self.leave(left);
                }
            }
            Op::SessionGone { connection } => self.lose_connection(connection),
            Op::Delete { key } => {
                self.remove_key(key);
                self.settle(key);
            }
            Op::Overwrite { key } => {
                self.remove_key(key);
                let place = Place { db: 0, key: &[key] };
                self.engine.dismiss_all(Some(place), Answer::WrongType);
                self.answer_waiters();
            }
            Op::Rename { from, to, is_noticed } => self.rename(from, to, is_noticed),
            Op::Flush => {
                self.locks.clear();
                self.engine.flush(None);
                self.replica.flush();
                for key in 0..KEYS {
                    self.settle(key);
                }
            }
            Op::FlushSome { ref keys } => {
                self.engine.forget_gone(|name| keys.contains(&name[0]));
                for key in keys {
                    self.locks.remove(key);
                    self.replica.remove(*key);
                }
                keys.iter().for_each(|key| self.settle(*key));
            }
            Op::Pass { ms } => {
                self.now = after_ms(self.now, ms);
                self.sweep();
            }
            Op::PassUnswept { ms } => self.now = after_ms(self.now, ms),
            Op::SetWallClock { wall_us } => self.wall_us = wall_us,
            _ => unreachable!("{op:?} is asked for"),
        }
        Told::Nothing
    }

    fn leave(&mut self, caller: Caller) {
        if let Some(id) = self.waiting.remove(&caller) {
            self.asked.remove(&caller);
            assert_eq!(self.engine.cancel(id), Some(caller));
        }
    }

    /// The server knows the names of a grant's locks from the answer that did not arrive.
    fn take_back(&mut self, key: Key) {
        let first = self.locks.get(&key).and_then(|lock| lock.holders().first());
        let Some(fence) = first.map(|holder| holder.fence) else {
            return self.settle(key);
        };
        for key in self.granted[&fence.get()].clone() {
            self.on(key, |engine, place, lock, now| {
                engine.take_back(place, lock, fence, now)
            });
        }
        self.engine.arrived(fence);
    }

    fn lose_connection(&mut self, connection: usize) {
        let session = Session(self.connections.close(connection));
        let of_session = |id: &WaiterId| {
            let waiter = self.engine.queues().get(*id);
            waiter.is_some_and(|waiter| waiter.terms.session == Some(session))
        };
        let mut callers: Vec<_> = self.waiting.iter().filter(|(_, id)| of_session(id)).collect();
        callers.sort_by_key(|(_, id)| **id);
        let callers: Vec<Caller> = callers.into_iter().map(|(caller, _)| *caller).collect();
        callers.into_iter().for_each(|caller| self.leave(caller));
        for (name, fence) in self.engine.holds_of(session) {
            self.on(name.key[0], |engine, place, lock, now| {
                engine.lose_session(place, lock, fence, session, now);
            });
        }
    }

    /// Ends what is due, as the server does before its loop sleeps.
    fn sweep(&mut self) {
        while self.engine.end_wait(Instant(self.now)) {
            self.answer_waiters();
        }
        self.settle_unsettled();
        while let Some(name) = self.engine.pop_due_lease(Instant(self.now)) {
            self.settle_name(&name);
        }
    }

    /// Takes a key away, here and on the replica.
    fn remove_key(&mut self, key: Key) {
        self.take_away(key);
        self.replica.remove(key);
    }

    fn take_away(&mut self, key: Key) -> Option<Lock> {
        let mut lock = self.locks.remove(&key)?;
        self.engine.forget(Place { db: 0, key: &[key] }, &mut lock);
        Some(lock)
    }

    fn rename(&mut self, from: Key, to: Key, is_noticed: bool) {
        if from == to || !self.locks.contains_key(&from) {
            return;
        }
        self.take_away(to);
        let lock = self.take_away(from).unwrap();
        self.locks.insert(to, lock);
        self.replica.rename(from, to);
        self.settle(from);
        if is_noticed {
            self.settle(to);
        }
    }
}
