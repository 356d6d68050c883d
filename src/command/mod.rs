//! The commands: one file each, with its request, how it is parsed, and how it is run.
//!
//! [`table`] lists them; registration, COMMAND DOCS and FLOCK.HELP all read from there.
//! [`parse`] and [`options`] read arguments, [`errors`] has every error text.

mod acquire;
mod apply;
mod break_;
mod errors;
mod guard;
mod help;
mod info;
mod many;
mod options;
mod parse;
mod pttl;
mod refresh;
mod release;
pub mod table;
