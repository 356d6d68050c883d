//! Proves the settings: at run time, at load, in the configuration file, and
//! that a wrong one is refused in words.

use crate::support::*;

/// Name, default, another value that is fine, and values that are not.
const SETTINGS: [(&str, &str, &str, [&str; 3]); 5] = [
    ("flock.fence-source", "clock", "counter", ["", "sundial", "0"]),
    ("flock.max-waiters", "1000", "7", ["-1", "many", "1.5"]),
    ("flock.max-waiters-total", "10000", "70", ["-1", "many", "1.5"]),
    (
        "flock.max-lease-ms",
        "4611686018427387",
        "60000",
        ["0", "-1", "4611686018427388"],
    ),
    ("flock.notify", "yes", "no", ["", "maybe", "2"]),
];

#[track_caller]
fn get(client: &mut Client, name: &str) -> String {
    client.call(("CONFIG", "GET", name)).field(name).text()
}

#[test]
fn settings_have_their_defaults_and_can_be_changed() {
    in_both_protocols(|_, client| {
        for (name, default, other, _) in SETTINGS {
            assert_eq!(get(client, name), default, "{name}");
            assert_eq!(client.call(("CONFIG", "SET", name, other)), OK, "{name}");
            assert_eq!(get(client, name), other, "{name}");
        }
    });
}

#[test]
fn a_wrong_value_is_refused_and_changes_nothing() {
    in_both_protocols(|_, client| {
        for (name, default, _, wrong) in SETTINGS {
            for value in wrong {
                let reply = client.call(("CONFIG", "SET", name, value));
                assert_eq!(reply.error_word(), "ERR", "{name} {value:?}");
                assert_eq!(get(client, name), default, "{name} {value:?}");
            }
        }
    });
}

#[test]
fn settings_can_be_given_at_load_with_and_without_the_prefix() {
    for prefix in ["", "flock."] {
        let arguments: Vec<_> = SETTINGS
            .iter()
            .map(|(name, _, other, _)| name.replace("flock.", prefix) + " " + other)
            .collect();
        let server = Server::builder().module_arguments(&arguments.join(" ")).start();
        let mut client = server.client();
        for (name, _, other, _) in SETTINGS {
            assert_eq!(get(&mut client, name), other, "{name}");
        }
    }
}

#[test]
fn settings_can_be_given_in_the_configuration_file() {
    let server = Server::builder()
        .set("flock.max-waiters", "7")
        .set("flock.fence-source", "counter")
        .start();
    let mut client = server.client();
    assert_eq!(get(&mut client, "flock.max-waiters"), "7");
    assert_eq!(client.run("FLOCK.ACQUIRE k t PX 60000"), 1);
}

#[test]
fn a_wrong_argument_at_load_is_refused_with_a_line_in_the_log() {
    for arguments in [
        "max-waiters many",
        "max-waiters -1",
        "max-waiters",
        "fence-source sundial",
        "max-lease-ms 0",
        "notify maybe",
        "no-such-setting 1",
        "stray",
    ] {
        let log = match Server::builder()
            .undressed()
            .module_arguments(arguments)
            .try_start()
        {
            Ok(_) => panic!("loaded with {arguments:?}"),
            Err(log) => log,
        };
        let name = arguments.split(' ').next().unwrap_or_default();
        let tells = log
            .lines()
            .any(|line| line.contains("flock") && line.contains(name));
        // The command line itself may be in the log: it does not count.
        let own = log.lines().filter(|line| !line.contains("loadmodule"));
        assert!(
            tells && own.clone().any(|line| line.contains(name)),
            "{arguments:?}:\n{log}"
        );
        assert!(!log.contains("BUG REPORT"), "{arguments:?}:\n{log}");
    }
}

#[test]
fn config_rewrite_keeps_what_was_changed() {
    let mut server = Server::builder().undressed().start();
    let mut client = server.client();
    for (name, _, other, _) in SETTINGS {
        client.call(("CONFIG", "SET", name, other));
    }
    assert_eq!(client.run("CONFIG REWRITE"), OK);
    server.kill9();
    server.restart();
    let mut client = server.client();
    for (name, _, other, _) in SETTINGS {
        assert_eq!(get(&mut client, name), other, "{name}");
    }
}

#[test]
fn the_longest_lease_can_be_limited() {
    let builder = Server::builder().module_arguments("max-lease-ms 60000");
    in_both_protocols_with(builder, |_, client| {
        for line in ["FLOCK.ACQUIRE k t PX 60001", "FLOCK.ACQUIRE k t EX 61"] {
            let error = "ERR invalid expire time in 'flock.acquire' command";
            assert_eq!(client.run(line), Reply::error(error), "{line}");
        }
        client.run("FLOCK.ACQUIRE k t PX 60000").fence();
        let error = "ERR invalid expire time in 'flock.refresh' command";
        assert_eq!(client.run("FLOCK.REFRESH k t PX 60001"), Reply::error(error));
        assert_eq!(client.run("FLOCK.REFRESH k t EX 60"), 1);
    });
}

#[test]
fn a_lower_limit_leaves_the_leases_that_run() {
    in_both_protocols(|_, client| {
        client.run("FLOCK.ACQUIRE k t PX 600000").fence();
        client.run("CONFIG SET flock.max-lease-ms 1000");
        assert!(client.run("FLOCK.PTTL k t").int() > 300_000);
        assert_eq!(client.run("FLOCK.RELEASE k t"), 1);
    });
}
