//! Proves PERMITS: never more than n hold at once, whoever comes and goes, and
//! all who ask for one lock name the same n.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::look::{granted, look};
use crate::support::*;

const ANOTHER_N: &str = "ERR the lock is held or waited for with another number of PERMITS";

#[test]
fn as_many_hold_as_there_are_permits_and_no_more() {
    in_both_protocols(|_, client| {
        let fences = ["a", "b", "c"].map(|token| {
            let line = format!("FLOCK.ACQUIRE k {token} PX 60000 PERMITS 3");
            client.run(&line).fence()
        });
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
        assert_eq!(client.run("FLOCK.ACQUIRE k d PX 60000 PERMITS 3"), NIL);
        let seen = look(client, "k");
        assert_eq!((seen.mode.as_str(), seen.permits), ("permits", 3));
        assert_eq!(seen.fences(), fences);
        assert_eq!(client.run("FLOCK.RELEASE k b"), 1);
        let fourth = client.run("FLOCK.ACQUIRE k d PX 60000 PERMITS 3").fence();
        assert_eq!(look(client, "k").fences(), [fences[0], fences[2], fourth]);
        assert_eq!(client.run("FLOCK.ACQUIRE k b PX 60000 PERMITS 3"), NIL);
        assert_eq!(client.stat("held_locks"), 1);
    });
}

#[test]
fn a_holder_that_asks_again_takes_no_second_permit() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.ACQUIRE k a PX 60000 PERMITS 2").fence();
        assert_eq!(client.run("FLOCK.ACQUIRE k a PX 90000 PERMITS 2"), fence);
        assert_eq!(look(client, "k").fences(), [fence]);
        client.run("FLOCK.ACQUIRE k b PX 60000 PERMITS 2").fence();
        assert_eq!(client.run("FLOCK.ACQUIRE k a PX 1 PERMITS 2 BLOCK 0"), fence);
    });
}

#[test]
fn each_release_admits_one_waiter_in_the_order_of_arrival() {
    in_both_protocols(|server, client| {
        for token in ["a", "b"] {
            client
                .call(("FLOCK.ACQUIRE", "k", token, "PX", 60_000, "PERMITS", 2))
                .fence();
        }
        let mut waiters = ["c", "d", "e"].map(|token| {
            let line = format!("FLOCK.ACQUIRE k {token} PX 60000 PERMITS 2 BLOCK 0");
            server.enqueue("k", &line)
        });
        assert_eq!(look(client, "k").queue, ["permits"; 3]);
        let mut last = look(client, "k").fence;
        for (number, token) in ["b", "a", "c"].into_iter().enumerate() {
            assert_eq!(client.call(("FLOCK.RELEASE", "k", token)), 1);
            let seen = look(client, "k");
            assert_eq!(seen.holders.len(), 2);
            assert_eq!(seen.queue.len(), 2 - number);
            let fence = waiters[number].receive().fence();
            assert!(fence > last);
            last = fence;
        }
    });
}

#[test]
fn a_row_of_waiters_is_granted_together_as_far_as_the_permits_go() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k w PX 60000").fence();
        let mut waiters: Vec<_> = (0..4)
            .map(|n| server.enqueue("k", &format!("FLOCK.ACQUIRE k p{n} PX 60000 PERMITS 3 BLOCK 0")))
            .collect();
        client.run("FLOCK.RELEASE k w");
        let seen = look(client, "k");
        assert_eq!(seen.queue, ["permits"]);
        let mut last = waiters.pop().expect("the last");
        assert_eq!(seen.fences(), granted(&mut waiters));
        client.run("FLOCK.RELEASE k p1");
        assert!(last.receive().fence() > seen.fence);
    });
}

#[test]
fn a_permit_that_runs_out_frees_one_place_and_its_holder_is_told_so() {
    in_both_protocols(|server, client| {
        let long = client.run("FLOCK.ACQUIRE k long PX 600000 PERMITS 2").fence();
        client.run("FLOCK.ACQUIRE k short PX 600000 PERMITS 2").fence();
        let mut next = server.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 PERMITS 2 BLOCK 0");
        assert_eq!(client.run("FLOCK.REFRESH k short PX 20"), 1);
        let fence = next.receive().fence();
        assert_eq!(client.run("FLOCK.PTTL k short"), -2);
        assert_eq!(client.run("FLOCK.REFRESH k short PX 60000"), 0);
        assert_eq!(client.run("FLOCK.RELEASE k short"), 0);
        // The late release took nobody's place away.
        assert_eq!(look(client, "k").fences(), [long, fence]);
        assert_eq!(client.run("FLOCK.ACQUIRE k short PX 600000 PERMITS 2"), NIL);
    });
}

#[test]
fn without_anybody_waiting_a_permit_that_runs_out_is_free_again() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k long PX 600000 PERMITS 2").fence();
        client.run("FLOCK.ACQUIRE k short PX 20 PERMITS 2").fence();
        eventually(
            "the permit is free",
            || client.run("FLOCK.ACQUIRE k next PX 600000 PERMITS 2"),
            |reply| *reply != NIL,
        );
        assert_eq!(look(client, "k").holders.len(), 2);
    });
}

#[test]
fn another_number_is_an_error_while_permits_are_held() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k a PX 60000 PERMITS 3").fence();
        let before = look(client, "k");
        for n in [1, 2, 4, 4_294_967_295i64] {
            for block in ["", " BLOCK 0"] {
                let line = format!("FLOCK.ACQUIRE k b PX 60000 PERMITS {n}{block}");
                assert_eq!(client.run(&line), Reply::error(ANOTHER_N), "{line}");
            }
        }
        assert_eq!(look(client, "k"), before);
        // Nobody holds it any more, so it is as new.
        client.run("FLOCK.RELEASE k a");
        client.run("FLOCK.ACQUIRE k b PX 60000 PERMITS 4").fence();
    });
}

#[test]
fn all_who_wait_agree_on_the_number() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k w PX 60000").fence();
        // Beside an exclusive holder any number is just busy, as long as none waits.
        assert_eq!(client.run("FLOCK.ACQUIRE k a PX 60000 PERMITS 7"), NIL);
        let waiter = server.enqueue("k", "FLOCK.ACQUIRE k a PX 60000 PERMITS 2 BLOCK 0");
        let mut second = server.enqueue("k", "FLOCK.ACQUIRE k b PX 60000 PERMITS 2 BLOCK 0");
        for block in ["", " BLOCK 0"] {
            let line = format!("FLOCK.ACQUIRE k c PX 60000 PERMITS 3{block}");
            assert_eq!(client.run(&line), Reply::error(ANOTHER_N), "{line}");
        }
        assert_eq!(client.run("FLOCK.ACQUIRE k c PX 60000 PERMITS 2"), NIL);
        assert_eq!(client.waiters("k"), 2);
        // Those who waited are gone: so is their number.
        drop(waiter);
        assert_eq!(client.run("FLOCK.RELEASE k b"), 0);
        assert_eq!(second.receive(), NIL);
        eventually("none waits", || client.waiters("k"), |waiters| *waiters == 0);
        let mut third = server.enqueue("k", "FLOCK.ACQUIRE k c PX 60000 PERMITS 3 BLOCK 0");
        client.run("FLOCK.RELEASE k w");
        third.receive().fence();
        assert_eq!(look(client, "k").permits, 3);
    });
}

#[test]
fn one_permit_is_one_holder() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k a PX 60000 PERMITS 1").fence();
        assert_eq!(client.run("FLOCK.ACQUIRE k b PX 60000 PERMITS 1"), NIL);
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k b PX 60000 PERMITS 1 BLOCK 0");
        let seen = look(client, "k");
        assert_eq!((seen.mode.as_str(), seen.permits), ("permits", 1));
        client.run("FLOCK.RELEASE k a");
        waiter.receive().fence();
    });
}

#[test]
fn there_may_be_more_permits_than_anybody_takes() {
    in_both_protocols(|_, client| {
        for token in ["a", "b", "c"] {
            let request = ("FLOCK.ACQUIRE", "k", token, "PX", 60_000);
            client.call((request, "PERMITS", 4_294_967_295i64)).fence();
        }
        let seen = look(client, "k");
        assert_eq!((seen.permits, seen.holders.len()), (4_294_967_295, 3));
        assert_eq!(client.run("FLOCK.BREAK k"), 3);
        assert_eq!(client.run("EXISTS k"), 0);
    });
}

const PERMITS: i64 = 3;

/// What the callers of one run have in common.
struct Crowd {
    port: u16,
    /// Those who were told a fence and have not let go yet.
    holding: AtomicI64,
    most: AtomicI64,
    is_over: AtomicBool,
}

impl Crowd {
    fn client(&self) -> Client {
        Client::connect(self.port, Protocol::Resp2).expect("a connection")
    }

    /// Takes a permit, holds it for a while, lets go; again and again.
    fn work(&self, caller: usize) {
        let mut client = self.client();
        for round in 0..80 {
            let token = format!("worker-{caller}-{round}");
            let request = ("FLOCK.ACQUIRE", "k", &token, "PX", 60_000);
            client.call((request, "BLOCK", 0, "PERMITS", PERMITS)).fence();
            let now = self.holding.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            client.call(("FLOCK.PTTL", "k", &token));
            self.holding.fetch_sub(1, Ordering::SeqCst);
            assert_eq!(client.call(("FLOCK.RELEASE", "k", &token)), 1);
        }
    }

    /// Comes, and is gone before anybody can tell it anything.
    fn vanish(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            let mut client = self.client();
            client.send((
                "FLOCK.ACQUIRE",
                "k",
                "ghost",
                "PX",
                1_000,
                "BLOCK",
                0,
                "PERMITS",
                PERMITS,
            ));
            client.receive_within(std::time::Duration::from_millis(2));
            // Told or not, the permit of a ghost is given back by the server, or here, or when it runs out.
            drop(client);
            self.client().call(("FLOCK.RELEASE", "k", "ghost"));
        }
    }

    /// Waits for a moment only, and lets its permit run out.
    fn lapse(&self) {
        let mut client = self.client();
        let mut round = 0;
        while !self.is_over.load(Ordering::SeqCst) {
            round += 1;
            let request = ("FLOCK.ACQUIRE", "k", format!("lapse-{round}"), "PX", 3);
            client.call((request, "BLOCK", 2, "PERMITS", PERMITS));
        }
    }

    /// Looks at the server's own account.
    fn watch(&self) {
        let mut client = self.client();
        while !self.is_over.load(Ordering::SeqCst) {
            if let info @ (Reply::List(_) | Reply::Map(_)) = client.run("FLOCK.INFO k") {
                let holders = info.field("holders").items().len() as i64;
                assert!(holders <= PERMITS, "{holders} holders");
            }
        }
    }
}

#[test]
fn never_more_than_the_permits_hold_while_all_come_and_go() {
    let server = Server::builder().undressed().start();
    let crowd = Crowd {
        port: server.port(),
        holding: AtomicI64::new(0),
        most: AtomicI64::new(0),
        is_over: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| crowd.vanish());
        scope.spawn(|| crowd.lapse());
        scope.spawn(|| crowd.watch());
        let crowd = &crowd;
        let workers: Vec<_> = (0..6)
            .map(|caller| scope.spawn(move || crowd.work(caller)))
            .collect();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        crowd.is_over.store(true, Ordering::SeqCst);
        assert!(results.iter().all(Result::is_ok), "a worker failed");
    });
    let most = crowd.most.load(Ordering::SeqCst);
    assert!((2..=PERMITS).contains(&most), "{most} at once");
    // Nothing leaked: every permit came back.
    let mut admin = server.admin();
    eventually("nobody holds it", || admin.run("EXISTS k"), |exists| *exists == 0);
    assert_eq!(admin.stat("waiters"), 0);
}
