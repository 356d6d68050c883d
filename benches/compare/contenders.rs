//! The ways to lock that are compared, as the commands a client sends.

use crate::resp::{Connection, Reply};

pub const TOKEN: &str = "7f3c9a1e5b2d4860a9c1";
const LEASE_MS: &str = "60000";

/// Takes the lock, counts the fence up, and returns it: one step, so that no reader sees a lock without its fence.
const LUA_ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
    return redis.call('INCR', KEYS[2]) end return false";
const LUA_RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Contender {
    Flock,
    SetNx,
    Lua,
}

pub const ALL: [Contender; 3] = [Contender::Flock, Contender::SetNx, Contender::Lua];

/// The two commands of a pair, ready to send: arguments, still readable.
pub struct Pair {
    pub acquire: Vec<String>,
    pub release: Vec<String>,
}

impl Contender {
    pub fn name(self) -> &'static str {
        match self {
            Contender::Flock => "flock",
            Contender::SetNx => "SET NX",
            Contender::Lua => "Lua, fenced",
        }
    }

    pub fn is_flock(self) -> bool {
        self == Contender::Flock
    }

    /// What one pair is made of on this server; loads scripts where it needs them.
    pub fn pair(self, connection: &mut Connection, key: &str) -> Pair {
        let (acquire, release): (Vec<String>, Vec<String>) = match self {
            Contender::Flock => (
                words(&["FLOCK.ACQUIRE", key, TOKEN, "PX", LEASE_MS]),
                words(&["FLOCK.RELEASE", key, TOKEN]),
            ),
            Contender::SetNx => (
                words(&["SET", key, TOKEN, "NX", "PX", LEASE_MS]),
                compare_and_delete(connection, key),
            ),
            Contender::Lua => {
                let acquire = load(connection, LUA_ACQUIRE);
                let release = load(connection, LUA_RELEASE);
                let fence_key = format!("{key}:fence");
                (
                    words(&["EVALSHA", &acquire, "2", key, &fence_key, TOKEN, LEASE_MS]),
                    words(&["EVALSHA", &release, "1", key, TOKEN]),
                )
            }
        };
        Pair { acquire, release }
    }
}

/// The server's own compare-and-delete, or a bare DEL where it has none: cheaper, and not safe.
fn compare_and_delete(connection: &mut Connection, key: &str) -> Vec<String> {
    let candidates = [
        words(&["DELEX", key, "IFEQ", TOKEN]),
        words(&["DELIFEQ", key, TOKEN]),
        words(&["DEL", key]),
    ];
    candidates
        .into_iter()
        .find(|candidate| !matches!(call(connection, candidate), Reply::Error(_)))
        .expect("DEL works everywhere")
}

fn load(connection: &mut Connection, script: &str) -> String {
    connection.must(&["SCRIPT", "LOAD", script]).into_text()
}

fn call(connection: &mut Connection, arguments: &[String]) -> Reply {
    connection.call(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
