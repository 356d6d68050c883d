//! Locks of every kind in one slot, those who hold them, and those who wait for them: what a failover
//! or a move of the slot must leave whole.

use std::time::{Duration, Instant};

use crate::rover::HANG;
use crate::support::*;

/// What must not end by itself within a test, in ms.
pub const LONG_MS: i64 = 600_000;
/// What is to run out at once.
const SHORT_MS: i64 = 20;
/// How late a busy machine may be with word of a lease: another node counts from when it heard.
const LATE_MS: i64 = 1_000;

/// How a lock is left by those who hold it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leaving {
    /// So many releases of each.
    Releases(usize),
    /// The lease runs out; the lock closes behind it, and an operator opens it.
    RunsOut,
    /// Nobody holds it any more, and an operator opens it.
    IsBroken,
}

struct Kind {
    name: &'static str,
    /// The options of each hold.
    holds: &'static [&'static str],
    leaving: Leaving,
    /// The options of those who wait.
    waits: &'static [&'static str],
}

const KINDS: [Kind; 7] = [
    Kind {
        name: "exclusive",
        holds: &["LABEL owner"],
        leaving: Leaving::Releases(1),
        waits: &["LABEL next", "SHARED"],
    },
    Kind {
        name: "shared",
        holds: &["SHARED LABEL one", "SHARED", "SHARED LABEL three"],
        leaving: Leaving::Releases(1),
        waits: &["", ""],
    },
    Kind {
        name: "permits",
        holds: &["PERMITS 2 LABEL one", "PERMITS 2 DELAY 5"],
        leaving: Leaving::Releases(1),
        waits: &["PERMITS 2", "PERMITS 2"],
    },
    Kind {
        name: "entered",
        holds: &["REENTRANT LABEL x"],
        leaving: Leaving::Releases(3),
        waits: &["REENTRANT", ""],
    },
    Kind {
        name: "delayed",
        holds: &["DELAY 600000"],
        leaving: Leaving::RunsOut,
        waits: &["", "DELAY 5"],
    },
    Kind {
        name: "tied",
        holds: &["SESSION LABEL tied"],
        leaving: Leaving::Releases(1),
        waits: &["SESSION", ""],
    },
    Kind {
        name: "closed",
        holds: &[],
        leaving: Leaving::IsBroken,
        waits: &["", "SHARED"],
    },
];

/// A request, and the connection that it came over.
struct Caller {
    client: Client,
    keys: Vec<String>,
    token: String,
    options: &'static str,
}

impl Caller {
    fn new(client: Client, keys: &[String], token: String, options: &'static str) -> Caller {
        Caller {
            client,
            keys: keys.to_vec(),
            token,
            options,
        }
    }

    /// Alone or together with others: FLOCK.ACQUIRE or FLOCK.MACQUIRE, and so on.
    fn line(&self, command: &str, options: &str) -> String {
        let (many, count) = match self.keys.len() {
            1 => ("", String::new()),
            count => ("M", format!("{count} ")),
        };
        let (keys, token) = (self.keys.join(" "), &self.token);
        let line = format!("FLOCK.{many}{command} {count}{keys} {token} {options}");
        line.trim_end().to_owned()
    }

    fn acquire(&self, more: &str) -> String {
        let options = format!("PX {LONG_MS} {} {more}", self.options);
        let words: Vec<_> = self
            .line("ACQUIRE", &options)
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        words.join(" ")
    }

    /// Ends one hold of each of the locks.
    #[track_caller]
    fn release(&self, admin: &mut Client) {
        let line = self.line("RELEASE", "");
        assert_eq!(admin.run(&line), self.keys.len() as i64, "{line}");
    }
}

/// One lock, or several that are held together.
struct Home {
    keys: Vec<String>,
    leaving: Leaving,
    holders: Vec<Caller>,
    waiters: Vec<Caller>,
}

pub struct Household {
    homes: Vec<Home>,
}

impl Household {
    /// All locks are taken at this node, under names with this hash tag, and waited for.
    #[track_caller]
    pub fn settle(node: &Server, tag: &str) -> Household {
        let mut homes: Vec<_> = KINDS.iter().map(|kind| settle_one(node, tag, kind)).collect();
        homes.push(settle_pair(node, tag));
        Household { homes }
    }

    pub fn keys(&self) -> Vec<String> {
        self.homes.iter().flat_map(|home| home.keys.clone()).collect()
    }

    /// How many clients hold or wait.
    pub fn count(&self) -> usize {
        let homes = self.homes.iter();
        homes.map(|home| home.holders.len() + home.waiters.len()).sum()
    }

    pub fn waiters(&self) -> usize {
        self.homes.iter().map(|home| home.waiters.len()).sum()
    }

    #[track_caller]
    pub fn pictures(&self, node: &Server) -> Vec<Picture> {
        let mut admin = node.admin();
        self.keys()
            .iter()
            .map(|key| Picture::take(&mut admin, key))
            .collect()
    }

    /// What each waiter is told, all within the time in which nobody may be left without an answer.
    #[track_caller]
    pub fn hear_waiters(&mut self) -> Vec<Reply> {
        let end = Instant::now() + HANG;
        let waiters = self.homes.iter_mut().flat_map(|home| &mut home.waiters);
        waiters
            .map(|waiter| {
                let left = end.saturating_duration_since(Instant::now());
                let reply = waiter.client.receive_within(left);
                reply.unwrap_or_else(|| panic!("a waiter hangs: {} of {:?}", waiter.token, waiter.keys))
            })
            .collect()
    }

    /// The holders still hold, as this node says to whomever asks.
    #[track_caller]
    pub fn assert_still_held(&self, node: &Server) {
        let mut admin = node.admin();
        for holder in self.homes.iter().flat_map(|home| &home.holders) {
            let line = holder.line("REFRESH", &format!("PX {LONG_MS}"));
            assert_eq!(admin.run(&line), holder.keys.len() as i64, "{line}");
        }
    }

    /// The waiters come again, to this node; the holders leave, and the waiters are served in their
    /// order, with greater fences.
    #[track_caller]
    pub fn live_on(&mut self, node: &Server) {
        for home in &mut self.homes {
            home.live_on(node);
        }
    }
}

fn settle_one(node: &Server, tag: &str, kind: &Kind) -> Home {
    let keys = vec![format!("{tag}:{}", kind.name)];
    let holders = kind.holds.iter().enumerate().map(|(number, options)| {
        let mut holder = Caller::new(node.admin(), &keys, format!("h{number}"), options);
        let times = match kind.leaving {
            Leaving::Releases(times) => times,
            _ => 1,
        };
        for _ in 0..times {
            let line = holder.acquire("");
            holder.client.run(&line).fence();
        }
        holder
    });
    let holders = holders.collect();
    if kind.leaving == Leaving::IsBroken {
        let mut admin = node.admin();
        let line = format!("FLOCK.ACQUIRE {} gone PX {SHORT_MS} DELAY {LONG_MS}", keys[0]);
        admin.run(&line).fence();
        wait_until_closed(&mut admin, &keys[0]);
    }
    let waits = kind.waits.iter().enumerate();
    let waiters = waits.map(|(number, options)| {
        let waiter = Caller::new(node.admin(), &keys, format!("w{number}"), options);
        wait_in_line(node, waiter)
    });
    Home {
        leaving: kind.leaving,
        holders,
        waiters: waiters.collect(),
        keys,
    }
}

/// Two locks that are held together; for both of them somebody waits, and behind it, for one of them,
/// somebody else.
fn settle_pair(node: &Server, tag: &str) -> Home {
    let keys = [format!("{tag}:left"), format!("{tag}:right")];
    let mut holder = Caller::new(node.admin(), &keys, "h0".to_owned(), "LABEL both");
    let line = holder.acquire("");
    holder.client.run(&line).fence();
    let both = Caller::new(node.admin(), &keys, "w0".to_owned(), "");
    let one = Caller::new(node.admin(), &keys[1..], "w1".to_owned(), "");
    Home {
        keys: keys.to_vec(),
        leaving: Leaving::Releases(1),
        holders: vec![holder],
        waiters: vec![wait_in_line(node, both), wait_in_line(node, one)],
    }
}

/// Waits in line once this returns.
#[track_caller]
fn wait_in_line(node: &Server, mut waiter: Caller) -> Caller {
    let key = waiter.keys[waiter.keys.len() - 1].clone();
    waiter.client = node.enqueue(&key, &waiter.acquire("BLOCK 0"));
    waiter
}

#[track_caller]
fn wait_until_closed(admin: &mut Client, key: &str) {
    eventually(
        "the lock is closed",
        || match admin.call(("FLOCK.INFO", key)) {
            Reply::Nil => 0,
            info => info.field("delay_ms").int(),
        },
        |delay_ms| *delay_ms > 0,
    );
}

impl Home {
    #[track_caller]
    fn live_on(&mut self, node: &Server) {
        let mut admin = node.admin();
        let fences = self
            .keys
            .iter()
            .map(|key| admin.call(("FLOCK.INFO", key)).field("fence").fence());
        let mut last = fences.max().expect("a lock");
        let waiters = self.waiters.drain(..).map(|waiter| wait_in_line(node, waiter));
        let waiters: Vec<_> = waiters.collect();
        self.leave(&mut admin);
        for mut waiter in waiters {
            let fence = waiter.client.receive().fence();
            assert!(fence > last, "{:?}: {fence} after {last}", waiter.keys);
            last = fence;
            waiter.release(&mut admin);
        }
        for key in &self.keys {
            assert_eq!(admin.call(("EXISTS", key)), 0, "{key}");
        }
    }

    #[track_caller]
    fn leave(&self, admin: &mut Client) {
        let key = &self.keys[0];
        match self.leaving {
            Leaving::Releases(times) => {
                for holder in &self.holders {
                    (0..times).for_each(|_| holder.release(admin));
                }
            }
            Leaving::RunsOut => {
                let line = self.holders[0].line("REFRESH", &format!("PX {SHORT_MS}"));
                assert_eq!(admin.run(&line), 1);
                wait_until_closed(admin, key);
                assert_eq!(admin.call(("FLOCK.BREAK", key)), 0);
            }
            Leaving::IsBroken => assert_eq!(admin.call(("FLOCK.BREAK", key)), 0),
        }
    }
}

/// What FLOCK.INFO shows of a lock.
#[derive(Debug)]
pub struct Picture {
    key: String,
    /// All but the times left; of the queue nothing, and nothing of sessions, for both stay behind.
    shape: String,
    left_ms: Vec<i64>,
    before: Instant,
    after: Instant,
}

impl Picture {
    #[track_caller]
    pub fn take(client: &mut Client, key: &str) -> Picture {
        let before = Instant::now();
        let info = client.call(("FLOCK.INFO", key));
        let after = Instant::now();
        let (shape, left_ms) = match info {
            Reply::Nil => ("free".to_owned(), Vec::new()),
            info => take_apart(&info),
        };
        Picture {
            key: key.to_owned(),
            shape,
            left_ms,
            before,
            after,
        }
    }

    /// The lock is the same somewhere else, and no lease or delay is shorter there.
    #[track_caller]
    pub fn assert_is_now(&self, now: &Picture) {
        assert_eq!(self.shape, now.shape, "{}", self.key);
        assert_eq!(self.left_ms.len(), now.left_ms.len());
        // What is left is shown in whole milliseconds, rounded down.
        let passed: Duration = now.after - self.before + Duration::from_millis(1);
        for (before, now) in self.left_ms.iter().zip(&now.left_ms) {
            let least = before - passed.as_millis() as i64;
            assert!(*now >= least, "{}: {now} ms left, of {least} at least", self.key);
            let most = before + LATE_MS;
            assert!(*now <= most, "{}: {now} ms left, of {most} at most", self.key);
        }
    }
}

/// All that stays, and the times left.
fn take_apart(info: &Reply) -> (String, Vec<i64>) {
    let delay_ms = info.field("delay_ms").int();
    let mut left_ms = vec![delay_ms];
    let mut shape = ["mode", "permits", "fence"]
        .map(|name| format!("{name} {:?}, ", info.field(name)))
        .concat();
    shape += if delay_ms > 0 { "closed" } else { "open" };
    for holder in info.field("holders").items() {
        left_ms.push(holder.field("ttl_ms").int());
        let fields = ["fence", "holds", "label"].map(|name| format!(" {name} {:?}", holder.field(name)));
        shape += &format!("; held:{}", fields.concat());
    }
    (shape, left_ms)
}

/// Each lock is the same now.
#[track_caller]
pub fn assert_same(before: &[Picture], now: &[Picture]) {
    assert_eq!(before.len(), now.len());
    for (before, now) in before.iter().zip(now) {
        before.assert_is_now(now);
    }
}
