//! Step 2: with the lock exactly ten buy, whatever they do at once; and nobody can take it from another by mistake.

use std::time::Duration;

use crate::scene::hand_made::Release;
use crate::scene::step2::{self, LateRelease};
use crate::scene::{flock, Check, Terms, AFFORDABLE};
use crate::support::{Reply, NIL};
use crate::{holds, start_redis};

const TERMS: fn() -> Terms = || Terms::new(50, 2, 10_000);
const SHORT_LEASE: Duration = Duration::from_millis(100);
/// Another's lock is neither touched, nor is anybody told that it was.
const HARMLESS: LateRelease = LateRelease {
    released: false,
    b_still_holds: true,
};

#[test]
fn with_the_lock_exactly_ten_buy() {
    let (server, servers) = start_redis();
    for run in holds("FLOCK.ACQUIRE and RELEASE", || {
        step2::with_flock(&servers, TERMS())
    }) {
        assert_eq!(run.check, Check::new(AFFORDABLE, 0));
        assert_eq!(run.stale_releases, 0);
    }
    let balance_alone = Reply::List(vec![Reply::Bulk(b"flock-wallet:balance".to_vec())]);
    assert_eq!(server.admin().run("KEYS *"), balance_alone);
}

#[test]
fn a_release_with_a_wrong_token_is_0_and_harms_nothing() {
    let (server, _) = start_redis();
    let mut client = server.client();
    let fence = client.run("FLOCK.ACQUIRE k mine PX 60000").fence();
    for wrong in ["yours", "min", "minee", "MINE"] {
        assert_eq!(client.call(("FLOCK.RELEASE", "k", wrong)), 0, "{wrong}");
    }
    assert_eq!(client.run("FLOCK.ACQUIRE k yours PX 60000"), NIL);
    assert_eq!(client.run("FLOCK.ACQUIRE k mine PX 60000"), fence);
    assert_eq!(client.run("FLOCK.RELEASE k mine"), 1);
    assert_eq!(client.run("EXISTS k"), 0);
}

#[test]
fn a_lock_built_from_set_holds_while_nobody_is_late() {
    let (server, servers) = start_redis();
    let mut connection = servers.redis().expect("a connection");
    for way in Release::careful(&mut connection).expect("the server's commands") {
        let scene = format!("SET NX PX and {}", way.name());
        holds(&scene, || step2::with_a_hand_made_lock(&servers, TERMS(), way));
    }
    assert_eq!(server.admin().run("DBSIZE"), 1);
}

#[test]
fn a_late_del_by_name_removes_anothers_lock_and_no_other_release_does() {
    let (_server, servers) = start_redis();
    let play = |way| {
        let outcome = step2::late_release_of_a_hand_made_lock(&servers, SHORT_LEASE, way);
        let outcome = outcome.expect("servers that work");
        println!("A late, {}: B still holds: {}", way.name(), outcome.b_still_holds);
        outcome
    };
    let taken = LateRelease {
        released: true,
        b_still_holds: false,
    };
    assert_eq!(play(Release::ByName), taken);
    let mut connection = servers.redis().expect("a connection");
    for way in Release::careful(&mut connection).expect("the server's commands") {
        assert_eq!(play(way), HARMLESS, "{}", way.name());
    }
    let outcome = step2::late_release(&servers, SHORT_LEASE).expect("servers that work");
    assert_eq!(outcome, HARMLESS, "FLOCK.RELEASE");
    assert!(
        !flock::holds(&mut connection, "b").expect("an answer"),
        "no key is left"
    );
}
