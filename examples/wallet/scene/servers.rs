//! The servers that a scene plays on.

use postgres::NoTls;
use redis::Connection;

use super::postgres_wallet::PostgresWallet;
use super::Fallible;

pub struct Servers {
    pub redis: redis::Client,
    postgres: Option<postgres::Config>,
}

impl Servers {
    /// `postgres` is a URL or a line of `key=value` words. Only steps 5 and 6 need it.
    pub fn new(redis: &str, postgres: Option<&str>) -> Fallible<Servers> {
        Ok(Servers {
            redis: redis::Client::open(redis)?,
            postgres: postgres.map(str::parse).transpose()?,
        })
    }

    pub fn redis(&self) -> Fallible<Connection> {
        Ok(self.redis.get_connection()?)
    }

    pub fn postgres(&self) -> Fallible<PostgresWallet> {
        let config = self.postgres.as_ref().ok_or("this needs a PostgreSQL")?;
        Ok(PostgresWallet::new(config.connect(NoTls)?))
    }

    pub fn has_postgres(&self) -> bool {
        self.postgres.is_some()
    }
}
