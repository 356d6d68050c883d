//! Step 6: with a lease that is too short for the work a fence alone does not save the balance: two callers may read the
//! same balance and write one after the other, each with a newer fence. That nobody wrote in between does.

use crate::scene::postgres_wallet::{Guard, PostgresWallet};
use crate::scene::{step6, Check, Terms, AFFORDABLE};
use crate::{breaks_so, holds, plain, start_both};

const CALLERS: usize = 50;
const WORK_MS: u64 = 2;

fn terms(lease_ms: u64) -> Terms {
    Terms::new(CALLERS, WORK_MS, lease_ms)
}

#[test]
fn with_a_lease_that_lasts_nobody_is_rejected() {
    let (_server, _postgres, servers) = start_both(plain());
    let play = || step6::with_flock(&servers, terms(2_000), Guard::Newer);
    for run in holds("2 s lease, fence < $2", play) {
        assert_eq!(run.check, Check::new(AFFORDABLE, 0));
        assert_eq!((run.rejected, run.stale_releases), (0, 0));
    }
}

#[test]
fn with_a_broken_lease_the_fence_must_be_checked_together_with_the_version() {
    let (_server, _postgres, servers) = start_both(plain());
    breaks_so(
        "1 ms lease, fence < $2",
        || step6::with_flock(&servers, terms(1), Guard::Newer),
        |run| !run.is_ok() && run.check.accepted > AFFORDABLE,
    );
    let play = || step6::with_flock(&servers, terms(1), Guard::NewerAndUnchanged);
    let runs = holds("1 ms lease, fence < $2 AND fence = $3", play);
    let rejected: usize = runs.iter().map(|run| run.rejected).sum();
    assert!(rejected > 0, "the lease is long enough after all");
}

#[test]
fn what_postgresql_does_alone() {
    let (_server, _postgres, servers) = start_both(plain());
    let work = terms(0).work;
    let row_lock = |wallet: &mut PostgresWallet| wallet.spend_under_a_row_lock(work);
    let alone = [
        holds("SELECT … FOR UPDATE", || {
            step6::with_postgres_alone(&servers, CALLERS, row_lock)
        }),
        holds("UPDATE … WHERE balance >= $1", || {
            step6::with_postgres_alone(&servers, CALLERS, PostgresWallet::spend_in_one_statement)
        }),
    ];
    for run in alone.iter().flatten() {
        assert_eq!(run.check, Check::new(AFFORDABLE, 0));
    }
}
