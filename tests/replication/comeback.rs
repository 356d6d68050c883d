//! Proves that a promoted replica that loses its power comes back, as the primary that it was, with all
//! that it had written into its own file.

use crate::counting;
use crate::support::*;

#[test]
fn a_replica_that_was_promoted_and_killed_comes_back_with_locks_and_register() {
    for preamble in ["yes", "no"] {
        let mut server = counting().start();
        let builder = counting().append_only().set("aof-use-rdb-preamble", preamble);
        let mut replica = server.start_replica(builder);
        wait_for_own_file(&mut replica.admin());
        let mut client = server.client();
        take_every_kind(&mut client);
        let followed = Lease::take(&mut client, "followed", "tok", 600_000, "LABEL before");
        wait_for_replicas(&mut client, 1);
        server.kill9();

        let mut client = promote(&replica);
        assert_eq!(client.run("CONFIG REWRITE"), OK);
        let own = Lease::take(&mut client, "own", "tok", 600_000, "LABEL after");
        let mut waiter = replica.enqueue("own", "FLOCK.ACQUIRE own next PX 600000 BLOCK 0");
        client.run("FLOCK.RELEASE own tok");
        let passed = waiter.receive().fence();
        let newest = client.run("FLOCK.ACQUIRE gone tok PX 600000").fence();
        client.run("FLOCK.RELEASE gone tok");
        let digest = client.run("DEBUG DIGEST");
        replica.kill9();

        replica.restart();
        let mut client = replica.admin();
        assert_eq!(client.info("replication", "role"), "master", "{preamble}");
        assert_eq!(client.run("DEBUG DIGEST"), digest, "{preamble}");
        followed.assert_runs_on(&mut client);
        assert!(passed > own.fence, "{preamble}");
        assert_eq!(*client.run("FLOCK.INFO own").field("fence"), passed, "{preamble}");
        assert_eq!(
            client.run("FLOCK.ACQUIRE k tok PX 600000"),
            newest + 1,
            "{preamble}"
        );
        use_every_kind(&mut client);
    }
}

/// Effects carry the time of the machine that sent them, and the file of a replica is read by another one.
#[test]
fn a_lease_that_was_followed_is_not_cut_short_by_the_clock_of_the_machine_that_is_gone() {
    let mut server = start_with_wall_clock(Server::builder());
    step_wall_clock(&server, -3_600);
    let mut replica = server.start_replica(Server::builder().append_only());
    wait_for_own_file(&mut replica.admin());
    let mut client = server.client();
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "");
    wait_for_replicas(&mut client, 1);
    server.kill9();
    let mut client = promote(&replica);
    assert_eq!(client.run("CONFIG REWRITE"), OK);
    lease.assert_runs_on(&mut client);
    replica.kill9();
    replica.restart();
    lease.assert_runs_on(&mut replica.admin());
}
