//! A server of its own for each measurement, plain or under callgrind.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::resp::{Connection, Reply};

const START_PATIENCE: Duration = Duration::from_secs(60);
/// The kernel's unit for a process's time in /proc: 1/100 s on Linux.
const CPU_TICK_US: f64 = 10_000.0;

#[derive(Clone, Copy, PartialEq)]
pub enum Under {
    Nothing,
    Callgrind,
}

pub struct Setup<'a> {
    /// The server's program.
    pub program: &'a Path,
    /// Loaded only where flock is measured, so that it costs its rivals nothing.
    pub module: Option<&'a Path>,
    pub under: Under,
    pub aof: bool,
}

pub struct Server {
    process: Child,
    dir: tempfile::TempDir,
    pub port: u16,
}

impl Server {
    pub fn start(setup: &Setup) -> Server {
        let dir = tempfile::tempdir().expect("a directory");
        let port = free_port();
        let mut command = match setup.under {
            Under::Nothing => Command::new(setup.program),
            Under::Callgrind => callgrind(setup.program, dir.path()),
        };
        let log = fs::File::create(dir.path().join("log")).expect("a log file");
        command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--dir"])
            .arg(dir.path())
            .args(["--appendonly", if setup.aof { "yes" } else { "no" }])
            .args(["--appendfsync", "no", "--maxclients", "5000"])
            // the server's own housekeeping counts instructions by the second: keep it rare
            .args(["--hz", "1", "--dynamic-hz", "no"]);
        if let Some(module) = setup.module {
            command.arg("--loadmodule").arg(module);
        }
        let process = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log file"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{:?} does not start: {error}", setup.program));
        let mut server = Server { process, dir, port };
        server.wait_until_ready();
        if setup.module.is_some() {
            server
                .connect()
                .must(&["CONFIG", "SET", "flock.max-waiters", "5000"]);
        }
        server
    }

    pub fn connect(&self) -> Connection {
        Connection::open(self.port)
    }

    fn wait_until_ready(&mut self) {
        let start = Instant::now();
        loop {
            let pong = Connection::try_open(self.port).and_then(|mut connection| {
                connection.send(&crate::resp::encode(&["PING"]));
                connection.try_read()
            });
            if let Ok(Reply::Text(text)) = &pong {
                if text == "PONG" {
                    return;
                }
            }
            let ended = self.process.try_wait().expect("the server's state");
            assert!(
                ended.is_none() && start.elapsed() < START_PATIENCE,
                "the server did not start:\n{}",
                fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn info(&self, field: &str) -> String {
        let text = self.connect().must(&["INFO"]).into_text();
        text.lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .unwrap_or_else(|| panic!("INFO has no {field}"))
            .to_owned()
    }

    pub fn used_memory(&self) -> f64 {
        self.info("used_memory").parse().expect("a number")
    }

    /// Processor time the server has taken so far, in microseconds.
    pub fn cpu_us(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))
            .expect("the server's /proc entry");
        let after_name = stat.rsplit(')').next().expect("a name in parentheses");
        let ticks: f64 = after_name
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<f64>().expect("ticks"))
            .sum();
        ticks * CPU_TICK_US
    }

    /// Ends the server and tells how many instructions it took in all.
    pub fn instructions(mut self) -> f64 {
        self.shut_down();
        let file = self.dir.path().join(format!("callgrind.{}", self.process.id()));
        let text = fs::read_to_string(&file).expect("callgrind's output");
        text.lines()
            .rev()
            .find_map(|line| line.strip_prefix("totals: "))
            .and_then(|total| total.trim().parse().ok())
            .expect("callgrind's total")
    }

    fn shut_down(&mut self) {
        self.connect().send(&crate::resp::encode(&["SHUTDOWN", "NOSAVE"]));
        self.process.wait().expect("the server's end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// The server may be a script that execs the real one: callgrind follows it, and the process keeps its number.
fn callgrind(program: &Path, dir: &Path) -> Command {
    let mut output = PathBuf::from(dir).into_os_string();
    output.push("/callgrind.%p");
    let mut option = std::ffi::OsString::from("--callgrind-out-file=");
    option.push(output);
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--trace-children=yes", "-q"])
        .arg(option)
        .arg(program);
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port()
}
