//! FLOCK.GUARD on real servers: one command of the server's, only if the token holds the lock.
//!
//! | file | proves |
//! |---|---|
//! | `held.rs` | it runs while the token holds the lock, and never else |
//! | `replies.rs`, `samples.rs` | the reply is the command's own, byte for byte |
//! | `refused.rs` | what cannot be guarded, in every way to ask for it, and that nothing changed |
//! | `every.rs` | each command that the server knows: refused, or run without harm |
//! | `itself.rs` | commands that do something to the lock that guards them |
//! | `access.rs` | it obeys ACL as if the caller had sent the command |
//! | `keys.rs` | COMMAND GETKEYS, and the slots of a cluster |
//! | `deep.rs` | requests as deep as the server reads them |
//! | `scripts.rs` | scripts and functions under a guard, and a guard in scripts and transactions |
//! | `stream.rs` | what replicas and files are told |
//! | `limits.rs` | full memory, replicas, pauses, scripts that hang |
//! | `wallet.rs` | 50 callers with leases that are too short for their work, and an exact balance |

#[path = "../support/mod.rs"]
mod support;

mod access;
mod deep;
mod every;
mod held;
mod itself;
mod keys;
mod limits;
mod raw;
mod refused;
mod replies;
mod samples;
mod scripts;
mod stream;
mod wallet;

use support::{Builder, Client, Protocol, Reply, Server};

const NOT_HELD: &str = "NOTHELD the token does not hold the lock; the command did not run";
/// How an error begins that says so.
const CANNOT: &str = "ERR this command cannot be guarded: ";

/// A server, and a client whose token `tok` holds `lock`.
#[track_caller]
fn holding() -> (Server, Client) {
    holding_on(Server::builder())
}

#[track_caller]
fn holding_on(builder: Builder) -> (Server, Client) {
    let server = builder.start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
    (server, client)
}

/// [`holding`] in both protocols, one after the other.
#[track_caller]
fn holding_in_both(test: impl Fn(&Server, &mut Client)) {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let (server, mut client) = holding_on(Server::builder().protocol(protocol));
        test(&server, &mut client);
    }
}

/// Runs a line of plain words under the guard of `lock` and `tok`.
#[track_caller]
fn guard(client: &mut Client, line: &str) -> Reply {
    client.run(&format!("FLOCK.GUARD lock tok {line}"))
}

/// Runs some words under the guard of `lock` and `tok`.
#[track_caller]
fn guard_words(client: &mut Client, words: &[&str]) -> Reply {
    let mut all = vec!["FLOCK.GUARD", "lock", "tok"];
    all.extend(words);
    client.call(all)
}

/// The lock is still held by `tok`, under that fence.
#[track_caller]
fn assert_still_held(client: &mut Client, fence: i64) {
    assert!(client.run("FLOCK.PTTL lock tok").int() > 0);
    assert_eq!(*client.run("FLOCK.INFO lock").field("fence"), fence);
}
