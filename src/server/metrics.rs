//! What INFO shows of flock.

use std::ffi::CStr;

use super::state;
use crate::ffi::info::{Info, Section};
use crate::lock::{Answer, Effect, End, FenceSource};

/// Upper bounds of the classes of waiting time, in microseconds; what is longer is in the last.
const WAIT_BOUNDS_US: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
const WAIT_CLASSES: [&CStr; 6] = [c"le_1", c"le_10", c"le_100", c"le_1000", c"le_10000", c"more"];

/// Counts since the server started.
#[derive(Default)]
pub struct Metrics {
    pub grants: u64,
    pub handoffs: u64,
    pub refused_busy: u64,
    pub refused_queue_full: u64,
    pub waits_timed_out: u64,
    pub refreshes_refused: u64,
    pub releases_refused: u64,
    pub leases_expired: u64,
    pub breaks: u64,
    pub superseded: u64,
    pub grants_undelivered: u64,
    pub sessions_lost: u64,
    pub delays: u64,
    pub guards: u64,
    pub guards_refused: u64,
    wait_us_total: u64,
    waits: [u64; WAIT_CLASSES.len()],
}

impl Metrics {
    pub fn count<C>(&mut self, effects: &[Effect<C>]) {
        for effect in effects {
            match effect {
                Effect::Granted(_) => self.grants += 1,
                Effect::Renewed(_) | Effect::Opened(_) => {}
                Effect::Closed(_) => self.delays += 1,
                Effect::Ended(_, End::Release) => {}
                Effect::Ended(_, End::Session) => self.sessions_lost += 1,
                Effect::Ended(_, End::Expire) => self.leases_expired += 1,
                Effect::Ended(_, End::Break) => self.breaks += 1,
                Effect::Ended(_, End::Undelivered) => self.grants_undelivered += 1,
                Effect::Answered(_, answer) => self.count_answer(answer),
            }
        }
    }

    fn count_answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Granted { waited_us, .. } => {
                self.handoffs += 1;
                self.wait_us_total += waited_us;
                let class = WAIT_BOUNDS_US.iter().position(|bound| waited_us <= bound);
                self.waits[class.unwrap_or(WAIT_BOUNDS_US.len())] += 1;
            }
            Answer::TimedOut => self.waits_timed_out += 1,
            Answer::Superseded => self.superseded += 1,
            Answer::Released | Answer::WrongType | Answer::Unblocked | Answer::SlotMoved => {}
        }
    }
}

/// The section `flock` of INFO.
pub struct FlockInfo;

impl Info for FlockInfo {
    fn write(section: &Section) {
        state::with(|state| {
            let (engine, metrics) = (&state.engine, &state.metrics);
            section.number(c"held_locks", engine.held() as u64);
            section.number(c"waiters", engine.queues().total() as u64);
            section.number(c"waiters_peak", engine.queues().peak() as u64);
            section.number(c"grants", metrics.grants);
            section.number(c"handoffs", metrics.handoffs);
            section.number(c"refused_busy", metrics.refused_busy);
            section.number(c"refused_queue_full", metrics.refused_queue_full);
            section.number(c"waits_timed_out", metrics.waits_timed_out);
            section.number(c"refreshes_refused", metrics.refreshes_refused);
            section.number(c"releases_refused", metrics.releases_refused);
            section.number(c"leases_expired", metrics.leases_expired);
            section.number(c"breaks", metrics.breaks);
            section.number(c"superseded", metrics.superseded);
            section.number(c"grants_undelivered", metrics.grants_undelivered);
            section.number(c"sessions_lost", metrics.sessions_lost);
            section.number(c"delays", metrics.delays);
            section.number(c"guards", metrics.guards);
            section.number(c"guards_refused", metrics.guards_refused);
            section.number(c"last_fence", engine.fences.last());
            let source = match engine.fences.source {
                FenceSource::Clock => c"clock",
                FenceSource::Counter => c"counter",
            };
            section.word(c"fence_source", source);
            let followers = match state.followers.may_be_there() {
                true => c"possible",
                false => c"none",
            };
            section.word(c"followers", followers);
            section.number(c"wait_us_total", metrics.wait_us_total);
            section.numbers(c"wait_ms", WAIT_CLASSES.into_iter().zip(metrics.waits));
        });
    }
}
