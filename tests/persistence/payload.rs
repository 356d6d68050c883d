//! Proves that a lock travels through DUMP and RESTORE. Damaged payloads are
//! the matter of tests/payloads.rs.

use std::time::Duration;

use crate::support::*;

/// In front of the value: the type, then the number of the module's type in nine bytes, whose last ten
/// bits are the version of the format.
const VERSION_BYTE: usize = 9;

fn restore(client: &mut Client, key: &str, payload: &[u8]) -> Reply {
    client.call(("RESTORE", key, 0, payload))
}

/// The payload with a checksum that fits its bytes.
fn resealed(mut payload: Vec<u8>) -> Vec<u8> {
    let end = payload.len() - 8;
    let checksum = crc64(&payload[..end]).to_le_bytes();
    payload[end..].copy_from_slice(&checksum);
    payload
}

#[test]
fn a_dumped_lock_is_restored_with_holder_fence_label_and_lease() {
    let server = Server::start();
    let mut client = server.client();
    let lease = Lease::take(&mut client, "k", "tok", 600_000, "LABEL here");
    let payload = client.run("DUMP k").bytes().to_vec();
    client.run("FLOCK.RELEASE k tok");
    assert_eq!(restore(&mut client, "l", &payload), OK);
    lease.assert_not_shorter(&mut client, "l");
    let info = client.run("FLOCK.INFO l");
    assert_eq!(*info.field("fence"), lease.fence);
    assert_eq!(*info.field("holders").items()[0].field("label"), "here");
    assert!(client.run("FLOCK.ACQUIRE m tok PX 1000").fence() > lease.fence);
    assert_eq!(client.run("FLOCK.RELEASE l tok"), 1);
}

#[test]
fn a_restored_lock_brings_its_fence_to_a_new_server() {
    const ABOVE: i64 = 1 << 52;
    let old = Server::builder().undressed().start();
    let mut client = old.client();
    let line = format!("FLOCK.ACQUIRE k tok PX 600000 ABOVE {ABOVE}");
    assert_eq!(client.run(&line), ABOVE + 1);
    let payload = client.run("DUMP k").bytes().to_vec();
    let new = Server::builder().undressed().start();
    let mut client = new.client();
    // In one pass of the server's loop: the fence counts from the moment the lock is there.
    client.send(("RESTORE", "k", 0, payload));
    client.send_line("FLOCK.ACQUIRE other tok PX 600000");
    assert_eq!(client.receive(), OK);
    assert_eq!(client.receive(), ABOVE + 2);
}

/// The dump may come from another machine, whose clock is another: time is not taken off for it.
#[test]
fn a_restored_lease_is_as_long_as_when_it_was_dumped() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    let payload = client.run("DUMP k").bytes().to_vec();
    let dumped = client.run("FLOCK.PTTL k").int();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(restore(&mut client, "l", &payload), OK);
    let restored = client.run("FLOCK.PTTL l").int();
    assert!(
        (dumped - 50..=600_000).contains(&restored),
        "{restored} ms of {dumped} ms"
    );
}

#[test]
fn a_restored_lease_ends_and_hands_over() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 300").fence();
    let payload = client.run("DUMP k").bytes().to_vec();
    assert_eq!(restore(&mut client, "l", &payload), OK);
    let mut waiter = server.enqueue("l", "FLOCK.ACQUIRE l next PX 600000 BLOCK 0");
    waiter.receive().fence();
    eventually("k is over too", || client.run("EXISTS k"), |exists| *exists == 0);
}

#[test]
fn a_newer_format_is_refused_with_a_line_in_the_log() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    let mut payload = client.run("DUMP k").bytes().to_vec();
    payload[VERSION_BYTE] += 1;
    let reply = restore(&mut client, "newer", &resealed(payload));
    assert_eq!(reply.error_word(), "ERR", "{reply:?}");
    let log = server.log();
    let told = |line: &&str| line.contains("<flock>") && line.contains("newer");
    assert!(log.lines().any(|line| told(&line)), "{log}");
    assert_eq!(client.run("EXISTS newer"), 0);
}
