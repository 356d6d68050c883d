//! Proves that a lock arrives whole where its slot moves, by each way that the server knows: as it
//! was, with greater fences to come, and never granted again where it was; its waiters are told
//! where to go.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::crowd::{Crowd, Losses};
use crate::household::{assert_same, Household, Picture, LONG_MS};
use crate::moving::{Move, Way};
use crate::nodes::{wait_for_offset, Cluster, SHARDS};
use crate::pair::Pair;
use crate::rover::Rover;
use crate::support::*;

/// A test for each way of a slot to another node.
macro_rules! by_each_way {
    ($($name:ident,)*) => {
        mod key_by_key {
            $(#[test] fn $name() { super::$name(crate::moving::Way::KeyByKey); })*
        }
        mod whole {
            $(#[test] fn $name() {
                if crate::moving::Way::Whole.is_known() {
                    super::$name(crate::moving::Way::Whole);
                }
            })*
        }
    };
}

by_each_way! {
    locks_of_every_kind_arrive_whole,
    a_lock_is_counted_where_it_is,
    fences_grow_wherever_a_slot_moves,
    clients_follow_a_slot_that_moves_to_and_fro,
    who_waits_for_several_locks_finds_them_together_again,
    a_session_ends_where_it_was_and_the_lease_goes_on,
    leases_and_delays_end_at_the_new_node,
    a_guarded_command_follows_its_lock,
}

const TAG: &str = "{moving}";

/// The slot's move; what each waiter at the source must be told by then, and the rest of the move.
#[track_caller]
fn move_and_hear(step: &Move, way: Way, mut hear: impl FnMut() -> Vec<Reply>) {
    match way {
        Way::KeyByKey => {
            step.begin();
            step.carry_all();
            // The slot is still the source's: where to ask, the server itself says at the next try.
            for reply in hear() {
                assert_eq!(reply.error_word(), "TRYAGAIN", "{reply:?}");
            }
            step.finish();
        }
        Way::Whole => {
            step.start_whole();
            for reply in hear() {
                assert_eq!(reply, step.redirection());
            }
            step.wait_until_it_is_there();
        }
    }
}

/// Nobody holds or waits at a node any more, and nobody was granted anything since.
#[track_caller]
fn assert_left(node: &Server, grants_before: i64) {
    let mut admin = node.admin();
    assert_eq!(
        admin.stat("grants"),
        grants_before,
        "somebody was granted a lock that left"
    );
    assert_eq!(admin.stat("waiters"), 0);
    assert_eq!(admin.info("clients", "blocked_clients"), "0");
}

fn locks_of_every_kind_arrive_whole(way: Way) {
    let cluster = Cluster::calm();
    let (source, target) = (&cluster.nodes[0], &cluster.nodes[1]);
    let tag = cluster.tag_of(0, 0);
    let mut household = Household::settle(source, &tag);
    // Its fence is ahead of every clock, and is carried by the lock itself.
    let (ahead, above) = (format!("{tag}ahead"), 1_i64 << 52);
    let line = format!("FLOCK.ACQUIRE {ahead} t PX {LONG_MS} ABOVE {above}");
    assert_eq!(source.admin().run(&line), above + 1);
    let grants = source.admin().stat("grants");
    let before = household.pictures(source);
    let others: Vec<_> = cluster.nodes[2..].iter().collect();
    let slot = source.admin().run(&format!("CLUSTER KEYSLOT {tag}")).int();
    let step = Move::new(source, target, &others, slot);
    move_and_hear(&step, way, || household.hear_waiters());
    assert_same(&before, &household.pictures(target));
    for primary in 0..2 {
        let (primary, replica) = (&cluster.nodes[primary], &cluster.nodes[primary + SHARDS]);
        wait_for_offset(primary, replica);
        assert_agreement(primary, replica);
    }
    assert_left(source, grants);
    household.assert_still_held(target);
    household.live_on(target);
    let mut client = target.admin();
    assert_eq!(client.call(("FLOCK.RELEASE", &ahead, "t")), 1);
    take_again(
        &mut client,
        &ahead,
        &mut HashMap::from([(ahead.clone(), above + 1)]),
    );
    assert_left(source, grants);
    assert_agreement(target, &cluster.nodes[1 + SHARDS]);
}

fn a_lock_is_counted_where_it_is(way: Way) {
    let pair = Pair::start(TAG);
    let mut client = pair.source().admin();
    for number in 0..20 {
        let key = format!("{TAG}{number}");
        client.call(("FLOCK.ACQUIRE", key, "t", "PX", LONG_MS)).fence();
    }
    for step in [pair.there(), pair.back(), pair.there()] {
        step.go(way);
    }
    for (node, count) in [(pair.source(), 0), (pair.target(), 20)] {
        let mut admin = node.admin();
        let is_so = |locks: &i64| *locks == count;
        eventually(
            "locks are counted where they are",
            || admin.stat("held_locks"),
            is_so,
        );
    }
}

fn fences_grow_wherever_a_slot_moves(way: Way) {
    let pair = Pair::start(TAG);
    let mut last = HashMap::new();
    let newest = format!("{TAG}newest");
    for (owner, step) in [
        (pair.source(), pair.there()),
        (pair.target(), pair.back()),
        (pair.source(), pair.there()),
        (pair.target(), pair.back()),
    ] {
        let mut client = owner.admin();
        // The newest fence of the other node, of a lock that was free when it moved.
        take_and_let_go(&mut client, &newest, &mut last);
        for number in 0..20 {
            let key = format!("{TAG}{number}");
            client.call(("FLOCK.RELEASE", &key, "t"));
            take_again(&mut client, &key, &mut last);
            // Every other one is free when its slot moves, and leaves nothing that could move.
            if number % 2 == 0 {
                assert_eq!(client.call(("FLOCK.RELEASE", &key, "t")), 1);
            }
        }
        take_and_let_go(&mut client, &newest, &mut last);
        step.go(way);
    }
}

#[track_caller]
fn take_and_let_go(client: &mut Client, key: &str, last: &mut HashMap<String, i64>) {
    take_again(client, key, last);
    assert_eq!(client.call(("FLOCK.RELEASE", key, "t")), 1);
}

/// The lock is free, and its next fence is greater than its last.
#[track_caller]
fn take_again(client: &mut Client, key: &str, last: &mut HashMap<String, i64>) {
    let fence = client.call(("FLOCK.ACQUIRE", key, "t", "PX", LONG_MS)).fence();
    let before = last.insert(key.to_owned(), fence).unwrap_or(0);
    assert!(fence > before, "{key}: {fence} after {before}");
}

fn clients_follow_a_slot_that_moves_to_and_fro(way: Way) {
    let pair = Pair::start(TAG);
    let mut keys: Vec<_> = (0..8).map(|number| format!("{TAG}busy{number}")).collect();
    // Of other slots, at either node.
    keys.extend(["orders", "wallet", "stock", "{carts}7"].map(str::to_owned));
    let crowd = Crowd::new(pair.ports(), keys, Losses::None);
    crowd.work_during(24, || {
        for step in [pair.there(), pair.back(), pair.there()] {
            step.go(way);
            crowd.wait_until_all_go_round();
        }
    });
    for node in [pair.source(), pair.target()] {
        assert_eq!(node.admin().stat("waiters"), 0);
    }
}

fn who_waits_for_several_locks_finds_them_together_again(way: Way) {
    let pair = Pair::start(TAG);
    let (a, b) = (format!("{TAG}a"), format!("{TAG}b"));
    let mut client = pair.source().admin();
    let fence = client.call(("FLOCK.ACQUIRE", &a, "t", "PX", LONG_MS)).fence();
    // The second lock is free, and kept so for the one who waits for both.
    let both = format!("FLOCK.MACQUIRE 2 {a} {b} both PX {LONG_MS} BLOCK 0");
    let behind = format!("FLOCK.ACQUIRE {b} behind PX {LONG_MS} BLOCK 0");
    let queue = |node: &Server| [(&a, &both), (&b, &behind)].map(|(key, line)| enqueue(node, key, line));
    let mut waiters = queue(pair.source());
    let grants = client.stat("grants");
    move_and_hear(&pair.there(), way, || {
        waiters.each_mut().map(Client::receive).to_vec()
    });
    assert_left(pair.source(), grants);
    let mut client = pair.target().admin();
    assert_eq!(*client.call(("FLOCK.INFO", &a)).field("fence"), fence);
    assert_eq!(client.call(("FLOCK.INFO", &b)), NIL);
    let [mut both, mut behind] = queue(pair.target());
    assert_eq!(client.call(("EXISTS", &b)), 0);
    assert_eq!(client.call(("FLOCK.RELEASE", &a, "t")), 1);
    let second = both.receive().fence();
    assert!(second > fence);
    assert_eq!(client.call(("FLOCK.MRELEASE", 2, &a, &b, "both")), 2);
    assert!(behind.receive().fence() > second);
}

/// Waits in a queue once this returns. That of a lock that is free is not shown anywhere, so all
/// waiters of the node are counted.
#[track_caller]
fn enqueue(node: &Server, key: &str, line: &str) -> Client {
    let mut admin = node.admin();
    let before = admin.stat("waiters");
    let mut client = node.admin();
    client.send_line(line);
    let what = format!("waits for {key}");
    eventually(&what, || admin.stat("waiters"), |waiters| *waiters == before + 1);
    client
}

/// A connection ends, and its node has noticed.
#[track_caller]
fn hang_up(node: &Server, mut client: Client) {
    let line = format!("CLIENT LIST ID {}", client.id());
    drop(client);
    let mut admin = node.admin();
    eventually(
        "the connection is gone",
        || admin.run(&line).text(),
        String::is_empty,
    );
}

fn a_session_ends_where_it_was_and_the_lease_goes_on(way: Way) {
    let pair = Pair::start(TAG);
    let key = format!("{TAG}tied");
    let line = format!("FLOCK.ACQUIRE {key} t PX {LONG_MS} SESSION DELAY {LONG_MS}");
    let mut holder = pair.source().admin();
    let fence = holder.run(&line).fence();
    let mut waiter = enqueue(
        pair.source(),
        &key,
        &format!("FLOCK.ACQUIRE {key} u PX {LONG_MS} BLOCK 0"),
    );
    let before = Picture::take(&mut pair.source().admin(), &key);
    let grants = pair.source().admin().stat("grants");
    move_and_hear(&pair.there(), way, || vec![waiter.receive()]);
    hang_up(pair.source(), holder);
    // Each is a pass of the loop, in which the source could do what it must not.
    let mut client = pair.target().admin();
    for _ in 0..50 {
        assert_left(pair.source(), grants);
        before.assert_is_now(&Picture::take(&mut client, &key));
    }
    let info = client.call(("FLOCK.INFO", &key));
    assert!(!info.field("holders").items()[0].field("session").is_true());
    // Tied anew, over a connection to the node that has the lock now.
    let mut holder = pair.target().admin();
    assert_eq!(holder.run(&line), fence);
    hang_up(pair.target(), holder);
    eventually(
        "the session is over and the lock is closed",
        || client.call(("FLOCK.INFO", &key)).field("delay_ms").int(),
        |delay_ms| *delay_ms > 0,
    );
}

fn leases_and_delays_end_at_the_new_node(way: Way) {
    let pair = Pair::start(TAG);
    let mut client = pair.source().admin();
    let (held, closed) = (format!("{TAG}held"), format!("{TAG}closed"));
    let may_open = Instant::now() + Duration::from_secs(4);
    let line = format!("FLOCK.ACQUIRE {closed} t PX 1 DELAY 4000");
    let last = client.run(&line).fence();
    let lease = Lease::take(&mut client, &held, "t", 4_000, "");
    let lonely = format!("{TAG}lonely");
    client.call(("FLOCK.ACQUIRE", &lonely, "t", "PX", 4_000)).fence();
    eventually(
        "the lock is closed",
        || client.call(("FLOCK.PTTL", &closed, "t")),
        |left| *left == -2,
    );
    pair.there().go(way);
    for (key, fence, may_open) in [
        (&closed, last, may_open),
        (&held, lease.fence, lease.earliest_end()),
    ] {
        let mut next = pair.target().admin();
        let heard = next.call(("FLOCK.ACQUIRE", key, "u", "PX", LONG_MS, "BLOCK", 0));
        assert!(heard.fence() > fence, "{key}");
        assert!(Instant::now() >= may_open, "{key} was granted before its time");
    }
    // Nobody asked for this one at its new node.
    let mut client = pair.target().admin();
    eventually(
        "the key is gone",
        || client.call(("EXISTS", &lonely)),
        |exists| *exists == 0,
    );
}

/// So many keys that the servers need a moment to move them.
const BALLAST: &str = "DEBUG POPULATE 300000 {moving}ballast 50";

#[test]
fn a_move_that_is_cancelled_leaves_locks_and_waiters_where_they_are() {
    if !Way::Whole.is_known() {
        return;
    }
    let pair = Pair::start(TAG);
    let lock = format!("{TAG}lock");
    let mut client = pair.source().admin();
    let fence = client.call(("FLOCK.ACQUIRE", &lock, "t", "PX", LONG_MS)).fence();
    let line = format!("FLOCK.ACQUIRE {lock} u PX {LONG_MS} BLOCK 0");
    let mut waiter = pair.source().enqueue(&lock, &line);
    assert_eq!(client.run(BALLAST), OK);
    let step = pair.there();
    step.start_whole();
    let mut there = pair.target().admin();
    if step.cancel_whole() {
        assert_eq!(client.waiters(&lock), 1);
        assert_eq!(client.call(("FLOCK.RELEASE", &lock, "t")), 1);
        assert!(waiter.receive().fence() > fence);
        let counts = || ["held_locks", "waiters"].map(|name| there.stat(name));
        eventually("the target has let go of all", counts, |counts| *counts == [0, 0]);
    } else {
        // It was too late: the machine stood still for a moment.
        assert_eq!(waiter.receive(), step.redirection());
        assert_eq!(there.call(("FLOCK.RELEASE", &lock, "t")), 1);
    }
}

/// Counts under a lock that is held all the time, while lock and counter move.
fn a_guarded_command_follows_its_lock(way: Way) {
    let pair = Pair::start(TAG);
    let (lock, counter) = (format!("{TAG}lock"), format!("{TAG}counter"));
    pair.source()
        .admin()
        .call(("FLOCK.ACQUIRE", &lock, "t", "PX", LONG_MS))
        .fence();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let count = scope.spawn(|| {
            let mut rover = Rover::new(&pair.ports());
            let mut count = 0;
            while !is_over.load(Ordering::SeqCst) {
                count += 1;
                let heard = rover.ask(&format!("FLOCK.GUARD {lock} t INCR {counter}"));
                assert_eq!(heard.reply, count);
            }
            count
        });
        for step in [pair.there(), pair.back(), pair.there()] {
            step.go(way);
        }
        is_over.store(true, Ordering::SeqCst);
        let count = count.join().expect("the one who counts");
        assert_eq!(pair.target().admin().call(("GET", &counter)), *count.to_string());
    });
    let mut client = pair.source().admin();
    let reply = client.call(("FLOCK.GUARD", &lock, "t", "GET", &counter));
    assert_eq!(reply, pair.there().redirection());
}
