//! Proves what a failover does to callers, to waiters and to holders, however the primary was lost.

use std::time::Duration;

use crate::crowd::Crowd;
use crate::stage::Stage;
use crate::support::*;

/// Each caller is granted so many locks before the primary is lost, and so many after.
const ROUNDS: usize = 5;
/// A connection that is closed, or a server that answers all its waiters, takes no time; a machine that
/// stands still does.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Locks that all replicas know of before the primary is lost.
struct Kept {
    /// One of the locks is tied to it.
    _holder: Client,
    lease: Lease,
    digest: String,
}

impl Kept {
    #[track_caller]
    fn take(primary: &Server) -> Kept {
        let mut holder = primary.admin();
        take_every_kind(&mut holder);
        let lease = Lease::take(&mut holder, "kept", "tok", 600_000, "LABEL keeper");
        assert_eq!(holder.run("WAIT 2 20000"), 2);
        let digest = digest_of(&mut holder);
        Kept {
            _holder: holder,
            lease,
            digest,
        }
    }

    /// They are held as before, and lead on as what they are.
    #[track_caller]
    fn assert_goes_on(&self, successor: &Server) {
        let mut client = successor.admin();
        assert_eq!(digest_of(&mut client), self.digest);
        self.lease.assert_not_shorter(&mut client, "kept");
        assert_eq!(client.run("FLOCK.ACQUIRE kept other PX 600000"), NIL);
        assert_eq!(client.run("FLOCK.REFRESH kept tok PX 600000"), 1);
        assert_eq!(client.run("FLOCK.ACQUIRE kept tok PX 600000"), self.lease.fence);
        use_every_kind(&mut client);
    }
}

/// Of all locks but the crowd's. They are told apart by their holders and fences, not by their names.
#[track_caller]
fn digest_of(client: &mut Client) -> String {
    let keys = client.run("KEYS *");
    let mut names: Vec<_> = keys.items().iter().map(Reply::text).collect();
    names.retain(|name| !name.starts_with("crowd:"));
    names.sort();
    let arguments = ["DEBUG", "DIGEST-VALUE"].map(str::to_owned).into_iter();
    let digests = client.call(arguments.chain(names.clone()).collect::<Vec<_>>());
    format!("{names:?} {digests:?}")
}

/// Those who wait for the lock of [`Kept`], with the tokens 0, 1 and 2.
#[track_caller]
fn enqueue_three(primary: &Server) -> Vec<Client> {
    let waiter = |index| {
        let line = format!("FLOCK.ACQUIRE kept {index} PX 600000 BLOCK 0");
        primary.enqueue("kept", &line)
    };
    (0..3).map(waiter).collect()
}

/// Why each of them was sent away; now, and not when its time is over.
#[track_caller]
fn assert_sent_away(waiters: &mut [Client]) {
    for waiter in waiters {
        match waiter.receive_within(AT_ONCE) {
            Some(Reply::Closed) => {}
            Some(reply) => assert_eq!(reply.error_word(), "UNBLOCKED"),
            None => panic!("a waiter hangs"),
        }
    }
}

/// They come again, with the same tokens, and are served in the order in which they came.
#[track_caller]
fn assert_served_at(successor: &Server, kept: &Kept) {
    let mut waiters = enqueue_three(successor);
    let mut client = successor.admin();
    let mut fence = kept.lease.fence;
    for (token, waiter) in ["tok", "0", "1"].iter().zip(&mut waiters) {
        assert_eq!(client.call(("FLOCK.RELEASE", "kept", token)), 1);
        let next = waiter.receive().fence();
        assert!(next > fence, "{next} after {fence}");
        fence = next;
    }
}

#[test]
fn when_the_primary_is_killed_everybody_finds_a_place_at_the_next_and_no_fence_goes_back() {
    let mut stage = Stage::start();
    let history = Crowd::during(&stage.sentinel_ports(), |crowd| {
        let kept = Kept::take(&stage.servers[0]);
        let mut waiters = enqueue_three(&stage.servers[0]);
        crowd.wait_until_each_was_granted(ROUNDS);
        stage.servers[0].kill9();
        assert_sent_away(&mut waiters);
        let successor = stage.wait_for_successor();
        crowd.wait_until_each_was_granted(ROUNDS);
        kept.assert_goes_on(successor);
        assert_served_at(successor, &kept);
    });
    history.assert_fences_grow();
    // It comes back with nothing, as a primary, and is made a replica.
    stage.servers[0].restart();
    stage.assert_all_agree_with(stage.wait_for_successor());
}

#[test]
fn when_the_primary_freezes_everybody_finds_a_place_at_the_next_and_it_follows_when_it_wakes() {
    let mut stage = Stage::start();
    let history = Crowd::during(&stage.sentinel_ports(), |crowd| {
        let kept = Kept::take(&stage.servers[0]);
        let mut waiters = enqueue_three(&stage.servers[0]);
        crowd.wait_until_each_was_granted(ROUNDS);
        stage.servers[0].stop();
        let successor = stage.wait_for_successor();
        crowd.wait_until_each_was_granted(ROUNDS);
        kept.assert_goes_on(successor);
        // A connection to a server that is frozen looks as any other.
        assert_eq!(waiters[0].receive_within(Duration::from_millis(1)), None);
        stage.servers[0].resume();
        stage.assert_follows(&stage.servers[0], stage.wait_for_successor());
        assert_sent_away(&mut waiters);
        assert_served_at(stage.wait_for_successor(), &kept);
    });
    history.assert_fences_grow();
    stage.assert_all_agree_with(stage.wait_for_successor());
}

#[test]
fn when_the_sentinels_are_asked_to_relieve_the_primary_everybody_moves_on_to_the_next() {
    let stage = Stage::start();
    let history = Crowd::during(&stage.sentinel_ports(), |crowd| {
        let kept = Kept::take(&stage.servers[0]);
        let mut waiters = enqueue_three(&stage.servers[0]);
        crowd.wait_until_each_was_granted(ROUNDS);
        stage.ask_for_failover();
        let successor = stage.wait_for_successor();
        stage.assert_follows(&stage.servers[0], successor);
        assert_sent_away(&mut waiters);
        crowd.wait_until_each_was_granted(ROUNDS);
        kept.assert_goes_on(successor);
        assert_served_at(successor, &kept);
    });
    history.assert_fences_grow();
    stage.assert_all_agree_with(stage.wait_for_successor());
}
