//! What can be asked for on the command line.

use clap::Parser;

use super::scene::Terms;

const STEPS: std::ops::RangeInclusive<u8> = 1..=6;

const AFTER_HELP: &str = "\
The wallet holds 100, each caller wants to spend 10: ten can buy, and after so many purchases the balance must be
100 - 10 x accepted. If it is, the run is OK; if not, it is BROKEN: more was sold than was paid for.

Steps, and the defaults of their --callers, --work-ms, --lease-ms:
  1  the race: everybody reads, works, writes, without a lock                      50, 2, -
  2  the lock; beside it those that people build from SET NX                       50, 2, 10000
  3  work that outlives its lease, without and with a watchdog                     5, 300, 100
  4  how callers wait: polling, with jitter, or in flock's queue                   50, 10, 10000
  5  a holder that sleeps through its lease, and the fence check in PostgreSQL     2, -, 100
  6  everybody at once, with a lease too short for the work; PostgreSQL alone      50, 2, 2000 and 1

Try:
  scripts/run                                             starts a server with flock, in another terminal
  wallet                                                  steps 1 to 4
  wallet --step 3 --lease-ms 1000                         the same work, with a lease that lasts
  wallet --postgres postgres://me@localhost/test          all steps
  wallet --postgres URL --step 6 --lease-ms 1             a lease that is as good as none, checked by fence
  wallet --postgres URL --step 6 --lease-ms 1 --same-version    ... and by the version that was read

It writes the keys flock-wallet:balance, flock-wallet:lock and flock-wallet:hand-made, and the schema flock_wallet in
PostgreSQL, and removes them at the end.";

/// Fifty callers spend from one wallet: how the balance goes wrong, and what keeps it right.
#[derive(Parser)]
#[command(name = "wallet", after_help = AFTER_HELP)]
pub struct Options {
    /// A Redis or Valkey that has flock
    #[arg(long, value_name = "URL", default_value = "redis://127.0.0.1:6379")]
    pub redis: String,
    /// A PostgreSQL, for steps 5 and 6: postgres://user:password@host/database, or "host=/socket/folder user=me"
    #[arg(long, value_name = "URL")]
    pub postgres: Option<String>,
    /// Plays this step only; may be given more than once
    #[arg(long, value_name = "1-6", value_parser = clap::value_parser!(u8).range(1..=6))]
    step: Vec<u8>,
    /// How many want to buy at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    callers: Option<u16>,
    /// How long a caller works between reading the balance and writing it
    #[arg(long, value_name = "MS")]
    work_ms: Option<u64>,
    /// How long a lease lasts
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub lease_ms: Option<u64>,
    /// How often each scene is played
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub runs: u16,
    /// Step 6: a write must also find the version that its caller read (AND fence = $3)
    #[arg(long)]
    pub same_version: bool,
}

impl Options {
    pub fn steps(&self) -> Vec<u8> {
        match self.step.is_empty() {
            true => STEPS.collect(),
            false => self.step.clone(),
        }
    }

    /// What was asked for, or else these.
    pub fn terms(&self, defaults: Terms) -> Terms {
        let millis = std::time::Duration::from_millis;
        Terms {
            callers: self.callers.map_or(defaults.callers, usize::from),
            work: self.work_ms.map_or(defaults.work, millis),
            lease: self.lease_ms.map_or(defaults.lease, millis),
        }
    }
}
