//! What replicas are told and what they do with it: the exact stream of each
//! transition, replicas that only follow, and promotion.
//!
//! | file | proves |
//! |---|---|
//! | `stream.rs` | each transition is one command in the stream, and what changes nothing is none |
//! | `following.rs` | replicas, their replicas and their files agree with the primary, and decide nothing |
//! | `reading.rs` | what replicas answer to readers |
//! | `chain.rs` | replicas of replicas, as followers and as successors |
//! | `transfer.rs` | every way of a full synchronization, onto a server that had locks of its own |
//! | `resume.rs` | a link that was cut goes on where it was |
//! | `upgrade.rs` | an older server, or an older flock, as the primary |
//! | `promotion.rs` | a promoted replica goes on where the primary was; a demoted primary lets its waiters go |
//! | `comeback.rs` | a promoted replica that loses its power comes back with what it has written |
//! | `counted.rs` | WAIT and WAITAOF count those who have a grant |
//! | `quorum.rs` | too few replicas: what is refused, and what goes on |

#[path = "../support/mod.rs"]
mod support;

mod chain;
mod comeback;
mod counted;
mod following;
mod promotion;
mod quorum;
mod reading;
mod resume;
mod stream;
mod transfer;
mod upgrade;

use support::{Builder, Server};

/// Servers whose fences are counted, so that a test can tell the next one.
fn counting() -> Builder {
    Server::builder()
        .undressed()
        .module_arguments("fence-source counter")
}
