//! Proves that WAIT and WAITAOF, sent after the fence has arrived and over the same connection, count
//! those who have this grant: also one from the queue, which somebody else's command brought, or none.

use crate::support::*;

/// Enough for a replica that is there, and short enough to wait for one that is not.
const IN_VAIN_MS: u64 = 300;

/// How many replicas have what this connection was told.
#[track_caller]
fn counted(client: &mut Client, wanted: i64, within_ms: u64) -> i64 {
    client.call(("WAIT", wanted, within_ms)).int()
}

#[test]
fn wait_counts_the_replicas_that_have_a_grant() {
    let server = Server::builder().undressed().start();
    let mut first = server.start_replica(Server::builder());
    let _second = server.start_replica(Server::builder());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    assert_eq!(counted(&mut client, 2, 20_000), 2);
    first.stop();
    client.run("FLOCK.REFRESH k tok PX 600000");
    assert_eq!(counted(&mut client, 1, 20_000), 1);
    assert_eq!(counted(&mut client, 2, IN_VAIN_MS), 1);
    first.resume();
    assert_eq!(counted(&mut client, 2, 20_000), 2);
}

/// Whose command ended the wait, if any.
#[derive(Clone, Copy, Debug)]
enum Ender {
    Release,
    Break,
    Delete,
    Lease,
}

impl Ender {
    /// A lock that this ends once the replica has stopped.
    fn line(self) -> &'static str {
        match self {
            Ender::Release => "FLOCK.RELEASE k tok",
            Ender::Break => "FLOCK.BREAK k",
            Ender::Delete => "DEL k",
            Ender::Lease => "FLOCK.REFRESH k tok PX 20",
        }
    }
}

#[test]
fn wait_counts_no_replica_that_has_stopped_before_a_grant_from_the_queue() {
    let server = Server::builder().undressed().start();
    let mut replica = server.start_replica(Server::builder());
    let mut client = server.client();
    for ender in [Ender::Release, Ender::Break, Ender::Delete, Ender::Lease] {
        client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
        assert_eq!(counted(&mut client, 1, 20_000), 1);
        replica.stop();
        client.run(ender.line());
        let fence = waiter.receive().fence();
        // Only the replica's own word counts, not that it was sent anything.
        assert_eq!(counted(&mut waiter, 1, IN_VAIN_MS), 0, "{ender:?}");
        replica.resume();
        assert_eq!(counted(&mut waiter, 1, 20_000), 1, "{ender:?}");
        assert_eq!(
            *replica.admin().run("FLOCK.INFO k").field("fence"),
            fence,
            "{ender:?}"
        );
        client.run("FLOCK.RELEASE k next");
    }
}

#[test]
fn wait_counts_the_replicas_that_have_all_locks_of_a_grant_of_many() {
    let server = Server::builder().undressed().start();
    let mut replica = server.start_replica(Server::builder());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE b tok PX 600000").fence();
    let line = "FLOCK.MACQUIRE 2 a b next PX 600000 BLOCK 0";
    let mut waiter = server.enqueue("b", line);
    assert_eq!(counted(&mut client, 1, 20_000), 1);
    replica.stop();
    client.run("FLOCK.RELEASE b tok");
    let fence = waiter.receive().fence();
    assert_eq!(counted(&mut waiter, 1, IN_VAIN_MS), 0);
    replica.resume();
    assert_eq!(counted(&mut waiter, 1, 20_000), 1);
    for key in ["a", "b"] {
        assert_eq!(*replica.admin().call(("FLOCK.INFO", key)).field("fence"), fence);
    }
}

#[test]
fn waitaof_counts_the_files_that_have_a_grant() {
    let server = Server::builder().undressed().append_only().start();
    if !server.build().is_since((7, 2), (7, 2)) {
        return;
    }
    let mut replica = server.start_replica(Server::builder().append_only());
    wait_for_own_file(&mut replica.admin());
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    let fsynced = |client: &mut Client, replicas: i64, within_ms: u64| {
        let counts = client.call(("WAITAOF", 1, replicas, within_ms));
        [counts.items()[0].int(), counts.items()[1].int()]
    };
    assert_eq!(fsynced(&mut client, 1, 20_000), [1, 1]);
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
    replica.stop();
    client.run("FLOCK.RELEASE k tok");
    let fence = waiter.receive().fence();
    assert_eq!(fsynced(&mut waiter, 1, IN_VAIN_MS), [1, 0]);
    replica.resume();
    assert_eq!(fsynced(&mut waiter, 1, 20_000), [1, 1]);
    replica.kill9();
    let written = aof::newest_commands(replica.directory());
    let grant = format!("FLOCK.APPLY k GRANT {fence} next");
    assert!(
        written.iter().any(|command| command.starts_with(&grant)),
        "{written:?}"
    );
}
