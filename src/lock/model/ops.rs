//! What may happen to a few locks, and how often.

use proptest::prelude::*;

use super::{Key, CONNECTIONS, KEYS};
use crate::lock::Mode;

const TOKENS: u8 = 5;

/// What an acquire asks for, beside the lock and the token.
#[derive(Clone, Debug)]
pub struct Ask {
    pub mode: Mode,
    pub lease_ms: u64,
    pub above: u64,
    pub is_reentrant: bool,
    pub delay_ms: u64,
    /// The connection that the hold ends with.
    pub connection: Option<usize>,
}

/// The numbers that the connections have, each a new one when it is opened again.
#[derive(Default)]
pub struct Connections([u64; CONNECTIONS]);

impl Connections {
    pub fn number(&self, connection: usize) -> u64 {
        self.0[connection] * CONNECTIONS as u64 + connection as u64
    }

    /// Closes it, and returns the number it had.
    pub fn close(&mut self, connection: usize) -> u64 {
        let number = self.number(connection);
        self.0[connection] += 1;
        number
    }
}

#[derive(Clone, Debug)]
pub enum Op {
    Acquire {
        key: Key,
        token: u8,
        ask: Ask,
        /// 0 waits without limit.
        block_ms: Option<u64>,
    },
    AcquireMany {
        keys: Vec<Key>,
        token: u8,
        ask: Ask,
        block_ms: Option<u64>,
    },
    Refresh {
        key: Key,
        token: u8,
        lease_ms: u64,
    },
    RefreshMany {
        keys: Vec<Key>,
        token: u8,
        lease_ms: u64,
    },
    Release {
        key: Key,
        token: u8,
    },
    ReleaseMany {
        keys: Vec<Key>,
        token: u8,
    },
    Break {
        key: Key,
    },
    /// The oldest grant of that lock, and of all locks granted with it, turns out not to have
    /// reached its caller.
    TakeBack {
        key: Key,
    },
    /// The caller of so many operations ago disconnects. The server may serve another operation
    /// before its loop sleeps, and it settles what that leaves behind.
    Leave {
        back: usize,
        then_sleeps: bool,
    },
    /// A connection closes, and whoever asked with SESSION over it is gone.
    SessionGone {
        connection: usize,
    },
    Delete {
        key: Key,
    },
    /// Another value takes the place of a lock, and is gone again at once.
    Overwrite {
        key: Key,
    },
    /// The server may or may not say that a lock has moved.
    Rename {
        from: Key,
        to: Key,
        is_noticed: bool,
    },
    Flush,
    /// Some keys go at once, and the server does not say which.
    FlushSome {
        keys: Vec<Key>,
    },
    /// Time passes, and what is due is swept.
    Pass {
        ms: u64,
    },
    /// Time passes, and nothing is swept.
    PassUnswept {
        ms: u64,
    },
    /// The wall clock is set, forward or back.
    SetWallClock {
        wall_us: u64,
    },
}

impl Op {
    /// Whether the loop sleeps after it.
    pub fn is_last_of_pass(&self) -> bool {
        !matches!(
            self,
            Op::Leave {
                then_sleeps: false,
                ..
            }
        )
    }
}

/// Which locks and modes a run draws from: few in some, so that they meet often.
#[derive(Clone, Debug)]
struct Cast {
    keys: Key,
    modes: Vec<Mode>,
    /// How long callers wait: `None` not at all, 0 without limit.
    blocks: Vec<Option<u64>>,
    /// How often locks are renamed, vanish, and lose those who hold or wait for them.
    renames: u32,
    losses: u32,
    deaths: u32,
}

fn cast(blocks: &[Option<u64>]) -> impl Strategy<Value = Cast> {
    let modes = vec![
        Mode::Exclusive,
        Mode::Shared,
        Mode::Permits(1),
        Mode::Permits(2),
        Mode::Permits(3),
    ];
    let modes = prop::sample::subsequence(modes, 1..=5);
    let blocks = blocks.to_vec();
    (1..=KEYS, modes, 1u32..6, 1u32..4, 1u32..5).prop_map(move |(keys, modes, renames, losses, deaths)| {
        Cast {
            keys,
            modes,
            blocks: blocks.clone(),
            renames,
            losses,
            deaths,
        }
    })
}

fn token() -> impl Strategy<Value = u8> {
    0..TOKENS
}

fn lease_ms() -> impl Strategy<Value = u64> {
    1u64..40
}

impl Cast {
    fn key(&self) -> impl Strategy<Value = Key> {
        0..self.keys
    }

    /// One to three locks, in any order.
    fn keys(&self) -> impl Strategy<Value = Vec<Key>> {
        let all: Vec<Key> = (0..self.keys).collect();
        (Just(all).prop_shuffle(), 1usize..=3).prop_map(|(mut keys, count)| {
            keys.truncate(count);
            keys
        })
    }

    fn ask(&self) -> impl Strategy<Value = Ask> {
        let mode = prop::sample::select(self.modes.clone());
        let above = prop_oneof![9 => Just(0u64), 1 => 0u64..200];
        let delay_ms = prop_oneof![2 => Just(0u64), 1 => 1u64..15];
        let connection = prop_oneof![1 => Just(None), 1 => (0..CONNECTIONS).prop_map(Some)];
        let rest = (prop::bool::weighted(0.3), delay_ms, connection);
        (mode, lease_ms(), above, rest).prop_map(|(mode, lease_ms, above, rest)| Ask {
            mode,
            lease_ms,
            above,
            is_reentrant: rest.0,
            delay_ms: rest.1,
            connection: rest.2,
        })
    }

    /// MACQUIRE has fewer options than ACQUIRE.
    fn ask_for_many(&self) -> impl Strategy<Value = Ask> {
        self.ask().prop_map(|ask| Ask {
            mode: Mode::Exclusive,
            is_reentrant: false,
            delay_ms: 0,
            connection: None,
            ..ask
        })
    }

    fn op(&self) -> impl Strategy<Value = Op> {
        let block_ms = || prop::sample::select(self.blocks.clone());
        let acquire = (self.key(), token(), self.ask(), block_ms());
        let acquire = acquire.prop_map(|(key, token, ask, block_ms)| Op::Acquire {
            key,
            token,
            ask,
            block_ms,
        });
        let acquire_many = (self.keys(), token(), self.ask_for_many(), block_ms());
        let acquire_many = acquire_many.prop_map(|(keys, token, ask, block_ms)| Op::AcquireMany {
            keys,
            token,
            ask,
            block_ms,
        });
        let refresh = (self.key(), token(), lease_ms());
        let refresh_many = (self.keys(), token(), lease_ms());
        let asked_for = prop_oneof![
            12 => acquire,
            6 => acquire_many,
            3 => refresh.prop_map(|(key, token, lease_ms)| Op::Refresh { key, token, lease_ms }),
            2 => refresh_many.prop_map(|(keys, token, lease_ms)| Op::RefreshMany { keys, token, lease_ms }),
            6 => (self.key(), token()).prop_map(|(key, token)| Op::Release { key, token }),
            3 => (self.keys(), token()).prop_map(|(keys, token)| Op::ReleaseMany { keys, token }),
            1 => self.key().prop_map(|key| Op::Break { key }),
        ];
        prop_oneof![33 => asked_for, 18 => self.befalling()]
    }

    /// What happens without anybody asking for it.
    fn befalling(&self) -> impl Strategy<Value = Op> {
        let key = || self.key();
        let rename = (key(), key(), any::<bool>());
        let loss = prop_oneof![
            key().prop_map(|key| Op::Delete { key }),
            key().prop_map(|key| Op::Overwrite { key }),
            Just(Op::Flush),
            self.keys().prop_map(|keys| Op::FlushSome { keys }),
        ];
        let death = prop_oneof![
            (1usize..10, any::<bool>()).prop_map(|(back, then_sleeps)| Op::Leave { back, then_sleeps }),
            (0..CONNECTIONS).prop_map(|connection| Op::SessionGone { connection }),
            key().prop_map(|key| Op::TakeBack { key }),
        ];
        let time = prop_oneof![
            5 => (0u64..12).prop_map(|ms| Op::Pass { ms }),
            3 => (0u64..12).prop_map(|ms| Op::PassUnswept { ms }),
            1 => (0u64..300).prop_map(|wall_us| Op::SetWallClock { wall_us }),
        ];
        prop_oneof![
            self.renames => rename.prop_map(|(from, to, is_noticed)| Op::Rename { from, to, is_noticed }),
            self.losses => loss,
            2 * self.deaths => death,
            8 => time,
        ]
    }
}

/// An operation, or the acquire of so many operations ago once more: what a caller does that has
/// lost the reply.
#[derive(Clone, Debug)]
enum Step {
    New(Op),
    Again { back: usize },
}

impl Op {
    /// The same request once more, which may name its locks in another order.
    fn again(&self) -> Option<Op> {
        let mut op = self.clone();
        match &mut op {
            Op::Acquire { .. } => {}
            Op::AcquireMany { keys, .. } => keys.reverse(),
            _ => return None,
        }
        Some(op)
    }
}

fn ops(blocks: &[Option<u64>]) -> impl Strategy<Value = Vec<Op>> {
    cast(blocks).prop_flat_map(|cast| {
        let step = prop_oneof![
            7 => cast.op().prop_map(Step::New),
            1 => (1usize..6).prop_map(|back| Step::Again { back }),
        ];
        prop::collection::vec(step, 1..60).prop_map(|steps| {
            let mut ops: Vec<Op> = Vec::new();
            for step in steps {
                let op = match step {
                    Step::New(op) => Some(op),
                    Step::Again { back } => ops.iter().rev().nth(back - 1).and_then(Op::again),
                };
                ops.extend(op);
            }
            ops
        })
    })
}

/// Operations with waits of all kinds.
pub fn any_ops() -> impl Strategy<Value = Vec<Op>> {
    ops(&[None, None, Some(0), Some(0), Some(3), Some(15), Some(50)])
}

/// Operations whose callers wait as long as it takes.
pub fn ops_that_wait() -> impl Strategy<Value = Vec<Op>> {
    ops(&[Some(0)])
}
