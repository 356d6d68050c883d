//! The command table, and the arguments that commands share.

use super::acquire::Acquire;
use super::apply::{Apply, FenceRegister};
use super::break_::Break;
use super::help::Help;
use super::info::Info;
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
    public: Acquire Refresh Release Pttl Info Break Help,
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

pub const KEY: Arg = Arg {
    name: c"key",
    kind: Kind::Key,
    token: None,
    is_optional: false,
};

pub const TOKEN: Arg = Arg {
    name: c"token",
    kind: Kind::String,
    token: None,
    is_optional: false,
};

pub const LEASE: Arg = Arg {
    name: c"lease",
    kind: Kind::OneOf(&[
        Arg {
            name: c"milliseconds",
            kind: Kind::Integer,
            token: Some(c"PX"),
            is_optional: false,
        },
        Arg {
            name: c"seconds",
            kind: Kind::Integer,
            token: Some(c"EX"),
            is_optional: false,
        },
    ]),
    token: None,
    is_optional: false,
};
