//! A client of a whole cluster, as client libraries are: it follows redirections, and asks again,
//! with the same token, where its question was lost.

use std::collections::hash_map::{Entry, HashMap};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::*;

/// Whoever waits so long for one answer hangs.
pub const HANG: Duration = Duration::from_secs(40);
/// The longest that a question may be sent to and fro.
const ODYSSEY: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

pub struct Rover {
    ports: Vec<u16>,
    /// The node that is asked first.
    port: u16,
    connections: HashMap<u16, Client>,
}

/// What an answer means for the next step.
enum Step {
    Done,
    /// The slot is served there.
    Moved(u16),
    /// This one question is for that node.
    Ask(u16),
    /// The same node again, in a moment.
    Again,
    /// Any other node.
    Elsewhere,
}

impl Rover {
    pub fn new(ports: &[u16]) -> Rover {
        Rover {
            ports: ports.to_vec(),
            port: ports[0],
            connections: HashMap::new(),
        }
    }

    /// Runs a command of plain words wherever its keys are. Redirections and other reasons to go
    /// elsewhere are followed; any other error is an answer. The question counts as sent when it first was,
    /// and as lost if a connection ended before it answered.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> Heard {
        let sent = Instant::now();
        let mut was_lost = false;
        let mut port = self.port;
        let mut is_asking = false;
        loop {
            let reply = self.attempt(port, is_asking, line);
            was_lost |= reply == Reply::Closed;
            is_asking = false;
            match step_after(&reply) {
                Step::Done => {
                    return Heard {
                        reply,
                        port,
                        sent,
                        received: Instant::now(),
                        was_lost,
                    }
                }
                Step::Moved(to) => self.port = to,
                Step::Ask(to) => {
                    port = to;
                    is_asking = true;
                    continue;
                }
                Step::Again => thread::sleep(PAUSE),
                Step::Elsewhere => {
                    self.port = self.next_port();
                    thread::sleep(PAUSE);
                }
            }
            assert!(sent.elapsed() < ODYSSEY, "sent to and fro: {line}: {reply:?}");
            port = self.port;
        }
    }

    fn next_port(&self) -> u16 {
        let place = self.ports.iter().position(|port| *port == self.port);
        self.ports[place.map_or(0, |place| (place + 1) % self.ports.len())]
    }

    #[track_caller]
    fn attempt(&mut self, port: u16, is_asking: bool, line: &str) -> Reply {
        let client = match self.connections.entry(port) {
            Entry::Occupied(place) => place.into_mut(),
            Entry::Vacant(place) => match Client::connect(port, Protocol::Resp2) {
                Ok(client) => place.insert(client),
                Err(_) => return Reply::Error("REFUSED".to_owned()),
            },
        };
        if is_asking {
            client.send_line("ASKING");
        }
        client.send_line(line);
        let mut reply = client.receive_within(HANG);
        if is_asking && reply.as_ref().is_some_and(|reply| *reply == OK) {
            reply = client.receive_within(HANG);
        }
        let reply = reply.unwrap_or_else(|| panic!("no answer from {port} within {HANG:?}: {line}"));
        if reply == Reply::Closed {
            self.connections.remove(&port);
        }
        reply
    }
}

fn step_after(reply: &Reply) -> Step {
    let error = match reply {
        Reply::Closed => return Step::Elsewhere,
        Reply::Error(error) => error,
        _ => return Step::Done,
    };
    // The port is the last thing in `MOVED 866 127.0.0.1:7001`.
    let port = || {
        let port = error.rsplit(':').next().and_then(|port| port.parse().ok());
        port.unwrap_or_else(|| panic!("no port in {error}"))
    };
    match reply.error_word() {
        "MOVED" => Step::Moved(port()),
        "ASK" => Step::Ask(port()),
        "TRYAGAIN" | "UNBLOCKED" => Step::Again,
        "REFUSED" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" => Step::Elsewhere,
        _ => Step::Done,
    }
}

/// Why a waiter was sent away.
pub fn word_of(reply: &Reply) -> &str {
    match reply {
        Reply::Closed => "closed",
        reply => reply.error_word(),
    }
}
