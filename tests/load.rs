//! Proves what an operator sees when the module is loaded: a line that says
//! what runs, words where it cannot run, and warnings of what endangers locks.

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use support::*;

/// The module's own lines, of that level: `*` for notices, `#` for warnings.
fn lines(log: &str, level: &str) -> Vec<String> {
    let is_own = |line: &&str| line.contains("<flock>") && line.split(' ').any(|word| word == level);
    log.lines().filter(is_own).map(str::to_owned).collect()
}

fn warnings(server: &Server) -> Vec<String> {
    lines(&server.log(), "#")
}

#[test]
fn the_log_says_which_flock_runs_on_which_server() {
    let server = Server::builder().undressed().start();
    let notices = lines(&server.log(), "*");
    let version = env!("CARGO_PKG_VERSION");
    let product = if server.build().is_valkey {
        "valkey"
    } else {
        "redis"
    };
    let said = notices
        .iter()
        .any(|line| line.contains(&format!("flock {version}")) && line.to_lowercase().contains(product));
    assert!(said, "{notices:?}");
    assert_eq!(warnings(&server), [""; 0]);
}

#[test]
fn a_policy_that_may_evict_held_locks_is_warned_of() {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        let builder = Server::builder().undressed().set("maxmemory", "100mb");
        let server = builder.set("maxmemory-policy", policy).start();
        eventually(
            "a warning of eviction",
            || warnings(&server),
            |lines| lines.len() == 1 && lines[0].contains(policy) && lines[0].contains("evict"),
        );
    }
}

#[test]
fn policies_that_spare_locks_are_not_warned_of() {
    for policy in ["noeviction", "volatile-lru", "volatile-ttl"] {
        let server = Server::builder()
            .undressed()
            .set("maxmemory-policy", policy)
            .start();
        server.admin().run("PING");
        assert_eq!(warnings(&server), [""; 0], "{policy}");
    }
}

#[test]
fn a_setting_that_turns_dangerous_later_is_warned_of_once() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    assert_eq!(client.run("CONFIG SET maxmemory-policy allkeys-lru"), OK);
    eventually("a warning", || warnings(&server), |lines| lines.len() == 1);
    assert_eq!(client.run("CONFIG SET maxmemory 100mb"), OK);
    assert_eq!(client.run("CONFIG SET flock.fence-source counter"), OK);
    eventually("a second one", || warnings(&server), |lines| lines.len() == 2);
    let lines = warnings(&server);
    assert!(
        lines[1].contains("counter") && lines[1].contains("persistence"),
        "{lines:?}"
    );
}

#[test]
fn a_counter_that_nothing_keeps_is_warned_of() {
    let builder = || {
        Server::builder()
            .undressed()
            .module_arguments("fence-source counter")
    };
    let server = builder().start();
    eventually(
        "a warning",
        || warnings(&server),
        |lines| lines.len() == 1 && lines[0].contains("counter") && lines[0].contains("persistence"),
    );
    for kept in [builder().append_only(), builder().set("save", "\"3600 1\"")] {
        let server = kept.start();
        server.admin().run("PING");
        assert_eq!(warnings(&server), [""; 0]);
    }
}

/// The file that scripts/run starts from.
#[test]
fn the_configuration_of_the_repository_starts_a_server() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("redis.conf");
    let text = std::fs::read_to_string(file).expect("redis.conf");
    let settings = text
        .lines()
        .filter(|line| !line.starts_with("#") && !line.trim().is_empty());
    let mut builder = Server::builder().undressed();
    for setting in settings {
        let (name, value) = setting.split_once(' ').expect("a name and a value");
        // The harness has its own port, and the module that this run is about.
        if name != "port" && name != "loadmodule" {
            builder = builder.set(name, value);
        }
    }
    let mut server = builder.start();
    assert_eq!(warnings(&server), [""; 0]);
    let fence = server.client().run("FLOCK.ACQUIRE k tok PX 600000").fence();
    server.kill9();
    server.restart();
    assert_eq!(*server.admin().run("FLOCK.INFO k").field("fence"), fence);
}

#[test]
fn the_module_cannot_be_unloaded_under_its_locks() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k tok PX 600000").fence();
    assert_eq!(client.run("MODULE UNLOAD flock").error_word(), "ERR");
    assert!(client.run("FLOCK.PTTL k tok").int() > 0);
}

#[test]
fn a_module_that_is_loaded_into_a_running_server_works() {
    let directory = tempfile::tempdir().expect("a directory");
    let bare = BareServer::start(directory.path()).unwrap_or_else(|log| panic!("{log}"));
    let mut client = bare.client();
    let reply = client.call(("MODULE", "LOAD", module_path().to_string_lossy().into_owned()));
    assert_eq!(reply, OK);
    client.run("FLOCK.ACQUIRE k tok PX 60000").fence();
    assert_eq!(client.run("FLOCK.RELEASE k tok"), 1);
}

/// `FLOCK_OLD_SERVER` names one that is older than Redis 7.0, where there is one.
#[test]
fn a_server_that_is_too_old_refuses_the_module_in_words() {
    let Some(old) = std::env::var_os("FLOCK_OLD_SERVER") else {
        eprintln!("skipped: FLOCK_OLD_SERVER names no server older than Redis 7.0");
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let log_file = directory.path().join("log");
    let mut server = Command::new(old)
        .args(["--port", "0", "--unixsocket", "socket", "--dir"])
        .arg(directory.path())
        .arg("--logfile")
        .arg(&log_file)
        .arg("--loadmodule")
        .arg(module_path())
        .spawn()
        .expect("the old server should start");
    let status = eventually_within(
        Duration::from_secs(10),
        "the old server ends",
        || server.try_wait().expect("the state of our own child"),
        Option::is_some,
    );
    let log = std::fs::read_to_string(log_file).expect("its log");
    assert!(status.is_some_and(|status| !status.success()), "{log}");
    let said = log
        .lines()
        .any(|line| line.contains("flock") && line.contains("7.0"));
    assert!(said && !log.contains("BUG REPORT"), "{log}");
}
