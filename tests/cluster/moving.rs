//! The ways of a slot from one node to another.

use std::time::Duration;

use crate::nodes::wait_until_it_finds;
use crate::support::cluster::{id_of, wait_until_they_agree};
use crate::support::*;

/// How long the servers may take for it.
const MOVE_BOUND: Duration = Duration::from_secs(30);
const MIGRATE_TIMEOUT_MS: u64 = 20_000;

/// The last states of a move that is made as one: in the first two the slot has moved.
const ENDS: [&str; 5] = [
    "\"success\"",
    "\"completed\"",
    "\"cancelled\"",
    "\"canceled\"",
    "\"failed\"",
];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// CLUSTER SETSLOT and MIGRATE, as `redis-cli --cluster reshard` has it done.
    KeyByKey,
    /// As one: CLUSTER MIGRATION of Redis, CLUSTER MIGRATESLOTS of Valkey.
    Whole,
}

impl Way {
    /// Says so where a server does not have it.
    pub fn is_known(self) -> bool {
        let is_known = self == Way::KeyByKey || Build::get().is_since((8, 4), (9, 0));
        if !is_known {
            println!("skipped: this server cannot move a slot as one");
        }
        is_known
    }
}

/// A slot that is to move.
pub struct Move<'n> {
    source: &'n Server,
    target: &'n Server,
    /// All who are to know of it.
    everyone: Vec<&'n Server>,
    pub slot: i64,
}

impl<'n> Move<'n> {
    pub fn new(source: &'n Server, target: &'n Server, others: &[&'n Server], slot: i64) -> Move<'n> {
        let everyone = [source, target].into_iter().chain(others.iter().copied());
        Move {
            source,
            target,
            everyone: everyone.collect(),
            slot,
        }
    }

    /// All of it.
    #[track_caller]
    pub fn go(&self, way: Way) {
        match way {
            Way::KeyByKey => {
                self.begin();
                self.carry_all();
                self.finish();
            }
            Way::Whole => {
                self.start_whole();
                self.wait_until_it_is_there();
            }
        }
    }

    /// The slot is on its way; its keys are all still here.
    #[track_caller]
    pub fn begin(&self) {
        let slot = self.slot;
        let line = format!("CLUSTER SETSLOT {slot} IMPORTING {}", id_of(self.source));
        assert_eq!(self.target.admin().run(&line), OK);
        let line = format!("CLUSTER SETSLOT {slot} MIGRATING {}", id_of(self.target));
        assert_eq!(self.source.admin().run(&line), OK);
    }

    /// One key goes. It may have gone by itself before.
    #[track_caller]
    pub fn carry(&self, key: &[u8]) {
        let port = self.target.port();
        let reply = self
            .source
            .admin()
            .call(("MIGRATE", "127.0.0.1", port, key, 0, MIGRATE_TIMEOUT_MS));
        assert!(reply == OK || reply == "NOKEY", "{reply:?}");
    }

    #[track_caller]
    pub fn carry_all(&self) {
        let mut admin = self.source.admin();
        let line = format!("CLUSTER GETKEYSINSLOT {} 10", self.slot);
        eventually_within(
            MOVE_BOUND,
            "no key is left",
            || {
                let keys = admin.run(&line).items().to_vec();
                keys.iter().for_each(|key| self.carry(key.bytes()));
                keys
            },
            Vec::is_empty,
        );
    }

    /// The slot is the target's.
    #[track_caller]
    pub fn finish(&self) {
        let line = format!("CLUSTER SETSLOT {} NODE {}", self.slot, id_of(self.target));
        for node in [self.target, self.source] {
            assert_eq!(node.admin().run(&line), OK);
        }
        self.wait_until_it_is_there();
    }

    /// The slot stays where it is.
    #[track_caller]
    pub fn give_up(&self) {
        let line = format!("CLUSTER SETSLOT {} STABLE", self.slot);
        for node in [self.source, self.target] {
            assert_eq!(node.admin().run(&line), OK);
        }
    }

    /// Whoever has to be told is told. Another move may still be under way, and then it is refused.
    #[track_caller]
    pub fn start_whole(&self) {
        let slot = self.slot;
        let (mut admin, line) = match Build::get().is_valkey {
            true => {
                let target = id_of(self.target);
                let line = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {target}");
                (self.source.admin(), line)
            }
            false => (
                self.target.admin(),
                format!("CLUSTER MIGRATION IMPORT {slot} {slot}"),
            ),
        };
        eventually(
            &line,
            || admin.run(&line),
            |reply| !matches!(reply, Reply::Error(_)),
        );
    }

    /// Takes a move back that was started as one. True if it was not too late for that.
    #[track_caller]
    pub fn cancel_whole(&self) -> bool {
        let is_valkey = Build::get().is_valkey;
        let (node, cancel, status) = match is_valkey {
            true => (
                self.source,
                "CLUSTER CANCELSLOTMIGRATIONS",
                "CLUSTER GETSLOTMIGRATIONS",
            ),
            false => (
                self.target,
                "CLUSTER MIGRATION CANCEL ALL",
                "CLUSTER MIGRATION STATUS ALL",
            ),
        };
        let mut admin = node.admin();
        // Refused where there is nothing to cancel any more.
        println!("{cancel}: {:?}", admin.run(cancel));
        let end = eventually_within(
            MOVE_BOUND,
            "the move has come to an end",
            || format!("{:?}", admin.run(status).items()[0]),
            |task| ENDS.iter().any(|end| task.contains(end)),
        );
        println!("the move that was to be cancelled: {end}");
        ENDS[2..].iter().any(|state| end.contains(state))
    }

    /// Everybody knows that the target has the slot, and the source has none of its keys left.
    #[track_caller]
    pub fn wait_until_it_is_there(&self) {
        for node in &self.everyone {
            wait_until_it_finds(node, self.slot, self.target);
        }
        wait_until_they_agree(&self.everyone);
        let mut admin = self.source.admin();
        let line = format!("CLUSTER COUNTKEYSINSLOT {}", self.slot);
        eventually_within(
            MOVE_BOUND,
            "the source is empty",
            || admin.run(&line),
            |keys| *keys == 0,
        );
    }

    /// Where a client is sent that asks for the slot, once it is there.
    pub fn redirection(&self) -> Reply {
        Reply::Error(format!("MOVED {} 127.0.0.1:{}", self.slot, self.target.port()))
    }

    /// Where a client is sent that asks for a key of the slot that has left already.
    pub fn detour(&self) -> Reply {
        Reply::Error(format!("ASK {} 127.0.0.1:{}", self.slot, self.target.port()))
    }
}
