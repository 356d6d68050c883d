//! A server that keeps nothing on disk forgets who holds the lock, and a counter begins again at 1.

use super::{count_up, judge, start_storage, take_flock, take_hand_made};
use crate::plain;

const FENCES_BEFORE: i64 = 7;

#[test]
fn after_a_restart_without_persistence_a_counter_locks_the_rightful_holder_out() {
    let (_postgres, mut wallet) = start_storage();
    let mut server = plain().start();
    let mut client = server.client();
    for _ in 1..FENCES_BEFORE {
        count_up(&mut client);
    }
    assert!(take_hand_made(&mut client, "a"));
    let older = count_up(&mut client);
    server.kill9();
    server.restart();
    let mut client = server.client();
    assert!(take_hand_made(&mut client, "b"), "two hold the lock");
    let newer = count_up(&mut client);
    let judgement = judge(&mut wallet, older, newer);
    println!("restart, SET and INCR: fences {older} and {newer}: {judgement}");
    assert_eq!((older, newer), (FENCES_BEFORE, 1));
    assert!(judgement.is_older_believed, "who holds the lock no more");
    assert!(!judgement.is_newer_believed, "who holds it");
}

#[test]
fn after_a_restart_without_persistence_the_second_fence_is_greater() {
    let (_postgres, mut wallet) = start_storage();
    let mut server = plain().start();
    let older = take_flock(&mut server.client(), "a").expect("a free lock");
    server.kill9();
    server.restart();
    let newer = take_flock(&mut server.client(), "b").expect("two hold the lock");
    let judgement = judge(&mut wallet, older, newer);
    println!("restart, flock: fences {older} and {newer}: {judgement}");
    assert!(newer > older);
    assert!(judgement.is_right(), "{judgement}");
}
