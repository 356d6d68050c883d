//! Whether anybody follows this server: replicas, an AOF file, or a node that takes over slots.
//!
//! To write an effect out costs a good part of a FLOCK.ACQUIRE, also where the server then finds
//! that it has nobody to send it to. So flock finds that out itself, and is careful to err on one
//! side only: it may take followers for granted that are gone, never miss one.
//!
//! A follower of any kind starts from a snapshot that a forked child writes, and what happened
//! before the fork reaches it in there. So followers are taken to be there from any fork on, and
//! from any change of role; and only a look at the server itself, between two commands and while
//! no child runs, finds that there are none. In a cluster they are always taken to be there.

use super::state;
use crate::ffi::info::ServerInfo;
use crate::ffi::Ctx;

pub struct Followers {
    may_be_there: bool,
    child_runs: bool,
}

impl Default for Followers {
    fn default() -> Self {
        Followers {
            may_be_there: true,
            child_runs: false,
        }
    }
}

impl Followers {
    pub fn may_be_there(&self) -> bool {
        self.may_be_there
    }

    pub fn appear(&mut self) {
        self.may_be_there = true;
    }

    pub fn child_born(&mut self) {
        self.may_be_there = true;
        self.child_runs = true;
    }

    pub fn child_died(&mut self) {
        self.child_runs = false;
    }
}

/// Looks whether there are followers. The backlog is there from the first replica on, and as
/// long as one may come back and ask for what it missed.
pub fn check(ctx: &Ctx) {
    let flags = ctx.flags();
    let replication = ServerInfo::section(ctx, c"replication");
    let is_zero = |field| replication.field(field).as_deref() == Some("0");
    let nobody = is_zero(c"repl_backlog_active")
        && is_zero(c"connected_slaves")
        && !flags.has_aof()
        && !flags.is_cluster()
        && !flags.is_replica();
    state::with(|state| {
        let followers = &mut state.followers;
        followers.may_be_there = !nobody || followers.child_runs;
    });
}
