//! Nodes of a cluster, and the cluster that they make.

use super::eventually::eventually;
use super::server::Server;
use super::OK;

pub const SLOTS: u32 = 16_384;

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

/// Makes two nodes know each other.
#[track_caller]
pub fn introduce(node: &Server, other: &Server) {
    let bus = other
        .admin()
        .run("CONFIG GET cluster-port")
        .field("cluster-port")
        .text();
    let line = format!("CLUSTER MEET 127.0.0.1 {} {bus}", other.port());
    assert_eq!(node.admin().run(&line), OK);
    for node in [node, other] {
        let mut admin = node.admin();
        eventually(
            "the nodes know each other",
            || admin.run("CLUSTER NODES").text(),
            |nodes| nodes.lines().count() == 2 && !nodes.contains("handshake"),
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
    introduce(&first, &second);
    wait_until_the_cluster_is_up(&first);
    wait_until_the_cluster_is_up(&second);
    let slot = first.admin().run(&format!("CLUSTER KEYSLOT {key}")).int();
    match slot < i64::from(half) {
        true => (first, second, slot),
        false => (second, first, slot),
    }
}
