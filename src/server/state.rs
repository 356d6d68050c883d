//! All that the module keeps beside the keys of the server.

use std::collections::HashMap;

use lazy_static::lazy_static;

use super::followers::Followers;
use super::metrics::Metrics;
use super::quirks::Quirks;
use super::settings::Settings;
use super::waiters::{Caller, FreshGrant, Names};
use super::warnings::Warned;
use crate::ffi::blocked::HandleId;
use crate::ffi::global::Global;
use crate::lock::deadlines::Deadlines;
use crate::lock::{Effect, Engine, Fence, FenceSource, Instant, LockName, Session, WaiterId};

lazy_static! {
    static ref STATE: Global<State> = Global::new(State::new());
}

/// Lends the state to `body`, which must not call the server back: see [`Global::with`].
pub fn with<R>(body: impl FnOnce(&mut State) -> R) -> R {
    STATE.with(body)
}

pub struct State {
    pub engine: Engine<Caller>,
    pub settings: Settings,
    pub metrics: Metrics,
    /// Whether this server decides about locks; a replica only follows.
    pub is_primary: bool,
    pub is_cluster: bool,
    pub followers: Followers,
    /// The waiters by their blocked clients.
    pub waiting: HashMap<HandleId, WaiterId>,
    pub todo: Todo,
    /// Grants whose replies have been written, but perhaps not sent, in this pass of the loop.
    pub fresh_grants: Vec<FreshGrant>,
    pub quirks: Quirks,
    pub warned: Warned,
    /// Locks whose leases are over, but which this node of a cluster does not serve, or not yet:
    /// when to look again.
    pub parked: Deadlines<LockName>,
    /// How many replicas must follow before this server takes writes; 0 for no such rule.
    pub min_replicas: u64,
    /// Whether a guarded command runs at this moment.
    pub is_guarding: bool,
    /// Whether FLOCK.GUARD refuses a command, by its name in lower case.
    pub guard_verdicts: HashMap<Box<[u8]>, bool>,
    /// When the sweep is due next.
    pub next_sweep: Option<Instant>,
}

/// What was noticed where nothing may be written, to be done before the event loop sleeps.
#[derive(Default)]
pub struct Todo {
    /// Locks that may have come free: their queues are to be looked at.
    pub settle: Vec<LockName>,
    /// Locks that were loaded or have moved: their leases are to be entered anew.
    pub adopt: Vec<LockName>,
    /// Grants that did not reach their callers, each with its locks.
    pub take_back: Vec<(Names, Fence)>,
    /// Holds whose connections were closed.
    pub lost_sessions: Vec<(LockName, Fence, Session)>,
    /// A child was forked, perhaps to write an AOF file.
    pub look_at_child: bool,
    /// The fence register is to be written at the head of a new AOF file.
    pub register_to_aof: bool,
    /// The server's settings are to be checked for what endangers locks.
    pub check_settings: bool,
    /// Whether anybody follows this server is to be found out.
    pub check_followers: bool,
    /// Clients that a server bug may have left without an answer (see [`Quirks`]).
    pub unanswered: Vec<u64>,
}

impl Todo {
    pub fn is_empty(&self) -> bool {
        !(self.look_at_child || self.register_to_aof || self.check_settings || self.check_followers)
            && self.settle.is_empty()
            && self.adopt.is_empty()
            && self.take_back.is_empty()
            && self.lost_sessions.is_empty()
            && self.unanswered.is_empty()
    }
}

impl State {
    fn new() -> State {
        State {
            engine: Engine::new(FenceSource::Clock),
            settings: Settings::default(),
            metrics: Metrics::default(),
            is_primary: true,
            is_cluster: false,
            followers: Followers::default(),
            waiting: HashMap::new(),
            todo: Todo::default(),
            fresh_grants: Vec::new(),
            quirks: Quirks::default(),
            warned: Warned::default(),
            parked: Deadlines::default(),
            min_replicas: 0,
            is_guarding: false,
            guard_verdicts: HashMap::new(),
            next_sweep: None,
        }
    }

    /// What the engine's last operation left to be done: the effects are counted here, once, and
    /// the locks that are to be settled are noted.
    pub fn take_effects(&mut self) -> Vec<Effect<Caller>> {
        let effects = self.engine.take_effects();
        self.note(&effects);
        effects
    }

    /// The same, for effects that the engine has handed over already.
    pub fn note(&mut self, effects: &[Effect<Caller>]) {
        self.todo.settle.append(&mut self.engine.take_unsettled());
        self.metrics.count(effects);
    }

    /// When something ends next that this server has to end.
    pub fn next_deadline(&self) -> Option<Instant> {
        let lease = self.engine.next_lease_end().filter(|_| self.is_primary);
        let wait = self.engine.next_wait_end();
        lease.into_iter().chain(wait).chain(self.parked.next()).min()
    }

    /// The same, if it comes before the next sweep.
    pub fn nearer_deadline(&self) -> Option<Instant> {
        let next = self.next_deadline()?;
        self.next_sweep.is_none_or(|at| next < at).then_some(next)
    }
}
