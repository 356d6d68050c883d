//! Proves that FLOCK.MACQUIRE takes all of its locks or none, under one fence, and that each of them is a lock like any
//! other afterwards.

use std::time::{Duration, Instant};

use crate::support::*;
use crate::{assert_free, assert_held, enqueue};

#[test]
fn all_the_locks_are_held_under_one_fence() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.MACQUIRE 3 a b c t PX 60000").fence();
        for key in ["a", "b", "c"] {
            assert_held(client, key, "t", fence);
            let info = client.call(("FLOCK.INFO", key));
            assert_eq!(*info.field("mode"), "exclusive", "{key}");
            assert_eq!(client.call(("FLOCK.ACQUIRE", key, "u", "PX", 1000)), NIL, "{key}");
        }
        assert_eq!(client.stat("held_locks"), 3);
        assert_eq!(client.stat("last_fence"), fence);
    });
}

#[test]
fn one_lock_that_is_busy_leaves_all_the_others_free() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.ACQUIRE b other PX 60000").fence();
        for line in [
            "FLOCK.MACQUIRE 3 a b c t PX 60000",
            "FLOCK.MACQUIRE 3 b a c t PX 60000",
            "FLOCK.MACQUIRE 3 c a b t PX 60000",
            "FLOCK.MACQUIRE 3 a c b * EX 60",
        ] {
            assert_eq!(client.run(line), NIL, "{line}");
            assert_free(client, &["a", "c"]);
        }
        assert_held(client, "b", "other", fence);
        assert_eq!(client.stat("waiters_peak"), 0);
        assert_eq!(client.stat("last_fence"), fence, "no fence was spent");
        client.run("FLOCK.RELEASE b other");
        client.run("FLOCK.MACQUIRE 3 a b c t PX 60000").fence();
    });
}

#[test]
fn one_lock_alone_is_taken_as_by_acquire() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.MACQUIRE 1 a t PX 60000").fence();
        assert_held(client, "a", "t", fence);
        assert_eq!(client.run("FLOCK.ACQUIRE a t PX 60000"), fence);
        assert_eq!(client.run("FLOCK.RELEASE a t"), 1);
        assert_free(client, &["a"]);
    });
}

#[test]
fn the_fence_is_above_all_that_were_before_it_on_any_of_the_locks() {
    in_both_protocols(|_, client| {
        let mut last = 0;
        for key in ["a", "b", "c"] {
            last = client.call(("FLOCK.ACQUIRE", key, "u", "PX", 60_000)).fence();
            assert_eq!(client.call(("FLOCK.RELEASE", key, "u")), 1);
        }
        let fence = client.run("FLOCK.MACQUIRE 3 c b a t PX 60000").fence();
        assert!(fence > last, "{fence} > {last}");
        assert_eq!(client.run("FLOCK.MRELEASE 3 a b c t"), 3);
        let above = 1_i64 << 52;
        let line = format!("FLOCK.MACQUIRE 2 a b t PX 60000 ABOVE {above}");
        assert_eq!(client.run(&line), above + 1);
        assert_eq!(client.run("FLOCK.ACQUIRE c t PX 60000"), above + 2);
    });
}

#[test]
fn options_come_in_any_order_and_a_label_is_on_each_of_the_locks() {
    in_both_protocols(|_, client| {
        let line = "flock.macquire 2 a b t label worker-7 above 7 block 0 ex 60";
        client.run(line).fence();
        for key in ["a", "b"] {
            let info = client.call(("FLOCK.INFO", key));
            assert_eq!(*info.field("holders").items()[0].field("label"), "worker-7");
            assert!(client.call(("FLOCK.PTTL", key, "t")).int() > 50_000);
        }
    });
}

#[test]
fn a_token_that_the_server_makes_holds_all_of_them() {
    in_both_protocols(|_, client| {
        let reply = client.run("FLOCK.MACQUIRE 2 a b * PX 60000");
        let [fence, token] = reply.items() else {
            panic!("fence and token: {reply:?}");
        };
        let token = token.text();
        assert_eq!(token.len(), 26);
        for key in ["a", "b"] {
            assert_held(client, key, &token, fence.fence());
        }
        assert_eq!(client.call(("FLOCK.MRELEASE", 2, "a", "b", &token)), 2);
        assert_free(client, &["a", "b"]);
    });
}

#[test]
fn a_waiter_whose_token_the_server_makes_is_told_it() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE a u PX 60000").fence();
        let mut waiter = enqueue(server, "FLOCK.MACQUIRE 2 a b * PX 60000 BLOCK 0");
        client.run("FLOCK.RELEASE a u");
        let reply = waiter.receive();
        let [fence, token] = reply.items() else {
            panic!("fence and token: {reply:?}");
        };
        for key in ["a", "b"] {
            assert_held(client, key, &token.text(), fence.fence());
        }
    });
}

#[test]
fn each_of_them_is_refreshed_released_and_broken_alone() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.MACQUIRE 4 a b c d t PX 60000").fence();
        assert_eq!(client.run("FLOCK.REFRESH a t PX 600000"), 1);
        assert!(client.run("FLOCK.PTTL a t").int() > 60_000);
        assert!(client.run("FLOCK.PTTL d t").int() <= 60_000);
        assert_eq!(client.run("FLOCK.RELEASE b t"), 1);
        assert_eq!(client.run("FLOCK.BREAK c"), 1);
        assert_free(client, &["b", "c"]);
        for key in ["a", "d"] {
            assert_held(client, key, "t", fence);
        }
        client.run("FLOCK.MACQUIRE 2 b c u PX 60000").fence();
    });
}

#[test]
fn the_leases_of_all_run_out_by_themselves() {
    let server = Server::start();
    let mut client = server.client();
    let before = Instant::now();
    client.run("FLOCK.MACQUIRE 3 a b c t PX 200").fence();
    let mut waiters = ["a", "b"].map(|key| {
        let mut waiter = server.admin();
        waiter.send_line(&format!("FLOCK.ACQUIRE {key} u PX 600000 BLOCK 0"));
        waiter
    });
    for waiter in &mut waiters {
        waiter.receive().fence();
        assert!(before.elapsed() >= Duration::from_millis(200), "early");
    }
    eventually("c is free", || client.run("EXISTS c"), |exists| *exists == 0);
    assert_eq!(client.stat("leases_expired"), 3);
}

#[test]
fn shared_holders_and_permits_are_in_the_way() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE a r1 PX 60000 SHARED").fence();
        client.run("FLOCK.ACQUIRE a r2 PX 60000 SHARED").fence();
        client.run("FLOCK.ACQUIRE b p PX 60000 PERMITS 3").fence();
        assert_eq!(client.run("FLOCK.MACQUIRE 2 a c t PX 60000"), NIL);
        assert_eq!(client.run("FLOCK.MACQUIRE 2 b c t PX 60000"), NIL);
        let mut waiter = enqueue(server, "FLOCK.MACQUIRE 3 a b c t PX 60000 BLOCK 0");
        // Nobody joins the others past the one that waits.
        assert_eq!(client.run("FLOCK.ACQUIRE a r3 PX 60000 SHARED"), NIL);
        assert_eq!(client.run("FLOCK.ACQUIRE b q PX 60000 PERMITS 3"), NIL);
        for line in ["FLOCK.RELEASE a r1", "FLOCK.RELEASE b p", "FLOCK.RELEASE a r2"] {
            assert_free(client, &["c"]);
            assert_eq!(client.run(line), 1, "{line}");
        }
        let fence = waiter.receive().fence();
        for key in ["a", "b", "c"] {
            assert_held(client, key, "t", fence);
        }
    });
}

#[test]
fn a_lock_in_its_delay_is_not_free() {
    const CLOSED_UNTIL: Duration = Duration::from_millis(350);
    let server = Server::start();
    let mut client = server.client();
    let before = Instant::now();
    client.run("FLOCK.ACQUIRE a u PX 50 DELAY 300").fence();
    let mut waiter = server.admin();
    waiter.send_line("FLOCK.MACQUIRE 2 b a t PX 60000 BLOCK 0");
    let fence = waiter.receive().fence();
    assert!(before.elapsed() >= CLOSED_UNTIL, "granted while it was closed");
    for key in ["a", "b"] {
        assert_held(&mut client, key, "t", fence);
    }
}

/// The command of that name for `count` keys, `k0` and so on, and the words behind them.
fn of_many(name: &str, count: usize, rest: &[&str]) -> Vec<String> {
    let keys = (0..count).map(|number| format!("k{number}"));
    let rest = rest.iter().map(|word| (*word).to_owned());
    [name.to_owned(), count.to_string()]
        .into_iter()
        .chain(keys)
        .chain(rest)
        .collect()
}

#[test]
fn up_to_1024_locks_are_taken_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client
        .call(of_many("FLOCK.MACQUIRE", 1024, &["t", "PX", "60000"]))
        .fence();
    let are_all = |held: &i64| *held == 1024;
    eventually("all are held", || client.stat("held_locks"), are_all);
    assert_held(&mut client, "k1023", "t", fence);
    let mut waiter = server.admin();
    waiter.send(of_many(
        "FLOCK.MACQUIRE",
        1024,
        &["u", "PX", "60000", "BLOCK", "0"],
    ));
    eventually("it waits", || client.stat("waiters"), |waiters| *waiters == 1);
    let refresh = client.call(of_many("FLOCK.MREFRESH", 1024, &["t", "PX", "60000"]));
    assert_eq!(refresh, 1024);
    assert_eq!(client.call(of_many("FLOCK.MRELEASE", 1024, &["t"])), 1024);
    let next = waiter.receive().fence();
    assert_held(&mut client, "k0", "u", next);
    assert_held(&mut client, "k1023", "u", next);
    let one_more = client.call(of_many("FLOCK.MACQUIRE", 1025, &["v", "PX", "60000"]));
    assert_eq!(one_more, Reply::error("ERR at most 1024 locks at once"));
    assert_eq!(client.run("EXISTS k1024"), 0);
}

#[test]
fn each_lock_has_its_own_keyspace_event() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("CONFIG SET notify-keyspace-events Ed");
    let mut listener = server.admin();
    listener.run("PSUBSCRIBE __keyevent@0__:flock.*");
    client.run("FLOCK.MACQUIRE 2 a b t PX 60000").fence();
    assert_eq!(client.run("FLOCK.MREFRESH 2 a b t PX 60000"), 2);
    assert_eq!(client.run("FLOCK.MACQUIRE 2 b c t PX 60000").error_word(), "ERR");
    assert_eq!(client.run("FLOCK.MRELEASE 2 a b t"), 2);
    for name in ["flock.acquire", "flock.release"] {
        let mut keys = [0, 1].map(|_| {
            let event = listener.receive();
            let words: Vec<_> = event.items().iter().map(Reply::text).collect();
            assert!(words[2].ends_with(name), "{name}: {words:?}");
            words[3].clone()
        });
        keys.sort();
        assert_eq!(keys, ["a", "b"], "{name}");
    }
}
