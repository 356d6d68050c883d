//! Instructions the server spends on one acquire and its release, nobody else about: the difference of a long and a
//! short run under callgrind, so that start-up, scripts' loading and shutdown cancel out.

use crate::contenders::{Contender, Pair, TOKEN};
use crate::resp::{encode, Connection};
use crate::server::{Server, Setup};

/// Pairs sent in one write when pipelining.
pub const PIPELINE: usize = 50;

#[derive(Clone, Copy, PartialEq)]
pub enum Style {
    OneByOne,
    Pipelined,
}

pub struct Cost {
    pub instructions: f64,
    /// The commands' names, for the table.
    pub commands: String,
}

pub fn measure(setup: &Setup, contender: Contender, style: Style, pairs: usize) -> Cost {
    let (short, long) = (pairs / 4, pairs);
    let (few, _) = run(setup, contender, style, short);
    let (many, commands) = run(setup, contender, style, long);
    Cost {
        instructions: (many - few) / (long - short) as f64,
        commands,
    }
}

fn run(setup: &Setup, contender: Contender, style: Style, pairs: usize) -> (f64, String) {
    let server = Server::start(setup);
    let mut connection = server.connect();
    let pair = contender.pair(&mut connection, "bench:lock");
    let (acquire, release) = (bytes(&pair.acquire), bytes(&pair.release));
    match style {
        Style::OneByOne => {
            for _ in 0..pairs {
                exchange(&mut connection, &acquire, 1);
                exchange(&mut connection, &release, 1);
            }
        }
        Style::Pipelined => {
            let batch = [acquire, release].concat().repeat(PIPELINE);
            for _ in 0..pairs / PIPELINE {
                exchange(&mut connection, &batch, 2 * PIPELINE);
            }
        }
    }
    (server.instructions(), names(&pair))
}

/// Sends and reads the replies; every one of them must be a success, or the comparison is of failures.
fn exchange(connection: &mut Connection, bytes: &[u8], replies: usize) {
    connection.send(bytes);
    for _ in 0..replies {
        let reply = connection.read();
        assert!(reply.is_granted(), "a pair failed: {reply:?}");
    }
}

fn bytes(command: &[String]) -> Vec<u8> {
    encode(&command.iter().map(String::as_str).collect::<Vec<_>>())
}

fn names(pair: &Pair) -> String {
    let name = |command: &[String]| match command[0].as_str() {
        "SET" => "SET NX PX".to_owned(),
        "DELEX" => "DELEX IFEQ".to_owned(),
        "DEL" => "DEL (unsafe)".to_owned(),
        other => other.to_owned(),
    };
    let (acquire, release) = (name(&pair.acquire), name(&pair.release));
    debug_assert!(!acquire.contains(TOKEN) && !release.contains(TOKEN));
    format!("{acquire} + {release}")
}
