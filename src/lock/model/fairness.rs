//! What is promised of those who wait, for one lock or for many at once:
//!
//! 1. No deadlock: a waiter holds none of the locks that it waits for. So from any state, if only
//!    the holds end, by release, by BREAK or with their leases, the waiter that came first of all
//!    heads all its queues and is granted, then the next; finitely many steps grant everybody.
//! 2. No starvation: nobody is granted a lock, from the queue or as a newcomer, while one that came
//!    before waits for that lock, alone or together with others. Whom somebody else passes, it has
//!    no lock in common with.

use proptest::prelude::*;

use super::ops::{self, Op};
use super::real::Real;
use super::{Answer, Both, Caller, Key, Told, KEYS};

/// Longer than any lease and any delay behind it.
const LONG_MS: u64 = 60;
/// A token that nobody uses.
const STRANGER: u8 = u8::MAX;

/// How the holds of a lock end.
#[derive(Clone, Copy, Debug)]
enum Way {
    Released,
    Broken,
    RunOut,
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![Just(Way::Released), Just(Way::Broken), Just(Way::RunOut)]
}

impl Both {
    /// Every hold that there is ends, and every delay.
    fn end_all_holds(&mut self, mut ways: impl Iterator<Item = Way>) {
        for key in 0..KEYS {
            match ways.next() {
                Some(Way::Released) => self.release_all(key),
                Some(Way::Broken) => self.run(&Op::Break { key }),
                Some(Way::RunOut) | None => self.run(&Op::Pass { ms: LONG_MS }),
            }
        }
        if self.naive.locks.iter().any(|lock| lock.closed.is_some()) {
            self.run(&Op::Pass { ms: LONG_MS });
        }
    }

    fn release_all(&mut self, key: Key) {
        for hold in self.naive.locks[key as usize].holds.clone() {
            // A lock may have been renamed to where its holder waits. RELEASE would end the wait.
            let waits_too = |wait: &super::naive::Wait| wait.token == hold.token && wait.keys.contains(&key);
            if self.naive.waits.iter().any(waits_too) {
                return self.run(&Op::Break { key });
            }
            for _ in 0..hold.holds {
                self.run(&Op::Release {
                    key,
                    token: hold.token,
                });
            }
        }
    }
}

/// Who waits, for what, in the order of arrival, as an onlooker writes it down.
#[derive(Default)]
struct Line(Vec<(Caller, Vec<Key>)>);

impl Line {
    fn position(&self, caller: Caller) -> Option<usize> {
        self.0.iter().position(|(other, _)| *other == caller)
    }

    fn leave(&mut self, caller: Caller) {
        let index = self.position(caller).expect("who is answered has waited");
        let (_, keys) = self.0.remove(index);
        let meets = |earlier: &&(Caller, Vec<Key>)| earlier.1.iter().any(|key| keys.contains(key));
        let passed = self.0[..index].iter().find(meets);
        assert_eq!(passed, None, "{caller} has passed it");
    }

    /// Watches what an operation of `caller` does to the line.
    fn watch(&mut self, real: &mut Real, caller: Caller, op: &Op) {
        let (fence_before, answers_before) = (real.engine.fences.last(), real.answers.len());
        let told = real.run(caller, op);
        let answers = real.answers[answers_before..].to_vec();
        let is_answered = |other: &Caller| answers.iter().any(|(answered, _)| answered == other);
        self.0
            .retain(|(other, _)| is_answered(other) || real.waiting.contains_key(other));
        let (mut is_superseding, mut from_queue) = (false, Vec::new());
        for (other, answer) in answers {
            match answer {
                Answer::Granted { fence, .. } => {
                    self.leave(other);
                    from_queue.push(fence.get());
                }
                Answer::Superseded => {
                    let index = self.position(other).unwrap();
                    self.0[index].0 = caller;
                    is_superseding = true;
                }
                _ => self.0.retain(|(answered, _)| *answered != other),
            }
        }
        let keys = match op {
            Op::Acquire { key, .. } => vec![*key],
            Op::AcquireMany { keys, .. } => keys.clone(),
            _ => return,
        };
        match told {
            Told::Waiting if !is_superseding => self.0.push((caller, keys)),
            // A newcomer that is granted on the spot passes whoever waits.
            Told::Fence(fence) if fence > fence_before && !from_queue.contains(&fence) => {
                self.0.push((caller, keys));
                self.leave(caller);
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn if_only_the_holds_end_everybody_who_waits_is_granted(
        ops in ops::ops_that_wait(),
        ways in prop::collection::vec(way(), 1..20),
    ) {
        let mut both = Both::new();
        ops.iter().for_each(|op| both.run(op));
        // A lock that moved in silence is known from when somebody asks for it.
        for key in 0..KEYS {
            both.run(&Op::Refresh { key, token: STRANGER, lease_ms: 1 });
        }
        let answers_before = both.real.answers.len();
        let mut ways = ways.iter().copied().cycle();
        while !both.real.waiting.is_empty() {
            let waiting = both.real.waiting.len();
            both.end_all_holds(ways.by_ref());
            prop_assert!(both.real.waiting.len() < waiting, "the one that came first is granted");
        }
        for (_, answer) in &both.real.answers[answers_before..] {
            let is_granted = matches!(answer, Answer::Granted { .. });
            prop_assert!(is_granted, "{:?}", answer);
        }
    }

    #[test]
    fn nobody_is_granted_a_lock_that_an_earlier_one_waits_for(ops in ops::any_ops()) {
        let (mut real, mut line) = (Real::new(), Line::default());
        for (caller, op) in ops.iter().enumerate() {
            line.watch(&mut real, caller, op);
        }
    }
}
