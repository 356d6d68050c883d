//! A holder calls a function that wants the same lock.

use super::{take_flock, take_hand_made, HAND_MADE, LOCK};
use crate::start_redis;

#[test]
fn whoever_makes_a_token_in_each_function_waits_for_itself() {
    let (server, _) = start_redis();
    let mut client = server.client();
    assert!(take_hand_made(&mut client, "outer"));
    assert!(
        !take_hand_made(&mut client, "inner"),
        "it will not be free before outer is done"
    );
    let left_ms = client.call(("PTTL", HAND_MADE)).int();
    println!("reentry, SET with a token of its own: refused, for {left_ms} ms more");
}

/// The token is passed along, and whoever got the lock first gives it back.
#[test]
fn whoever_passes_its_token_along_is_let_in_under_the_same_fence() {
    let (server, _) = start_redis();
    let (mut outer, mut inner) = (server.client(), server.client());
    let fence = take_flock(&mut outer, "outer").expect("a free lock");
    assert_eq!(take_flock(&mut inner, "outer"), Some(fence));
    println!("reentry, flock with the token passed along: the same fence {fence}");
    assert_eq!(take_flock(&mut inner, "another"), None);
    assert_eq!(outer.call(("FLOCK.RELEASE", LOCK, "outer")), 1);
    assert!(take_flock(&mut inner, "another") > Some(fence));
}
