//! A client as client libraries are: it asks the sentinels where the primary is, and where its question
//! was lost it asks again, with the same token.

use std::thread;
use std::time::{Duration, Instant};

use crate::stage::named_primary;
use crate::support::*;

/// Whoever waits so long for one answer, failover included, hangs.
const HANG: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);
/// How often a caller that waits asks whether its primary is still the primary. Client libraries are
/// told so, by `+switch-master`.
const LOOK_AROUND: Duration = Duration::from_millis(200);

pub struct Caller {
    sentinel: Client,
    /// The primary, as the sentinel named it last, and the connection to it.
    primary: Option<(u16, Client)>,
}

impl Caller {
    #[track_caller]
    pub fn new(sentinel_port: u16) -> Caller {
        Caller {
            sentinel: Client::connect(sentinel_port, Protocol::Resp2).expect("a connection"),
            primary: None,
        }
    }

    /// Runs a command of plain words on the primary, whichever that is by then. The question counts as sent
    /// when it was sent to the one that answered.
    #[track_caller]
    pub fn insist(&mut self, line: &str) -> Heard {
        let start = Instant::now();
        let mut was_lost = false;
        loop {
            if let Some(heard) = self.attempt(line, start) {
                return Heard { was_lost, ..heard };
            }
            was_lost = true;
            assert!(start.elapsed() < HANG, "no answer within {HANG:?}: {line}");
            self.primary = None;
            thread::sleep(PAUSE);
        }
    }

    /// One primary's answer; none if it is not, or not any more, the primary.
    #[track_caller]
    fn attempt(&mut self, line: &str, start: Instant) -> Option<Heard> {
        let port = named_primary(&mut self.sentinel)?;
        if self
            .primary
            .as_ref()
            .is_none_or(|(connected, _)| *connected != port)
        {
            let client = Client::connect(port, Protocol::Resp2).ok()?;
            self.primary = Some((port, client));
        }
        let (_, client) = self.primary.as_mut()?;
        let sent = Instant::now();
        client.send_line(line);
        loop {
            match client.receive_within(LOOK_AROUND) {
                Some(reply) => {
                    let received = Instant::now();
                    return is_an_answer(&reply).then_some(Heard {
                        reply,
                        port,
                        sent,
                        received,
                        was_lost: false,
                    });
                }
                None if named_primary(&mut self.sentinel) != Some(port) => return None,
                None => assert!(start.elapsed() < HANG, "no answer within {HANG:?}: {line}"),
            }
        }
    }
}

/// Whether it is what a primary says to the question, and no reason to ask another one.
#[track_caller]
fn is_an_answer(reply: &Reply) -> bool {
    match reply {
        Reply::Closed => false,
        Reply::Error(text) => {
            let word = reply.error_word();
            let is_known = ["UNBLOCKED", "READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS"].contains(&word);
            assert!(is_known, "an error that no failover explains: {text}");
            false
        }
        _ => true,
    }
}
