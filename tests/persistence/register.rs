//! Proves that fences grow on through every way to the disk and back, also
//! when all locks had been released before, and without the help of the clock.

use crate::support::*;
use crate::{rewrite, Way, WAYS};

fn counting() -> Builder {
    Server::builder().module_arguments("fence-source counter")
}

/// Takes and releases a lock `times` times; the last fence.
fn take_and_release(client: &mut Client, times: usize) -> i64 {
    let mut last = 0;
    for _ in 0..times {
        last = client.run("FLOCK.ACQUIRE gone tok PX 600000").fence();
        assert_eq!(client.run("FLOCK.RELEASE gone tok"), 1);
    }
    last
}

#[track_caller]
fn assert_next_fence_is(client: &mut Client, fence: i64, why: &str) {
    assert_eq!(client.run("FLOCK.ACQUIRE next tok PX 600000"), fence, "{why}");
}

#[test]
fn the_counter_goes_on_after_locks_that_were_released() {
    for way in WAYS {
        let mut server = way.start(counting());
        let last = take_and_release(&mut server.client(), 5);
        way.travel(&mut server);
        assert_next_fence_is(&mut server.admin(), last + 1, &format!("{way:?}"));
    }
}

#[test]
fn the_counter_goes_on_after_a_held_lock() {
    for way in WAYS {
        let mut server = way.start(counting());
        take_and_release(&mut server.client(), 5);
        let held = server.client().run("FLOCK.ACQUIRE k tok PX 600000").fence();
        way.travel(&mut server);
        assert_next_fence_is(&mut server.admin(), held + 1, &format!("{way:?}"));
    }
}

#[test]
fn the_counter_goes_on_through_many_ways_one_after_the_other() {
    for way in WAYS {
        let mut server = way.start(counting());
        let mut last = 0;
        for round in 0..4 {
            let fence = take_and_release(&mut server.admin(), 2);
            assert_eq!(fence, last + 2, "round {round} by {way:?}");
            last = fence;
            way.travel(&mut server);
        }
    }
}

#[test]
fn the_counter_goes_on_after_the_data_set_was_flushed() {
    for way in WAYS {
        let mut server = way.start(counting());
        let last = take_and_release(&mut server.client(), 3);
        server.client().run("FLOCK.ACQUIRE k tok PX 600000");
        assert_eq!(server.admin().run("FLUSHALL"), OK);
        way.travel(&mut server);
        assert_next_fence_is(&mut server.admin(), last + 2, &format!("{way:?}"));
    }
}

#[test]
fn a_fence_above_the_clock_is_not_forgotten() {
    const ABOVE: i64 = 1 << 52;
    for way in WAYS {
        let mut server = way.start(Server::builder());
        let line = format!("FLOCK.ACQUIRE gone tok PX 600000 ABOVE {ABOVE}");
        assert_eq!(server.client().run(&line), ABOVE + 1, "{way:?}");
        server.client().run("FLOCK.RELEASE gone tok");
        way.travel(&mut server);
        assert_next_fence_is(&mut server.admin(), ABOVE + 2, &format!("{way:?}"));
    }
}

/// The window between a rewrite's start and the next effect: what was released before it is in
/// no key and no later command.
#[test]
fn a_rewrite_carries_the_register_whatever_comes_after_it() {
    for preamble in ["yes", "no"] {
        let builder = counting()
            .undressed()
            .append_only()
            .set("aof-use-rdb-preamble", preamble);
        let mut server = builder.start();
        let last = take_and_release(&mut server.client(), 7);
        for _ in 0..2 {
            rewrite(&mut server.admin());
        }
        server.kill9();
        server.restart();
        assert_next_fence_is(&mut server.admin(), last + 1, preamble);
    }
}

#[test]
fn the_register_heads_the_new_increment_where_the_base_has_no_place_for_it() {
    let builder = counting().append_only().set("aof-use-rdb-preamble", "no");
    let server = builder.undressed().start();
    let mut client = server.client();
    let last = take_and_release(&mut client, 3);
    rewrite(&mut server.admin());
    assert_eq!(
        aof::newest_commands(server.directory()),
        [format!("FLOCK.FENCE {last}")]
    );
}

#[test]
fn turning_the_append_only_file_on_later_keeps_the_register() {
    for preamble in ["yes", "no"] {
        let mut server = counting()
            .undressed()
            .set("aof-use-rdb-preamble", preamble)
            .start();
        let mut client = server.client();
        let last = take_and_release(&mut client, 3);
        assert_eq!(client.run("CONFIG SET appendonly yes"), OK);
        wait_for_own_file(&mut client);
        assert_eq!(client.run("CONFIG REWRITE"), OK);
        server.kill9();
        server.restart();
        assert_next_fence_is(&mut server.admin(), last + 1, preamble);
    }
}

#[test]
fn without_persistence_the_clock_keeps_fences_ahead() {
    let mut server = Server::builder().undressed().start();
    let last = take_and_release(&mut server.client(), 3);
    server.kill9();
    server.restart();
    assert!(server.admin().run("FLOCK.ACQUIRE k tok PX 600000").fence() > last);
}

#[test]
fn a_snapshot_of_long_ago_keeps_fences_ahead_of_the_clock() {
    let mut server = Way::Snapshot.start(Server::builder());
    let mut client = server.client();
    take_and_release(&mut client, 1);
    client.run("SAVE");
    let lost = take_and_release(&mut client, 3);
    server.kill9();
    server.restart();
    assert!(server.admin().run("FLOCK.ACQUIRE k tok PX 600000").fence() > lost);
}
