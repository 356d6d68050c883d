//! Proves the queue: first come, first served; one answer for each waiter; a
//! wait that ends at its time; a lease that ends at its time without traffic.
//! Nothing is early; nothing is later than a loaded machine explains.

mod support;

use std::time::{Duration, Instant};

use support::*;

/// How late the median of some ends may be on a loaded machine. The contract
/// says 2 ms; a module that relied on the server's cron would be at 50 ms.
const LATENESS_MEDIAN: Duration = Duration::from_millis(20);
const LATENESS_SAMPLES: usize = 11;

#[test]
fn waiters_are_served_in_the_order_of_their_arrival() {
    let server = Server::start();
    let mut client = server.client();
    let mut last = client.run("FLOCK.ACQUIRE k w PX 60000").fence();
    let waiters: Vec<_> = (0..20)
        .map(|number| server.enqueue("k", &format!("FLOCK.ACQUIRE k w{number} PX 60000 BLOCK 0")))
        .collect();
    client.run("FLOCK.RELEASE k w");
    for (number, mut waiter) in waiters.into_iter().enumerate() {
        let fence = waiter.receive().fence();
        assert!(fence > last, "waiter {number}: {fence} > {last}");
        last = fence;
        assert_eq!(client.waiters("k"), 19 - number as i64);
        assert_eq!(client.run(&format!("FLOCK.RELEASE k w{number}")), 1);
    }
    assert_eq!(client.run("EXISTS k"), 0);
}

#[test]
fn each_waiter_gets_exactly_one_answer() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut granted = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 30");
    let mut timed_out = server.enqueue("k", "FLOCK.ACQUIRE k v PX 60000 BLOCK 30");
    client.run("FLOCK.RELEASE k t");
    // On a slow machine the first may time out too, and then the second may be granted.
    granted.receive();
    timed_out.receive();
    // A second answer would come before the PONG.
    assert_eq!(granted.run("PING"), "PONG");
    assert_eq!(timed_out.run("PING"), "PONG");
}

#[test]
fn commands_sent_behind_a_wait_are_answered_after_it() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    waiter.send_line("FLOCK.RELEASE k u");
    waiter.send_line("RESET");
    client.run("FLOCK.RELEASE k t");
    waiter.receive().fence();
    assert_eq!(waiter.receive(), 1);
    assert_eq!(waiter.receive(), "RESET");
    assert_eq!(client.run("EXISTS k"), 0);
}

/// Measures ends that must not be early, and not late either. `run` returns
/// the earliest and the latest time that the end may have been due, and when
/// it was seen.
fn assert_punctual(run: impl Fn() -> (Instant, Instant, Instant)) {
    let mut lateness: Vec<Duration> = (0..LATENESS_SAMPLES)
        .map(|_| {
            let (earliest, latest, seen) = run();
            let missing = earliest.saturating_duration_since(seen);
            assert_eq!(missing, Duration::ZERO, "early");
            seen.saturating_duration_since(latest)
        })
        .collect();
    lateness.sort();
    let median = lateness[LATENESS_SAMPLES / 2];
    assert!(median <= LATENESS_MEDIAN, "late: {lateness:?}");
}

#[test]
fn a_wait_ends_with_nil_at_its_time() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.run("FLOCK.ACQUIRE k t PX 600000").fence();
    let wait = Duration::from_millis(30);
    let mut waiter = server.admin();
    assert_punctual(|| {
        let mut waiter = server.admin();
        let before = Instant::now();
        waiter.send_line("FLOCK.ACQUIRE k u PX 60000 BLOCK 30");
        assert_eq!(waiter.receive(), NIL);
        (before + wait, before + wait, Instant::now())
    });
    assert_eq!(client.waiters("k"), 0);
    assert_eq!(*client.run("FLOCK.INFO k").field("fence"), fence);
    assert_eq!(waiter.run("FLOCK.ACQUIRE k u PX 60000"), NIL);
}

#[test]
fn a_wait_of_0_has_no_limit() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 600000").fence();
    let mut endless = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    let mut long = server.enqueue("k", "FLOCK.ACQUIRE k v PX 60000 BLOCK 4611686018427387");
    let mut short = server.enqueue("k", "FLOCK.ACQUIRE k w PX 60000 BLOCK 300");
    assert_eq!(short.receive(), NIL);
    assert_eq!(client.waiters("k"), 2);
    client.run("FLOCK.RELEASE k t");
    endless.receive().fence();
    client.run("FLOCK.RELEASE k u");
    long.receive().fence();
}

#[test]
fn a_lease_that_runs_out_grants_the_next_without_traffic() {
    let server = Server::start();
    let lease = Duration::from_millis(40);
    assert_punctual(|| {
        let mut client = server.admin();
        let mut waiter = server.admin();
        let before = Instant::now();
        client.run("FLOCK.ACQUIRE k t PX 40").fence();
        let after = Instant::now();
        waiter.send_line("FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        waiter.receive().fence();
        let seen = Instant::now();
        assert_eq!(waiter.run("FLOCK.RELEASE k u"), 1);
        (before + lease, after + lease, seen)
    });
}

#[test]
fn leases_of_a_whole_queue_run_out_one_after_the_other() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k w PX 60000").fence();
    let waiters: Vec<_> = (0..5)
        .map(|number| server.enqueue("k", &format!("FLOCK.ACQUIRE k w{number} PX 30 BLOCK 0")))
        .collect();
    let mut last_fence = 0;
    let mut earliest = Instant::now();
    client.run("FLOCK.RELEASE k w");
    for mut waiter in waiters {
        let fence = waiter.receive().fence();
        assert!(
            Instant::now() >= earliest,
            "granted before the lease before it was over"
        );
        earliest += Duration::from_millis(30);
        assert!(fence > last_fence);
        last_fence = fence;
    }
    eventually(
        "the last is over",
        || client.run("EXISTS k"),
        |exists| *exists == 0,
    );
}

#[test]
fn the_lease_of_a_waiter_begins_with_its_grant() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 5000 BLOCK 0");
    let waited = |client: &mut Client| {
        client.run("FLOCK.INFO k").field("queue").items()[0]
            .field("waited_ms")
            .int()
    };
    eventually("waited for 50 ms", || waited(&mut client), |ms| *ms >= 50);
    let replies = client.transaction(&["FLOCK.RELEASE k t", "FLOCK.PTTL k u"]);
    assert!((4_990..=5_000).contains(&replies[1].int()), "{replies:?}");
    waiter.receive().fence();
}

#[test]
fn a_refresh_moves_the_end_that_waiters_wait_for() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 100").fence();
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    let before = Instant::now();
    if client.run("FLOCK.REFRESH k t PX 400") == 1 {
        waiter.receive().fence();
        assert!(
            before.elapsed() >= Duration::from_millis(400),
            "granted too early"
        );
    }
    client.run("FLOCK.BREAK k");

    client.run("FLOCK.ACQUIRE k t PX 600000").fence();
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    let before = Instant::now();
    assert_eq!(client.run("FLOCK.REFRESH k t PX 50"), 1);
    waiter.receive().fence();
    assert!(before.elapsed() >= Duration::from_millis(50), "granted too early");
}

#[test]
fn a_newcomer_never_overtakes_the_queue() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k w PX 60000").fence();
    let mut waiters: Vec<_> = (0..50)
        .map(|number| server.enqueue("k", &format!("FLOCK.ACQUIRE k w{number} PX 60000 BLOCK 0")))
        .collect();
    // Each waiter releases as soon as it is granted; the newcomer tries all the while.
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.send_line(&format!("FLOCK.RELEASE k w{number}"));
    }
    let mut newcomer = server.admin();
    client.send_line("FLOCK.RELEASE k w");
    let first = loop {
        let reply = newcomer.run("FLOCK.ACQUIRE k newcomer PX 60000");
        if reply != NIL {
            break reply.fence();
        }
    };
    for waiter in &mut waiters {
        assert!(waiter.receive().fence() < first);
    }
}

#[test]
fn those_who_leave_the_middle_of_the_queue_do_not_change_its_order() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k w PX 60000").fence();
    let mut waiters: Vec<_> = (0..9)
        .map(|number| {
            let wait_ms = if number % 3 == 1 { 2_000 } else { 0 };
            let line = format!("FLOCK.ACQUIRE k w{number} PX 60000 BLOCK {wait_ms}");
            (number, server.enqueue("k", &line))
        })
        .collect();
    for (number, waiter) in &mut waiters {
        match *number % 3 {
            1 => assert_eq!(waiter.receive(), NIL),
            2 => assert_eq!(client.run(&format!("FLOCK.RELEASE k w{number}")), 0),
            _ => {}
        }
    }
    client.run("FLOCK.RELEASE k w");
    for (number, waiter) in &mut waiters {
        match *number % 3 {
            0 => {
                waiter.receive().fence();
                assert_eq!(client.run(&format!("FLOCK.RELEASE k w{number}")), 1);
            }
            1 => {}
            _ => assert_eq!(waiter.receive(), NIL),
        }
    }
}

#[test]
fn queues_of_two_databases_are_two_queues() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut here = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    client.run("SELECT 5");
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut there = server.enqueue_in(5, "k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    client.run("FLOCK.RELEASE k t");
    there.receive().fence();
    client.run("SELECT 0");
    assert_eq!(client.waiters("k"), 1);
    client.run("FLOCK.RELEASE k t");
    here.receive().fence();
}

#[test]
fn two_thousand_waiters_are_served_in_order() {
    const WAITERS: usize = 2_000;
    raise_the_limit_of_open_files(WAITERS as u64 * 2 + 500);
    let server = Server::builder()
        .undressed()
        .module_arguments("max-waiters 2000")
        .start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k w PX 600000").fence();
    let mut waiters: Vec<_> = (0..WAITERS)
        .map(|number| {
            let mut waiter = server.admin();
            waiter.send_line(&format!("FLOCK.ACQUIRE k w{number} PX 600000 BLOCK 0"));
            // Only a queue that has grown fixes the order of arrival.
            let is_in = |waiting: &i64| *waiting == number as i64 + 1;
            eventually("the waiter is in the queue", || client.stat("waiters"), is_in);
            waiter
        })
        .collect();
    assert_eq!(
        client.run("FLOCK.ACQUIRE k late PX 1 BLOCK 0").error_word(),
        "QUEUEFULL"
    );
    let mut last = 0;
    client.run("FLOCK.RELEASE k w");
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let fence = waiter.receive().fence();
        assert!(fence > last, "waiter {number}: {fence} > {last}");
        last = fence;
        assert_eq!(waiter.run(&format!("FLOCK.RELEASE k w{number}")), 1);
    }
    assert_eq!(client.run("EXISTS k"), 0);
    assert_eq!(client.stat("handoffs"), WAITERS as i64);
}
