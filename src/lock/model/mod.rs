//! The engine against a naive model: random operations on a few locks by a few tokens, in every
//! mode, with time moved by hand. The model keeps plain lists and searches them; after each
//! operation both must agree on the outcome, on every answer and its order, and on all holders.
//! proptest prints the operations that differ, and keeps their seed.

mod naive;
mod real;

use naive::{Hold, Naive};
use proptest::prelude::*;

use real::Real;

use super::{
    Acquired, Answer, Effect, End, Engine, Fence, FenceSource, Instant, Lease, Limits, Lock, Mode, Now,
};
use super::{Place, Request, Token};

type Key = u8;
type Caller = usize;

const LIMITS: Limits = Limits {
    per_lock: 3,
    total: 5,
};

#[derive(Clone, Debug)]
enum Op {
    Acquire {
        key: Key,
        token: u8,
        mode: Mode,
        lease_ms: u64,
        above: u64,
        block_ms: Option<u64>,
    },
    Refresh {
        key: Key,
        token: u8,
        lease_ms: u64,
    },
    Release {
        key: Key,
        token: u8,
    },
    Break {
        key: Key,
    },
    /// The oldest grant of that lock turns out not to have reached its caller.
    TakeBack {
        key: Key,
    },
    /// The caller of so many operations ago disconnects.
    Leave {
        back: usize,
    },
    Delete {
        key: Key,
    },
    /// The server may or may not say that a lock has moved.
    Rename {
        from: Key,
        to: Key,
        is_noticed: bool,
    },
    Flush,
    /// Time passes, and what is due is swept.
    Pass {
        ms: u64,
    },
    /// Time passes, and nothing is swept.
    PassUnswept {
        ms: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0u8..3;
    let token = || 0u8..5;
    let mode = prop_oneof![
        4 => Just(Mode::Exclusive),
        2 => Just(Mode::Shared),
        2 => (1u32..4).prop_map(Mode::Permits),
    ];
    let above = prop_oneof![9 => Just(0u64), 1 => 0u64..200];
    let block = prop::option::of(0u64..30);
    let acquire = (key(), token(), mode, 1u64..20, above, block).prop_map(
        |(key, token, mode, lease_ms, above, block_ms)| Op::Acquire {
            key,
            token,
            mode,
            lease_ms,
            above,
            block_ms,
        },
    );
    prop_oneof![
        8 => acquire,
        3 => (key(), token(), 1u64..20).prop_map(|(key, token, lease_ms)| Op::Refresh { key, token, lease_ms }),
        5 => (key(), token()).prop_map(|(key, token)| Op::Release { key, token }),
        1 => key().prop_map(|key| Op::Break { key }),
        1 => key().prop_map(|key| Op::TakeBack { key }),
        4 => (1usize..10).prop_map(|back| Op::Leave { back }),
        1 => key().prop_map(|key| Op::Delete { key }),
        1 => (key(), key(), any::<bool>()).prop_map(|(from, to, is_noticed)| Op::Rename { from, to, is_noticed }),
        1 => Just(Op::Flush),
        4 => (0u64..12).prop_map(|ms| Op::Pass { ms }),
        2 => (0u64..12).prop_map(|ms| Op::PassUnswept { ms }),
    ]
}

/// What an operation told its own caller.
#[derive(Debug, PartialEq)]
enum Told {
    Nothing,
    Fence(u64),
    Busy,
    Waiting,
    QueueFull,
    Count(usize),
}

fn token_bytes(token: u8) -> Vec<u8> {
    format!("token-{token}").into_bytes()
}

fn after_ms(now: u64, ms: u64) -> u64 {
    now + ms * 1000
}

fn compare(naive: &Naive, real: &Real) {
    assert_eq!(naive.answers, real.answers, "answers, in their order");
    assert_eq!(naive.last_fence, real.engine.fences.last());
    assert_eq!(naive.waiting(), real.engine.queues().total());
    assert_eq!(
        real.waiting.len(),
        naive.waiting(),
        "each waiter is answered once"
    );
    let known = |holds: &&Vec<Hold>| holds.first().is_some_and(|hold| hold.entered > 0);
    let deadlines = naive
        .holds
        .values()
        .filter(known)
        .flatten()
        .map(|hold| hold.deadline);
    assert_eq!(real.engine.next_lease_end(), deadlines.min().map(Instant));
    let held = naive.holds.values().filter(known).count();
    assert_eq!(real.engine.held(), held);
    for key in 0..3 {
        let holds = naive.holds.get(&key).map_or(&[][..], |h| h);
        let plain = |h: &Hold| (token_bytes(h.token), h.fence, h.deadline);
        assert_eq!(
            holds.iter().map(plain).collect::<Vec<_>>(),
            real.holds(key),
            "holders of {key}"
        );
        let fences: Vec<_> = holds.iter().map(|h| h.fence).collect();
        let told = real.told_fences.get(&key).cloned().unwrap_or_default();
        assert_eq!(told, fences, "what the effects tell of {key}");
        if let Some(first) = holds.first() {
            let most = first.mode.permits();
            assert!(most == 0 || holds.len() <= most as usize, "invariant 1");
            assert!(holds.iter().all(|h| h.mode == first.mode));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_naive_model_does(ops in prop::collection::vec(op(), 1..60)) {
        let (mut naive, mut real) = (Naive::default(), Real::new());
        for (caller, op) in ops.iter().enumerate() {
            prop_assert_eq!(naive.run(caller, op), real.run(caller, op), "{:?}", op);
            compare(&naive, &real);
        }
    }
}

/// The scene that the model cannot show by itself: effects name what happened, in which order.
#[test]
fn a_release_ends_the_hold_then_grants_then_answers() {
    let mut engine: Engine<Caller> = Engine::new(FenceSource::Counter);
    let mut lock = Lock::vacant();
    let place = Place { db: 0, key: b"lock" };
    let now = Now {
        mono: Instant(5),
        wall_us: 0,
    };
    let lease = Lease::from_ms(1).unwrap();
    let request = |token| Request {
        token,
        lease,
        above: 0,
        label: None,
        mode: Mode::Exclusive,
    };
    let first = engine.acquire(place, &mut lock, &request(b"a"), &now);
    let second = engine.acquire(place, &mut lock, &request(b"b"), &now);
    let fence = |n| Fence::new(n).unwrap();
    assert_eq!((first, second), (Acquired::Held(fence(1)), Acquired::Busy));
    engine.wait(place, &request(b"b"), 7, None, Instant(2));
    engine.take_effects();
    assert!(engine.release(place, &mut lock, b"a", &now));
    let answer = Answer::Granted {
        fence: fence(2),
        waited_us: 3,
    };
    assert_eq!(
        engine.take_effects(),
        [
            Effect::Ended(fence(1), End::Release),
            Effect::Granted(fence(2)),
            Effect::Answered(7, answer),
        ]
    );
    assert_eq!(lock.holders()[0].token, Token::new(b"b").unwrap());
}
