//! Proves what a failover leaves: nobody hangs, no server ends, holders keep what was replicated,
//! fences never go back, and those who come again find their locks; with more than 100 clients
//! holding and waiting meanwhile, whoever ordered the failover, and also where nobody did.

use std::time::{Duration, Instant};

use crate::crowd::{Crowd, Losses};
use crate::household::{assert_same, Household};
use crate::nodes::{wait_for_offset, wait_until_it_finds, Cluster, FAILOVER_BOUND, SHARDS};
use crate::rover::word_of;
use crate::stage::Staged;
use crate::support::*;

/// The shard that fails over, its primary, and its replica.
const SHARD: usize = 0;
const OLD: usize = SHARD;
const NEW: usize = SHARD + SHARDS;

const HOUSEHOLDS: usize = 4;
const WORKERS: usize = 24;
/// A lease that is to run out while nobody, or somebody else, is the primary.
const SHORT_LEASE_MS: u64 = 3_000;
/// So many clients hold or wait at the node that fails, at least.
const CLIENTS_MIN: usize = 100;

/// What a waiter may be told by a node that is demoted or has lost the cluster, or by none.
const WORDS: [&str; 4] = ["closed", "MOVED", "UNBLOCKED", "CLUSTERDOWN"];

/// A cluster, and what lives on the shard that fails over.
struct Scene {
    cluster: Staged<Cluster>,
    households: Vec<Household>,
    crowd: Crowd,
}

impl Scene {
    #[track_caller]
    fn set(losses: Losses) -> Scene {
        let cluster = Cluster::alert();
        let mut keys: Vec<_> = (0..8)
            .map(|number| format!("{}busy", cluster.tag_of(SHARD, number)))
            .collect();
        // Another shard, which has nothing to do with it.
        keys.extend((0..2).map(|number| format!("{}busy", cluster.tag_of(SHARD + 1, number))));
        // Names without a tag are names as well.
        keys.extend(["orders", "wallet", "stock"].map(str::to_owned));
        let households: Vec<_> = (0..HOUSEHOLDS)
            .map(|number| Household::settle(&cluster.nodes[OLD], &cluster.tag_of(SHARD, number)))
            .collect();
        let count: usize = households.iter().map(Household::count).sum();
        assert!(count >= CLIENTS_MIN, "only {count} clients hold and wait");
        let waiters: usize = households.iter().map(Household::waiters).sum();
        let there = cluster.nodes[OLD].admin().stat("waiters");
        assert_eq!(there, waiters as i64, "all wait at the node that fails");
        Scene {
            crowd: Crowd::new(cluster.ports(), keys, losses),
            cluster,
            households,
        }
    }

    /// The primary of the shard fails in the midst of it all, and its replica takes over.
    #[track_caller]
    fn fail(&mut self, fail: impl FnOnce(&mut Cluster)) {
        let Scene {
            cluster,
            households,
            crowd,
        } = self;
        crowd.work_during(WORKERS, || {
            let before: Vec<_> = households
                .iter()
                .map(|household| household.pictures(&cluster.nodes[OLD]))
                .collect();
            let short = format!("{}short", cluster.tag_of(SHARD, 0));
            let mut admin = cluster.nodes[OLD].admin();
            let lease = Lease::take(&mut admin, &short, "t", SHORT_LEASE_MS, "");
            wait_for_offset(&cluster.nodes[OLD], &cluster.nodes[NEW]);
            fail(cluster);
            for reply in households.iter_mut().flat_map(Household::hear_waiters) {
                assert!(WORDS.contains(&word_of(&reply)), "a waiter is told {reply:?}");
            }
            let slot = slot_of_the_shard(cluster);
            cluster.wait_until_all_find(slot, &cluster.nodes[NEW]);
            cluster.wait_until_all_is_well();
            for (household, before) in households.iter_mut().zip(&before) {
                assert_same(before, &household.pictures(&cluster.nodes[NEW]));
                household.assert_still_held(&cluster.nodes[NEW]);
            }
            assert_ends(&cluster.nodes[NEW], &short, &lease);
            crowd.wait_until_all_go_round();
            for household in households {
                household.live_on(&cluster.nodes[NEW]);
            }
        });
    }

    /// The old primary is a replica that agrees, and nobody waits there any more.
    #[track_caller]
    fn assert_the_old_primary_follows(&self) {
        let (old, new) = (&self.cluster.nodes[OLD], &self.cluster.nodes[NEW]);
        let mut admin = old.admin();
        eventually_within(
            FAILOVER_BOUND,
            "the old primary is a replica",
            || admin.info("replication", "role"),
            |role| role == "slave",
        );
        old.wait_for_link();
        assert_eq!(admin.stat("waiters"), 0);
        assert_eq!(admin.info("clients", "blocked_clients"), "0");
        assert_agreement(new, old);
    }

    /// The roles change back, and the clients find the way once more.
    #[track_caller]
    fn go_back(&mut self) {
        let Scene { cluster, crowd, .. } = self;
        crowd.work_during(WORKERS, || {
            order(&cluster.nodes[OLD], "CLUSTER FAILOVER");
            let slot = slot_of_the_shard(cluster);
            cluster.wait_until_all_find(slot, &cluster.nodes[OLD]);
            cluster.wait_until_all_is_well();
        });
        let (old, new) = (&cluster.nodes[OLD], &cluster.nodes[NEW]);
        new.wait_for_link();
        assert_agreement(old, new);
    }
}

/// A lease that was taken at the old primary ends at the new one, in its time, for one who waits.
#[track_caller]
fn assert_ends(new: &Server, key: &str, lease: &Lease) {
    let mut next = new.admin();
    next.send_line(&format!("FLOCK.ACQUIRE {key} next PX 60000 BLOCK 0"));
    assert!(next.receive().fence() > lease.fence);
    assert!(
        Instant::now() >= lease.earliest_end(),
        "{key} was granted before its time"
    );
}

#[track_caller]
fn slot_of_the_shard(cluster: &Cluster) -> i64 {
    let line = format!("CLUSTER KEYSLOT {}", cluster.tag_of(SHARD, 0));
    cluster.nodes[NEW].admin().run(&line).int()
}

/// A server gives up a failover that it was told of if it is not done after 5 s.
const ORDER_HOLDS: Duration = Duration::from_secs(6);

/// Tells a replica to take over, and waits until it has. It may have to be told again: it does not
/// listen while it is not connected, and on a busy machine its time may run out.
#[track_caller]
fn order(replica: &Server, line: &str) {
    let mut admin = replica.admin();
    let mut told: Option<Instant> = None;
    eventually_within(
        FAILOVER_BOUND,
        line,
        || {
            let role = admin.info("replication", "role");
            let is_told = told.is_some_and(|at| at.elapsed() < ORDER_HOLDS);
            if role != "master" && !is_told && admin.run(line) == OK {
                told = Some(Instant::now());
            }
            role
        },
        |role| role == "master",
    );
}

#[test]
fn a_failover_that_both_sides_agree_on_loses_nothing() {
    let mut scene = Scene::set(Losses::None);
    scene.fail(|cluster| order(&cluster.nodes[NEW], "CLUSTER FAILOVER"));
    scene.assert_the_old_primary_follows();
    scene.go_back();
}

#[test]
fn a_failover_that_is_forced_keeps_what_was_replicated() {
    let mut scene = Scene::set(Losses::Newest);
    scene.fail(|cluster| order(&cluster.nodes[NEW], "CLUSTER FAILOVER FORCE"));
    scene.assert_the_old_primary_follows();
    scene.go_back();
}

#[test]
fn a_takeover_without_a_vote_keeps_what_was_replicated() {
    let mut scene = Scene::set(Losses::Newest);
    scene.fail(|cluster| order(&cluster.nodes[NEW], "CLUSTER FAILOVER TAKEOVER"));
    scene.assert_the_old_primary_follows();
    scene.go_back();
}

#[test]
fn a_primary_that_is_killed_is_replaced_and_follows_when_it_is_back() {
    let mut scene = Scene::set(Losses::Newest);
    scene.fail(|cluster| cluster.nodes[OLD].kill9());
    scene.cluster.nodes[OLD].restart();
    scene.assert_the_old_primary_follows();
    scene.go_back();
}

/// It does not know that it was replaced, and may for a moment go on where it stopped.
#[test]
fn a_primary_that_was_frozen_sends_its_waiters_away_when_it_thaws() {
    let mut scene = Scene::set(Losses::Newest);
    scene.fail(|cluster| {
        cluster.nodes[OLD].stop();
        let slot = slot_of_the_shard(cluster);
        for node in &cluster.nodes[SHARD + 1..] {
            wait_until_it_finds(node, slot, &cluster.nodes[NEW]);
        }
        cluster.nodes[OLD].resume();
    });
    scene.assert_the_old_primary_follows();
    scene.go_back();
}
