//! Proves what a replica answers to those who only read: what its primary would, but for the queue, which
//! is the primary's alone; and by its own clock, since it ends nothing itself.

use std::time::{Duration, Instant};

use crate::support::*;

#[test]
fn a_replica_shows_a_lock_in_the_form_that_its_primary_does_in_both_protocols() {
    let (primary, replica) = start_with_companion(Server::builder());
    let mut writer = primary.client();
    take_every_kind(&mut writer);
    wait_for_replicas(&mut writer, 1);
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let mut of_primary = primary.connect(protocol);
        let mut of_replica = replica.connect(protocol);
        for key in [
            "exclusive",
            "shared",
            "permits",
            "entered",
            "half-closed",
            "closed",
            "many:1",
        ] {
            let expected = of_primary.call(("FLOCK.INFO", key));
            let seen = of_replica.call(("FLOCK.INFO", key));
            assert_eq!(
                matches!(seen, Reply::Map(_)),
                protocol == Protocol::Resp3,
                "{seen:?}"
            );
            assert_eq!(without_times(&seen), without_times(&expected), "{key}");
        }
        let tied = of_replica.run("FLOCK.INFO tied");
        let session = tied.field("holders").items()[0].field("session");
        // The connection is the primary's.
        assert!(!session.is_true(), "{tied:?}");
        assert_eq!(of_replica.run("FLOCK.INFO free"), NIL);
        assert_eq!(of_replica.run("FLOCK.PTTL free"), -2);
        assert_eq!(of_replica.run("FLOCK.PTTL exclusive other"), -2);
        assert_eq!(of_replica.run("FLOCK.PTTL closed"), -2);
    }
}

/// What INFO shows, the names of fields included, with 1 for each time that is left.
fn without_times(info: &Reply) -> String {
    let mut info = info.clone();
    hide_times(&mut info);
    format!("{info:?}")
}

fn hide_times(reply: &mut Reply) {
    let hide = |name: &Reply, value: &mut Reply| match value {
        Reply::Int(ms) if *name == "ttl_ms" || *name == "delay_ms" => *ms = (*ms).min(1),
        _ => hide_times(value),
    };
    match reply {
        Reply::Map(pairs) => pairs.iter_mut().for_each(|(name, value)| hide(name, value)),
        // A flat map, or a list of them: a name is a string, and stands before its value.
        Reply::List(items) => {
            let mut name = NIL;
            for item in items {
                hide(&name, item);
                name = item.clone();
            }
        }
        _ => {}
    }
}

#[test]
fn a_replica_knows_how_long_each_holder_has_and_nobody_who_waits() {
    let (primary, replica) = start_with_companion(Server::builder());
    let mut client = primary.client();
    let short = Lease::take(&mut client, "k", "a", 300_000, "SHARED");
    let long = Lease::take(&mut client, "k", "b", 600_000, "SHARED");
    let _waiters = ["x", "y"].map(|token| {
        let line = format!("FLOCK.ACQUIRE k {token} PX 600000 BLOCK 0");
        primary.enqueue("k", &line)
    });
    wait_for_replicas(&mut client, 1);
    let mut reader = replica.admin();
    let left = long.assert_not_shorter(&mut reader, "k");
    assert!(left > Duration::from_secs(300));
    let left_ms = reader.run("FLOCK.PTTL k a").int();
    let most_ms = short
        .latest_end()
        .saturating_duration_since(Instant::now())
        .as_millis() as i64;
    assert!((1..=most_ms + 1_000).contains(&left_ms), "{left_ms} of {most_ms}");
    assert_eq!(client.waiters("k"), 2);
    let info = reader.run("FLOCK.INFO k");
    assert_eq!(*info.field("waiters"), 0);
    assert_eq!(info.field("queue").items(), [NIL; 0]);
    assert_eq!(reader.stat("waiters"), 0);
}

/// The primary hangs, so that only the replica's own clock can tell.
#[test]
fn on_a_replica_a_lease_or_a_delay_that_is_over_reads_as_over() {
    let (mut primary, replica) = start_with_companion(Server::builder());
    let mut client = primary.client();
    let keeper = client.run("FLOCK.ACQUIRE shared keeper PX 600000 SHARED").fence();
    client.run("FLOCK.ACQUIRE opening lost PX 20 DELAY 2000").fence();
    eventually(
        "it is closed",
        || client.run("FLOCK.PTTL opening"),
        |left| *left == -2,
    );
    client
        .run("FLOCK.ACQUIRE closing tok PX 1500 DELAY 600000")
        .fence();
    let lease = Lease::take(&mut client, "shared", "short", 1_500, "SHARED");
    wait_for_replicas(&mut client, 1);
    let mut reader = replica.admin();
    let before = reader.run("FLOCK.INFO opening");
    assert!(before.field("delay_ms").int() > 0, "{before:?}");
    assert_eq!(before.field("holders").items(), [NIL; 0]);
    primary.stop();
    assert!(
        Instant::now() < lease.earliest_end(),
        "stopped too late to prove anything"
    );

    for (key, token) in [("shared", "short"), ("closing", "tok")] {
        eventually(
            "the lease reads as over",
            || reader.call(("FLOCK.PTTL", key, token)),
            |left| *left == -2,
        );
    }
    assert!(Instant::now() >= lease.earliest_end(), "too early");
    let info = reader.run("FLOCK.INFO shared");
    let [holder] = info.field("holders").items() else {
        panic!("the other one holds it still: {info:?}");
    };
    assert_eq!(*holder.field("fence"), keeper);
    let closed = reader.run("FLOCK.INFO closing");
    assert_eq!(closed.field("holders").items(), [NIL; 0]);
    assert!(closed.field("delay_ms").int() > 500_000, "{closed:?}");
    eventually(
        "the delay reads as over",
        || reader.run("FLOCK.INFO opening"),
        |info| *info == NIL,
    );
    // The keys are there until the primary says otherwise.
    assert_eq!(reader.run("EXISTS opening shared closing"), 3);
    primary.resume();
    eventually(
        "it says so",
        || reader.run("EXISTS opening"),
        |exists| *exists == 0,
    );
    assert_agreement(&primary, &replica);
}

#[test]
fn a_replica_that_lost_its_primary_answers_unless_it_is_told_not_to() {
    let (mut primary, replica) = start_with_companion(Server::builder());
    let mut client = primary.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    wait_for_replicas(&mut client, 1);
    primary.kill9();
    let mut reader = replica.admin();
    eventually(
        "the link is down",
        || reader.info("replication", "master_link_status"),
        |status| status == "down",
    );
    assert!(reader.run("FLOCK.PTTL k tok").int() > 0);
    reader.run("CONFIG SET replica-serve-stale-data no");
    for line in ["FLOCK.PTTL k tok", "FLOCK.INFO k"] {
        assert_eq!(reader.run(line).error_word(), "MASTERDOWN", "{line}");
    }
    reader.run("CONFIG SET replica-serve-stale-data yes");
    assert!(reader.run("FLOCK.PTTL k tok").int() > 0);
}
