//! Step 3: work that outlives its lease, without and with a watchdog.

use redis::Connection;

use super::outcome::Visit;
use super::redis_wallet::{self, shop, spend};
use super::watchdog::{LeaseLost, Watchdog};
use super::{flock, Fallible, Purchase, Run, Servers, Terms, PRICE};

pub fn without_a_watchdog(servers: &Servers, terms: Terms) -> Fallible<Run> {
    shop(servers, terms.callers, |connection, token| {
        flock::acquire(connection, token, terms.lease)?;
        let purchase = spend(connection, terms.work)?;
        Ok(Visit::released(purchase, flock::release(connection, token)?))
    })
}

pub fn with_a_watchdog(servers: &Servers, terms: Terms) -> Fallible<Run> {
    shop(servers, terms.callers, |connection, token| {
        flock::acquire(connection, token, terms.lease)?;
        let watchdog = Watchdog::start(servers, token, terms.lease)?;
        let purchase = spend_while_held(connection, &watchdog, terms)?;
        drop(watchdog);
        Ok(Visit::released(purchase, flock::release(connection, token)?))
    })
}

/// Reads, works, writes, and writes nothing once the lease is lost.
pub fn spend_while_held(
    connection: &mut Connection,
    watchdog: &Watchdog,
    terms: Terms,
) -> Fallible<Purchase> {
    let balance = redis_wallet::read(connection)?;
    if balance < PRICE {
        return Ok(Purchase::Refused);
    }
    if watchdog.work(terms.work) == Err(LeaseLost) {
        return Ok(Purchase::Cancelled);
    }
    redis_wallet::write(connection, balance - PRICE)?;
    Ok(Purchase::Accepted)
}
