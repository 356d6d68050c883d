//! The module API of the server, made safe. This folder holds all of flock's unsafe code, and
//! knows nothing of locks: it is generic over the traits that the other layers implement.
//!
//! Two rules hold everywhere here. A function that the server calls (`extern "C"`) catches every
//! panic with [`guard`], because a panic that crosses into the server ends it. And whatever the
//! server calls runs under its global lock, one at a time; the one exception, the `free` callback
//! of a data type, may run on a background thread and touches nothing but its own value.

pub mod arg;
pub mod blocked;
pub mod call;
pub mod command;
pub mod config;
pub mod context;
pub mod data_type;
pub mod events;
pub mod global;
pub mod info;
pub mod key;
mod key_positions;
pub mod module;
pub mod params;
pub mod string;

pub use context::Ctx;
pub use string::{OwnedStr, Str};

/// A function of the module API. Panics if this server does not have it, which
/// [`module::init`] rules out for every function that is called without asking first.
macro_rules! api {
    ($name:ident) => {
        match $crate::ffi::api_if_present!($name) {
            Some(function) => function,
            None => $crate::ffi::missing(stringify!($name)),
        }
    };
}

/// The same, or `None` on a server that does not have it.
macro_rules! api_if_present {
    ($name:ident) => {
        // SAFETY: the server fills this pointer while the module loads, before any other code of
        // ours runs; from then on it is only read.
        unsafe { redis_module::raw::$name }
    };
}

pub(crate) use {api, api_if_present};

#[cold]
fn missing(name: &str) -> ! {
    panic!("the server has no {name}")
}

/// Runs `body`, which the server called. A panic is logged by the hook of [`module::init`] and
/// ends here, with `otherwise` for an answer.
fn guard<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(otherwise)
}
