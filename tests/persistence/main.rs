//! What comes back after the server was down: holders, tokens, fences, labels
//! and leases; and the fence register, which must stay ahead of locks that are
//! long gone.
//!
//! | file | proves |
//! |---|---|
//! | `return.rs` | each way to the disk and back brings the same locks |
//! | `register.rs` | fences grow on through each way, without the help of the clock |
//! | `rdb.rs` | snapshots: with waiters, without the module, of a newer format, on a failed disk |
//! | `aof.rs` | the append-only file: its rewrite, its torn end, the power cut |
//! | `payload.rs` | DUMP and RESTORE |

#[path = "../support/mod.rs"]
mod support;

mod aof;
mod payload;
mod rdb;
mod register;
mod r#return;

use support::{eventually, Builder, Client, Server, OK};

/// A way to the disk and back.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
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

const WAYS: [Way; 5] = [
    Way::Snapshot,
    Way::Aof,
    Way::AofRewrittenAsSnapshot,
    Way::AofRewrittenAsCommands,
    Way::Reload,
];

impl Way {
    fn start(self, builder: Builder) -> Server {
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
    fn travel(self, server: &mut Server) {
        let mut admin = server.admin();
        match self {
            Way::Reload => {
                assert_eq!(admin.run("DEBUG RELOAD"), OK);
                return;
            }
            Way::Snapshot => assert_eq!(admin.run("SAVE"), OK),
            Way::Aof => {}
            Way::AofRewrittenAsSnapshot | Way::AofRewrittenAsCommands => rewrite(&mut admin),
        }
        server.kill9();
        server.restart();
    }
}

/// BGREWRITEAOF, and its end.
#[track_caller]
fn rewrite(admin: &mut Client) {
    let before = increment_number(admin);
    admin.run("BGREWRITEAOF");
    eventually(
        "the append-only file is rewritten",
        || {
            let fields = [
                "aof_rewrite_in_progress",
                "aof_rewrite_scheduled",
                "aof_last_bgrewrite_status",
            ];
            fields.map(|field| admin.info("persistence", field))
        },
        |[running, scheduled, status]| running == "0" && scheduled == "0" && status == "ok",
    );
    assert!(increment_number(admin) > before, "no rewrite took place");
}

/// How many rewrites the server has begun.
fn increment_number(admin: &mut Client) -> i64 {
    let number = admin.info("persistence", "aof_rewrites");
    number.parse().expect("a number")
}
