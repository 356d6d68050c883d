//! Hand-offs: one lock, many waiters, each of which releases at once when it is its turn and queues again.
//! flock's queue against the token in a list that BLPOP waits for, which has no lease and no fence.
//!
//! Both queues are first come first served, so the next reply is known to come on the next connection: one thread
//! drives them all, and checks the order as it goes.

use std::time::{Duration, Instant};

use crate::contenders::Contender;
use crate::resp::{encode, Connection};
use crate::server::{Server, Setup};

const LOCK: &str = "bench:queue";
/// Hand-offs between two looks at the clock.
const CHUNK: usize = 100;

#[derive(Clone, Copy, PartialEq)]
pub enum Queue {
    Flock,
    Blpop,
}

pub const QUEUES: [Queue; 2] = [Queue::Flock, Queue::Blpop];

impl Queue {
    pub fn name(self) -> &'static str {
        match self {
            Queue::Flock => "flock",
            Queue::Blpop => "BLPOP token",
        }
    }

    /// The lock's commands belong to flock's server; a list needs no module.
    pub fn contender(self) -> Contender {
        match self {
            Queue::Flock => Contender::Flock,
            Queue::Blpop => Contender::SetNx,
        }
    }

    fn wait(self, waiter: usize) -> Vec<u8> {
        let token = format!("waiter-{waiter}");
        match self {
            Queue::Flock => encode(&["FLOCK.ACQUIRE", LOCK, &token, "PX", "600000", "BLOCK", "0"]),
            Queue::Blpop => encode(&["BLPOP", LOCK, "0"]),
        }
    }

    fn release(self, waiter: usize) -> Vec<u8> {
        let token = format!("waiter-{waiter}");
        match self {
            Queue::Flock => encode(&["FLOCK.RELEASE", LOCK, &token]),
            Queue::Blpop => encode(&["RPUSH", LOCK, "token"]),
        }
    }
}

/// One server, its lock held by the first of the connections, all others waiting in order.
struct Line {
    server: Server,
    queue: Queue,
    connections: Vec<Connection>,
    turn: usize,
}

impl Line {
    fn form(setup: &Setup, queue: Queue, waiters: usize) -> Line {
        let server = Server::start(setup);
        let mut control = server.connect();
        if queue == Queue::Blpop {
            control.must(&["RPUSH", LOCK, "token"]);
        }
        let mut connections: Vec<Connection> = (0..=waiters).map(|_| server.connect()).collect();
        for (waiter, connection) in connections.iter_mut().enumerate() {
            connection.send(&queue.wait(waiter));
            settle(&mut control);
        }
        assert_waiting(&server, waiters);
        Line {
            server,
            queue,
            connections,
            turn: 0,
        }
    }

    fn pass_on(&mut self, times: usize) {
        for _ in 0..times {
            let connection = &mut self.connections[self.turn];
            let granted = connection.read();
            assert!(granted.is_granted(), "not granted in turn: {granted:?}");
            connection.send(&self.queue.release(self.turn));
            let released = connection.read();
            assert!(released.is_granted(), "not released: {released:?}");
            connection.send(&self.queue.wait(self.turn));
            self.turn = (self.turn + 1) % self.connections.len();
        }
    }
}

/// Lets the server take what was sent to it so far: what other connections send from now on comes later.
fn settle(control: &mut Connection) {
    control.must(&["PING"]);
}

fn assert_waiting(server: &Server, waiters: usize) {
    assert_eq!(server.info("blocked_clients"), waiters.to_string());
}

pub struct Rate {
    pub per_second: f64,
    pub server_cpu_us: f64,
}

/// As many hand-offs as fit in `time`.
pub fn rate(setup: &Setup, queue: Queue, waiters: usize, time: Duration) -> Rate {
    let mut line = Line::form(setup, queue, waiters);
    line.pass_on(CHUNK);
    let (start, cpu) = (Instant::now(), line.server.cpu_us());
    let mut handoffs = 0;
    while start.elapsed() < time {
        line.pass_on(CHUNK);
        handoffs += CHUNK;
    }
    Rate {
        per_second: handoffs as f64 / start.elapsed().as_secs_f64(),
        server_cpu_us: (line.server.cpu_us() - cpu) / handoffs as f64,
    }
}

/// Instructions per hand-off: what must not grow with the queue, free of the machine's noise.
pub fn instructions(setup: &Setup, queue: Queue, waiters: usize, handoffs: usize) -> f64 {
    let run = |handoffs| {
        let mut line = Line::form(setup, queue, waiters);
        line.pass_on(handoffs);
        line.server.instructions()
    };
    let (short, long) = (handoffs / 4, handoffs);
    (run(long) - run(short)) / (long - short) as f64
}

/// What one waiter costs the server beyond its idle connection, in bytes.
pub fn memory_per_waiter(setup: &Setup, queue: Queue, waiters: usize) -> f64 {
    let server = Server::start(setup);
    let mut control = server.connect();
    let mut connections: Vec<Connection> = (0..=waiters).map(|_| server.connect()).collect();
    for connection in &mut connections {
        connection.must(&["PING"]);
    }
    if queue == Queue::Flock {
        control.must(&["FLOCK.ACQUIRE", LOCK, "holder", "PX", "600000"]);
    }
    let before = server.used_memory();
    for (waiter, connection) in connections.iter_mut().enumerate() {
        connection.send(&queue.wait(waiter));
    }
    settle(&mut control);
    assert_waiting(&server, connections.len());
    (server.used_memory() - before) / connections.len() as f64
}
