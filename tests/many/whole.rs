//! Proves that FLOCK.MREFRESH changes nothing unless all is held, that FLOCK.MRELEASE ends what is, and that both say
//! how much that was.

use crate::support::*;
use crate::{assert_free, assert_held, assert_nobody_waits, enqueue};

#[test]
fn a_refresh_sets_all_leases_to_exactly_the_new_one() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.MACQUIRE 3 a b c t PX 60000").fence();
        for (lease, range) in [("EX 600", 590_000..=600_000), ("PX 30000", 20_000..=30_000)] {
            assert_eq!(client.run(&format!("FLOCK.MREFRESH 3 c a b t {lease}")), 3);
            for key in ["a", "b", "c"] {
                let left = client.call(("FLOCK.PTTL", key, "t")).int();
                assert!(range.contains(&left), "{key}: {left} after {lease}");
                assert_held(client, key, "t", fence);
            }
        }
    });
}

#[test]
fn a_refresh_of_some_of_the_locks_leaves_the_others() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.MACQUIRE 3 a b c t PX 60000").fence();
        assert_eq!(client.run("FLOCK.MREFRESH 2 a c t PX 600000"), 2);
        assert!(client.run("FLOCK.PTTL a t").int() > 60_000);
        assert!(client.run("FLOCK.PTTL b t").int() <= 60_000);
    });
}

#[test]
fn a_refresh_does_not_ask_under_which_fence() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000").fence();
        client.run("FLOCK.ACQUIRE b t PX 60000").fence();
        assert_eq!(client.run("FLOCK.MREFRESH 2 a b t PX 600000"), 2);
        assert!(client.run("FLOCK.PTTL b t").int() > 60_000);
        assert_eq!(client.run("FLOCK.MRELEASE 2 a b t"), 2);
        assert_free(client, &["a", "b"]);
    });
}

#[test]
fn a_refresh_of_locks_that_are_not_all_held_changes_nothing() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
        client.run("FLOCK.ACQUIRE c other PX 60000").fence();
        for (line, held) in [
            ("FLOCK.MREFRESH 3 a b c t PX 600000", 2),
            ("FLOCK.MREFRESH 3 c b a t PX 600000", 2),
            ("FLOCK.MREFRESH 3 a free b t PX 1", 2),
            ("FLOCK.MREFRESH 2 c a t PX 1", 1),
            ("FLOCK.MREFRESH 2 free c t PX 600000", 0),
            ("FLOCK.MREFRESH 2 a b nobody PX 1", 0),
        ] {
            assert_eq!(client.run(line), held, "{line}");
            for (key, token) in [("a", "t"), ("b", "t"), ("c", "other")] {
                let left = client.call(("FLOCK.PTTL", key, token)).int();
                assert!((50_000..=60_000).contains(&left), "{line}: {key} {left}");
            }
        }
        assert_free(client, &["free"]);
    });
}

#[test]
fn a_lease_that_is_over_is_not_held() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
    assert_eq!(client.run("FLOCK.REFRESH a t PX 20"), 1);
    eventually(
        "the lease is over",
        || client.run("FLOCK.PTTL a t"),
        |left| *left == -2,
    );
    assert_eq!(client.run("FLOCK.MREFRESH 2 a b t PX 600000"), 1);
    assert!(client.run("FLOCK.PTTL b t").int() <= 60_000);
    assert_eq!(client.run("FLOCK.MRELEASE 2 a b t"), 1);
    assert_free(&mut client, &["a", "b"]);
}

#[test]
fn a_release_ends_what_the_token_holds_of_them_and_counts_it() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.MACQUIRE 4 a b c d t PX 60000").fence();
        let other = client.run("FLOCK.ACQUIRE e other PX 60000").fence();
        assert_eq!(client.run("FLOCK.MRELEASE 4 a e free b t"), 2);
        assert_free(client, &["a", "b", "free"]);
        assert_held(client, "c", "t", fence);
        assert_held(client, "e", "other", other);
        assert_eq!(client.run("FLOCK.MRELEASE 4 a e free b t"), 0);
        assert_eq!(client.run("FLOCK.MRELEASE 2 c d t"), 2);
        assert_eq!(client.run("DBSIZE"), 1);
        assert_eq!(client.stat("held_locks"), 1);
    });
}

#[test]
fn a_release_ends_one_of_several_holds() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000 REENTRANT").fence();
        let fence = client.run("FLOCK.ACQUIRE a t PX 60000 REENTRANT").fence();
        client.run("FLOCK.ACQUIRE b t PX 60000").fence();
        assert_eq!(client.run("FLOCK.MRELEASE 2 a b t"), 2);
        assert_held(client, "a", "t", fence);
        assert_free(client, &["b"]);
        assert_eq!(client.run("FLOCK.MRELEASE 2 a b t"), 1);
        assert_free(client, &["a"]);
    });
}

#[test]
fn shared_holds_and_permits_are_refreshed_and_released_too() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000 SHARED").fence();
        client.run("FLOCK.ACQUIRE a u PX 60000 SHARED").fence();
        client.run("FLOCK.ACQUIRE b t PX 60000 PERMITS 2").fence();
        assert_eq!(client.run("FLOCK.MREFRESH 2 a b t PX 600000"), 2);
        assert!(client.run("FLOCK.PTTL a u").int() <= 60_000);
        assert_eq!(client.run("FLOCK.MRELEASE 2 a b t"), 2);
        assert!(client.run("FLOCK.PTTL a u").int() > 0);
        assert_free(client, &["b"]);
    });
}

#[test]
fn a_release_hands_each_lock_to_the_next_in_line() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.MACQUIRE 3 a b c t PX 60000").fence();
        let mut first = enqueue(server, "FLOCK.ACQUIRE a s PX 60000 BLOCK 0");
        let mut second = enqueue(server, "FLOCK.ACQUIRE b r PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.MRELEASE 3 a b c t"), 3);
        let fences = [&mut first, &mut second].map(|waiter| waiter.receive().fence());
        assert_held(client, "a", "s", fences[0]);
        assert_held(client, "b", "r", fences[1]);
        assert_free(client, &["c"]);
        assert_nobody_waits(client);
    });
}

/// It holds `a` and waits for `b`: both are over.
#[test]
fn a_release_ends_a_hold_and_a_wait_at_once() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE a t PX 60000").fence();
        client.run("FLOCK.ACQUIRE b other PX 60000").fence();
        let mut waiter = enqueue(server, "FLOCK.MACQUIRE 2 b c t PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.MRELEASE 2 a b t"), 1);
        assert_eq!(waiter.receive(), NIL);
        assert_free(client, &["a", "c"]);
        assert_nobody_waits(client);
        client.run("FLOCK.ACQUIRE c u PX 60000").fence();
    });
}
