//! Keeps a lease while the work goes on. When it cannot, the work is cancelled before the lease can have ended.
//!
//! It refreshes every third of the lease, and each refresh has a third to be answered. So the latest moment at which the
//! work is cancelled is two thirds after the last refresh that is known to have worked was sent. It has a connection of its
//! own: the worker's may be busy with the work.
//!
//! What it cannot do is to stop a worker that does not run at all: a paused machine wakes up after its lease. For
//! that the storage checks the fence (step 5).

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redis::Connection;

use super::flock::refresh;
use super::{Fallible, Servers};

/// The work was cancelled: the lock is another's, or soon may be.
#[derive(Debug, PartialEq)]
pub struct LeaseLost;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Keeping,
    /// The watchdog could not keep the lease.
    Lost,
    /// The worker is done.
    Stopped,
}

/// What the worker and its watchdog tell each other.
struct Shared {
    phase: Mutex<Phase>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().expect("nothing panics with the phase in hand")
    }

    /// A phase that has come stays.
    fn set(&self, phase: Phase) {
        let mut now = self.lock();
        if *now == Phase::Keeping {
            *now = phase;
            self.changed.notify_all();
        }
    }

    /// Sleeps until then, or until the phase changes. The phase afterwards.
    fn sleep_until(&self, end: Instant) -> Phase {
        let left = end.saturating_duration_since(Instant::now());
        let (phase, _) = self
            .changed
            .wait_timeout_while(self.lock(), left, |phase| *phase == Phase::Keeping)
            .expect("nothing panics with the phase in hand");
        *phase
    }
}

/// Refreshes until it is dropped, which also waits for its thread: no refresh is sent after that.
pub struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// The first refresh is sent at once: how old the grant is by now nobody knows, and how old a refresh is the
    /// watchdog does.
    pub fn start(servers: &Servers, token: &str, lease: Duration) -> Fallible<Watchdog> {
        let third = lease / 3;
        let mut connection = servers.redis.get_connection_with_timeout(third)?;
        connection.set_read_timeout(Some(third))?;
        connection.set_write_timeout(Some(third))?;
        let shared = Arc::new(Shared {
            phase: Mutex::new(Phase::Keeping),
            changed: Condvar::new(),
        });
        let (token, watched) = (token.to_owned(), Arc::clone(&shared));
        let thread = thread::spawn(move || keep(&mut connection, &watched, &token, lease));
        Ok(Watchdog {
            shared,
            thread: Some(thread),
        })
    }

    /// Works that long: a sleep stands for it. Ends early when the lease is lost.
    pub fn work(&self, duration: Duration) -> Result<(), LeaseLost> {
        match self.shared.sleep_until(Instant::now() + duration) {
            Phase::Lost => Err(LeaseLost),
            Phase::Keeping | Phase::Stopped => Ok(()),
        }
    }
}

fn keep(connection: &mut Connection, shared: &Shared, token: &str, lease: Duration) {
    loop {
        let next = Instant::now() + lease / 3;
        // No (another holds the lock) and no answer in time (nobody knows) come to the same.
        if !refresh(connection, token, lease).unwrap_or(false) {
            return shared.set(Phase::Lost);
        }
        if shared.sleep_until(next) == Phase::Stopped {
            return;
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.set(Phase::Stopped);
        if let Some(thread) = self.thread.take() {
            // It ends within a third of the lease. Its panic would be a bug that the worker need not share.
            let _ = thread.join();
        }
    }
}
