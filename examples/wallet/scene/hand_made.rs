//! The lock that people build from SET … NX PX, and the ways to give it back.

use std::thread;
use std::time::{Duration, Instant};

use redis::{cmd, Connection, Value};

use super::flock::{millis, PATIENCE};
use super::Fallible;

pub const KEY: &str = "flock-wallet:hand-made";
/// How often someone who waits asks again: the lock itself wakes nobody.
const POLL: Duration = Duration::from_millis(1);
const COMPARE_AND_DELETE: &str = "
    if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
    return 0";

/// How the lock is given back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Release {
    /// DEL, whosever it is by now.
    ByName,
    /// A script that compares the token first.
    Script,
    /// `DELEX key IFEQ token`, in Redis 8.4 and newer.
    Delex,
    /// `DELIFEQ key token`, in Valkey 9.0 and newer.
    Delifeq,
}

impl Release {
    pub fn name(self) -> &'static str {
        match self {
            Release::ByName => "DEL by name",
            Release::Script => "a script that compares",
            Release::Delex => "DELEX IFEQ",
            Release::Delifeq => "DELIFEQ",
        }
    }

    /// Those that ask whose lock it is, as far as this server has them.
    pub fn careful(connection: &mut Connection) -> Fallible<Vec<Release>> {
        let mut ways = vec![Release::Script];
        for (command, way) in [("DELEX", Release::Delex), ("DELIFEQ", Release::Delifeq)] {
            let info: Vec<Value> = cmd("COMMAND").arg("INFO").arg(command).query(connection)?;
            if matches!(info.as_slice(), [Value::Array(_)]) {
                ways.push(way);
            }
        }
        Ok(ways)
    }

    /// Gives the lock back, or what the caller takes for it. Whether a lock was removed.
    pub fn run(self, connection: &mut Connection, token: &str) -> Fallible<bool> {
        Ok(match self {
            Release::ByName => cmd("DEL").arg(KEY).query(connection)?,
            Release::Script => cmd("EVAL")
                .arg(COMPARE_AND_DELETE)
                .arg(1)
                .arg(KEY)
                .arg(token)
                .query(connection)?,
            Release::Delex => cmd("DELEX").arg(KEY).arg("IFEQ").arg(token).query(connection)?,
            Release::Delifeq => cmd("DELIFEQ").arg(KEY).arg(token).query(connection)?,
        })
    }
}

/// One try.
pub fn take(connection: &mut Connection, token: &str, lease: Duration) -> Fallible<bool> {
    let reply: Option<String> = cmd("SET")
        .arg(KEY)
        .arg(token)
        .arg("NX")
        .arg("PX")
        .arg(millis(lease))
        .query(connection)?;
    Ok(reply.is_some())
}

/// Tries until it is taken.
pub fn wait_and_take(connection: &mut Connection, token: &str, lease: Duration) -> Fallible<()> {
    let start = Instant::now();
    while !take(connection, token, lease)? {
        if start.elapsed() > PATIENCE {
            return Err(format!("{KEY} was not free within {PATIENCE:?}").into());
        }
        thread::sleep(POLL);
    }
    Ok(())
}

/// The token of the holder.
pub fn holder(connection: &mut Connection) -> Fallible<Option<String>> {
    Ok(cmd("GET").arg(KEY).query(connection)?)
}

pub fn remove(connection: &mut Connection) -> Fallible<()> {
    Ok(cmd("DEL").arg(KEY).exec(connection)?)
}
