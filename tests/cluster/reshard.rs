//! Proves what happens to locks while a slot is between two nodes, step by step: some of its keys are
//! here and some there, and the server itself sends clients to and fro with ASK and TRYAGAIN.

use crate::household::LONG_MS;
use crate::pair::Pair;
use crate::support::*;

const TAG: &str = "{between}";

/// Runs a line at a node that only expects to get the slot.
#[track_caller]
fn asking(client: &mut Client, line: &str) -> Reply {
    assert_eq!(client.run("ASKING"), OK);
    client.run(line)
}

/// [`Server::enqueue`] at a node that only expects to get the slot.
#[track_caller]
fn enqueue_asking(node: &Server, key: &str, line: &str) -> Client {
    let mut admin = node.admin();
    let mut client = node.admin();
    assert_eq!(client.run("ASKING"), OK);
    client.send_line(line);
    let look = format!("FLOCK.INFO {key}");
    eventually(
        &format!("in the queue: {line}"),
        || asking(&mut admin, &look).field("waiters").int(),
        |waiters| *waiters == 1,
    );
    client
}

#[test]
fn a_lock_that_is_still_here_is_served_here() {
    let pair = Pair::start(TAG);
    let step = pair.there();
    let (lock, free) = (format!("{TAG}lock"), format!("{TAG}free"));
    let mut client = pair.source().admin();
    let first = client.call(("FLOCK.ACQUIRE", &lock, "t", "PX", LONG_MS)).fence();
    let mut early = pair
        .source()
        .enqueue(&lock, &format!("FLOCK.ACQUIRE {lock} u PX {LONG_MS} BLOCK 0"));
    step.begin();
    let mut late = pair
        .source()
        .enqueue(&lock, &format!("FLOCK.ACQUIRE {lock} v PX {LONG_MS} BLOCK 0"));
    assert_eq!(client.call(("FLOCK.ACQUIRE", &lock, "w", "PX", LONG_MS)), NIL);
    assert_eq!(client.call(("FLOCK.REFRESH", &lock, "t", "PX", LONG_MS)), 1);
    assert_eq!(client.waiters(&lock), 2);
    // A lock that is free has nothing here: it is the new node's from now on.
    let ask = client.call(("FLOCK.ACQUIRE", &free, "t", "PX", LONG_MS, "BLOCK", 0));
    assert_eq!(ask, step.detour());
    // One is here, the other is not: neither node can say.
    let many = format!("FLOCK.MACQUIRE 2 {lock} {free} m PX {LONG_MS} BLOCK 0");
    assert_eq!(client.run(&many).error_word(), "TRYAGAIN");

    assert_eq!(client.call(("FLOCK.RELEASE", &lock, "t")), 1);
    let second = early.receive().fence();
    assert_eq!(client.call(("FLOCK.RELEASE", &lock, "u")), 1);
    let third = late.receive().fence();
    assert!(first < second && second < third);
    // Free now, and so gone from here.
    assert_eq!(client.call(("FLOCK.RELEASE", &lock, "v")), 1);
    let ask = client.call(("FLOCK.ACQUIRE", &lock, "w", "PX", LONG_MS));
    assert_eq!(ask, step.detour());
    let line = format!("FLOCK.ACQUIRE {lock} w PX {LONG_MS}");
    assert!(asking(&mut pair.target().admin(), &line).fence() > third);
}

#[test]
fn a_lease_and_a_session_end_here_while_their_lock_is_here() {
    let pair = Pair::start(TAG);
    let (lease, tied) = (format!("{TAG}lease"), format!("{TAG}tied"));
    let mut client = pair.source().admin();
    let mut holder = pair.source().admin();
    let line = format!("FLOCK.ACQUIRE {tied} t PX {LONG_MS} SESSION");
    let tied_fence = holder.run(&line).fence();
    let lease_fence = client.call(("FLOCK.ACQUIRE", &lease, "t", "PX", LONG_MS)).fence();
    let mut waiters = [&tied, &lease].map(|key| {
        pair.source()
            .enqueue(key, &format!("FLOCK.ACQUIRE {key} u PX {LONG_MS} BLOCK 0"))
    });
    pair.there().begin();
    drop(holder);
    assert!(waiters[0].receive().fence() > tied_fence);
    assert_eq!(client.call(("FLOCK.REFRESH", &lease, "t", "PX", 5)), 1);
    assert!(waiters[1].receive().fence() > lease_fence);
}

#[test]
fn a_lock_that_has_left_is_asked_for_at_the_other_node() {
    let pair = Pair::start(TAG);
    let step = pair.there();
    let lock = format!("{TAG}lock");
    let (mut here, mut there) = (pair.source().admin(), pair.target().admin());
    let fence = here.call(("FLOCK.ACQUIRE", &lock, "t", "PX", LONG_MS)).fence();
    step.begin();
    step.carry(lock.as_bytes());
    let lines = [
        (format!("FLOCK.INFO {lock}"), None),
        (format!("FLOCK.ACQUIRE {lock} u PX {LONG_MS}"), Some(NIL)),
        (
            format!("FLOCK.ACQUIRE {lock} t PX {LONG_MS}"),
            Some(Reply::Int(fence)),
        ),
        (
            format!("FLOCK.REFRESH {lock} t PX {LONG_MS}"),
            Some(Reply::Int(1)),
        ),
        (
            format!("FLOCK.MREFRESH 1 {lock} t PX {LONG_MS}"),
            Some(Reply::Int(1)),
        ),
        (format!("FLOCK.PTTL {lock} t"), None),
        (
            format!("FLOCK.GUARD {lock} t ECHO x"),
            Some(Reply::Bulk(b"x".to_vec())),
        ),
    ];
    for (line, expected) in lines {
        assert_eq!(here.run(&line), step.detour(), "{line}");
        assert_eq!(
            there.run(&line),
            pair.back().redirection(),
            "{line} without ASKING"
        );
        let reply = asking(&mut there, &line);
        assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
        if let Some(expected) = expected {
            assert_eq!(reply, expected, "{line}");
        }
    }
    let line = format!("FLOCK.ACQUIRE {lock} u PX {LONG_MS} BLOCK 0");
    let mut waiter = enqueue_asking(pair.target(), &lock, &line);
    assert_eq!(asking(&mut there, &format!("FLOCK.RELEASE {lock} t")), 1);
    let second = waiter.receive().fence();
    assert!(second > fence);
    step.finish();
    assert_eq!(*there.call(("FLOCK.INFO", &lock)).field("fence"), second);
    assert_eq!(there.call(("FLOCK.RELEASE", &lock, "u")), 1);
}

#[test]
fn who_waits_already_at_the_new_node_is_served_when_the_slot_is_there() {
    let pair = Pair::start(TAG);
    let step = pair.there();
    let lock = format!("{TAG}lock");
    let mut client = pair.source().admin();
    let fence = client.call(("FLOCK.ACQUIRE", &lock, "t", "PX", LONG_MS)).fence();
    step.begin();
    step.carry(lock.as_bytes());
    let line = format!("FLOCK.ACQUIRE {lock} u PX {LONG_MS} BLOCK 0");
    let mut waiter = enqueue_asking(pair.target(), &lock, &line);
    step.finish();
    let mut client = pair.target().admin();
    assert_eq!(client.waiters(&lock), 1);
    assert_eq!(client.call(("FLOCK.REFRESH", &lock, "t", "PX", 5)), 1);
    assert!(waiter.receive().fence() > fence);
}

/// No lease that runs out on the way is ended before the slot has arrived: until then the lock may
/// not be the new node's to change.
#[test]
fn a_lease_that_runs_out_on_the_way_ends_once_the_slot_is_there() {
    let pair = Pair::start(TAG);
    let step = pair.there();
    let (waited, lonely) = (format!("{TAG}waited"), format!("{TAG}lonely"));
    let mut client = pair.source().admin();
    let last = client
        .call(("FLOCK.ACQUIRE", &waited, "t", "PX", LONG_MS))
        .fence();
    client.call(("FLOCK.ACQUIRE", &lonely, "t", "PX", 5)).fence();
    step.begin();
    step.carry(waited.as_bytes());
    step.carry(lonely.as_bytes());
    let mut there = pair.target().admin();
    for key in [&waited, &lonely] {
        asking(&mut there, &format!("FLOCK.REFRESH {key} t PX 5"));
        let look = format!("FLOCK.PTTL {key} t");
        eventually(
            "the lease is over",
            || asking(&mut there, &look),
            |left| *left == -2,
        );
    }
    let line = format!("FLOCK.ACQUIRE {waited} u PX {LONG_MS} BLOCK 0");
    assert!(
        asking(&mut there, &line).fence() > last,
        "a command finds it over"
    );
    step.finish();
    eventually(
        "the key is gone",
        || there.call(("EXISTS", &lonely)),
        |exists| *exists == 0,
    );
}

#[test]
fn a_slot_that_stays_after_all_keeps_its_waiters() {
    let pair = Pair::start(TAG);
    let step = pair.there();
    let lock = format!("{TAG}lock");
    let mut client = pair.source().admin();
    let fence = client.call(("FLOCK.ACQUIRE", &lock, "t", "PX", LONG_MS)).fence();
    let mut waiter = pair
        .source()
        .enqueue(&lock, &format!("FLOCK.ACQUIRE {lock} u PX {LONG_MS} BLOCK 0"));
    step.begin();
    step.give_up();
    assert_eq!(client.waiters(&lock), 1);
    assert_eq!(client.call(("FLOCK.RELEASE", &lock, "t")), 1);
    assert!(waiter.receive().fence() > fence);
    pair.there().go(crate::moving::Way::KeyByKey);
    assert_eq!(pair.target().admin().call(("FLOCK.RELEASE", &lock, "u")), 1);
}

/// Two locks of the slot: one has left, the other has not. Who waits for the one is sent away, who
/// waits for the other is not.
#[test]
fn only_the_waiters_of_what_has_left_are_sent_away() {
    let pair = Pair::start(TAG);
    let step = pair.there();
    let (gone, here) = (format!("{TAG}gone"), format!("{TAG}here"));
    let mut client = pair.source().admin();
    let queue = |key: &String| {
        let line = format!("FLOCK.ACQUIRE {key} u PX {LONG_MS} BLOCK 0");
        pair.source().enqueue(key, &line)
    };
    for key in [&gone, &here] {
        client.call(("FLOCK.ACQUIRE", key, "t", "PX", LONG_MS)).fence();
    }
    let (mut of_gone, mut of_here) = (queue(&gone), queue(&here));
    step.begin();
    step.carry(gone.as_bytes());
    assert_eq!(of_gone.receive().error_word(), "TRYAGAIN");
    // The retry is sent after the lock.
    of_gone.send_line(&format!("FLOCK.ACQUIRE {gone} u PX {LONG_MS} BLOCK 0"));
    assert_eq!(of_gone.receive(), step.detour());
    assert_eq!(client.waiters(&here), 1);
    assert_eq!(client.call(("FLOCK.RELEASE", &here, "t")), 1);
    of_here.receive().fence();
}

#[test]
fn a_guarded_command_needs_its_lock_and_its_keys_at_one_node() {
    let pair = Pair::start(TAG);
    let step = pair.there();
    let (lock, data) = (format!("{TAG}lock"), format!("{TAG}data"));
    let (mut here, mut there) = (pair.source().admin(), pair.target().admin());
    here.call(("FLOCK.ACQUIRE", &lock, "t", "PX", LONG_MS)).fence();
    assert_eq!(here.call(("SET", &data, 1)), OK);
    let guarded = format!("FLOCK.GUARD {lock} t INCR {data}");
    step.begin();
    assert_eq!(here.run(&guarded), 2);
    // What is not there yet may be at the other node.
    let other = format!("FLOCK.GUARD {lock} t INCR {TAG}other");
    assert_eq!(here.run(&other).error_word(), "TRYAGAIN");
    step.carry(lock.as_bytes());
    assert_eq!(here.run(&guarded).error_word(), "TRYAGAIN");
    assert_eq!(asking(&mut there, &guarded).error_word(), "TRYAGAIN");
    step.carry(data.as_bytes());
    assert_eq!(here.run(&guarded), step.detour());
    assert_eq!(there.run(&guarded), pair.back().redirection());
    assert_eq!(asking(&mut there, &guarded), 3);
    let not_held = format!("FLOCK.GUARD {lock} u INCR {data}");
    assert_eq!(asking(&mut there, &not_held).error_word(), "NOTHELD");
    step.finish();
    assert_eq!(there.run(&guarded), 4);
    assert_eq!(here.run(&guarded), step.redirection());
    // A slot that is nobody's any more here, in a script that did not say what it would touch.
    let body = format!("return redis.call('INCR', '{data}')");
    let reply = here.call(("EVAL", body, 0));
    assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
}
