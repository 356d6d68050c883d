//! Proves that followers which appear under load miss nothing. While nobody follows, flock does not write its
//! effects out; so the moment when somebody begins to is the one to look at.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use support::*;

const CALLERS: usize = 4;

/// Takes and refreshes locks without a pause while `scene` goes on, and releases three of four. Each has a name
/// of its own, so that a later transition does not make up for one that was missed.
fn under_load(server: &Server, scene: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    let before = server.admin().stat("grants");
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (is_over, mut client) = (&is_over, server.admin());
            scope.spawn(move || {
                for turn in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let key = format!("{caller}:{turn}");
                    client
                        .run(&format!("FLOCK.ACQUIRE {key} tok PX 600000 LABEL turn-{turn}"))
                        .fence();
                    assert_eq!(client.run(&format!("FLOCK.REFRESH {key} tok PX 700000")), 1);
                    if turn % 4 > 0 {
                        assert_eq!(client.run(&format!("FLOCK.RELEASE {key} tok")), 1);
                    }
                }
            });
        }
        let mut admin = server.admin();
        eventually(
            "the load goes on",
            || admin.stat("grants"),
            |grants| *grants > before + 1_000,
        );
        scene();
        is_over.store(true, Ordering::Relaxed);
    });
}

/// A server that has found out that nobody follows.
fn server_alone() -> Server {
    let server = Server::builder().undressed().start();
    wait_until_alone(&server);
    server
}

fn wait_until_alone(server: &Server) {
    let mut admin = server.admin();
    eventually(
        "nobody follows",
        || admin.info("flock", "flock_followers"),
        |followers| followers == "none",
    );
}

#[test]
fn an_append_only_file_that_begins_under_load_misses_nothing() {
    let mut server = server_alone();
    under_load(&server, || {
        let mut admin = server.admin();
        // In one pass of the loop, so that nothing but the fork itself can say that a file has begun.
        let turned_on =
            admin.transaction(&["CONFIG SET appendonly yes", "FLOCK.ACQUIRE first tok PX 600000"]);
        assert_eq!(turned_on[0], OK);
        turned_on[1].fence();
        wait_for_own_file(&mut admin);
        let grants = admin.stat("grants");
        eventually(
            "the load goes on",
            || admin.stat("grants"),
            |now| *now > grants + 1_000,
        );
    });
    let mut admin = server.admin();
    assert_eq!(admin.run("CONFIG REWRITE"), OK);
    let digest = admin.run("DEBUG DIGEST");
    server.kill9();
    let commands = aof::newest_commands(server.directory());
    let is_effect =
        |command: &String| command.starts_with("FLOCK.APPLY") || command.starts_with("FLOCK.FENCE");
    let other: Vec<_> = commands
        .iter()
        .filter(|c| !is_effect(c) && *c != "MULTI" && *c != "EXEC")
        .collect();
    assert!(other.is_empty(), "nothing but effects: {other:?}");
    server.restart();
    assert_eq!(server.admin().run("DEBUG DIGEST"), digest);
}

#[test]
fn a_replica_that_connects_under_load_misses_nothing() {
    let server = server_alone();
    let mut replica = None;
    under_load(&server, || {
        replica = Some(start_companion(&server));
        let mut admin = server.admin();
        let grants = admin.stat("grants");
        eventually(
            "the load goes on",
            || admin.stat("grants"),
            |now| *now > grants + 1_000,
        );
    });
    assert_agreement(&server, replica.as_ref().unwrap());
}

#[test]
fn a_snapshot_under_load_leaves_the_server_alone_again() {
    let server = server_alone();
    under_load(&server, || {
        let mut admin = server.admin();
        let saved = admin.info("persistence", "rdb_saves");
        admin.run("BGSAVE");
        eventually(
            "a snapshot",
            || admin.info("persistence", "rdb_saves"),
            |now| *now != saved,
        );
    });
    wait_until_alone(&server);
}

#[test]
fn changes_count_towards_the_next_snapshot_also_while_nobody_follows() {
    let server = server_alone();
    let mut client = server.client();
    let changes = |client: &mut Client| client.info("persistence", "rdb_changes_since_last_save");
    assert_eq!(changes(&mut client), "0");
    client.run("FLOCK.ACQUIRE lock tok PX 60000").fence();
    client.run("FLOCK.ACQUIRE lock other PX 60000");
    assert_eq!(changes(&mut client), "1", "a refused acquire changes nothing");
    client.run("FLOCK.RELEASE lock tok");
    assert_eq!(changes(&mut client), "2");
}
