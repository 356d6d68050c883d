//! The balance in PostgreSQL, which can refuse a write: table `wallets(id, balance, fence)`, in a schema of its own so
//! that it meets no table of yours. `fence` is the fence of the last write.

use std::thread;
use std::time::Duration;

use postgres::Client;

use super::{Fallible, Purchase, BALANCE, PRICE};

const SET_UP: &str = "
    CREATE SCHEMA IF NOT EXISTS flock_wallet;
    CREATE TABLE IF NOT EXISTS flock_wallet.wallets (
        id      bigint PRIMARY KEY,
        balance bigint NOT NULL CHECK (balance >= 0),
        fence   bigint NOT NULL
    );
    INSERT INTO flock_wallet.wallets VALUES (1, 0, 0) ON CONFLICT DO NOTHING;";
const FILL: &str = "UPDATE flock_wallet.wallets SET balance = $1, fence = $2 WHERE id = 1";
const READ: &str = "SELECT balance, fence FROM flock_wallet.wallets WHERE id = 1";
const READ_AND_LOCK: &str = "SELECT balance FROM flock_wallet.wallets WHERE id = 1 FOR UPDATE";
const WRITE_LOCKED: &str = "UPDATE flock_wallet.wallets SET balance = $1 WHERE id = 1";
const SPEND: &str = "UPDATE flock_wallet.wallets SET balance = balance - $1 WHERE id = 1 AND balance >= $1";

/// What a writer must show before its balance is believed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Guard {
    /// Nothing.
    Nothing,
    /// A fence newer than that of the last write.
    Newer,
    /// A fence not older than that of the last write, so that a holder may write twice.
    NotOlder,
    /// A newer fence, and that nobody has written since it read.
    NewerAndUnchanged,
}

impl Guard {
    /// The condition in SQL: `$2` is the writer's fence, `$3` the fence that it read with the balance.
    pub fn condition(self) -> &'static str {
        match self {
            Guard::Nothing => "",
            Guard::Newer => " AND fence < $2",
            Guard::NotOlder => " AND fence <= $2",
            Guard::NewerAndUnchanged => " AND fence < $2 AND fence = $3",
        }
    }
}

/// What a caller read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    pub balance: i64,
    pub fence: i64,
}

/// One connection to the table.
pub struct PostgresWallet {
    client: Client,
}

impl PostgresWallet {
    pub fn new(client: Client) -> PostgresWallet {
        PostgresWallet { client }
    }

    /// Makes the table where it is missing, and puts the money in, as if it had last been written under `fence`.
    pub fn fill(&mut self, fence: i64) -> Fallible<()> {
        self.client.batch_execute(SET_UP)?;
        self.client.execute(FILL, &[&BALANCE, &fence])?;
        Ok(())
    }

    pub fn read(&mut self) -> Fallible<Seen> {
        let row = self.client.query_one(READ, &[])?;
        Ok(Seen {
            balance: row.get(0),
            fence: row.get(1),
        })
    }

    /// Writes what is left after a purchase of someone who read `seen` and holds the lock under `fence`, or so it
    /// believes. False where the guard refuses.
    pub fn write(&mut self, guard: Guard, seen: Seen, fence: i64) -> Fallible<bool> {
        let condition = guard.condition();
        let update =
            format!("UPDATE flock_wallet.wallets SET balance = $1, fence = $2 WHERE id = 1{condition}");
        let left = seen.balance - PRICE;
        let rows = match guard {
            Guard::NewerAndUnchanged => self.client.execute(&update, &[&left, &fence, &seen.fence])?,
            _ => self.client.execute(&update, &[&left, &fence])?,
        };
        Ok(rows == 1)
    }

    /// Reads, works, writes, under a guard.
    pub fn spend(&mut self, guard: Guard, fence: i64, work: Duration) -> Fallible<Purchase> {
        let seen = self.read()?;
        if seen.balance < PRICE {
            return Ok(Purchase::Refused);
        }
        thread::sleep(work);
        match self.write(guard, seen, fence)? {
            true => Ok(Purchase::Accepted),
            false => Ok(Purchase::Rejected),
        }
    }

    /// The same under PostgreSQL's own row lock. It keeps a transaction, and so a connection, while the work goes on.
    pub fn spend_under_a_row_lock(&mut self, work: Duration) -> Fallible<Purchase> {
        let mut transaction = self.client.transaction()?;
        let balance: i64 = transaction.query_one(READ_AND_LOCK, &[])?.get(0);
        if balance < PRICE {
            return Ok(Purchase::Refused);
        }
        thread::sleep(work);
        transaction.execute(WRITE_LOCKED, &[&(balance - PRICE)])?;
        transaction.commit()?;
        Ok(Purchase::Accepted)
    }

    /// One statement that needs no lock: possible where the work is not between the reading and the writing.
    pub fn spend_in_one_statement(&mut self) -> Fallible<Purchase> {
        match self.client.execute(SPEND, &[&PRICE])? {
            1 => Ok(Purchase::Accepted),
            _ => Ok(Purchase::Refused),
        }
    }

    /// Takes the schema away again.
    pub fn remove(&mut self) -> Fallible<()> {
        Ok(self
            .client
            .batch_execute("DROP SCHEMA IF EXISTS flock_wallet CASCADE")?)
    }
}
