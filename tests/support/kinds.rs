//! Locks of every kind, for tests of what carries them somewhere else. Whether they are the same
//! there, the digest tells: it is made of mode, tokens, fences, holds, delays, labels and closures.

use super::client::Client;
use super::eventually::eventually;

/// In front of each: `FLOCK.ACQUIRE`.
const REQUESTS: [&str; 13] = [
    "exclusive a PX 600000 LABEL build-17",
    "delaying a PX 600000 DELAY 60000",
    "shared a PX 600000 SHARED LABEL one",
    "shared b PX 500000 SHARED DELAY 70000",
    "shared c PX 600000 SHARED REENTRANT",
    "shared c PX 600000 SHARED REENTRANT",
    "permits a PX 600000 PERMITS 5",
    "permits b PX 600000 PERMITS 5 LABEL two",
    "entered a PX 600000 REENTRANT",
    "entered a PX 600000 REENTRANT",
    "tied a PX 600000 SESSION",
    "half-closed keeper PX 600000 SHARED",
    "half-closed lost PX 20 SHARED DELAY 600000",
];

/// Takes locks of every kind. None ends within a test, but one of them, and one of two holders of
/// another, is lost at once: those two are closed when this returns.
#[track_caller]
pub fn take_every_kind(client: &mut Client) {
    for request in REQUESTS {
        client.run(&format!("FLOCK.ACQUIRE {request}")).fence();
    }
    client
        .run("FLOCK.MACQUIRE 2 many:1 many:2 a PX 600000 LABEL both")
        .fence();
    client.run("FLOCK.ACQUIRE closed lost PX 20 DELAY 600000").fence();
    for key in ["closed", "half-closed"] {
        eventually(
            "the holder is lost, and the lock closed",
            || client.call(("FLOCK.INFO", key)),
            |info| info.field("delay_ms").int() > 0,
        );
    }
}

/// The locks of [`take_every_kind`] are used as what they are.
#[track_caller]
pub fn use_every_kind(client: &mut Client) {
    for (line, reply) in [
        ("FLOCK.RELEASE exclusive a", 1),
        ("FLOCK.RELEASE delaying a", 1),
        ("FLOCK.RELEASE shared c", 1),
        ("FLOCK.RELEASE shared c", 1),
        ("FLOCK.RELEASE shared c", 0),
        ("FLOCK.RELEASE entered a", 1),
        ("FLOCK.RELEASE entered a", 1),
        ("FLOCK.RELEASE entered a", 0),
        ("FLOCK.MREFRESH 2 many:1 many:2 a PX 600000", 2),
        ("FLOCK.MRELEASE 2 many:1 many:2 a", 2),
        ("FLOCK.RELEASE tied a", 1),
        ("FLOCK.BREAK half-closed", 1),
        ("FLOCK.BREAK closed", 0),
    ] {
        assert_eq!(client.run(line), reply, "{line}");
    }
    for line in [
        "FLOCK.ACQUIRE shared d PX 600000 SHARED",
        "FLOCK.ACQUIRE permits c PX 600000 PERMITS 5",
        "FLOCK.ACQUIRE closed a PX 600000",
        "FLOCK.ACQUIRE half-closed a PX 600000",
    ] {
        client.run(line).fence();
    }
    assert_eq!(
        client.run("FLOCK.ACQUIRE shared e PX 600000"),
        super::NIL,
        "readers are there"
    );
    let other_number = client.run("FLOCK.ACQUIRE permits d PX 600000 PERMITS 4");
    assert_eq!(other_number.error_word(), "ERR");
}
