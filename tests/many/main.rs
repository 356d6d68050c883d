//! FLOCK.MACQUIRE, FLOCK.MREFRESH and FLOCK.MRELEASE: several locks, all or none, on real servers.
//!
//! | file | proves |
//! |---|---|
//! | `grant.rs` | all or none, under one fence; what the grant leaves is a lock of its own for each key |
//! | `arguments.rs` | what is refused, in which words, and that nothing changed |
//! | `waiting.rs` | waiting holds nothing; a grant when all are free; nobody is passed over, in either direction |
//! | `rule.rs` | random arrivals, releases and departures against the rule in its simplest form |
//! | `progress.rs` | many callers with overlapping sets in any order: no deadlock, no starvation, no two owners |
//! | `queue.rs` | the same token again: as a holder, as a waiter; full queues |
//! | `leaving.rs` | waiters that go away, and grants that do not reach them |
//! | `removal.rs` | whatever ends one of the holds, or puts another value under one of the names |
//! | `whole.rs` | MREFRESH and MRELEASE |
//! | `transactions.rs` | MULTI, scripts, WATCH |
//! | `stream.rs` | the replication stream, word for word; the way to the disk and back; a replica |
//! | `pause.rs` | while writes are paused, and when the server becomes a replica |
//! | `access.rs` | keys as ACL, COMMAND GETKEYS and a cluster see them |

#[path = "../support/mod.rs"]
mod support;

mod access;
mod arguments;
mod grant;
mod leaving;
mod pause;
mod progress;
mod queue;
mod removal;
mod rule;
mod stream;
mod transactions;
mod waiting;
mod whole;

use support::{eventually, Client, Protocol, Reply, Server, NIL};

/// Sends a command that waits, from a client of its own, and returns that client once it waits, for whatever locks.
#[track_caller]
fn enqueue(server: &Server, line: &str) -> Client {
    let mut client = server.connect(Protocol::Resp2);
    enqueue_as(server, &mut client, line);
    client
}

/// [`enqueue`] with a client that is there already.
#[track_caller]
fn enqueue_as(server: &Server, client: &mut Client, line: &str) {
    let mut admin = server.admin();
    let before = admin.stat("waiters");
    client.send_line(line);
    let is_in = |waiters: &i64| *waiters == before + 1;
    eventually(&format!("waits: {line}"), || admin.stat("waiters"), is_in);
}

/// `token` holds `key` under `fence`, and nobody else does.
#[track_caller]
fn assert_held(client: &mut Client, key: &str, token: &str, fence: i64) {
    let left = client.call(("FLOCK.PTTL", key, token));
    assert!(left.int() > 0, "{token} does not hold {key}");
    let info = client.call(("FLOCK.INFO", key));
    assert_eq!(info.field("holders").items().len(), 1, "{key}: {info:?}");
    assert_eq!(*info.field("fence"), fence, "{key}: {info:?}");
}

/// Nobody holds any of the keys, and there is nothing of that name.
#[track_caller]
fn assert_free(client: &mut Client, keys: &[&str]) {
    for key in keys {
        assert_eq!(client.call(("EXISTS", *key)), 0, "{key}");
        assert_eq!(client.call(("FLOCK.PTTL", *key)), -2, "{key}");
        let info = client.call(("FLOCK.INFO", *key));
        if info != NIL {
            assert_eq!(info.field("holders").items().len(), 0, "{key}: {info:?}");
            assert!(info.field("waiters").int() > 0, "{key}: {info:?}");
        }
    }
}

/// Nobody waits for any lock.
#[track_caller]
fn assert_nobody_waits(client: &mut Client) {
    let waiters = eventually("nobody waits", || client.stat("waiters"), |waiters| *waiters == 0);
    assert_eq!(waiters, 0);
}

/// A lock `a` of `t`; for it and for the free `b` waits `m`; behind `m`, for `b` alone, waits `s`.
struct Knot {
    server: Server,
    client: Client,
    many: Client,
    many_id: i64,
    behind: Client,
}

impl Knot {
    #[track_caller]
    fn tie() -> Knot {
        Knot::tie_on(Server::start())
    }

    #[track_caller]
    fn tie_on(server: Server) -> Knot {
        let mut client = server.client();
        client.run("FLOCK.ACQUIRE a t PX 600000").fence();
        let mut many = server.connect(Protocol::Resp2);
        let many_id = many.id();
        enqueue_as(&server, &mut many, "FLOCK.MACQUIRE 2 a b m PX 600000 BLOCK 0");
        let behind = enqueue(&server, "FLOCK.ACQUIRE b s PX 600000 BLOCK 0");
        Knot {
            server,
            client,
            many,
            many_id,
            behind,
        }
    }

    /// `m` has got both now, and `s` is still behind it.
    #[track_caller]
    fn assert_many_is_served(&mut self) -> i64 {
        let fence = self.many.receive().fence();
        for key in ["a", "b"] {
            assert_held(&mut self.client, key, "m", fence);
        }
        assert_eq!(self.client.waiters("b"), 1);
        assert_eq!(self.client.run("FLOCK.MRELEASE 2 a b m"), 2);
        assert!(self.behind.receive().fence() > fence);
        fence
    }

    /// `m` is not in the way of `s` any more; `t` still holds what it held.
    #[track_caller]
    fn assert_many_has_left(&mut self) {
        let fence = self.behind.receive().fence();
        assert_held(&mut self.client, "b", "s", fence);
        assert_nobody_waits(&mut self.client);
        assert!(self.client.run("FLOCK.PTTL a t").int() > 0);
        assert_eq!(self.client.run("FLOCK.RELEASE a t"), 1);
        assert_free(&mut self.client, &["a"]);
    }
}

/// The replies of a list of integers.
#[track_caller]
fn ints(replies: &[Reply]) -> Vec<i64> {
    replies.iter().map(Reply::int).collect()
}
