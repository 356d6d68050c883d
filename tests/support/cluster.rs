//! Nodes of a cluster, and the cluster that they make.

use std::time::Duration;

use super::eventually::{eventually, eventually_within};
use super::server::Server;
use super::OK;

pub const SLOTS: u32 = 16_384;
/// How long word may take to go round.
const GOSSIP_BOUND: Duration = Duration::from_secs(40);

/// A node that has `slots` (first and last), or none yet.
#[track_caller]
pub fn start_node(slots: Option<(u32, u32)>) -> Server {
    let node = Server::builder().undressed().append_only().cluster_node().start();
    if let Some((first, last)) = slots {
        let line = format!("CLUSTER ADDSLOTSRANGE {first} {last}");
        assert_eq!(node.admin().run(&line), OK);
    }
    node
}

/// Makes a node a whole cluster.
#[track_caller]
pub fn take_all_slots(node: &Server) {
    let line = format!("CLUSTER ADDSLOTSRANGE 0 {}", SLOTS - 1);
    assert_eq!(node.admin().run(&line), OK);
    wait_until_the_cluster_is_up(node);
}

#[track_caller]
pub fn wait_until_the_cluster_is_up(node: &Server) {
    let mut admin = node.admin();
    eventually(
        "the cluster is up",
        || admin.run("CLUSTER INFO").text(),
        |info| info.contains("cluster_state:ok"),
    );
}

/// All these nodes have the same picture of who has which slots, and under which configuration epoch.
///
/// A slot may be moved only then. A node that has not yet heard of the highest epoch takes a slot
/// under a lower one, and loses it again to the word that was still on its way, from the one who had
/// it before.
#[track_caller]
pub fn wait_until_they_agree(nodes: &[&Server]) {
    eventually_within(
        GOSSIP_BOUND,
        "the nodes agree on who has which slots",
        || nodes.iter().map(|node| claims(node)).collect::<Vec<_>>(),
        |claims| claims.windows(2).all(|pair| pair[0] == pair[1]),
    );
}

/// Who has slots, as a node sees it: id, configuration epoch, and slots but those on their way.
fn claims(node: &Server) -> Vec<String> {
    let nodes = node.admin().run("CLUSTER NODES").text();
    let claim = |line: &str| {
        let fields: Vec<_> = line.split(' ').collect();
        let slots: Vec<_> = fields[8..].iter().filter(|slot| !slot.starts_with('[')).collect();
        (!slots.is_empty()).then(|| format!("{} {} {slots:?}", fields[0], fields[6]))
    };
    let mut claims: Vec<_> = nodes.lines().filter_map(claim).collect();
    claims.sort();
    claims
}

/// Makes all these nodes know each other: everybody meets everybody, which is quicker than to wait until word
/// has gone round.
#[track_caller]
pub fn introduce(nodes: &[&Server]) {
    for (index, node) in nodes.iter().enumerate() {
        let bus = node
            .admin()
            .run("CONFIG GET cluster-port")
            .field("cluster-port")
            .text();
        let line = format!("CLUSTER MEET 127.0.0.1 {} {bus}", node.port());
        for earlier in &nodes[..index] {
            assert_eq!(earlier.admin().run(&line), OK);
        }
    }
    for node in nodes {
        let mut admin = node.admin();
        eventually(
            "all nodes know each other",
            || admin.run("CLUSTER NODES").text(),
            |text| text.lines().count() == nodes.len() && !text.contains("handshake"),
        );
    }
}

#[track_caller]
pub fn id_of(node: &Server) -> String {
    node.admin().run("CLUSTER MYID").text()
}

/// One node with all slots: a whole cluster.
#[track_caller]
pub fn start_alone() -> Server {
    let node = start_node(None);
    take_all_slots(&node);
    node
}

/// Two primaries with half of the slots each: the one that has `key`'s, the other one, and `key`'s slot.
#[track_caller]
pub fn start_two(key: &str) -> (Server, Server, i64) {
    let half = SLOTS / 2;
    let (first, second) = (
        start_node(Some((0, half - 1))),
        start_node(Some((half, SLOTS - 1))),
    );
    for (node, epoch) in [(&first, 1), (&second, 2)] {
        let line = format!("CLUSTER SET-CONFIG-EPOCH {epoch}");
        assert_eq!(node.admin().run(&line), OK);
    }
    introduce(&[&first, &second]);
    wait_until_the_cluster_is_up(&first);
    wait_until_the_cluster_is_up(&second);
    wait_until_they_agree(&[&first, &second]);
    let slot = first.admin().run(&format!("CLUSTER KEYSLOT {key}")).int();
    match slot < i64::from(half) {
        true => (first, second, slot),
        false => (second, first, slot),
    }
}
