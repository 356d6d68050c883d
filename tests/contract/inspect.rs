//! Proves what a client can ask about a lock: PTTL ("is it still mine?") and
//! FLOCK.INFO, field by field, as a map in RESP3 and flat in RESP2.

use crate::support::*;

#[test]
fn pttl_of_a_lock_that_nobody_holds_is_minus_2() {
    in_both_protocols(|_, client| {
        assert_eq!(client.run("FLOCK.PTTL k"), -2);
        assert_eq!(client.run("FLOCK.PTTL k t"), -2);
    });
}

#[test]
fn pttl_is_what_is_left_of_that_tokens_hold() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let with_token = client.run("FLOCK.PTTL k t").int();
        let without = client.run("FLOCK.PTTL k").int();
        assert!((0..=60_000).contains(&with_token), "{with_token}");
        assert!((0..=60_000).contains(&without), "{without}");
        assert_eq!(client.run("FLOCK.PTTL k u"), -2);
        eventually(
            "the time left shrinks",
            || client.run("FLOCK.PTTL k t").int(),
            |left| *left < with_token,
        );
    });
}

#[test]
fn a_waiter_holds_nothing_yet() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let _waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.PTTL k u"), -2);
    });
}

#[test]
fn info_of_a_lock_that_nobody_holds_is_nil() {
    in_both_protocols(|_, client| {
        assert_eq!(client.run("FLOCK.INFO k"), NIL);
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        client.run("FLOCK.RELEASE k t");
        assert_eq!(client.run("FLOCK.INFO k"), NIL);
    });
}

#[test]
fn a_lock_whose_lease_is_over_reads_as_not_held() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 10").fence();
        eventually("PTTL is -2", || client.run("FLOCK.PTTL k"), |left| *left == -2);
        assert_eq!(client.run("FLOCK.INFO k"), NIL);
        assert_eq!(client.run("FLOCK.PTTL k t"), -2);
    });
}

#[test]
fn info_tells_all_about_the_holder() {
    in_both_protocols(|_, client| {
        let fence = client.run("FLOCK.ACQUIRE k t PX 60000 LABEL worker-7").fence();
        let info = client.run("FLOCK.INFO k");
        let names = [
            "mode", "permits", "fence", "delay_ms", "holders", "waiters", "queue",
        ];
        assert_eq!(info.names(), names);
        assert_eq!(*info.field("mode"), "exclusive");
        assert_eq!(*info.field("permits"), 1);
        assert_eq!(*info.field("fence"), fence);
        assert_eq!(*info.field("delay_ms"), 0);
        assert_eq!(*info.field("waiters"), 0);
        assert_eq!(*info.field("queue"), Reply::List(Vec::new()));

        let [holder] = info.field("holders").items() else {
            panic!("one holder, got {info:?}");
        };
        assert_eq!(holder.names(), ["fence", "ttl_ms", "holds", "label", "session"]);
        assert_eq!(*holder.field("fence"), fence);
        assert!((0..=60_000).contains(&holder.field("ttl_ms").int()), "{info:?}");
        assert_eq!(*holder.field("holds"), 1);
        assert_eq!(*holder.field("label"), "worker-7");
        assert!(!holder.field("session").is_true());
    });
}

#[test]
fn info_is_a_map_in_resp3_and_flat_in_resp2() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let server = Server::builder().protocol(protocol).start();
        let mut client = server.client();
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let _waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        let info = client.run("FLOCK.INFO k");
        let maps = [
            &info,
            &info.field("holders").items()[0],
            &info.field("queue").items()[0],
        ];
        for map in maps {
            let is_map = matches!(map, Reply::Map(_));
            assert_eq!(is_map, protocol == Protocol::Resp3, "{protocol:?}: {map:?}");
        }
        let session = info.field("holders").items()[0].field("session");
        let is_bool = matches!(session, Reply::Bool(_));
        assert_eq!(is_bool, protocol == Protocol::Resp3, "{protocol:?}: {session:?}");
    }
}

#[test]
fn a_label_that_was_not_given_is_empty() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let _waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        let info = client.run("FLOCK.INFO k");
        assert_eq!(*info.field("holders").items()[0].field("label"), "");
        assert_eq!(*info.field("queue").items()[0].field("label"), "");
    });
}

#[test]
fn info_shows_the_queue_in_its_order() {
    in_both_protocols(|server, client| {
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let _waiters: Vec<_> = (0..3)
            .map(|number| {
                let line = format!("FLOCK.ACQUIRE k w{number} PX 60000 BLOCK 0 LABEL L{number}");
                server.enqueue("k", &line)
            })
            .collect();
        let info = client.run("FLOCK.INFO k");
        assert_eq!(*info.field("waiters"), 3);
        let queue = info.field("queue").items();
        assert_eq!(queue.len(), 3);
        for (number, entry) in queue.iter().enumerate() {
            assert_eq!(entry.names(), ["label", "mode", "waited_ms"]);
            assert_eq!(*entry.field("label"), *format!("L{number}"));
            assert_eq!(*entry.field("mode"), "exclusive");
            assert!(entry.field("waited_ms").int() >= 0);
        }
        let waited_ms = |info: &Reply| info.field("queue").items()[0].field("waited_ms").int();
        let before = waited_ms(&info);
        eventually(
            "the time waited grows",
            || waited_ms(&client.run("FLOCK.INFO k")),
            |waited| *waited > before,
        );
    });
}

#[test]
fn info_shows_the_first_100_of_a_long_queue_and_counts_all() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 600000").fence();
    let _waiters: Vec<_> = (0..103)
        .map(|number| {
            let line = format!("FLOCK.ACQUIRE k w{number} PX 60000 BLOCK 0 LABEL L{number}");
            server.enqueue("k", &line)
        })
        .collect();
    let info = client.run("FLOCK.INFO k");
    assert_eq!(*info.field("waiters"), 103);
    let queue = info.field("queue").items();
    assert_eq!(queue.len(), 100);
    assert_eq!(*queue[0].field("label"), "L0");
    assert_eq!(*queue[99].field("label"), "L99");
}

#[test]
fn looking_changes_nothing() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 600000").fence();
        let grants = client.stat("grants");
        let dump = client.run("DEBUG DIGEST");
        for line in [
            "FLOCK.INFO k",
            "FLOCK.PTTL k",
            "FLOCK.PTTL k t",
            "FLOCK.INFO l",
            "FLOCK.PTTL l",
        ] {
            client.run(line);
        }
        assert_eq!(client.run("DEBUG DIGEST"), dump);
        assert_eq!(client.stat("grants"), grants);
        assert_eq!(client.run("EXISTS l"), 0);
    });
}
