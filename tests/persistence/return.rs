//! Proves that each way to the disk and back brings the same locks.

use std::time::Duration;

use crate::support::*;
use crate::{Way, WAYS};

/// The grant is answered after it was flushed, which a busy disk may hold up. How punctual the end of
/// a lease is, is measured elsewhere.
const BUSY_DISK: Duration = Duration::from_secs(5);

#[test]
fn a_held_lock_comes_back_as_it_was() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        let mut client = server.client();
        let lease = Lease::take(&mut client, "k", "tok", 600_000, "LABEL build-17");
        let before = client.run("FLOCK.INFO k");
        way.travel(&mut server);

        let mut client = server.admin();
        let after = client.run("FLOCK.INFO k");
        for field in ["mode", "permits", "fence", "delay_ms", "waiters"] {
            assert_eq!(before.field(field), after.field(field), "{field} by {way:?}");
        }
        let [holder] = after.field("holders").items() else {
            panic!("one holder by {way:?}: {after:?}");
        };
        assert_eq!(*holder.field("fence"), lease.fence, "{way:?}");
        assert_eq!(*holder.field("label"), "build-17", "{way:?}");
        lease.assert_runs_on(&mut client);
        assert_eq!(client.run("TYPE k"), "flocklock", "{way:?}");
        assert_eq!(client.stat("held_locks"), 1, "{way:?}");
    }
}

#[test]
fn the_holder_still_holds_and_nobody_else_does() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        let fence = server.client().run("FLOCK.ACQUIRE k tok PX 600000").fence();
        way.travel(&mut server);

        let mut client = server.admin();
        assert_eq!(client.run("FLOCK.ACQUIRE k other PX 600000"), NIL, "{way:?}");
        assert_eq!(client.run("FLOCK.RELEASE k other"), 0, "{way:?}");
        assert_eq!(
            client.run("FLOCK.ACQUIRE k tok PX 600000"),
            fence,
            "a retry by {way:?}"
        );
        assert_eq!(client.run("FLOCK.REFRESH k tok PX 600000"), 1, "{way:?}");
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k next PX 600000 BLOCK 0");
        assert_eq!(client.run("FLOCK.RELEASE k tok"), 1, "{way:?}");
        assert!(waiter.receive().fence() > fence, "{way:?}");
    }
}

#[test]
fn bytes_of_any_kind_and_the_longest_of_all_come_back() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        let every_byte: Vec<u8> = (0..=255).collect();
        let key = [b"\0\r\n{}", &every_byte[..]].concat();
        let token = every_byte.repeat(4);
        let request = ("FLOCK.ACQUIRE", &key, &token, "PX", 4_611_686_018_427_387i64);
        let fence = server.client().call((request, "LABEL", &every_byte)).fence();
        way.travel(&mut server);

        let mut client = server.admin();
        let info = client.call(("FLOCK.INFO", &key));
        let holder = &info.field("holders").items()[0];
        assert_eq!(*holder.field("fence"), fence, "{way:?}");
        assert_eq!(holder.field("label").bytes(), every_byte, "{way:?}");
        assert_eq!(client.call(("FLOCK.RELEASE", &key, &token)), 1, "{way:?}");
    }
}

#[test]
fn locks_come_back_to_their_databases() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        let mut client = server.client();
        let mut fences = Vec::new();
        for database in [0, 3, 9] {
            client.call(("SELECT", database));
            fences.push(client.run("FLOCK.ACQUIRE k tok PX 600000").fence());
        }
        way.travel(&mut server);

        let mut client = server.admin();
        for (database, fence) in [0, 3, 9].into_iter().zip(fences) {
            client.call(("SELECT", database));
            assert_eq!(*client.run("FLOCK.INFO k").field("fence"), fence, "{way:?}");
            assert_eq!(client.run("FLOCK.RELEASE k tok"), 1, "{way:?}");
        }
    }
}

#[test]
fn a_refreshed_lease_comes_back_and_not_the_first_one() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        let mut client = server.client();
        for (key, first_ms, second_ms) in [("longer", 50_000, 600_000), ("shorter", 600_000, 50_000)] {
            client.call(("FLOCK.ACQUIRE", key, "tok", "PX", first_ms)).fence();
            client.call(("FLOCK.REFRESH", key, "tok", "PX", second_ms));
        }
        way.travel(&mut server);
        let mut client = server.admin();
        assert!(client.run("FLOCK.PTTL longer").int() > 500_000, "{way:?}");
        assert!(client.run("FLOCK.PTTL shorter").int() <= 50_000, "{way:?}");
    }
}

#[test]
fn a_lease_that_came_back_ends_on_time_and_hands_over() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        let lease = Lease::take(&mut server.client(), "k", "tok", 1_500, "");
        way.travel(&mut server);
        let mut client = server.admin();
        // On a busy machine the way may take longer than the lease.
        let due = lease.latest_end().max(std::time::Instant::now());
        client.run("FLOCK.ACQUIRE k next PX 600000 BLOCK 0").fence();
        let granted = std::time::Instant::now();
        assert!(granted >= lease.earliest_end(), "too early by {way:?}");
        let late = granted.saturating_duration_since(due);
        assert!(late < BUSY_DISK, "{late:?} late by {way:?}");
    }
}

/// Only where the server really was down: a reload takes no time.
#[test]
fn a_lease_that_ended_while_the_server_was_down_is_over() {
    for way in WAYS.into_iter().filter(|way| *way != Way::Reload) {
        let mut server = way.start(Server::builder());
        let mut client = server.client();
        let lease = Lease::take(&mut client, "k", "tok", 800, "");
        let survivor = Lease::take(&mut client, "long", "tok", 600_000, "");
        let mut admin = server.admin();
        if way == Way::Snapshot {
            admin.run("SAVE");
        } else if way != Way::Aof {
            crate::rewrite(&mut admin);
        }
        server.kill9();
        std::thread::sleep(
            lease
                .latest_end()
                .saturating_duration_since(std::time::Instant::now()),
        );
        std::thread::sleep(Duration::from_millis(30));
        server.restart();

        let mut client = server.admin();
        assert_eq!(client.run("FLOCK.PTTL k"), -2, "{way:?}");
        assert_eq!(client.run("FLOCK.INFO k"), NIL, "{way:?}");
        assert!(
            client.run("FLOCK.ACQUIRE k other PX 600000").fence() > lease.fence,
            "{way:?}"
        );
        survivor.assert_runs_on(&mut client);
    }
}

#[test]
fn waiters_outlast_a_reload_and_keep_their_order() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    let mut first = server.enqueue("k", "FLOCK.ACQUIRE k first PX 600000 BLOCK 0");
    let mut second = server.enqueue("k", "FLOCK.ACQUIRE k second PX 600000 BLOCK 0");
    assert_eq!(client.run("DEBUG RELOAD"), OK);
    assert_eq!(client.waiters("k"), 2);
    assert_eq!(first.receive_within(Duration::from_millis(50)), None);
    assert_eq!(client.run("FLOCK.RELEASE k tok"), 1);
    let fence = first.receive().fence();
    assert_eq!(client.run("FLOCK.RELEASE k first"), 1);
    assert!(second.receive().fence() > fence);
}
