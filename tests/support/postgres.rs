//! A PostgreSQL of a test's own: a directory, a unix socket in it, no TCP port. It is ended, by its process's id, when
//! its owner goes, and the directory with it.
//!
//! PostgreSQL does not run as root, so there it runs as the user `postgres`, or else `nobody`.

use std::fs::File;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use postgres::NoTls;
use rustix::process::{geteuid, kill_process, Pid, Signal};
use tempfile::TempDir;

use super::eventually::eventually;

const USERS_IF_ROOT: [&str; 2] = ["postgres", "nobody"];
/// Nothing has to survive, so nothing is flushed.
const SETTINGS: [&str; 6] = [
    "listen_addresses=",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "autovacuum=off",
    "shared_buffers=16MB",
];

pub struct Postgres {
    child: Child,
    directory: TempDir,
}

impl Postgres {
    #[track_caller]
    pub fn start() -> Postgres {
        let directory = tempfile::Builder::new()
            .prefix("flock-test-")
            .tempdir()
            .expect("a directory for PostgreSQL");
        let home = directory.path();
        if let Some((user, group)) = *unprivileged() {
            chown(home, Some(user), Some(group)).expect("a directory of its user's");
        }
        let data = home.join("data");
        let made = command(home, "initdb")
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"])
            .args(["--no-sync", "--no-instructions", "-D"])
            .arg(&data)
            .status()
            .expect("initdb should start");
        assert!(made.success(), "initdb failed:\n{}", log(home));
        let mut server = command(home, "postgres");
        for setting in SETTINGS {
            server.args(["-c", setting]);
        }
        let child = server
            .arg("-k")
            .arg(home)
            .arg("-D")
            .arg(&data)
            .spawn()
            .expect("postgres should start");
        let mut postgres = Postgres { child, directory };
        postgres.wait_until_ready();
        postgres
    }

    fn wait_until_ready(&mut self) {
        let url = self.url();
        eventually(
            "PostgreSQL answers",
            || {
                let ended = self.child.try_wait().expect("the state of our own child");
                assert!(
                    ended.is_none(),
                    "PostgreSQL ended:\n{}",
                    log(self.directory.path())
                );
                postgres::Client::connect(&url, NoTls)
                    .err()
                    .map(|error| error.to_string())
            },
            Option::is_none,
        );
    }

    /// How to connect to it.
    pub fn url(&self) -> String {
        let home = self.directory.path().display();
        format!("host={home} user=postgres dbname=postgres")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // At once, and its children with it.
        let _ = kill_process(Pid::from_child(&self.child), Signal::QUIT);
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- PostgreSQL:\n{}\n---", log(self.directory.path()));
        }
    }
}

/// One of PostgreSQL's programs, in its user's name, with its output in the log.
fn command(home: &Path, program: &str) -> Command {
    let output = File::options()
        .create(true)
        .append(true)
        .open(home.join("log"))
        .expect("PostgreSQL's log");
    let mut command = Command::new(programs().join(program));
    command
        .current_dir(home)
        // A shim that a test preloads into its other servers is not for this one.
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("a second handle of the log"))
        .stderr(output);
    if let Some((user, group)) = *unprivileged() {
        command.uid(user).gid(group);
    }
    command
}

fn log(home: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(home.join("log")).unwrap_or_default()).into_owned()
}

/// Where the programs are: on the PATH, or, as Debian keeps them, in a folder by version.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .filter_map(|version| Some(version.ok()?.path().join("bin")))
            .collect();
        debian.sort();
        std::env::split_paths(&path)
            .chain(debian.into_iter().rev())
            .find(|folder| folder.join("postgres").exists() && folder.join("initdb").exists())
            .expect("PostgreSQL: install the package postgresql, or put its programs on the PATH")
    })
}

/// The user and group to run as; None where this process is not root.
fn unprivileged() -> &'static Option<(u32, u32)> {
    static USER: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    USER.get_or_init(|| {
        geteuid().is_root().then(|| {
            let users = std::fs::read_to_string("/etc/passwd").expect("the list of users");
            let find = |name: &&str| ids(&users, name);
            USERS_IF_ROOT
                .iter()
                .find_map(find)
                .expect("a user who is not root")
        })
    })
}

/// `postgres:x:101:104:…` is user 101 of group 104.
fn ids(users: &str, name: &str) -> Option<(u32, u32)> {
    let line = users
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut fields = line.split(':').skip(1).map(|field| field.parse().ok());
    Some((fields.next()??, fields.next()??))
}
