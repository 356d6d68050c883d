//! One cluster at a time: six servers at once are enough for a small machine. The next test starts
//! its servers meanwhile, for a node takes two seconds before it serves.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};

static ENTRANCE: Mutex<()> = Mutex::new(());
static STAGE: Mutex<()> = Mutex::new(());

/// A cluster whose turn it is. It ends before the turn does.
pub struct Staged<T> {
    cluster: T,
    _turn: MutexGuard<'static, ()>,
}

/// Starts a cluster, and waits for its turn.
#[track_caller]
pub fn on_stage<T>(start: impl FnOnce() -> T) -> Staged<T> {
    let entrance = enter(&ENTRANCE);
    let cluster = start();
    let turn = enter(&STAGE);
    drop(entrance);
    Staged { cluster, _turn: turn }
}

/// A test that failed does not fail the others.
fn enter(door: &'static Mutex<()>) -> MutexGuard<'static, ()> {
    door.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Deref for Staged<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.cluster
    }
}

impl<T> DerefMut for Staged<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.cluster
    }
}
