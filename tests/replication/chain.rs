//! Proves that a chain of replicas knows all from its first link to its last, and that any of its links
//! takes the primary's place.

use crate::counting;
use crate::support::*;

/// A primary, its replica, and that one's replica.
#[track_caller]
fn start_chain() -> [Server; 3] {
    let first = counting().start();
    let middle = first.start_replica(counting());
    let last = middle.start_replica(counting());
    [first, middle, last]
}

/// How often a server has sent its whole data set.
#[track_caller]
fn full_transfers(server: &Server) -> i64 {
    let count = server.admin().info("stats", "sync_full");
    count.parse().expect("a number")
}

#[test]
fn the_last_of_a_chain_takes_the_primarys_place_when_all_before_it_have_died() {
    let [mut first, mut middle, last] = start_chain();
    let mut client = first.client();
    take_every_kind(&mut client);
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "LABEL here");
    let newest = client.run("FLOCK.ACQUIRE gone tok PX 600000").fence();
    client.run("FLOCK.RELEASE gone tok");
    assert_agreement(&first, &middle);
    assert_agreement(&first, &last);
    let digest = client.run("DEBUG DIGEST");
    first.kill9();
    middle.kill9();

    let mut client = promote(&last);
    assert_eq!(client.run("DEBUG DIGEST"), digest);
    lease.assert_not_shorter(&mut client, "k");
    let mut waiter = last.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
    assert_eq!(client.run("FLOCK.RELEASE k tok"), 1);
    assert_eq!(waiter.receive(), newest + 1);
    use_every_kind(&mut client);
}

/// What was released before the last link came is in no key and no effect: snapshots carry it, one
/// after the other.
#[test]
fn the_register_goes_down_a_chain_that_is_made_link_by_link() {
    let first = counting().start();
    let mut client = first.client();
    let mut newest = 0;
    for _ in 0..5 {
        newest = client.run("FLOCK.ACQUIRE gone tok PX 600000").fence();
        client.run("FLOCK.RELEASE gone tok");
    }
    let middle = first.start_replica(counting());
    let last = middle.start_replica(counting());
    let mut client = promote(&last);
    assert_eq!(client.run("FLOCK.ACQUIRE k tok PX 600000"), newest + 1);
}

#[test]
fn when_the_middle_of_a_chain_is_promoted_its_replica_goes_along_and_the_old_primary_comes_behind_it() {
    let [first, middle, last] = start_chain();
    let mut client = first.client();
    take_every_kind(&mut client);
    assert_agreement(&first, &last);
    let transfers = full_transfers(&middle);
    let mut successor = promote(&middle);
    // Two primaries for a moment: what the old one grants now is lost.
    client.run("FLOCK.ACQUIRE lost tok PX 600000").fence();
    let lease = Lease::take(&mut successor, "k", "tok", 600_000, "");
    use_every_kind(&mut successor);
    assert_agreement(&middle, &last);
    assert_eq!(full_transfers(&middle), transfers, "the last link was made anew");

    assert_eq!(client.run(&format!("REPLICAOF 127.0.0.1 {}", last.port())), OK);
    first.wait_for_link();
    assert_agreement(&middle, &first);
    let mut client = first.admin();
    assert_eq!(client.run("EXISTS lost"), 0);
    lease.assert_not_shorter(&mut client, "k");
    successor.run("FLOCK.RELEASE k tok");
    assert_agreement(&middle, &first);
    assert_eq!(client.run("EXISTS k"), 0);
}
