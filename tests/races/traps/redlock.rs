//! A majority of five independent servers is no better protected against a pause: the lock is there, but the holder is not.
//! What the five can add is a fence.

use std::time::{Duration, Instant};

use super::{judge, judge_by, start_storage, HAND_MADE, LOCK};
use crate::plain;
use crate::scene::postgres_wallet::Guard;
use crate::support::{eventually, Client, Server, NIL, OK};

const SERVERS: usize = 5;
const MAJORITY: usize = SERVERS / 2 + 1;
const LEASE: Duration = Duration::from_millis(1_000);

fn start_five() -> (Vec<Server>, Vec<Client>) {
    let servers: Vec<Server> = (0..SERVERS).map(|_| plain().start()).collect();
    let clients = servers.iter().map(Server::client).collect();
    (servers, clients)
}

/// SET NX on each server. Whether a majority agreed, in so short a time that something of the lease is left.
fn take_majority(clients: &mut [Client], token: &str) -> bool {
    let start = Instant::now();
    let lease_ms = LEASE.as_millis() as u64;
    let votes = clients
        .iter_mut()
        .filter_map(|client| {
            let reply = client.call(("SET", HAND_MADE, token, "NX", "PX", lease_ms));
            (reply == OK).then_some(())
        })
        .count();
    let is_taken = votes >= MAJORITY && start.elapsed() < LEASE;
    if !is_taken {
        give_back(clients, HAND_MADE, token);
    }
    is_taken
}

/// What Redlock does after it got too few votes.
fn give_back(clients: &mut [Client], key: &str, token: &str) {
    for client in clients {
        if client.call(("GET", key)) == token {
            client.call(("DEL", key));
        }
    }
}

/// FLOCK.ACQUIRE on each server. The greatest fence that a majority gave.
///
/// Two majorities share a server, so the newer holder's fence from there is greater than the older's from there. That it
/// is greater than the older's from any server needs their wall clocks to differ by less than the lease.
fn take_majority_with_fences(clients: &mut [Client], token: &str) -> Option<i64> {
    let start = Instant::now();
    let lease_ms = LEASE.as_millis() as u64;
    let fences: Vec<i64> = clients
        .iter_mut()
        .map(|client| client.call(("FLOCK.ACQUIRE", LOCK, token, "PX", lease_ms)))
        .filter(|reply| *reply != NIL)
        .map(|reply| reply.fence())
        .collect();
    let is_taken = fences.len() >= MAJORITY && start.elapsed() < LEASE;
    if !is_taken {
        for client in clients {
            client.call(("FLOCK.RELEASE", LOCK, token));
        }
    }
    fences.into_iter().max().filter(|_| is_taken)
}

#[test]
fn two_holders_of_a_majority_have_no_order_between_them() {
    let (_postgres, mut wallet) = start_storage();
    let (_servers, mut clients) = start_five();
    assert!(take_majority(&mut clients, "a"));
    eventually(
        "A's pause is longer than its lease",
        || take_majority(&mut clients, "b"),
        |is_taken| *is_taken,
    );
    // Both were told that they hold it. Their tokens are random, so no storage can tell which is the newer.
    let judgement = judge_by(&mut wallet, Guard::Nothing, 0, 0);
    println!("five servers, SET: {judgement}");
    assert!(judgement.is_older_believed && judgement.is_newer_believed);
    assert!(!judgement.check.is_ok());
}

#[test]
fn two_holders_of_a_majority_have_an_order_by_their_fences() {
    let (_postgres, mut wallet) = start_storage();
    let (_servers, mut clients) = start_five();
    let older = take_majority_with_fences(&mut clients, "a").expect("a majority");
    let newer = eventually(
        "A's pause is longer than its lease",
        || take_majority_with_fences(&mut clients, "b"),
        Option::is_some,
    );
    let newer = newer.expect("a majority");
    let judgement = judge(&mut wallet, older, newer);
    println!("five servers, flock: fences {older} and {newer}: {judgement}");
    assert!(newer > older);
    assert!(judgement.is_right(), "{judgement}");
}
