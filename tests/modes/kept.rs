//! Proves what comes back from the disk by each way, and from DUMP: modes, holds,
//! delays, and closed locks; but for sessions, which end with the process.

use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::look::{closed_ms, look, lose, wait_until_closed, Look, LONG_MS};
use crate::support::*;

/// Locks of every kind, by name. Their leases do not end within a test.
const KINDS: [(&str, &[&str]); 6] = [
    (
        "readers",
        &["a SHARED LABEL one", "b SHARED", "c SHARED LABEL three"],
    ),
    ("permits", &["a PERMITS 5", "b PERMITS 5 DELAY 5 LABEL two"]),
    ("one-permit", &["a PERMITS 1"]),
    ("entered", &["a REENTRANT LABEL x", "a REENTRANT", "a REENTRANT"]),
    (
        "entered-readers",
        &["a SHARED", "b SHARED REENTRANT", "b SHARED REENTRANT", "c SHARED"],
    ),
    ("tied", &["a SESSION LABEL y"]),
];

/// Makes a lock of each kind, and returns what INFO shows of them.
#[track_caller]
fn make_all(client: &mut Client) -> Vec<Look> {
    KINDS
        .map(|(key, requests)| {
            for request in requests {
                let (token, options) = request.split_once(' ').expect("a token and options");
                client
                    .run(&format!("FLOCK.ACQUIRE {key} {token} PX {LONG_MS} {options}"))
                    .fence();
            }
            look(client, key)
        })
        .to_vec()
}

/// What comes back of it elsewhere: no connection is that of before.
fn without_sessions(mut seen: Look) -> Look {
    for hold in &mut seen.holders {
        hold.has_session = false;
    }
    seen
}

#[track_caller]
fn assert_all_are(client: &mut Client, before: &[Look], how: &str) {
    for ((key, _), before) in KINDS.iter().zip(before) {
        let before = without_sessions(before.clone());
        assert_eq!(look(client, key), before, "{key} by {how}");
        assert!(
            client.call(("FLOCK.PTTL", key)).int() > LONG_MS / 2,
            "{key} by {how}"
        );
    }
}

#[test]
fn locks_of_every_kind_come_back_as_they_were() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        let mut holder = server.client();
        let before = make_all(&mut holder);
        assert!(before[5].holder().has_session);
        way.travel(&mut server);
        assert_all_are(&mut server.admin(), &before, &format!("{way:?}"));
    }
}

#[test]
fn what_came_back_goes_on_as_before() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        make_all(&mut server.client());
        way.travel(&mut server);
        let mut client = server.admin();
        // Readers let readers in, and a writer once the last of them is gone.
        client.run("FLOCK.ACQUIRE readers d PX 600000 SHARED").fence();
        let mut writer = server.enqueue("readers", "FLOCK.ACQUIRE readers w PX 600000 BLOCK 0");
        for token in ["a", "b", "c", "d"] {
            assert_eq!(client.call(("FLOCK.RELEASE", "readers", token)), 1, "{way:?}");
        }
        writer.receive().fence();
        // There are still five permits, and three releases owed.
        for token in ["c", "d", "e"] {
            client
                .call(("FLOCK.ACQUIRE", "permits", token, "PX", 600_000, "PERMITS", 5))
                .fence();
        }
        assert_eq!(
            client.run("FLOCK.ACQUIRE permits f PX 600000 PERMITS 5"),
            NIL,
            "{way:?}"
        );
        let other = client.run("FLOCK.ACQUIRE one-permit b PX 600000 PERMITS 2");
        assert_eq!(other.error_word(), "ERR", "{way:?}");
        for reply in [1, 1, 1, 0] {
            assert_eq!(client.run("FLOCK.RELEASE entered a"), reply, "{way:?}");
        }
        // Entered once more, it owes one more.
        client
            .run("FLOCK.ACQUIRE entered-readers b PX 600000 SHARED REENTRANT")
            .fence();
        for reply in [1, 1, 1, 0] {
            assert_eq!(client.run("FLOCK.RELEASE entered-readers b"), reply, "{way:?}");
        }
        // A session can begin anew.
        let mut holder = Connection::open(&server);
        holder
            .client
            .run("FLOCK.ACQUIRE tied a PX 600000 SESSION")
            .fence();
        drop(holder);
        eventually("it is lost", || client.run("EXISTS tied"), |exists| *exists == 0);
    }
}

#[test]
fn a_closed_lock_comes_back_closed() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        let mut client = server.client();
        client.run("FLOCK.ACQUIRE k kept PX 600000 SHARED").fence();
        lose(&mut client, "lost", "SHARED");
        let before = look(&mut client, "k");
        let start = Instant::now();
        let left_ms = closed_ms(&mut client, "k");
        way.travel(&mut server);
        let mut client = server.admin();
        let after_ms = closed_ms(&mut client, "k");
        assert_eq!(look(&mut client, "k"), before, "{way:?}");
        let least_ms = left_ms - start.elapsed().as_millis() as i64 - 2;
        assert!(
            (least_ms..=left_ms + 20).contains(&after_ms),
            "{after_ms} of {left_ms}, at least {least_ms}, by {way:?}"
        );
        assert_eq!(client.run("FLOCK.ACQUIRE k new PX 600000 SHARED"), NIL, "{way:?}");
        assert_eq!(client.run("FLOCK.RELEASE k kept"), 1, "{way:?}");
        assert_eq!(client.run("FLOCK.ACQUIRE k new PX 600000 SHARED"), NIL, "{way:?}");
        assert_eq!(client.run("FLOCK.BREAK k"), 0, "{way:?}");
        client.run("FLOCK.ACQUIRE k new PX 600000").fence();
    }
}

#[test]
fn a_closed_lock_that_nobody_holds_comes_back_closed_and_with_its_fence() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        let fence = lose(&mut server.client(), "t", "");
        way.travel(&mut server);
        let mut client = server.admin();
        let seen = look(&mut client, "k");
        assert_eq!(
            (seen.fence, seen.holders.len(), seen.is_closed),
            (fence, 0, true),
            "{way:?}"
        );
        assert_eq!(client.run("FLOCK.ACQUIRE k t PX 600000"), NIL, "{way:?}");
        let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k t PX 600000 BLOCK 0");
        assert_eq!(client.run("FLOCK.BREAK k"), 0, "{way:?}");
        assert!(waiter.receive().fence() > fence, "{way:?}");
    }
}

#[test]
fn a_delay_that_came_back_ends_by_itself_and_not_early() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        let mut client = server.client();
        let earliest = Instant::now() + Duration::from_millis(20 + 1_500);
        client.run("FLOCK.ACQUIRE k t PX 20 DELAY 1500").fence();
        eventually("it is lost", || client.run("FLOCK.PTTL k"), |left| *left == -2);
        way.travel(&mut server);
        let mut client = server.admin();
        client.run("FLOCK.ACQUIRE k next PX 600000 BLOCK 0").fence();
        assert!(Instant::now() >= earliest, "too early by {way:?}");
    }
}

/// The lease, its delay, and time spent down: they count one after the other.
#[test]
fn time_spent_down_counts_for_leases_and_then_for_delays() {
    const DOWN: Duration = Duration::from_millis(600);
    for way in WAYS.into_iter().filter(|way| *way != Way::Reload) {
        let mut server = way.start(Server::builder());
        let mut client = server.client();
        let closed = lose(&mut client, "t", "");
        client.run("RENAME k closed");
        let closed_before = closed_ms(&mut client, "closed");
        let keeper = client.run("FLOCK.ACQUIRE k keeper PX 600000 SHARED").fence();
        let lease = Lease::take(&mut client, "k", "t", 700, "DELAY 600000 SHARED");
        let over = Lease::take(&mut client, "over", "t", 300, "DELAY 300");
        way.write(&mut server.admin());
        server.kill9();
        let end = lease.latest_end().max(over.latest_end()) + DOWN;
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        let gone_ms = lease.latest_end().elapsed().as_millis() as i64;
        server.restart();
        let mut client = server.admin();
        wait_until_closed(&mut client, "k");
        assert_eq!(look(&mut client, "k").fences(), [keeper], "{way:?}");
        assert_eq!(client.run("FLOCK.PTTL k t"), -2, "{way:?}");
        assert_eq!(client.run("FLOCK.ACQUIRE k t PX 600000 SHARED"), NIL, "{way:?}");
        // Stamps in whole milliseconds may add a little.
        let left_ms = closed_ms(&mut client, "k");
        assert!(
            left_ms <= LONG_MS - gone_ms + 20,
            "{left_ms} after {gone_ms} by {way:?}"
        );
        let least_ms = LONG_MS - lease.earliest_end().elapsed().as_millis() as i64 - 1;
        assert!(left_ms >= least_ms, "{left_ms} of at least {least_ms} by {way:?}");
        let left_ms = closed_ms(&mut client, "closed");
        assert!(
            left_ms <= closed_before - gone_ms + 20,
            "{left_ms} after {gone_ms} by {way:?}"
        );
        assert_eq!(look(&mut client, "closed").fence, closed, "{way:?}");
        // Where the delay was over too, the lock is open.
        client.run("FLOCK.ACQUIRE over u PX 600000").fence();
    }
}

#[test]
fn a_delay_of_a_hold_comes_back_with_it() {
    for way in WAYS {
        let mut server = way.start(Server::builder());
        server
            .client()
            .run("FLOCK.ACQUIRE k t PX 600000 DELAY 600000")
            .fence();
        way.travel(&mut server);
        let mut client = server.admin();
        assert!(!look(&mut client, "k").is_closed, "{way:?}");
        assert_eq!(client.run("FLOCK.REFRESH k t PX 20"), 1, "{way:?}");
        wait_until_closed(&mut client, "k");
        assert_eq!(look(&mut client, "k").holders, [], "{way:?}");
    }
}

#[test]
fn those_who_wait_outlast_a_reload_in_every_mode() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    lose(&mut client, "t", "");
    let mut reader = server.enqueue("k", "FLOCK.ACQUIRE k a PX 600000 SHARED BLOCK 0");
    let mut permit = server.enqueue("k", "FLOCK.ACQUIRE k b PX 600000 PERMITS 2 BLOCK 0 SESSION");
    assert_eq!(client.run("DEBUG RELOAD"), OK);
    assert_eq!(look(&mut client, "k").queue, ["shared", "permits"]);
    client.run("FLOCK.BREAK k");
    reader.receive().fence();
    client.run("FLOCK.RELEASE k a");
    permit.receive().fence();
    // It waited over a connection that is still there, so it is tied to it.
    assert!(look(&mut client, "k").holder().has_session);
}

#[test]
fn locks_of_every_kind_travel_by_dump_and_restore() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    let before = make_all(&mut client);
    let payloads = KINDS.map(|(key, _)| client.call(("DUMP", key)));
    let other = Server::builder().undressed().start();
    let mut elsewhere = other.client();
    for ((key, _), payload) in KINDS.iter().zip(&payloads) {
        assert_eq!(elsewhere.call(("RESTORE", key, 0, payload.bytes())), OK, "{key}");
    }
    assert_all_are(&mut elsewhere, &before, "RESTORE");
}

#[test]
fn a_closed_lock_travels_by_dump_and_restore() {
    let server = Server::start();
    let mut client = server.client();
    let fence = lose(&mut client, "t", "");
    let payload = client.run("DUMP k");
    let left_ms = closed_ms(&mut client, "k");
    assert_eq!(client.call(("RESTORE", "copy", 0, payload.bytes())), OK);
    // No time is taken off: the payload may be of another machine.
    assert!(closed_ms(&mut client, "copy") >= left_ms - 1_000);
    assert_eq!(look(&mut client, "copy").fence, fence);
    assert_eq!(client.run("FLOCK.ACQUIRE copy t PX 600000"), NIL);
    assert_eq!(client.run("FLOCK.BREAK copy"), 0);
    assert!(client.run("FLOCK.ACQUIRE copy t PX 600000").fence() > fence);
    assert!(look(&mut client, "k").is_closed);
}

#[test]
fn a_short_delay_that_was_restored_ends_by_itself() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 20 DELAY 1000").fence();
    eventually("it is lost", || client.run("FLOCK.PTTL k"), |left| *left == -2);
    // On a slow machine the delay is over by now, and there is nothing to restore.
    if let Reply::Bulk(payload) = client.run("DUMP k") {
        assert_eq!(client.call(("RESTORE", "copy", 0, payload)), OK);
    }
    eventually("both are open", || client.run("DBSIZE"), |keys| *keys == 0);
}

/// The end of the file was being written when the power went: the hold was lost all the same.
#[test]
fn a_closure_that_was_torn_is_a_closure_still() {
    let mut server = Server::builder().undressed().append_only().start();
    let mut client = server.client();
    let fence = client.run("FLOCK.ACQUIRE k t PX 600000 DELAY 600000").fence();
    client.run("FLOCK.REFRESH k t PX 2500");
    let file = aof::increments(server.directory()).pop().expect("an increment");
    let length = |file| std::fs::metadata(file).expect("the increment").len() as usize;
    let whole_before = length(&file);
    wait_until_closed(&mut client, "k");
    eventually("it is written", || length(&file), |length| *length > whole_before);
    server.kill9();
    let bytes = std::fs::read(&file).expect("the increment");
    let closure = bytes.len() - whole_before;
    // The longest first, since loading cuts the file.
    for part in [closure, closure - 1, closure / 2, 10, 0] {
        std::fs::write(&file, &bytes[..whole_before + part]).expect("the increment");
        server.restart();
        let mut client = server.admin();
        wait_until_closed(&mut client, "k");
        let seen = look(&mut client, "k");
        assert_eq!(
            (seen.fence, seen.holders.len()),
            (fence, 0),
            "{part} of {closure} bytes"
        );
        assert_eq!(
            client.run("FLOCK.ACQUIRE k t PX 600000"),
            NIL,
            "{part} of {closure} bytes"
        );
        server.kill9();
    }
}

/// A DUMP that flock 0.1.0 wrote on Redis 7.0: `FLOCK.ACQUIRE k tok PX 4000000000 LABEL build-17
/// ABOVE 4503599627370496`, 22 ms later.
const PAYLOAD_OF_VERSION_1: &[u8] = b"\x07\x81~Z\x1c\x92Z\x1c\x90\x01\x05\xc3+1\x06-\xb4\x96(\xa2\x01\x00\x80\x00@\x07@\x03\
    \x1b\x00\x00\x10\x00\xad\x9e\x93R\xa3\x03\x00\x00\x03\x00tok\x01\x08\x00build-17\x00\n\x00\x89$O\x0f\xbcA{p";

#[test]
fn a_lock_of_the_first_format_is_read() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.call(("RESTORE", "k", 0, PAYLOAD_OF_VERSION_1)), OK);
    let seen = look(&mut client, "k");
    assert_eq!((seen.mode.as_str(), seen.permits), ("exclusive", 1));
    let holder = seen.holder();
    assert_eq!(
        (holder.fence, holder.holds, holder.label.as_str()),
        ((1 << 52) + 1, 1, "build-17")
    );
    let left_ms = client.run("FLOCK.PTTL k tok").int();
    assert!((3_999_000_000..=4_000_000_000).contains(&left_ms), "{left_ms}");
    assert_eq!(client.run("FLOCK.REFRESH k tok PX 20"), 1);
    eventually(
        "it is open, at once",
        || client.run("EXISTS k"),
        |exists| *exists == 0,
    );
}

/// So often that nobody could enter it one by one: the number is written into the payload.
#[test]
fn a_hold_is_entered_as_often_as_can_be_counted_and_not_once_more() {
    const HOLDS: i64 = u32::MAX as i64;
    let server = Server::builder().undressed().set("rdbcompression", "no").start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 600000 REENTRANT").fence();
    let mut payload = client.run("DUMP k").bytes().to_vec();
    // Behind the holds: 8 bytes of delay, the end of the value, 2 bytes of version, 8 of checksum.
    let end = payload.len() - 8;
    payload[end - 15..end - 11].copy_from_slice(&u32::MAX.to_le_bytes());
    let checksum = crc64(&payload[..end]).to_le_bytes();
    payload[end..].copy_from_slice(&checksum);
    assert_eq!(client.call(("RESTORE", "copy", 0, payload)), OK);
    assert_eq!(look(&mut client, "copy").holder().holds, HOLDS);
    let reply = client.run("FLOCK.ACQUIRE copy t PX 900000 REENTRANT");
    assert_eq!(
        reply,
        Reply::error("ERR this token has entered the lock as often as can be counted")
    );
    assert!(client.run("FLOCK.PTTL copy t").int() <= 600_000);
    assert_eq!(client.run("FLOCK.RELEASE copy t"), 1);
    client.run("FLOCK.ACQUIRE copy t PX 600000 REENTRANT").fence();
    assert_eq!(client.run("FLOCK.BREAK copy"), HOLDS);
}
