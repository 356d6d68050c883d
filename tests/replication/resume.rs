//! Proves that a link that was cut goes on where it was, with all that happened meanwhile; or from the
//! beginning, where too much did.

use crate::support::*;

/// The least that servers keep of the stream for those who come back.
const BACKLOG_BYTES: usize = 16 * 1024;

/// A primary, and a replica behind a cable.
struct Link {
    primary: Server,
    replica: Server,
    cable: Cable,
}

impl Link {
    #[track_caller]
    fn start() -> Link {
        let backlog = BACKLOG_BYTES.to_string();
        let primary = Server::builder()
            .undressed()
            .set("repl-backlog-size", &backlog)
            .start();
        let cable = Cable::to(primary.port());
        let replica = Server::builder()
            .undressed()
            .append_only()
            .set("replicaof", &format!("127.0.0.1 {}", cable.port()))
            .start();
        replica.wait_for_link();
        // Redis 7.0 and later know it, under this name or not at all.
        replica.admin().run("CONFIG SET propagation-error-behavior panic");
        assert_eq!(primary.admin().run("WAIT 1 20000"), 1);
        Link {
            primary,
            replica,
            cable,
        }
    }

    /// The primary has closed the link, and the replica knows nothing of it.
    #[track_caller]
    fn cut(&self) {
        self.cable.cut();
        assert_eq!(self.primary.admin().run("CLIENT KILL TYPE replica"), 1);
    }

    /// How often the replica was sent everything, and how often it could go on.
    #[track_caller]
    fn counts(&self) -> [i64; 2] {
        let mut admin = self.primary.admin();
        let mut count = |name| admin.info("stats", name).parse().expect("a number");
        [count("sync_full"), count("sync_partial_ok")]
    }

    #[track_caller]
    fn wait_until_counts_are(&self, counts: [i64; 2]) {
        eventually("the link is made again", || self.counts(), |seen| *seen == counts);
        self.replica.wait_for_link();
        assert_agreement(&self.primary, &self.replica);
    }
}

#[test]
fn a_replica_whose_link_was_cut_gets_all_that_happened_meanwhile_and_not_everything_again() {
    let link = Link::start();
    let mut client = link.primary.client();
    take_every_kind(&mut client);
    client.run("FLOCK.ACQUIRE passed tok PX 600000").fence();
    client.run("FLOCK.ACQUIRE short tok PX 600000").fence();
    assert_agreement(&link.primary, &link.replica);
    let [full, partial] = link.counts();

    link.cut();
    // Grants, a hand-off, and a lease that runs out, all of them behind the replica's back.
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "LABEL meanwhile");
    let line = "FLOCK.ACQUIRE passed next PX 600000 BLOCK 0";
    let mut waiter = link.primary.enqueue("passed", line);
    client.run("FLOCK.RELEASE passed tok");
    let passed = waiter.receive().fence();
    client.run("FLOCK.REFRESH short tok PX 20");
    eventually("it is over", || client.run("EXISTS short"), |exists| *exists == 0);
    use_every_kind(&mut client);
    let mut follower = link.replica.admin();
    assert_eq!(follower.run("EXISTS k"), 0);

    link.cable.mend();
    link.wait_until_counts_are([full, partial + 1]);
    lease.assert_not_shorter(&mut follower, "k");
    assert_eq!(*follower.run("FLOCK.INFO passed").field("fence"), passed);
    assert_eq!(follower.run("EXISTS short"), 0);
}

#[test]
fn a_replica_that_missed_more_than_is_kept_for_it_gets_everything_again() {
    let link = Link::start();
    let mut client = link.primary.client();
    take_every_kind(&mut client);
    assert_agreement(&link.primary, &link.replica);
    let [full, partial] = link.counts();
    link.cut();
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "LABEL meanwhile");
    use_every_kind(&mut client);
    // Kept in pieces, of which the oldest go when a new one is begun.
    for _ in 0..4 {
        client.call(("SET", "ballast", vec![b'x'; 4 * BACKLOG_BYTES]));
    }
    link.cable.mend();
    link.wait_until_counts_are([full + 1, partial]);
    lease.assert_not_shorter(&mut link.replica.admin(), "k");
}

/// It reads its own snapshot, from which no time is taken off, and asks for the rest of the stream.
#[test]
fn a_replica_that_was_down_goes_on_from_its_own_snapshot_with_no_lease_shorter() {
    let primary = Server::builder().undressed().start();
    let mut replica = primary.start_replica(Server::builder());
    let mut client = primary.client();
    take_every_kind(&mut client);
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "");
    assert_agreement(&primary, &replica);
    let full = client.info("stats", "sync_full");
    assert_eq!(replica.admin().run("SAVE"), OK);
    replica.kill9();
    let newer = Lease::take(&mut client, "newer", "tok", 600_000, "");
    replica.restart();
    replica.wait_for_link();
    assert_agreement(&primary, &replica);
    assert_eq!(client.info("stats", "sync_full"), full);
    let mut promoted = promote(&replica);
    for (lease, key) in [(lease, "k"), (newer, "newer")] {
        lease.assert_not_shorter(&mut promoted, key);
    }
    use_every_kind(&mut promoted);
}
