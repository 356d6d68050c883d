//! Proves that a server can be replaced by a newer one, and flock by a newer one, the way that needs no
//! pause: a replica of the newer kind follows the older primary, and takes its place. The other way
//! round nothing is promised.
//!
//! The server under test is the newer one; older ones are those that scripts/servers fetched.

use std::path::{Path, PathBuf};

use crate::support::*;

/// The servers that `scripts/servers` fetched: in `FLOCK_SERVERS`, by default target/servers.
fn fetched() -> Vec<Build> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers");
    let folder = std::env::var_os("FLOCK_SERVERS").map_or(default, PathBuf::from);
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let executables = entries.flatten().map(|entry| entry.path().join("redis-server"));
    executables.filter_map(Build::probe).collect()
}

/// Whether `newer` reads the snapshots of `older`. Valkey parted from Redis with 7.2.
fn follows(newer: &Build, older: &Build) -> bool {
    match (newer.is_valkey, older.is_valkey) {
        (true, false) => older.version < [7, 4, 0],
        (false, true) => false,
        _ => older.version < newer.version,
    }
}

/// A replica of the newer kind comes when there are locks of every kind, follows, and takes the
/// primary's place.
#[track_caller]
fn assert_replaceable(
    mut primary: Server,
    live: impl Fn(&Server, &mut Client),
    assert_agreement: impl Fn(&Server, &Server),
) {
    let mut client = primary.client();
    live(&primary, &mut client);
    let replica = start_companion(&primary);
    assert_agreement(&primary, &replica);
    // Now the same as effects, onto what was there.
    client.run("FLUSHALL");
    live(&primary, &mut client);
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "LABEL here");
    assert_agreement(&primary, &replica);
    let newest = client.stat("last_fence");
    primary.kill9();
    let mut client = promote(&replica);
    lease.assert_not_shorter(&mut client, "k");
    let mut waiter = replica.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
    assert_eq!(client.run("FLOCK.RELEASE k tok"), 1);
    assert!(waiter.receive().fence() > newest);
}

/// Each transition that there was before there were modes.
#[track_caller]
fn live_exclusively(server: &Server, client: &mut Client) {
    client.run("FLOCK.ACQUIRE held a PX 600000 LABEL keeper").fence();
    client.run("FLOCK.REFRESH held a PX 500000");
    client.run("FLOCK.ACQUIRE held a PX 550000").fence();
    client.run("FLOCK.ACQUIRE broken a PX 600000").fence();
    client.run("FLOCK.BREAK broken");
    client.run("FLOCK.ACQUIRE passed a PX 600000").fence();
    let line = "FLOCK.ACQUIRE passed b PX 600000 BLOCK 0 LABEL heir";
    let mut waiter = server.enqueue("passed", line);
    client.run("FLOCK.RELEASE passed a");
    waiter.receive().fence();
    client.run("FLOCK.ACQUIRE short a PX 20").fence();
    eventually("it is over", || client.run("EXISTS short"), |exists| *exists == 0);
    client.run("SELECT 3");
    client.run("FLOCK.ACQUIRE elsewhere a PX 600000").fence();
    client.run("SELECT 0");
}

#[test]
fn a_newer_server_follows_each_older_one_and_takes_its_place() {
    let newer = Build::get();
    for older in fetched().iter().filter(|older| follows(newer, older)) {
        println!("{:?} behind {:?}", newer.version, older.version);
        let primary = Server::builder()
            .undressed()
            .executable(&older.executable)
            .start();
        let live = |server: &Server, client: &mut Client| {
            live_exclusively(server, client);
            take_every_kind(client);
        };
        assert_replaceable(primary, live, assert_agreement);
    }
}

/// Its files are in tests/fixtures; this is about the link. To build it: `git archive 77ecfe8 | tar -x -C
/// SOMEWHERE`, and `cargo build --release` there.
#[test]
#[ignore = "needs FLOCK_OLD_MODULE, a libflock.so of flock 0.1.0"]
fn todays_flock_follows_the_first_one_and_takes_its_place() {
    let module = std::env::var_os("FLOCK_OLD_MODULE").expect("FLOCK_OLD_MODULE, a libflock.so");
    let module = std::fs::canonicalize(module).expect("the file that FLOCK_OLD_MODULE names");
    let primary = Server::builder().undressed().module(&module).start();
    assert_replaceable(primary, live_exclusively, assert_same_locks);
}
