//! Proves what a snapshot holds and what it does not, and what the locks do
//! when none can be written.

use std::time::Duration;

use crate::support::*;

/// A server whose snapshot, and nothing else, is at hand for others to load.
fn saved(act: impl Fn(&mut Client)) -> Server {
    let mut server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("SET ordinary value");
    act(&mut client);
    assert_eq!(client.run("SAVE"), OK);
    server.kill9();
    server
}

#[test]
fn the_snapshot_of_a_server_that_never_granted_loads_without_the_module() {
    let server = saved(|client| {
        client.run("FLOCK.INFO k");
        client.run("FLOCK.RELEASE k tok");
        client.run("CONFIG SET flock.max-waiters 7");
    });
    let loaded = BareServer::start(server.directory());
    if server.build().is_since((7, 2), (7, 2)) {
        let bare = loaded.unwrap_or_else(|log| panic!("not loaded:\n{log}"));
        assert_eq!(bare.client().run("GET ordinary"), "value");
    } else {
        // Redis 7.0 writes a mark of every module that has data of its own, even of none.
        assert!(loaded.is_err());
    }
}

#[test]
fn the_snapshot_of_a_server_that_granted_needs_the_module_for_its_fences() {
    for release in ["FLOCK.RELEASE k tok", "PING"] {
        let server = saved(|client| {
            client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
            client.run(release);
        });
        let log = BareServer::start(server.directory()).err().expect("a refusal");
        assert!(log.contains("flocklock"), "{log}");
    }
}

#[test]
fn a_snapshot_in_the_background_has_the_holders_and_not_the_waiters() {
    let mut server = Server::builder().undressed().start();
    let mut client = server.client();
    let fence = client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    let mut waiters: Vec<_> = (0..10)
        .map(|index| server.enqueue("k", &format!("FLOCK.ACQUIRE k w{index} PX 600000 BLOCK 0")))
        .collect();
    client.run("BGSAVE");
    eventually(
        "the snapshot is written",
        || client.info("persistence", "rdb_bgsave_in_progress"),
        |running| running == "0",
    );
    assert_eq!(client.info("persistence", "rdb_last_bgsave_status"), "ok");
    // The queue goes on, while and after the snapshot is written.
    assert_eq!(client.run("FLOCK.RELEASE k tok"), 1);
    assert!(waiters[0].receive().fence() > fence);
    assert_eq!(client.waiters("k"), 9);

    server.kill9();
    server.restart();
    let mut client = server.admin();
    assert_eq!(*client.run("FLOCK.INFO k").field("fence"), fence);
    assert_eq!(client.waiters("k"), 0);
    assert_eq!(client.stat("waiters"), 0);
    assert_eq!(client.run("FLOCK.RELEASE k tok"), 1);
}

#[test]
fn a_snapshot_of_a_newer_format_is_refused_with_a_line_in_the_log() {
    let mut server = Server::builder().undressed().set("rdbchecksum", "no").start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    let payload = client.run("DUMP k").bytes().to_vec();
    assert_eq!(client.run("SAVE"), OK);
    // Type and number of the module's type, as they stand in both; the last byte ends with the version.
    let head = &payload[..10];
    let file = server.directory().join("dump.rdb");
    let mut snapshot = std::fs::read(&file).expect("the snapshot");
    // The key stands between the two: only the number is searched for.
    let number = &head[1..];
    let places: Vec<_> = (0..snapshot.len() - number.len())
        .filter(|start| snapshot[*start..].starts_with(number))
        .collect();
    assert!(!places.is_empty(), "the snapshot has no value of ours");
    for start in places {
        snapshot[start + number.len() - 1] += 1;
    }
    std::fs::write(&file, snapshot).expect("the snapshot");
    server.kill9();
    let log = server
        .try_restart()
        .expect_err("a file of a newer format was loaded");
    let told = |line: &str| line.contains("<flock>") && line.contains("newer");
    assert!(log.lines().any(told), "{log}");
    assert!(!log.contains("BUG REPORT"), "{log}");
}

/// A disk that takes no snapshot stops all writes of the server, grants and releases included.
/// Leases end all the same, and their ends are not lost on the queue.
#[test]
fn on_a_failed_disk_nothing_is_granted_by_command_and_leases_still_end() {
    let builder = Server::builder().set("enable-protected-configs", "yes");
    let server = builder.undressed().set("save", "\"3600 1\"").start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE short tok PX 500").fence();
    let mut waiter = server.enqueue("short", "FLOCK.ACQUIRE short next PX 600000 BLOCK 0");
    client.run("FLOCK.ACQUIRE held tok PX 600000").fence();
    let vanishing = tempfile::tempdir().expect("a directory");
    client.call((
        "CONFIG",
        "SET",
        "dir",
        vanishing.path().to_string_lossy().into_owned(),
    ));
    drop(vanishing);
    client.run("BGSAVE");
    eventually(
        "the snapshot fails",
        || client.info("persistence", "rdb_last_bgsave_status"),
        |status| status == "err",
    );
    for line in [
        "FLOCK.ACQUIRE new tok PX 1000",
        "FLOCK.RELEASE held tok",
        "FLOCK.BREAK held",
    ] {
        assert_eq!(client.run(line).error_word(), "MISCONF", "{line}");
    }
    assert!(client.run("FLOCK.PTTL held tok").int() > 0);
    waiter
        .receive_within(Duration::from_secs(5))
        .expect("the lease's end")
        .fence();

    client.call((
        "CONFIG",
        "SET",
        "dir",
        server.directory().to_string_lossy().into_owned(),
    ));
    assert_eq!(client.run("SAVE"), OK);
    assert_eq!(client.run("FLOCK.RELEASE held tok"), 1);
}
