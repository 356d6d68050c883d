//! Many callers from one start line, each with a connection of its own.

use std::panic::resume_unwind;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::Fallible;

/// Runs `call` for each caller in a thread of its own. What each returned, in the callers' order, and how long it took
/// them all. Connections are there before the start, so that connecting does not stagger the callers.
pub fn hammer<Connection: Send, T: Send>(
    callers: usize,
    connect: impl Fn() -> Fallible<Connection>,
    call: impl Fn(&mut Connection, usize) -> Fallible<T> + Sync,
) -> Fallible<(Vec<T>, Duration)> {
    let connections = (0..callers)
        .map(|_| connect())
        .collect::<Fallible<Vec<Connection>>>()?;
    let start_line = Barrier::new(callers);
    let (start_line, call) = (&start_line, &call);
    thread::scope(|scope| {
        let callers: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(caller, mut connection)| {
                scope.spawn(move || {
                    start_line.wait();
                    (Instant::now(), call(&mut connection, caller))
                })
            })
            .collect();
        let (starts, results): (Vec<Instant>, Vec<Fallible<T>>) = callers
            .into_iter()
            .map(|caller| caller.join().unwrap_or_else(|payload| resume_unwind(payload)))
            .unzip();
        let elapsed = starts.iter().min().map_or(Duration::ZERO, Instant::elapsed);
        Ok((results.into_iter().collect::<Fallible<Vec<T>>>()?, elapsed))
    })
}
