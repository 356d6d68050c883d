//! State of the whole module.

use std::cell::RefCell;

/// Something that only code called by the server touches.
pub struct Global<T>(RefCell<T>);

// SAFETY: everything that the server calls runs under its global lock, on whichever thread has
// it, so no two threads are in `with` at once. The one callback without that lock, `free` of a
// data type, has no access to any `Global` (data_type.rs).
unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    pub const fn new(value: T) -> Global<T> {
        Global(RefCell::new(value))
    }

    /// Lends the state to `body`, which must not call anything of the server that may call back
    /// into the module: a second loan panics.
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.0.borrow_mut())
    }
}
