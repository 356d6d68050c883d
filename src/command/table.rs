//! The command table, and the arguments that commands share.

use super::acquire::Acquire;
use super::apply::{Apply, FenceRegister};
use super::break_::Break;
use super::guard::Guard;
use super::help::Help;
use super::info::Info;
use super::many::{AcquireMany, RefreshMany, ReleaseMany};
use super::pttl::Pttl;
use super::refresh::Refresh;
use super::release::Release;
use crate::ffi::command::{self, Arg, Command, Kind, Spec};
use crate::ffi::Ctx;

macro_rules! commands {
    (public: $($public:ident)*, internal: $($internal:ident)*) => {
        /// The commands that clients use, in the order of FLOCK.HELP.
        pub const PUBLIC: &[&Spec] = &[$(&$public::SPEC),*];

        /// Registers every command. An error names the one that the server refused.
        pub fn register(ctx: &Ctx) -> Result<(), String> {
            command::add_acl_category(ctx, c"flock");
            $(register_one::<$public>(ctx)?;)*
            $(register_one::<$internal>(ctx)?;)*
            Ok(())
        }
    };
}

commands! {
    public: Acquire Refresh Release Pttl Guard AcquireMany RefreshMany ReleaseMany Info Break Help,
    internal: Apply FenceRegister
}

fn register_one<C: Command>(ctx: &Ctx) -> Result<(), String> {
    match command::register::<C>(ctx) {
        true => Ok(()),
        false => Err(format!(
            "the server refused the command {}",
            C::SPEC.name.to_string_lossy()
        )),
    }
}

pub const KEY: Arg = Arg::new(c"key", Kind::Key);
pub const NUMKEYS: Arg = Arg::new(c"numkeys", Kind::Integer);
pub const KEYS: Arg = Arg::new(c"key", Kind::Key).multiple();
pub const TOKEN: Arg = Arg::new(c"token", Kind::String);
pub const LEASE: Arg = Arg::new(
    c"lease",
    Kind::OneOf(&[
        Arg::new(c"milliseconds", Kind::Integer).after(c"PX"),
        Arg::new(c"seconds", Kind::Integer).after(c"EX"),
    ]),
);
pub const BLOCK: Arg = Arg::new(c"milliseconds", Kind::Integer)
    .after(c"BLOCK")
    .optional();
pub const ABOVE: Arg = Arg::new(c"fence", Kind::Integer).after(c"ABOVE").optional();
pub const LABEL: Arg = Arg::new(c"text", Kind::String).after(c"LABEL").optional();
pub const COMMAND: Arg = Arg::new(c"command", Kind::String);
pub const INNER_ARGS: Arg = Arg::new(c"arg", Kind::String).optional().multiple();
