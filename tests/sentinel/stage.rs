//! A primary, two replicas, and three sentinels that watch them. One story at a time: six servers at once
//! are enough for a small machine. The next one starts its servers meanwhile.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::support::*;

/// What the sentinels call the primary, whichever server it is.
const NAME: &str = "flock";
const SENTINELS: usize = 3;
const QUORUM: usize = 2;
/// This machine itself may stand still for 400 ms.
const DOWN_AFTER_MS: u32 = 1_500;
/// How long a dead primary may be missed, its successor be voted for, and all be told of it. An
/// election without a winner is repeated.
const FAILOVER_BOUND: Duration = Duration::from_secs(60);
/// Sentinels look and talk so often, in ms, in place of seconds; and they do not take a machine that
/// stands still for a clock that was set.
const PACE: &str = "INFO-PERIOD 200 PING-PERIOD 200 ASK-PERIOD 100 PUBLISH-PERIOD 400 \
                    TILT-TRIGGER 10000 ELECTION-TIMEOUT 4000 MIN-LINK-RECONNECT-PERIOD 1000";

static ENTRANCE: Mutex<()> = Mutex::new(());
static TURN: Mutex<()> = Mutex::new(());

pub struct Stage {
    /// The first one is the primary at first.
    pub servers: Vec<Server>,
    /// The way of everybody to the first server, where there is one.
    pub cable: Option<Cable>,
    sentinels: Vec<Server>,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    #[track_caller]
    pub fn start() -> Stage {
        Stage::start_behind(|_| None)
    }

    /// Replicas and sentinels reach the first server over a cable. To them, its port is the cable's.
    #[track_caller]
    pub fn behind_a_cable() -> Stage {
        Stage::start_behind(|primary| {
            let cable = Cable::to(primary.port());
            let announce = format!("CONFIG SET replica-announce-port {}", cable.port());
            assert_eq!(primary.admin().run(&announce), OK);
            Some(cable)
        })
    }

    #[track_caller]
    fn start_behind(lay: impl FnOnce(&Server) -> Option<Cable>) -> Stage {
        let _entrance = enter(&ENTRANCE);
        let primary = plain().start();
        let cable = lay(&primary);
        let port = cable.as_ref().map_or(primary.port(), Cable::port);
        let followers: Vec<Server> = thread::scope(|scope| {
            let start = || plain().set("replicaof", &format!("127.0.0.1 {port}")).start();
            let starts: Vec<_> = (1..3).map(|_| scope.spawn(start)).collect();
            starts
                .into_iter()
                .map(|start| start.join().expect("a replica"))
                .collect()
        });
        followers.iter().for_each(Server::wait_for_link);
        let stage = Stage {
            servers: [primary].into_iter().chain(followers).collect(),
            cable,
            sentinels: (0..SENTINELS).map(|_| start_sentinel(port)).collect(),
            _turn: enter(&TURN),
        };
        stage.wait_until_all_is_well();
        stage
    }

    pub fn sentinel_ports(&self) -> Vec<u16> {
        self.sentinels.iter().map(Server::port).collect()
    }

    /// The sentinels know each other and the replicas, and the replicas follow.
    #[track_caller]
    fn wait_until_all_is_well(&self) {
        for sentinel in &self.sentinels {
            let mut admin = sentinel.admin();
            eventually(
                "the sentinel knows all others and the replicas",
                || {
                    let seen = admin.call(("SENTINEL", "MASTER", NAME));
                    let replicas = admin.call(("SENTINEL", "REPLICAS", NAME));
                    let sound = replicas
                        .items()
                        .iter()
                        .filter(|replica| is_sound(replica))
                        .count();
                    let fields = ["flags", "num-slaves", "num-other-sentinels"];
                    (fields.map(|field| seen.field(field).text()), sound)
                },
                |(seen, sound)| seen.each_ref().map(String::as_str) == ["master", "2", "2"] && *sound == 2,
            );
        }
        assert_eq!(self.servers[0].admin().run("WAIT 2 20000"), 2);
    }

    /// Asks the sentinels to put another server in the primary's place.
    #[track_caller]
    pub fn ask_for_failover(&self) {
        let reply = self.sentinels[0].admin().call(("SENTINEL", "FAILOVER", NAME));
        assert_eq!(reply, OK);
    }

    /// Waits until all sentinels name another primary than the first server, and returns it.
    #[track_caller]
    pub fn wait_for_successor(&self) -> &Server {
        let mut admins: Vec<_> = self.sentinels.iter().map(Server::admin).collect();
        let named = eventually_within(
            FAILOVER_BOUND,
            "the sentinels agree on another primary",
            || admins.iter_mut().map(named_primary).collect::<Vec<_>>(),
            |named| named.iter().all(|port| *port == named[0]) && self.follower_at(named[0]).is_some(),
        );
        let successor = self.follower_at(named[0]).expect("one of the servers");
        wait_until_primary(successor);
        successor
    }

    /// A server other than the first.
    fn follower_at(&self, port: Option<u16>) -> Option<&Server> {
        self.servers[1..]
            .iter()
            .find(|server| Some(server.port()) == port)
    }

    /// The server is made a replica of the new primary.
    #[track_caller]
    pub fn assert_follows(&self, server: &Server, successor: &Server) {
        let port = i64::from(successor.port());
        eventually_within(
            FAILOVER_BOUND,
            "the server follows the new primary",
            // A sentinel that makes it a replica closes its connections.
            || server.admin().run("ROLE"),
            |role| match role {
                Reply::List(role) if role[0] == "slave" => role[2] == port && role[3] == "connected",
                _ => false,
            },
        );
    }

    /// All others follow the successor, the first server too, and have what it has.
    #[track_caller]
    pub fn assert_all_agree_with(&self, successor: &Server) {
        for server in &self.servers {
            if server.port() != successor.port() {
                self.assert_follows(server, successor);
                assert_agreement(successor, server);
            }
        }
    }
}

/// A test that failed does not fail the others.
fn enter(door: &'static Mutex<()>) -> MutexGuard<'static, ()> {
    door.lock().unwrap_or_else(PoisonError::into_inner)
}

fn plain() -> Builder {
    // Straight into memory: Valkey 9 looks only once a second whether a file has come.
    Server::builder()
        .undressed()
        .set("repl-diskless-load", "on-empty-db")
}

#[track_caller]
fn start_sentinel(primary_port: u16) -> Server {
    let sentinel = Server::builder()
        .sentinel()
        .set(
            "sentinel",
            &format!("monitor {NAME} 127.0.0.1 {primary_port} {QUORUM}"),
        )
        .set(
            "sentinel",
            &format!("down-after-milliseconds {NAME} {DOWN_AFTER_MS}"),
        )
        .set("sentinel", &format!("failover-timeout {NAME} 6000"))
        .set("sentinel", &format!("parallel-syncs {NAME} 2"))
        .start();
    let reply = sentinel.admin().run(&format!("SENTINEL DEBUG {PACE}"));
    assert_eq!(reply, OK);
    sentinel
}

/// A replica, as a sentinel sees it, that could be made the primary.
fn is_sound(replica: &Reply) -> bool {
    *replica.field("flags") == "slave" && *replica.field("master-link-status") == "ok"
}

/// Where the primary is, by this sentinel.
#[track_caller]
pub fn named_primary(sentinel: &mut Client) -> Option<u16> {
    match sentinel.call(("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)) {
        Reply::Nil => None,
        address => address.items()[1].text().parse().ok(),
    }
}
