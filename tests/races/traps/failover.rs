//! Replication is asynchronous: a failover may lose the newest writes, and then two hold the lock.

use super::{count_up, judge, start_storage, take_flock, take_hand_made};
use crate::plain;
use crate::support::{eventually, promote, Client, Server};

/// What the replica has seen of the counter when the link is cut.
const FENCES_BEFORE: i64 = 32;

/// Only root may listen there, and nobody does.
const NOBODYS_PORT: u16 = 1;

/// Cuts the link: the replica looks for its primary where nobody is, and keeps its data.
#[track_caller]
fn cut_off(replica: &Server) {
    let mut client = replica.admin();
    assert_eq!(client.run(&format!("REPLICAOF 127.0.0.1 {NOBODYS_PORT}")), "OK");
    eventually(
        "the link is down",
        || client.info("replication", "master_link_status"),
        |status| status == "down",
    );
}

/// The replica is cut off, `before` happens on the primary alone, the primary dies, and the replica takes its place.
fn fail_over<T>(before: impl FnOnce(&mut Client) -> T) -> (T, Server, Client) {
    let mut primary = plain().start();
    let replica = primary.start_replica(plain());
    let mut client = primary.client();
    for _ in 0..FENCES_BEFORE {
        count_up(&mut client);
        take_flock(&mut client, "earlier").expect("a free lock");
        client.run("FLOCK.RELEASE lock:flock earlier");
    }
    assert_eq!(client.run("WAIT 1 20000"), 1);
    cut_off(&replica);
    let lost = before(&mut client);
    primary.kill9();
    let promoted = promote(&replica);
    (lost, replica, promoted)
}

#[test]
fn after_a_failover_that_lost_the_newest_writes_a_counter_repeats_a_fence() {
    let (_postgres, mut wallet) = start_storage();
    let (older, _replica, mut promoted) = fail_over(|client| {
        assert!(take_hand_made(client, "a"));
        count_up(client)
    });
    assert!(take_hand_made(&mut promoted, "b"), "two hold the lock");
    let newer = count_up(&mut promoted);
    let judgement = judge(&mut wallet, older, newer);
    println!("failover, SET and INCR: fences {older} and {newer}: {judgement}");
    assert_eq!((older, newer), (FENCES_BEFORE + 1, FENCES_BEFORE + 1));
    assert!(!judgement.check.is_ok(), "both are believed");
}

#[test]
fn after_a_failover_that_lost_the_newest_writes_the_second_fence_is_greater() {
    let (_postgres, mut wallet) = start_storage();
    let (older, _replica, mut promoted) = fail_over(|client| take_flock(client, "a").expect("a free lock"));
    let newer = take_flock(&mut promoted, "b").expect("two hold the lock");
    let judgement = judge(&mut wallet, older, newer);
    println!("failover, flock: fences {older} and {newer}: {judgement}");
    assert!(newer > older);
    assert!(judgement.is_right(), "{judgement}");
}
