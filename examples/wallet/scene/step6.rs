//! Step 6: everybody at once, with a lease that is much too short for the work. The lock is then as good as none, and
//! the storage alone decides.

use redis::Connection;

use super::hammer::hammer;
use super::outcome::Visit;
use super::postgres_wallet::{Guard, PostgresWallet};
use super::{flock, Fallible, Purchase, Run, Servers, Terms};

/// Under the lock, with the writes guarded.
pub fn with_flock(servers: &Servers, terms: Terms, guard: Guard) -> Fallible<Run> {
    let connect = || Ok((servers.redis()?, servers.postgres()?));
    let visit = |(redis, wallet): &mut (Connection, PostgresWallet), caller| {
        let token = format!("caller-{caller}");
        let fence = flock::acquire(redis, &token, terms.lease)?;
        let purchase = wallet.spend(guard, fence, terms.work)?;
        Ok(Visit::released(purchase, flock::release(redis, &token)?))
    };
    shop(servers, terms.callers, connect, visit)
}

/// What PostgreSQL can do alone, in either of its ways.
pub fn with_postgres_alone(
    servers: &Servers,
    callers: usize,
    spend: impl Fn(&mut PostgresWallet) -> Fallible<Purchase> + Sync,
) -> Fallible<Run> {
    let visit = |wallet: &mut PostgresWallet, _| spend(wallet).map(Visit::without_a_lock);
    shop(servers, callers, || servers.postgres(), visit)
}

fn shop<Connections: Send>(
    servers: &Servers,
    callers: usize,
    connect: impl Fn() -> Fallible<Connections>,
    visit: impl Fn(&mut Connections, usize) -> Fallible<Visit> + Sync,
) -> Fallible<Run> {
    let mut wallet = servers.postgres()?;
    wallet.fill(0)?;
    let (visits, elapsed) = hammer(callers, connect, visit)?;
    Ok(Run::new(&visits, wallet.read()?.balance, elapsed))
}
