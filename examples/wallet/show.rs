//! Which scenes a step shows, in which order, under which names.

use std::time::Duration;

use super::options::Options;
use super::report::Report;
use super::scene::hand_made::Release;
use super::scene::postgres_wallet::{Guard, PostgresWallet};
use super::scene::step2::LateRelease;
use super::scene::step4::{self, Strategy};
use super::scene::{step1, step2, step3, step5, step6, Fallible, Servers, Terms};

const SHORT_LEASE: Duration = Duration::from_millis(100);

pub fn step(step: u8, options: &Options, servers: &Servers, report: &mut Report) -> Fallible<()> {
    match step {
        1 => race(options, servers, report),
        2 => lock(options, servers, report),
        3 => watchdog(options, servers, report),
        4 => waiting(options, servers, report),
        5 => pause(options, servers, report),
        _ => broken_lease(options, servers, report),
    }
}

fn race(options: &Options, servers: &Servers, report: &mut Report) -> Fallible<()> {
    report.begin(1, "the race. Everybody reads 100 before anybody has written.");
    let terms = options.terms(Terms::new(50, 2, 0));
    report.play("no lock", options.runs, || step1::without_a_lock(servers, terms))
}

fn lock(options: &Options, servers: &Servers, report: &mut Report) -> Fallible<()> {
    report.begin(
        2,
        "the lock. One after the other, and each releases only its own.",
    );
    let terms = options.terms(Terms::new(50, 2, 10_000));
    let ways = Release::careful(&mut servers.redis()?)?;
    report.play("FLOCK.ACQUIRE, FLOCK.RELEASE", options.runs, || {
        step2::with_flock(servers, terms)
    })?;
    for &way in &ways {
        let scene = format!("SET NX PX, {}", way.name());
        report.play(&scene, options.runs, || {
            step2::with_a_hand_made_lock(servers, terms, way)
        })?;
    }
    let mut tell = |name: &str, outcome: LateRelease| {
        let line = match outcome.b_still_holds {
            true => "A's lease ran out, B holds; A releases: nothing happens to B",
            false => "A's lease ran out, B holds; A releases: B's lock is gone, and B does not know",
        };
        report.tell(&format!("late: {name}"), line, outcome.b_still_holds);
    };
    for way in [vec![Release::ByName], ways].concat() {
        let outcome = step2::late_release_of_a_hand_made_lock(servers, SHORT_LEASE, way)?;
        tell(way.name(), outcome);
    }
    tell("FLOCK.RELEASE", step2::late_release(servers, SHORT_LEASE)?);
    Ok(())
}

fn watchdog(options: &Options, servers: &Servers, report: &mut Report) -> Fallible<()> {
    report.begin(3, "work that outlives its lease.");
    let terms = options.terms(Terms::new(5, 300, 100));
    report.play("no watchdog", options.runs, || {
        step3::without_a_watchdog(servers, terms)
    })?;
    report.play("a watchdog refreshes", options.runs, || {
        step3::with_a_watchdog(servers, terms)
    })
}

fn waiting(options: &Options, servers: &Servers, report: &mut Report) -> Fallible<()> {
    report.begin(4, "how callers wait. All have asked once before the door opens.");
    let terms = options.terms(Terms::new(50, 10, 10_000));
    for strategy in Strategy::ALL {
        let service = step4::play(servers, terms, strategy)?;
        report.serve(strategy.name(), &service);
    }
    Ok(())
}

fn pause(options: &Options, servers: &Servers, report: &mut Report) -> Fallible<()> {
    report.begin(
        5,
        "a holder that sleeps through its lease. A reads and pauses; B buys; A wakes up.",
    );
    let lease = options.terms(Terms::new(2, 0, 100)).lease;
    for guard in [Guard::Nothing, Guard::Newer] {
        let story = step5::pause(servers, lease, lease * 5 / 2, guard)?;
        report.tell(&written(guard), &story.to_string(), story.check.is_ok());
    }
    Ok(())
}

fn broken_lease(options: &Options, servers: &Servers, report: &mut Report) -> Fallible<()> {
    report.begin(
        6,
        "everybody at once, with a lease that is too short for the work.",
    );
    let default = |lease_ms| Terms::new(50, 2, lease_ms);
    let asked = match options.same_version {
        true => Guard::NewerAndUnchanged,
        false => Guard::Newer,
    };
    let scenes = match options.lease_ms {
        Some(lease_ms) => vec![(lease_ms, asked)],
        None => vec![
            (2_000, Guard::Newer),
            (1, Guard::Newer),
            (1, Guard::NewerAndUnchanged),
        ],
    };
    for (lease_ms, guard) in scenes {
        let terms = options.terms(default(lease_ms));
        let scene = format!("{lease_ms} ms lease, {}", written(guard));
        report.play(&scene, options.runs, || step6::with_flock(servers, terms, guard))?;
    }
    if options.lease_ms.is_some() {
        return Ok(());
    }
    let terms = options.terms(default(0));
    report.play("SELECT … FOR UPDATE", options.runs, || {
        step6::with_postgres_alone(servers, terms.callers, |wallet| {
            wallet.spend_under_a_row_lock(terms.work)
        })
    })?;
    report.play("UPDATE … WHERE balance >= $1", options.runs, || {
        step6::with_postgres_alone(servers, terms.callers, PostgresWallet::spend_in_one_statement)
    })
}

/// The condition of the write.
fn written(guard: Guard) -> String {
    match guard.condition().strip_prefix(" AND ") {
        Some(condition) => condition.to_owned(),
        None => "no fence check".to_owned(),
    }
}
