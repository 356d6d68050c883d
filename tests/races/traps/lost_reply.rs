//! The command arrives, the reply does not. Does the caller hold the lock? It asks again.

use super::{take_flock, take_hand_made, HAND_MADE, LOCK};
use crate::start_redis;
use crate::support::{eventually, Server, NIL};

/// Sends a command, and is gone before the reply.
#[track_caller]
fn send_and_lose_the_connection(server: &Server, line: &str, key: &str) {
    server.admin().send_line(line);
    let mut client = server.admin();
    eventually(
        "it took effect",
        || client.call(("EXISTS", key)),
        |exists| *exists == 1,
    );
}

#[test]
fn a_retry_of_set_nx_waits_for_its_own_ghost() {
    let (server, _) = start_redis();
    let line = format!("SET {HAND_MADE} a NX PX 60000");
    send_and_lose_the_connection(&server, &line, HAND_MADE);
    let mut client = server.client();
    assert!(
        !take_hand_made(&mut client, "a"),
        "its own lock, and it is refused"
    );
    let left_ms = client.call(("PTTL", HAND_MADE)).int();
    println!("a lost reply, SET: refused, for {left_ms} ms more");
    assert!(left_ms > 0);
}

#[test]
fn a_retry_with_the_same_token_gets_the_same_fence() {
    let (server, _) = start_redis();
    let line = format!("FLOCK.ACQUIRE {LOCK} a PX 60000");
    send_and_lose_the_connection(&server, &line, LOCK);
    let mut client = server.client();
    let granted = client.call(("FLOCK.INFO", LOCK)).field("fence").int();
    assert_eq!(take_flock(&mut client, "b"), None, "it is held");
    assert_eq!(take_flock(&mut client, "a"), Some(granted));
    println!("a lost reply, flock: the retry gets the same fence {granted}");
    assert_eq!(client.stat("grants"), 1);
    assert_eq!(client.call(("FLOCK.RELEASE", LOCK, "a")), 1);
    assert_eq!(client.call(("FLOCK.INFO", LOCK)), NIL);
}

/// It had waited in line when its connection broke: the retry does not stand behind itself.
#[test]
fn a_retry_of_one_who_waits_keeps_its_place() {
    let (server, _) = start_redis();
    let mut client = server.client();
    take_flock(&mut client, "holder").expect("a free lock");
    let first = server.enqueue(LOCK, "FLOCK.ACQUIRE lock:flock a PX 60000 BLOCK 0");
    let mut second = server.enqueue(LOCK, "FLOCK.ACQUIRE lock:flock b PX 60000 BLOCK 0");
    let mut again = server.connect(crate::support::Protocol::Resp2);
    again.send_line("FLOCK.ACQUIRE lock:flock a PX 60000 BLOCK 0 LABEL again");
    eventually(
        "the retry has the first place",
        || {
            client.call(("FLOCK.INFO", LOCK)).field("queue").items()[0]
                .field("label")
                .text()
        },
        |label| label == "again",
    );
    drop(first);
    assert_eq!(client.call(("FLOCK.RELEASE", LOCK, "holder")), 1);
    let fence = again.receive().fence();
    assert_eq!(client.call(("FLOCK.RELEASE", LOCK, "a")), 1);
    assert!(second.receive().fence() > fence);
}
