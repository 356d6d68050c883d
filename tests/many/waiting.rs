//! Proves that a caller who waits for several locks holds none of them, is granted all when all are free, and neither
//! passes over an earlier waiter of any of them nor is passed over by a later one, whether that waits for one or for many.

use std::time::{Duration, Instant};

use crate::support::*;
use crate::{assert_free, assert_held, assert_nobody_waits, enqueue, Knot};

#[test]
fn a_waiter_holds_none_of_its_locks() {
    in_both_protocols(|server, client| {
        let fence = client.run("FLOCK.ACQUIRE b t PX 60000").fence();
        let mut waiter = enqueue(server, "FLOCK.MACQUIRE 3 a b c m PX 60000 BLOCK 0 LABEL many");
        assert_free(client, &["a", "c"]);
        assert_held(client, "b", "t", fence);
        assert_eq!(client.stat("held_locks"), 1);
        let info = client.run("FLOCK.INFO b");
        assert_eq!(info.field("holders").items().len(), 1);
        // All of its locks show it, also those that nobody holds.
        for key in ["a", "b", "c"] {
            let info = client.call(("FLOCK.INFO", key));
            assert_eq!(*info.field("waiters"), 1, "{key}");
            let entry = &info.field("queue").items()[0];
            assert_eq!(*entry.field("label"), "many", "{key}");
            assert_eq!(*entry.field("mode"), "exclusive", "{key}");
        }
        client.run("FLOCK.RELEASE b t");
        let next = waiter.receive().fence();
        assert!(next > fence);
        for key in ["a", "b", "c"] {
            assert_held(client, key, "m", next);
        }
        assert_nobody_waits(client);
    });
}

#[test]
fn it_is_granted_only_when_all_are_free() {
    in_both_protocols(|server, client| {
        for key in ["a", "b", "c"] {
            client.call(("FLOCK.ACQUIRE", key, "t", "PX", 60_000)).fence();
        }
        let mut waiter = enqueue(server, "FLOCK.MACQUIRE 3 c a b m PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.RELEASE b t"), 1);
        assert_free(client, &["b"]);
        assert_eq!(client.run("FLOCK.RELEASE a t"), 1);
        assert_free(client, &["a", "b"]);
        // One that became free may be taken by nobody else meanwhile, and not even by who had it.
        assert_eq!(client.run("FLOCK.ACQUIRE a t PX 60000"), NIL);
        assert_eq!(client.run("FLOCK.MACQUIRE 2 a b u PX 60000"), NIL);
        assert_eq!(client.run("FLOCK.RELEASE c t"), 1);
        let fence = waiter.receive().fence();
        for key in ["a", "b", "c"] {
            assert_held(client, key, "m", fence);
        }
    });
}

#[test]
fn an_earlier_waiter_of_any_of_the_locks_goes_first() {
    for first_key in ["a", "b"] {
        let server = Server::start();
        let mut client = server.client();
        client.run("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
        let mut single = enqueue(&server, &format!("FLOCK.ACQUIRE {first_key} s PX 60000 BLOCK 0"));
        let mut many = enqueue(&server, "FLOCK.MACQUIRE 2 a b m PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.MRELEASE 2 a b t"), 2);
        let fence = single.receive().fence();
        assert_held(&mut client, first_key, "s", fence);
        let other = if first_key == "a" { "b" } else { "a" };
        assert_free(&mut client, &[other]);
        assert_eq!(client.call(("FLOCK.RELEASE", first_key, "s")), 1);
        let next = many.receive().fence();
        assert!(next > fence);
        for key in ["a", "b"] {
            assert_held(&mut client, key, "m", next);
        }
    }
}

#[test]
fn a_later_one_does_not_overtake_even_on_a_lock_that_is_free() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000").fence();
        let mut many = enqueue(server, "FLOCK.MACQUIRE 2 a b m PX 60000 BLOCK 0");
        assert_free(client, &["b"]);
        for line in [
            "FLOCK.ACQUIRE b late PX 60000",
            "FLOCK.ACQUIRE b t PX 60000",
            "FLOCK.ACQUIRE b late PX 60000 SHARED",
            "FLOCK.MACQUIRE 1 b late PX 60000",
            "FLOCK.MACQUIRE 2 b c late PX 60000",
        ] {
            assert_eq!(client.run(line), NIL, "{line}");
        }
        assert_free(client, &["b", "c"]);
        let mut single = enqueue(server, "FLOCK.ACQUIRE b s PX 60000 BLOCK 0");
        let mut later = enqueue(server, "FLOCK.MACQUIRE 2 b c n PX 60000 BLOCK 0");
        client.run("FLOCK.RELEASE a t");
        let fence = many.receive().fence();
        assert_eq!(client.waiters("b"), 2);
        assert_eq!(client.run("FLOCK.RELEASE b m"), 1);
        let second = single.receive().fence();
        assert!(second > fence);
        assert_free(client, &["c"]);
        assert_eq!(client.run("FLOCK.RELEASE b s"), 1);
        let third = later.receive().fence();
        assert!(third > second);
        assert_held(client, "c", "n", third);
        assert_held(client, "a", "m", fence);
    });
}

#[test]
fn sets_that_overlap_in_a_chain_are_served_in_the_order_of_arrival() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE a t PX 60000").fence();
    // Only the first waits for what is held; each other one only for the one before it.
    let sets = ["a b", "b c", "c d", "d e", "e a"];
    let mut waiters: Vec<_> = sets
        .iter()
        .enumerate()
        .map(|(number, keys)| {
            enqueue(
                &server,
                &format!("FLOCK.MACQUIRE 2 {keys} m{number} PX 60000 BLOCK 0"),
            )
        })
        .collect();
    assert_free(&mut client, &["b", "c", "d", "e"]);
    client.run("FLOCK.RELEASE a t");
    let mut last = 0;
    for (number, keys) in sets.iter().enumerate() {
        let fence = waiters[number].receive().fence();
        assert!(fence > last, "{keys}: {fence} > {last}");
        last = fence;
        assert_eq!(client.stat("waiters"), sets.len() as i64 - 1 - number as i64);
        assert_eq!(client.run(&format!("FLOCK.MRELEASE 2 {keys} m{number}")), 2);
    }
    assert_free(&mut client, &["a", "b", "c", "d", "e"]);
}

#[test]
fn sets_without_a_common_lock_do_not_wait_for_each_other() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000").fence();
        let mut waiter = enqueue(server, "FLOCK.MACQUIRE 2 a b m PX 60000 BLOCK 0");
        let fence = client.run("FLOCK.MACQUIRE 2 c d n PX 60000 BLOCK 0").fence();
        assert_held(client, "c", "n", fence);
        client.run("FLOCK.ACQUIRE e s PX 60000 BLOCK 0").fence();
        assert_eq!(client.stat("waiters"), 1);
        client.run("FLOCK.RELEASE a t");
        assert!(waiter.receive().fence() > fence);
    });
}

#[test]
fn one_release_serves_all_that_it_makes_way_for() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.MACQUIRE 4 a b c d t PX 60000").fence();
        let mut waiters = [
            enqueue(server, "FLOCK.MACQUIRE 2 a e m PX 60000 BLOCK 0"),
            enqueue(server, "FLOCK.ACQUIRE b s PX 60000 BLOCK 0"),
            enqueue(server, "FLOCK.MACQUIRE 3 f d c n PX 60000 BLOCK 0"),
        ];
        assert_eq!(client.run("FLOCK.MRELEASE 4 d c b a t"), 4);
        let fences = waiters.each_mut().map(|waiter| waiter.receive().fence());
        for (key, token, fence) in [
            ("e", "m", fences[0]),
            ("b", "s", fences[1]),
            ("f", "n", fences[2]),
        ] {
            assert_held(client, key, token, fence);
        }
        assert_nobody_waits(client);
    });
}

#[test]
fn a_wait_that_times_out_makes_way_for_those_behind_it() {
    let mut knot = Knot::tie();
    // The same token in a newer client takes the place of the one without a limit.
    let before = Instant::now();
    assert_eq!(knot.client.run("FLOCK.MACQUIRE 2 a b m PX 600000 BLOCK 50"), NIL);
    assert!(before.elapsed() >= Duration::from_millis(50), "early");
    assert_eq!(knot.many.receive().error_word(), "SUPERSEDED");
    knot.assert_many_has_left();
}

#[test]
fn a_wait_ends_with_nil_at_its_time() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.run("FLOCK.ACQUIRE b t PX 600000").fence();
    let before = Instant::now();
    assert_eq!(client.run("FLOCK.MACQUIRE 3 a b c m PX 60000 BLOCK 100"), NIL);
    assert!(before.elapsed() >= Duration::from_millis(100), "early");
    assert_nobody_waits(&mut client);
    assert_free(&mut client, &["a", "c"]);
    assert_held(&mut client, "b", "t", fence);
    assert_eq!(client.stat("waits_timed_out"), 1);
    client.run("FLOCK.MACQUIRE 2 a c u PX 60000").fence();
}

#[test]
fn the_end_of_a_lease_hands_over_without_traffic() {
    let server = Server::start();
    let mut client = server.client();
    let before = Instant::now();
    client.run("FLOCK.ACQUIRE a t PX 150").fence();
    client.run("FLOCK.ACQUIRE b u PX 300").fence();
    let mut waiter = server.admin();
    waiter.send_line("FLOCK.MACQUIRE 2 a b m PX 600000 BLOCK 0");
    let fence = waiter.receive().fence();
    assert!(before.elapsed() >= Duration::from_millis(300), "early");
    for key in ["a", "b"] {
        assert_held(&mut client, key, "m", fence);
    }
}

#[test]
fn the_leases_of_a_waiter_begin_with_its_grant() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE a t PX 60000").fence();
    let mut waiter = enqueue(&server, "FLOCK.MACQUIRE 2 a b m PX 50000 BLOCK 0");
    let waited = |client: &mut Client| {
        client.run("FLOCK.INFO a").field("queue").items()[0]
            .field("waited_ms")
            .int()
    };
    eventually("waited for 50 ms", || waited(&mut client), |ms| *ms >= 50);
    let replies = client.transaction(&["FLOCK.RELEASE a t", "FLOCK.PTTL a m", "FLOCK.PTTL b m"]);
    for reply in &replies[1..] {
        assert!((49_990..=50_000).contains(&reply.int()), "{replies:?}");
    }
    waiter.receive().fence();
}

#[test]
fn commands_sent_behind_a_wait_are_answered_after_it() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE a t PX 60000").fence();
    let mut waiter = enqueue(&server, "FLOCK.MACQUIRE 2 a b m PX 60000 BLOCK 0");
    waiter.send_line("FLOCK.MRELEASE 2 a b m");
    waiter.send_line("PING");
    client.run("FLOCK.RELEASE a t");
    waiter.receive().fence();
    assert_eq!(waiter.receive(), 2);
    assert_eq!(waiter.receive(), "PONG");
    assert_free(&mut client, &["a", "b"]);
}

#[test]
fn a_lock_that_is_free_and_waited_for_is_nobodys_also_after_a_reload() {
    let server = Server::builder().undressed().start();
    let mut knot = Knot::tie_on(server);
    assert_eq!(knot.client.run("DEBUG RELOAD"), OK);
    assert_free(&mut knot.client, &["b"]);
    assert_eq!(knot.client.run("FLOCK.ACQUIRE b late PX 60000"), NIL);
    assert_eq!(knot.client.run("FLOCK.RELEASE a t"), 1);
    knot.assert_many_is_served();
}

#[test]
fn queues_of_two_databases_are_two_queues() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE a t PX 60000").fence();
    let mut here = enqueue(&server, "FLOCK.MACQUIRE 2 a b m PX 60000 BLOCK 0");
    client.run("SELECT 5");
    client.run("FLOCK.MACQUIRE 2 a b m PX 60000").fence();
    client.run("FLOCK.MRELEASE 2 a b m");
    assert_eq!(client.stat("waiters"), 1);
    client.run("SELECT 0");
    client.run("FLOCK.RELEASE a t");
    here.receive().fence();
}

#[test]
fn shared_requests_behind_a_set_are_served_together_when_it_is_gone() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000").fence();
        let mut many = enqueue(server, "FLOCK.MACQUIRE 2 a b m PX 60000 BLOCK 0");
        let mut readers = ["r1", "r2", "r3"].map(|token| {
            enqueue(
                server,
                &format!("FLOCK.ACQUIRE b {token} PX 60000 SHARED BLOCK 0"),
            )
        });
        assert_free(client, &["b"]);
        assert_eq!(client.run("FLOCK.RELEASE b m"), 0);
        assert_eq!(many.receive(), NIL);
        for reader in &mut readers {
            reader.receive().fence();
        }
        let info = client.run("FLOCK.INFO b");
        assert_eq!(*info.field("mode"), "shared");
        assert_eq!(info.field("holders").items().len(), 3);
        assert_nobody_waits(client);
    });
}

#[test]
fn the_end_of_a_delay_or_of_a_session_hands_over_to_a_set() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    let mut holder = server.admin();
    holder.run("FLOCK.ACQUIRE a s PX 600000 SESSION").fence();
    client.run("FLOCK.ACQUIRE b t PX 20 DELAY 100").fence();
    let mut many = enqueue(&server, "FLOCK.MACQUIRE 2 a b m PX 600000 BLOCK 0");
    eventually("b is open", || client.run("EXISTS b"), |exists| *exists == 0);
    assert!(client.run("FLOCK.PTTL a s").int() > 0);
    assert_eq!(client.run("FLOCK.ACQUIRE b late PX 60000"), NIL);
    drop(holder);
    let fence = many.receive().fence();
    for key in ["a", "b"] {
        assert_held(&mut client, key, "m", fence);
    }
}
