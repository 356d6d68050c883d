//! The balance as a plain key beside the lock: whoever writes is believed.

use std::thread;
use std::time::Duration;

use redis::{cmd, Connection};

use super::hammer::hammer;
use super::outcome::Visit;
use super::{Fallible, Purchase, Run, Servers, BALANCE, PRICE};

const KEY: &str = "flock-wallet:balance";

/// Puts the money in.
pub fn fill(connection: &mut Connection) -> Fallible<()> {
    write(connection, BALANCE)
}

pub fn read(connection: &mut Connection) -> Fallible<i64> {
    Ok(cmd("GET").arg(KEY).query(connection)?)
}

pub fn write(connection: &mut Connection, balance: i64) -> Fallible<()> {
    Ok(cmd("SET").arg(KEY).arg(balance).exec(connection)?)
}

pub fn remove(connection: &mut Connection) -> Fallible<()> {
    Ok(cmd("DEL").arg(KEY).exec(connection)?)
}

/// Reads, works, writes: right as long as nobody else writes in between.
pub fn spend(connection: &mut Connection, work: Duration) -> Fallible<Purchase> {
    let balance = read(connection)?;
    if balance < PRICE {
        return Ok(Purchase::Refused);
    }
    thread::sleep(work);
    write(connection, balance - PRICE)?;
    Ok(Purchase::Accepted)
}

/// Everybody at once, each with a token of its own, and a full wallet at the start.
pub fn shop(
    servers: &Servers,
    callers: usize,
    visit: impl Fn(&mut Connection, &str) -> Fallible<Visit> + Sync,
) -> Fallible<Run> {
    let mut connection = servers.redis()?;
    fill(&mut connection)?;
    let (visits, elapsed) = hammer(
        callers,
        || servers.redis(),
        |connection, caller| visit(connection, &format!("caller-{caller}")),
    )?;
    Ok(Run::new(&visits, read(&mut connection)?, elapsed))
}
