//! Proves what operators have: BREAK, HELP, and the counters of INFO.

use crate::support::*;

#[test]
fn break_ends_the_hold_and_says_how_many() {
    in_both_protocols(|_, client| {
        assert_eq!(client.run("FLOCK.BREAK k"), 0);
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        assert_eq!(client.run("FLOCK.BREAK k"), 1);
        assert_eq!(client.run("EXISTS k"), 0);
        assert_eq!(client.run("FLOCK.PTTL k t"), -2);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 0);
        assert_eq!(client.run("FLOCK.BREAK k"), 0);
    });
}

#[test]
fn after_break_the_queue_moves_on() {
    in_both_protocols(|server, client| {
        let first = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let mut second = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
        let third = server.enqueue("k", "FLOCK.ACQUIRE k v PX 60000 BLOCK 0");
        assert_eq!(client.run("FLOCK.BREAK k"), 1);
        assert!(second.receive().fence() > first);
        assert_eq!(client.waiters("k"), 1);
        drop(third);
    });
}

#[test]
fn a_lease_that_is_over_is_not_there_to_break() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 10").fence();
        eventually(
            "the lease is over",
            || client.run("FLOCK.PTTL k"),
            |left| *left == -2,
        );
        assert_eq!(client.run("FLOCK.BREAK k"), 0);
    });
}

#[test]
fn help_has_a_line_for_each_command() {
    in_both_protocols(|_, client| {
        let help = client.run("FLOCK.HELP");
        let lines: Vec<_> = help.items().iter().map(Reply::text).collect();
        let commands = [
            "ACQUIRE", "REFRESH", "RELEASE", "PTTL", "GUARD", "MACQUIRE", "MREFRESH", "MRELEASE", "INFO",
            "BREAK", "HELP",
        ];
        for command in commands {
            let name = format!("FLOCK.{command}");
            let count = lines.iter().filter(|line| line.starts_with(&name)).count();
            assert_eq!(count, 1, "{name} in {lines:#?}");
        }
        assert_eq!(lines.len(), commands.len(), "{lines:#?}");
    });
}

/// The counters of `INFO flock` that a scenario moves.
#[track_caller]
fn counters(client: &mut Client) -> Vec<(&'static str, i64)> {
    [
        "held_locks",
        "waiters",
        "grants",
        "handoffs",
        "refused_busy",
        "refused_queue_full",
        "waits_timed_out",
        "leases_expired",
        "breaks",
        "superseded",
    ]
    .map(|name| (name, client.stat(name)))
    .to_vec()
}

/// The fields of `INFO flock`, in their order.
const FIELDS: [&str; 23] = [
    "held_locks",
    "waiters",
    "waiters_peak",
    "grants",
    "handoffs",
    "refused_busy",
    "refused_queue_full",
    "waits_timed_out",
    "refreshes_refused",
    "releases_refused",
    "leases_expired",
    "breaks",
    "superseded",
    "grants_undelivered",
    "sessions_lost",
    "delays",
    "guards",
    "guards_refused",
    "last_fence",
    "fence_source",
    "followers",
    "wait_us_total",
    "wait_ms",
];

#[test]
fn info_has_a_section_with_these_fields() {
    let server = Server::builder().undressed().start();
    let text = server.admin().run("INFO flock").text();
    let names: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("flock_")?.split(':').next())
        .collect();
    assert_eq!(names, FIELDS);
}

#[test]
fn what_happens_is_counted_in_info() {
    let server = Server::builder()
        .undressed()
        .module_arguments("max-waiters 2")
        .start();
    let mut client = server.client();
    let zero: Vec<_> = counters(&mut client).iter().map(|(name, _)| (*name, 0)).collect();
    assert_eq!(counters(&mut client), zero);

    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    client.run("FLOCK.ACQUIRE k u PX 60000");
    client.run("FLOCK.ACQUIRE k u PX 60000 BLOCK 1");
    let mut first = server.enqueue("k", "FLOCK.ACQUIRE k v PX 60000 BLOCK 0");
    let mut second = server.enqueue("k", "FLOCK.ACQUIRE k w PX 60000 BLOCK 0");
    client.run("FLOCK.ACQUIRE k x PX 60000 BLOCK 0");
    let mut newer = server.admin();
    newer.send_line("FLOCK.ACQUIRE k w PX 60000 BLOCK 0");
    second.receive();
    client.run("FLOCK.RELEASE k t");
    first.receive().fence();
    client.run("FLOCK.BREAK k");
    newer.receive().fence();
    client.run("FLOCK.ACQUIRE short t PX 5").fence();
    eventually(
        "the lease is over",
        || client.stat("leases_expired"),
        |count| *count == 1,
    );

    let expected = [
        ("held_locks", 1),
        ("waiters", 0),
        ("grants", 4),
        ("handoffs", 2),
        ("refused_busy", 1),
        ("refused_queue_full", 1),
        ("waits_timed_out", 1),
        ("leases_expired", 1),
        ("breaks", 1),
        ("superseded", 1),
    ];
    assert_eq!(counters(&mut client), expected);
    assert_eq!(client.stat("waiters_peak"), 2);
    assert_eq!(client.info("flock", "flock_fence_source"), "clock");
}

#[test]
fn the_time_waited_is_in_info() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    let waited_ms = |client: &mut Client| {
        client.run("FLOCK.INFO k").field("queue").items()[0]
            .field("waited_ms")
            .int()
    };
    eventually(
        "waited for 20 ms",
        || waited_ms(&mut client),
        |waited| *waited >= 20,
    );
    client.run("FLOCK.RELEASE k t");
    waiter.receive().fence();
    assert!(client.stat("wait_us_total") >= 20_000);
    let histogram = client.info("flock", "flock_wait_ms");
    let counts: Vec<(&str, i64)> = histogram
        .split(',')
        .map(|pair| pair.split_once('=').expect("name=count"))
        .map(|(name, count)| (name, count.parse().expect("a count")))
        .collect();
    let names: Vec<_> = counts.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["le_1", "le_10", "le_100", "le_1000", "le_10000", "more"]);
    assert_eq!(
        counts.iter().map(|(_, count)| count).sum::<i64>(),
        1,
        "{histogram}"
    );
    assert_eq!(counts[0].1 + counts[1].1, 0, "{histogram}");
}
