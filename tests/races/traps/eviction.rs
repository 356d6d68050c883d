//! Under an allkeys-* policy a server that is short of memory evicts what was not used for a while: also locks and
//! counters.

use super::{count_up, judge, start_storage, take_flock, take_hand_made, COUNTER, HAND_MADE, LOCK};
use crate::plain;
use crate::support::{Client, Server, OK};

const FENCES_BEFORE: i64 = 7;
const ROOM_BYTES: u64 = 2_000_000;
const FILLER_BYTES: usize = 10_000;
/// A hundred times what there is room for.
const FILLERS: u64 = 100 * ROOM_BYTES / FILLER_BYTES as u64;

/// A server that evicts, and is soon short of memory.
fn start_a_small_server() -> (Server, Client) {
    let server = plain()
        .set("maxmemory-policy", "allkeys-lru")
        .set("maxmemory-samples", "10")
        .start();
    let mut client = server.client();
    let used: u64 = client.info("memory", "used_memory").parse().expect("a number");
    let limit = used + ROOM_BYTES;
    assert_eq!(client.call(("CONFIG", "SET", "maxmemory", limit)), OK);
    (server, client)
}

/// Others write, until all these keys are gone.
fn fill_up_until_evicted(client: &mut Client, keys: &[&str]) {
    let filler = "x".repeat(FILLER_BYTES);
    for number in 0..FILLERS {
        assert_eq!(client.call(("SET", format!("other:{number}"), &filler)), OK);
        if client.call([&["EXISTS"], keys].concat()) == 0 {
            return;
        }
    }
    panic!("{keys:?} are still there after {FILLERS} writes");
}

#[test]
fn a_counter_that_is_evicted_locks_the_rightful_holder_out() {
    let (_postgres, mut wallet) = start_storage();
    let (_server, mut client) = start_a_small_server();
    for _ in 1..FENCES_BEFORE {
        count_up(&mut client);
    }
    assert!(take_hand_made(&mut client, "a"));
    let older = count_up(&mut client);
    fill_up_until_evicted(&mut client, &[HAND_MADE, COUNTER]);
    assert!(take_hand_made(&mut client, "b"), "two hold the lock");
    let newer = count_up(&mut client);
    let judgement = judge(&mut wallet, older, newer);
    println!("eviction, SET and INCR: fences {older} and {newer}: {judgement}");
    assert_eq!((older, newer), (FENCES_BEFORE, 1));
    assert!(judgement.is_older_believed && !judgement.is_newer_believed);
}

#[test]
fn a_lock_that_is_evicted_is_given_again_under_a_greater_fence() {
    let (_postgres, mut wallet) = start_storage();
    let (_server, mut client) = start_a_small_server();
    let older = take_flock(&mut client, "a").expect("a free lock");
    fill_up_until_evicted(&mut client, &[LOCK]);
    let newer = take_flock(&mut client, "b").expect("two hold the lock");
    let judgement = judge(&mut wallet, older, newer);
    println!("eviction, flock: fences {older} and {newer}: {judgement}");
    assert!(newer > older);
    assert!(judgement.is_right(), "{judgement}");
}
