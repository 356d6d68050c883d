//! What replicas are told and what they do with it: the exact stream of each
//! transition, replicas that only follow, and promotion.
//!
//! | file | proves |
//! |---|---|
//! | `stream.rs` | each transition is one command in the stream, and what changes nothing is none |
//! | `following.rs` | replicas, their replicas and their files agree with the primary, and decide nothing |
//! | `promotion.rs` | a promoted replica goes on where the primary was; a demoted primary lets its waiters go |

#[path = "../support/mod.rs"]
mod support;

mod following;
mod promotion;
mod stream;

use support::{Client, Server};

/// Waits until the replica has applied all that `client` wrote.
#[track_caller]
fn wait_for_replicas(client: &mut Client, replicas: i64) {
    let acknowledged = client.run(&format!("WAIT {replicas} 20000")).int();
    assert!(acknowledged >= replicas, "{acknowledged} of {replicas} replicas");
}

/// The replica leaves its primary; from now on it is one.
#[track_caller]
fn promote(replica: &Server) -> Client {
    let mut client = replica.admin();
    assert_eq!(client.run("REPLICAOF NO ONE"), "OK");
    client
}
