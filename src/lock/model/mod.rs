//! The engine against a naive model: random operations on a few locks by a few tokens, in every
//! mode, one lock at a time and many at once, with connections that close and time moved by hand.
//! The model keeps plain lists and searches them; after each operation both must agree on the
//! outcome, on every answer and its order, on all holders and closures, and on what ends next. A
//! replica that follows the effects must agree too, and on nobody's account may the rules be
//! broken that hold whatever the model says.
//!
//! What is promised of those who wait, for one lock or for many, is in [`fairness`].
//! proptest prints the operations that differ.

mod fairness;
mod naive;
mod ops;
mod real;
mod replica;

use naive::Naive;
use ops::Op;
use proptest::prelude::*;
use real::Real;

use super::{
    Acquired, Answer, Conflict, Effect, End, Engine, Fence, FenceSource, Instant, Lease, Limits, Lock, Mode,
    Now,
};
use super::{Place, Request, Token};

type Key = u8;
type Caller = usize;

const KEYS: Key = 4;
const CONNECTIONS: usize = 3;
const LIMITS: Limits = Limits {
    per_lock: 3,
    total: 5,
};

type Answers = Vec<(Caller, Answer)>;
/// Which holds have ended, and why.
type Ends = Vec<(Key, u64, End)>;
/// Each hold of a lock, and for which fence and until when it is closed.
type PlainLock = (Vec<PlainHold>, Option<(u64, u64)>);

/// A hold as both have it.
#[derive(Debug, PartialEq)]
struct PlainHold {
    token: Vec<u8>,
    fence: u64,
    deadline: u64,
    mode: Mode,
    holds: u32,
    delay_us: u64,
    session: Option<u64>,
}

/// What an operation told its own caller.
#[derive(Debug, PartialEq)]
enum Told {
    Nothing,
    Fence(u64),
    Busy,
    Waiting,
    QueueFull,
    Conflict(Conflict),
    Count(usize),
}

fn token_bytes(token: u8) -> Vec<u8> {
    format!("token-{token}").into_bytes()
}

fn after_ms(now: u64, ms: u64) -> u64 {
    now + ms * 1000
}

/// The engine and the model, side by side.
struct Both {
    naive: Naive,
    real: Real,
    operations: usize,
}

impl Both {
    fn new() -> Both {
        Both {
            naive: Naive::default(),
            real: Real::new(),
            operations: 0,
        }
    }

    fn run(&mut self, op: &Op) {
        let told = self.naive.run(self.operations, op);
        assert_eq!(self.real.run(self.operations, op), told, "{op:?}");
        self.operations += 1;
        self.compare();
        for key in 0..KEYS {
            self.check_rules(key);
        }
        if self.naive.headless.is_empty() {
            self.check_that_nobody_waits_in_vain();
        }
    }

    fn compare(&self) {
        let (naive, real) = (&self.naive, &self.real);
        assert_eq!(naive.answers, real.answers, "answers, in their order");
        assert_eq!(naive.ends, real.ends, "ends, in their order");
        assert_eq!(naive.last_fence, real.engine.fences.last());
        assert_eq!(naive.waits.len(), real.engine.queues().total());
        assert_eq!(
            naive.waits.len(),
            real.waiting.len(),
            "each waiter is answered once"
        );
        let next = (0..KEYS).filter_map(|key| naive.next_end(key)).min();
        assert_eq!(real.engine.next_lease_end(), next.map(|(at, _)| Instant(at)));
        let next = naive.waits.iter().filter_map(|wait| wait.until).min();
        assert_eq!(real.engine.next_wait_end(), next.map(|(at, _)| Instant(at)));
        let is_known = |lock: &&naive::NaiveLock| lock.holds.first().is_some_and(|hold| hold.entered > 0);
        assert_eq!(real.engine.held(), naive.locks.iter().filter(is_known).count());
        for key in 0..KEYS {
            assert_eq!(real.plain(key), naive.plain(key), "lock {key}");
            let lock = real.locks.get(&key);
            assert!(
                real.replica.agrees(key, lock),
                "a replica has lock {key} as {lock:?}"
            );
        }
    }

    /// What is true of every lock at any moment.
    fn check_rules(&self, key: Key) {
        let Some(lock) = self.real.locks.get(&key) else {
            return;
        };
        assert!(
            lock.is_held() || lock.closure().is_some(),
            "a key exists for a lock"
        );
        let holders = lock.holders();
        let has_room = match lock.mode() {
            Mode::Exclusive => holders.len() <= 1,
            Mode::Shared => true,
            Mode::Permits(n) => holders.len() <= n as usize,
        };
        assert!(has_room, "lock {key} has more holders than its mode allows");
        let is_twice = |index: usize| holders[..index].iter().any(|h| h.token == holders[index].token);
        assert!(!(0..holders.len()).any(is_twice), "a token holds lock {key} once");
    }

    /// No wake-up is lost: who heads the queues of all its locks is kept waiting by one of them.
    /// Only a lock that has moved in silence is not known yet to keep nobody waiting.
    fn check_that_nobody_waits_in_vain(&self) {
        let is_known = |key: &Key| self.naive.next_end(*key).is_some() || !self.real.locks.contains_key(key);
        for (index, wait) in self.naive.waits.iter().enumerate() {
            if self.naive.heads_all_queues(index) && wait.keys.iter().all(is_known) {
                let lock = |key: &Key| self.real.locks.get(key).cloned().unwrap_or_default();
                let is_granted = wait.keys.iter().all(|key| lock(key).admits(wait.ask.mode));
                assert!(!is_granted, "{wait:?} is next, and nothing keeps it waiting");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_engine_does_what_the_naive_model_does(ops in ops::any_ops()) {
        let mut both = Both::new();
        ops.iter().for_each(|op| both.run(op));
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
        reentrant: false,
        delay: Lease::ZERO,
        session: None,
    };
    let first = engine.acquire(place, &mut lock, &request(b"a"), &now);
    let second = engine.acquire(place, &mut lock, &request(b"b"), &now);
    let fence = |n| Fence::new(n).unwrap();
    assert_eq!((first, second), (Acquired::Held(fence(1)), Acquired::Busy));
    engine.wait(&[place], &request(b"b"), 7, None, Instant(2));
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
