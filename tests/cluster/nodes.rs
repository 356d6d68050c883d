//! A cluster of three primaries, each with a replica.

use std::ops::Range;
use std::thread;
use std::time::Duration;

use crate::stage::{on_stage, Staged};
use crate::support::cluster::{id_of, introduce, wait_until_they_agree, SLOTS};
use crate::support::*;

pub const SHARDS: usize = 3;
/// A node that does not answer for so long is taken for dead. On a busy machine a node that has just
/// been promoted may stand still for two seconds, until its disk has the news.
const NODE_TIMEOUT_MS: &str = "4000";
/// Where no node is to be taken for dead.
const CALM_NODE_TIMEOUT_MS: &str = "10000";
/// How long a dead primary may be missed, its replica be voted for, and all be told of it.
pub const FAILOVER_BOUND: Duration = Duration::from_secs(40);

/// The nodes 0 to 2 are primaries at first, the nodes 3 to 5 their replicas.
pub struct Cluster {
    pub nodes: Vec<Server>,
}

impl Cluster {
    /// One in which a primary that does not answer is soon replaced.
    #[track_caller]
    pub fn alert() -> Staged<Cluster> {
        on_stage(|| Cluster::start(NODE_TIMEOUT_MS, "no"))
    }

    /// One in which nothing happens by itself.
    #[track_caller]
    pub fn calm() -> Staged<Cluster> {
        on_stage(|| Cluster::start(CALM_NODE_TIMEOUT_MS, "yes"))
    }

    #[track_caller]
    fn start(node_timeout_ms: &str, no_failover: &str) -> Cluster {
        let start_node = || {
            Server::builder()
                .undressed()
                .cluster_node()
                // The file is written, but the disk is nobody's concern here.
                .set("appendonly", "yes")
                .set("appendfsync", "no")
                .set("cluster-node-timeout", node_timeout_ms)
                .set("cluster-replica-no-failover", no_failover)
                .set("cluster-replica-validity-factor", "0")
                .set("cluster-allow-replica-migration", "no")
                .start()
        };
        let nodes = thread::scope(|scope| {
            let starts: Vec<_> = (0..2 * SHARDS).map(|_| scope.spawn(start_node)).collect();
            let nodes = starts.into_iter().map(|start| start.join().expect("a node"));
            nodes.collect()
        });
        let cluster = Cluster { nodes };
        cluster.form();
        cluster
    }

    #[track_caller]
    fn form(&self) {
        for (index, node) in self.nodes.iter().enumerate() {
            let line = format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1);
            assert_eq!(node.admin().run(&line), OK);
        }
        for (shard, node) in self.nodes.iter().take(SHARDS).enumerate() {
            let slots = slots_of(shard);
            let line = format!("CLUSTER ADDSLOTSRANGE {} {}", slots.start, slots.end - 1);
            assert_eq!(node.admin().run(&line), OK);
        }
        introduce(&self.nodes.iter().collect::<Vec<_>>());
        for (primary, replica) in self.nodes[..SHARDS].iter().zip(&self.nodes[SHARDS..]) {
            let line = format!("CLUSTER REPLICATE {}", id_of(primary));
            assert_eq!(replica.admin().run(&line), OK);
        }
        for replica in &self.nodes[SHARDS..] {
            replica.wait_for_link();
        }
        self.wait_until_all_is_well();
    }

    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(Server::port).collect()
    }

    fn living(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    /// Every living node finds that the cluster is up, and that each primary has its replica.
    #[track_caller]
    pub fn wait_until_all_is_well(&self) {
        let replicas = self.living().count() - SHARDS;
        for node in self.living() {
            let mut admin = node.admin();
            eventually_within(
                FAILOVER_BOUND,
                "the cluster is up",
                || {
                    let nodes = admin.run("CLUSTER NODES").text();
                    let count = nodes.lines().filter(|line| is_sound_replica(line)).count();
                    (admin.run("CLUSTER INFO").text(), count)
                },
                |(info, count)| info.contains("cluster_state:ok") && *count >= replicas,
            );
        }
        wait_until_they_agree(&self.living().collect::<Vec<_>>());
    }

    /// Every living node finds that a slot is served by this node.
    #[track_caller]
    pub fn wait_until_all_find(&self, slot: i64, owner: &Server) {
        for node in self.living() {
            wait_until_it_finds(node, slot, owner);
        }
    }

    /// A hash tag whose slot is of that shard, the `number`th of some.
    #[track_caller]
    pub fn tag_of(&self, shard: usize, number: usize) -> String {
        // One of the last: tests end the first ones.
        let mut admin = self.nodes[2 * SHARDS - 1].admin();
        let is_there = |tag: &String| {
            let slot = admin.run(&format!("CLUSTER KEYSLOT {tag}")).int();
            slots_of(shard).contains(&slot)
        };
        let mut tags = (0..).map(|index| format!("{{tag{index}}}")).filter(is_there);
        tags.nth(number).expect("there is no end of tags")
    }
}

/// A line of CLUSTER NODES: id, address, flags, and more.
fn is_sound_replica(line: &str) -> bool {
    let flags: Vec<_> = line.split(' ').nth(2).unwrap_or_default().split(',').collect();
    flags.contains(&"slave") && !flags.iter().any(|flag| ["fail", "fail?"].contains(flag))
}

/// The slots of a shard as it is formed.
fn slots_of(shard: usize) -> Range<i64> {
    let bound = |shard: usize| i64::from(SLOTS) * shard as i64 / SHARDS as i64;
    bound(shard)..bound(shard + 1)
}

/// The node finds that a slot is served by that owner.
#[track_caller]
pub fn wait_until_it_finds(node: &Server, slot: i64, owner: &Server) {
    let mut admin = node.admin();
    let port = i64::from(owner.port());
    eventually_within(
        FAILOVER_BOUND,
        &format!("{} finds that slot {slot} is with {port}", node.port()),
        || owner_of(&mut admin, slot),
        |found| *found == Some(port),
    );
}

/// The port of a slot's owner, as this node sees it.
fn owner_of(admin: &mut Client, slot: i64) -> Option<i64> {
    let ranges = admin.run("CLUSTER SLOTS");
    ranges.items().iter().find_map(|range| {
        let [first, last, owner, ..] = range.items() else {
            panic!("not a range of slots: {range:?}");
        };
        let is_in = (first.int()..=last.int()).contains(&slot);
        is_in.then(|| owner.items()[1].int())
    })
}

/// The replica has all that its primary had sent when this was called.
#[track_caller]
pub fn wait_for_offset(primary: &Server, replica: &Server) {
    let number = |text: String| text.parse::<i64>().expect("an offset");
    let sent = number(primary.admin().info("replication", "master_repl_offset"));
    let mut admin = replica.admin();
    eventually(
        "the replica has all",
        || number(admin.info("replication", "slave_repl_offset")),
        |received| *received >= sent,
    );
}
