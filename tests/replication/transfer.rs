//! Proves that every way of a full synchronization brings the same locks and the register, also onto a
//! server that has locks, waiters and a register of its own, of which nothing must be left.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::counting;
use crate::support::*;

/// A lease that ends within the test, and after its receiver was promoted.
const ENDING_MS: u64 = 4_000;

/// How the data set is sent and received.
struct Way {
    is_diskless: &'static str,
    load: &'static str,
    /// Over a connection of its own, while the stream goes on over the other.
    has_own_channel: bool,
    /// The receiver has nothing before.
    is_onto_nothing: bool,
    /// What the receiver's log says of it.
    sign: &'static str,
}

const TO_DISK: &str = "to disk";
const TO_MEMORY: &str = "to parser";

const fn way(is_diskless: &'static str, load: &'static str, sign: &'static str) -> Way {
    Way {
        is_diskless,
        load,
        has_own_channel: false,
        is_onto_nothing: false,
        sign,
    }
}

const WAYS: [Way; 8] = [
    way("no", "disabled", TO_DISK),
    way("yes", "disabled", TO_DISK),
    way("yes", "on-empty-db", TO_DISK),
    Way {
        is_onto_nothing: true,
        ..way("yes", "on-empty-db", TO_MEMORY)
    },
    // flock does not load beside a data set that is still read, so the server takes the disk.
    way("yes", "swapdb", TO_DISK),
    way("yes", "flush-before-load", TO_MEMORY),
    Way {
        has_own_channel: true,
        ..way("yes", "disabled", TO_DISK)
    },
    Way {
        has_own_channel: true,
        is_onto_nothing: true,
        ..way("yes", "on-empty-db", TO_MEMORY)
    },
];

impl Way {
    fn name(&self) -> String {
        let Way {
            is_diskless, load, ..
        } = self;
        let channel = if self.has_own_channel {
            "two channels"
        } else {
            "one"
        };
        format!("diskless {is_diskless}, load {load}, {channel}")
    }

    /// The settings of the server that receives; none if it does not know the way.
    fn receiver(&self, build: &Build) -> Option<Builder> {
        if self.load == "flush-before-load" && !(build.is_valkey && build.version >= [8, 1, 0]) {
            return None;
        }
        let channel = match (build.is_valkey, self.has_own_channel) {
            (_, false) => return Some(counting().set("repl-diskless-load", self.load)),
            (true, true) => "dual-channel-replication-enabled",
            (false, true) => "repl-rdb-channel",
        };
        let builder = counting().set("repl-diskless-load", self.load);
        build
            .is_since((8, 0), (8, 0))
            .then(|| builder.set(channel, "yes"))
    }

    fn prepare(&self, sender: &mut Client, build: &Build) {
        sender.call(("CONFIG", "SET", "repl-diskless-sync", self.is_diskless));
        let channel = match build.is_valkey {
            true => "dual-channel-replication-enabled",
            false => "repl-rdb-channel",
        };
        // Who does not know it has no such way.
        let value = if self.has_own_channel { "yes" } else { "no" };
        sender.call(("CONFIG", "SET", channel, value));
    }
}

/// A server's own past: a lock that outlives it, one that would have ended meanwhile, and a queue.
#[track_caller]
fn live_alone(server: &Server) -> Client {
    let mut client = server.admin();
    client.run("SELECT 4");
    client.run("FLOCK.ACQUIRE old tok PX 600000").fence();
    client.run("SELECT 0");
    client.run("FLOCK.ACQUIRE old tok PX 600000").fence();
    client
        .run("FLOCK.ACQUIRE exclusive mine PX 300 DELAY 300")
        .fence();
    server.enqueue("old", "FLOCK.ACQUIRE old next PX 600000 BLOCK 0")
}

#[track_caller]
fn follow(receiver: &Server, sender: &Server) {
    let line = format!("REPLICAOF 127.0.0.1 {}", sender.port());
    assert_eq!(receiver.admin().run(&line), OK);
    receiver.wait_for_link();
}

/// A receiver that was promoted, and a lease that came to it in the snapshot.
struct Promoted {
    client: Client,
    ending: Lease,
    _server: Server,
}

impl Promoted {
    /// It ends at its time, on a server that is its primary now.
    #[track_caller]
    fn assert_lease_ends(&mut self) {
        eventually(
            "the lease is over",
            || self.client.run("EXISTS ending"),
            |exists| *exists == 0,
        );
        assert!(Instant::now() >= self.ending.earliest_end(), "too early");
    }
}

/// Sends everything this way, and a little more; then the receiver goes its own way.
#[track_caller]
fn send(way: &Way, sender: &Server, receiver: Server) -> Promoted {
    let name = way.name();
    let mut client = sender.client();
    way.prepare(&mut client, sender.build());
    let waiter = (!way.is_onto_nothing).then(|| live_alone(&receiver));
    let ending = Lease::take(&mut client, "ending", "tok", ENDING_MS, "");
    // In no key: the register brings it.
    let newest = client.run("FLOCK.ACQUIRE gone tok PX 600000").fence();
    client.run("FLOCK.RELEASE gone tok");
    follow(&receiver, sender);
    assert_eq!(receiver.admin().stat("last_fence"), newest, "{name}");
    assert_agreement(sender, &receiver);
    let log = receiver.log();
    assert!(log.contains(way.sign), "{name}: {log}");
    if let Some(mut waiter) = waiter {
        assert_eq!(waiter.receive().error_word(), "UNBLOCKED", "{name}");
    }
    let lease = Lease::take(&mut client, "live", "tok", 600_000, "LABEL here");
    assert_eq!(lease.fence, newest + 1, "{name}");
    assert_agreement(sender, &receiver);
    client.run("FLOCK.RELEASE live tok");
    assert_agreement(sender, &receiver);

    let mut promoted = promote(&receiver);
    assert_eq!(promoted.run("EXISTS old live gone"), 0, "{name}");
    assert_eq!(
        promoted.run("FLOCK.ACQUIRE new tok PX 600000"),
        newest + 2,
        "{name}"
    );
    use_every_kind(&mut promoted);
    client.run("FLOCK.RELEASE ending tok");
    Promoted {
        client: promoted,
        ending,
        _server: receiver,
    }
}

#[test]
fn every_way_of_a_full_synchronization_brings_all_locks_and_leaves_none_of_before() {
    let sender = counting().start();
    let mut client = sender.client();
    take_every_kind(&mut client);
    let known = WAYS
        .iter()
        .filter_map(|way| Some((way, way.receiver(sender.build())?)));
    let mut promoted: Vec<_> = known
        .map(|(way, receiver)| send(way, &sender, receiver.start()))
        .collect();
    assert!(promoted.len() >= 5, "only {} ways", promoted.len());
    promoted.iter_mut().for_each(Promoted::assert_lease_ends);
}

/// Takes, lengthens, passes on and releases locks until it is told to stop; how often.
fn bustle(port: u16, is_over: &AtomicBool) -> usize {
    let mut client = Client::connect(port, Protocol::Resp2).expect("a connection");
    let mut rounds = 0;
    while !is_over.load(Ordering::Relaxed) {
        let key = format!("busy:{}", rounds % 50);
        match client.call(("FLOCK.ACQUIRE", &key, "tok", "PX", 600_000, "SHARED")) {
            Reply::Int(_) if rounds % 3 == 0 => client.call(("FLOCK.RELEASE", &key, "tok")),
            Reply::Int(_) => client.call(("FLOCK.REFRESH", &key, "tok", "PX", [20, 600_000][rounds % 2])),
            other => panic!("{key}: {other:?}"),
        };
        rounds += 1;
    }
    rounds
}

/// By way of the disk: tests/followers.rs.
#[test]
fn what_changes_while_everything_is_sent_to_memory_or_by_two_channels_is_not_lost_nor_done_twice() {
    let sender = counting().start();
    let mut client = sender.client();
    // 20 MB to send, so that it takes its time.
    client.run("DEBUG POPULATE 200 ballast 100000");
    let ways = WAYS
        .iter()
        .filter(|way| way.sign == TO_MEMORY || way.has_own_channel);
    for way in ways {
        let Some(builder) = way.receiver(sender.build()) else {
            continue;
        };
        way.prepare(&mut client, sender.build());
        let receiver = builder.start();
        let is_over = AtomicBool::new(false);
        let rounds = std::thread::scope(|scope| {
            let busy = scope.spawn(|| bustle(sender.port(), &is_over));
            follow(&receiver, &sender);
            is_over.store(true, Ordering::Relaxed);
            busy.join().expect("a busy client")
        });
        assert!(rounds > 20, "only {rounds} rounds: {}", way.name());
        assert_agreement(&sender, &receiver);
    }
}
