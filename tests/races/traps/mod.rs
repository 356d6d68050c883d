//! What takes a lock away while its holder still believes in it. None of this a lock can prevent; what counts is whether the
//! fences of the two holders tell the storage who is the newer.
//!
//! Beside flock stands what people build: a lock from SET … NX PX, and a fence from INCR.
//!
//! | file | what happens |
//! |---|---|
//! | `failover.rs` | a replica is promoted that has not seen the newest writes |
//! | `restart.rs` | a server without persistence starts again |
//! | `eviction.rs` | memory is short, and the counter is evicted |
//! | `leftovers.rs` | nothing, but a counter for each of 100,000 resources |
//! | `wall_clock.rs` | the wall clock is stepped by an hour |
//! | `lost_reply.rs` | the connection breaks after the command was sent |
//! | `reentry.rs` | a holder asks again |
//! | `redlock.rs` | a pause, with a majority of five servers |

mod eviction;
mod failover;
mod leftovers;
mod lost_reply;
mod redlock;
mod reentry;
mod restart;
mod wall_clock;

use std::fmt;

use crate::scene::postgres_wallet::{Guard, PostgresWallet, Seen};
use crate::scene::{Check, Servers, BALANCE};
use crate::support::{Client, Postgres, NIL, OK};

/// The hand-made lock, its counter, and flock's lock, in these scenes.
const HAND_MADE: &str = "lock:hand-made";
const COUNTER: &str = "lock:fence";
const LOCK: &str = "lock:flock";

/// Takes the lock that people build from SET, for a minute. Whether it was free.
#[track_caller]
fn take_hand_made(client: &mut Client, token: &str) -> bool {
    client.call(("SET", HAND_MADE, token, "NX", "PX", 60_000)) == OK
}

/// The next fence of a counter that is a key.
#[track_caller]
fn count_up(client: &mut Client) -> i64 {
    client.call(("INCR", COUNTER)).int()
}

/// Takes flock's lock, for a minute. The fence, if it was free.
#[track_caller]
fn take_flock(client: &mut Client, token: &str) -> Option<i64> {
    match client.call(("FLOCK.ACQUIRE", LOCK, token, "PX", 60_000)) {
        NIL => None,
        reply => Some(reply.fence()),
    }
}

/// How a storage judged two who both believed that they held the lock.
#[derive(Debug, PartialEq)]
struct Judgement {
    is_newer_believed: bool,
    is_older_believed: bool,
    check: Check,
}

impl Judgement {
    /// The older may not write any more, the newer may, and the balance is right.
    fn is_right(&self) -> bool {
        self.is_newer_believed && !self.is_older_believed && self.check.is_ok()
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |believed| if believed { "believed" } else { "refused" };
        write!(
            f,
            "newer {}, older {}: {}",
            word(self.is_newer_believed),
            word(self.is_older_believed),
            self.check
        )
    }
}

/// The older holder buys, reads again for its next purchase, and pauses. The newer buys. The older wakes up and writes.
/// A holder may write twice, so the storage takes the same fence again.
fn judge(wallet: &mut PostgresWallet, older: i64, newer: i64) -> Judgement {
    judge_by(wallet, Guard::NotOlder, older, newer)
}

fn judge_by(wallet: &mut PostgresWallet, guard: Guard, older: i64, newer: i64) -> Judgement {
    wallet.fill(0).expect("a wallet");
    let write = |wallet: &mut PostgresWallet, seen, fence| {
        wallet.write(guard, seen, fence).expect("an answer of PostgreSQL")
    };
    let full = wallet.read().expect("a balance");
    assert_eq!(
        full,
        Seen {
            balance: BALANCE,
            fence: 0
        }
    );
    assert!(write(wallet, full, older), "the first holder is right");
    let seen = wallet.read().expect("a balance");
    let is_newer_believed = write(wallet, seen, newer);
    let is_older_believed = write(wallet, seen, older);
    let accepted = 1 + usize::from(is_newer_believed) + usize::from(is_older_believed);
    Judgement {
        is_newer_believed,
        is_older_believed,
        check: Check::new(accepted, wallet.read().expect("a balance").balance),
    }
}

/// A PostgreSQL for the judgements of a test.
fn start_storage() -> (Postgres, PostgresWallet) {
    let postgres = Postgres::start();
    // There is no Redis to speak of here: each trap connects to its own.
    let servers = Servers::new("redis://127.0.0.1", Some(&postgres.url())).expect("an address");
    let wallet = servers.postgres().expect("a connection");
    (postgres, wallet)
}
