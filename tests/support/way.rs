//! The ways to the disk and back.

use super::builder::Builder;
use super::client::Client;
use super::eventually::eventually;
use super::server::Server;
use super::OK;

/// A way to the disk and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// SAVE, then the power goes.
    Snapshot,
    /// The append-only file as it was written.
    Aof,
    /// The append-only file after a rewrite, its base in the form of a snapshot.
    AofRewrittenAsSnapshot,
    /// The append-only file after a rewrite, its base made of commands.
    AofRewrittenAsCommands,
    /// DEBUG RELOAD: the same process saves and loads.
    Reload,
}

pub const WAYS: [Way; 5] = [
    Way::Snapshot,
    Way::Aof,
    Way::AofRewrittenAsSnapshot,
    Way::AofRewrittenAsCommands,
    Way::Reload,
];

impl Way {
    /// A server that can go this way.
    #[track_caller]
    pub fn start(self, builder: Builder) -> Server {
        let builder = builder.undressed();
        match self {
            Way::Snapshot | Way::Reload => builder,
            Way::Aof | Way::AofRewrittenAsSnapshot => builder.append_only(),
            Way::AofRewrittenAsCommands => builder.append_only().set("aof-use-rdb-preamble", "no"),
        }
        .start()
    }

    /// To the disk, down without a warning, and back. Clients of before are gone, but for
    /// `Way::Reload`.
    #[track_caller]
    pub fn travel(self, server: &mut Server) {
        self.write(&mut server.admin());
        if self != Way::Reload {
            server.kill9();
            server.restart();
        }
    }

    /// To the disk; `Way::Reload` comes back at once.
    #[track_caller]
    pub fn write(self, admin: &mut Client) {
        match self {
            Way::Reload => assert_eq!(admin.run("DEBUG RELOAD"), OK),
            Way::Snapshot => assert_eq!(admin.run("SAVE"), OK),
            Way::Aof => {}
            Way::AofRewrittenAsSnapshot | Way::AofRewrittenAsCommands => rewrite(admin),
        }
    }
}

/// BGREWRITEAOF, and its end.
#[track_caller]
pub fn rewrite(admin: &mut Client) {
    let before = increment_number(admin);
    admin.run("BGREWRITEAOF");
    wait_for_own_file(admin);
    assert_eq!(admin.info("persistence", "aof_last_bgrewrite_status"), "ok");
    assert!(increment_number(admin) > before, "no rewrite took place");
}

/// The server has a whole append-only file, and no rewrite is due or under way. All seen in one look,
/// for what was due is under way at the next.
#[track_caller]
pub fn wait_for_own_file(admin: &mut Client) {
    let signs = [
        "aof_enabled:1\r\n",
        "aof_rewrite_in_progress:0",
        "aof_rewrite_scheduled:0",
    ];
    eventually(
        "the append-only file is complete",
        || admin.run("INFO persistence").text(),
        |info| signs.iter().all(|sign| info.contains(sign)),
    );
}

/// How many rewrites the server has begun.
fn increment_number(admin: &mut Client) -> i64 {
    let number = admin.info("persistence", "aof_rewrites");
    number.parse().expect("a number")
}
