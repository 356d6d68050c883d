//! Proves that whoever still talks to a primary that was replaced can do no harm to a storage that
//! checks fences; and says what such a primary still does.

use std::time::{Duration, Instant};

use crate::caller::Caller;
use crate::stage::Stage;
use crate::store::Store;
use crate::support::*;

/// The holder sleeps, or its primary does: it is the same to the others.
#[test]
fn a_holder_that_was_overtaken_while_its_primary_was_frozen_is_refused_by_the_storage() {
    let mut stage = Stage::start();
    let store = Store::default();
    let mut late = stage.servers[0].admin();
    let lease = Lease::take(&mut late, "k", "late", 4_000, "");
    assert_eq!(late.run("WAIT 2 20000"), 2);
    assert!(store.write("k", lease.fence));
    stage.servers[0].stop();

    let mut client = stage.wait_for_successor().admin();
    let fence = client.run("FLOCK.ACQUIRE k next PX 600000 BLOCK 0").fence();
    assert!(Instant::now() >= lease.earliest_end(), "the lease was cut short");
    assert!(fence > lease.fence);
    assert!(store.write("k", fence));

    stage.servers[0].resume();
    // It believes that it still holds the lock, and asks nobody.
    assert!(!store.write("k", lease.fence), "a stale holder has written");
    assert!(store.write("k", fence), "the holder was refused");
    let successor = stage.wait_for_successor();
    stage.assert_all_agree_with(successor);
    let mut client = stage.servers[0].admin();
    assert_eq!(client.run("FLOCK.PTTL k late"), -2);
    assert!(client.run("FLOCK.PTTL k next").int() > 0);
}

/// The lock was granted on the far side, where no replica knew of it any more. There its holder may
/// ask as often as it likes.
#[test]
fn a_holder_on_the_far_side_of_a_partition_is_refused_by_the_storage_though_its_primary_agrees_with_it() {
    let stage = Stage::behind_a_cable();
    let cable = stage.cable.as_ref().expect("the cable");
    let store = Store::default();
    cable.cut();
    let far = &stage.servers[0];
    let mut late = far.admin();
    let late_fence = late.run("FLOCK.ACQUIRE k late PX 600000").fence();
    let mut waiter = far.enqueue("k", "FLOCK.ACQUIRE k waiting PX 600000 BLOCK 0");
    assert!(store.write("k", late_fence));

    let mut client = stage.wait_for_successor().admin();
    let fence = client.run("FLOCK.ACQUIRE k next PX 600000").fence();
    assert!(
        fence > late_fence,
        "two hold the lock, and {fence} is not above {late_fence}"
    );
    assert!(store.write("k", fence));
    assert_eq!(late.run("FLOCK.REFRESH k late PX 600000"), 1);
    assert!(late.run("FLOCK.PTTL k late").int() > 0);
    assert!(!store.write("k", late_fence), "a stale holder has written");

    cable.mend();
    let successor = stage.wait_for_successor();
    stage.assert_all_agree_with(successor);
    let sent_away = waiter.receive();
    assert!(
        sent_away == Reply::Closed || sent_away.error_word() == "UNBLOCKED",
        "{sent_away:?}"
    );
    assert_ne!(late.run("FLOCK.REFRESH k late PX 600000"), 1);
    let mut client = far.admin();
    assert_eq!(client.run("FLOCK.PTTL k late"), -2);
    assert!(client.run("FLOCK.PTTL k next").int() > 0);
    assert_eq!(*client.run("FLOCK.INFO k").field("fence"), fence);
}

/// Those who set `min-replicas-to-write` want a primary that is cut off to stop soon, in place of going
/// on beside its successor until somebody tells it.
#[test]
fn a_primary_that_is_cut_off_and_wants_replicas_soon_grants_nothing_not_even_what_a_lease_leaves() {
    let stage = Stage::behind_a_cable();
    let cable = stage.cable.as_ref().expect("the cable");
    for server in &stage.servers {
        let line = "CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 1";
        assert_eq!(server.admin().run(line), OK);
    }
    let far = &stage.servers[0];
    let mut client = far.admin();
    let lease = Lease::take(&mut client, "k", "tok", 6_000, "");
    assert_eq!(client.run("WAIT 2 20000"), 2);
    let mut waiter = far.enqueue("k", "FLOCK.ACQUIRE k waiting PX 600000 BLOCK 0");
    cable.cut();
    eventually(
        "it finds that nobody follows",
        || client.info("replication", "min_slaves_good_slaves"),
        |good| good == "0",
    );
    assert!(
        Instant::now() < lease.earliest_end(),
        "too late to prove anything"
    );
    let refused = client.run("FLOCK.ACQUIRE other tok PX 600000");
    assert_eq!(refused.error_word(), "NOREPLICAS");

    stage.wait_for_successor();
    let mut caller = Caller::new(stage.sentinel_ports()[0]);
    let granted = caller.insist("FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
    assert!(
        granted.received >= lease.earliest_end(),
        "the lease was cut short"
    );
    let fence = granted.reply.fence();
    eventually(
        "it is over there too",
        || client.run("FLOCK.PTTL k"),
        |left| *left == -2,
    );
    assert_eq!(waiter.receive_within(Duration::from_millis(500)), None);
    drop(waiter);

    cable.mend();
    stage.assert_all_agree_with(stage.wait_for_successor());
    assert_eq!(*far.admin().run("FLOCK.INFO k").field("fence"), fence);
}
