//! One server process with a directory of its own. Nothing outlives the test:
//! the process is killed, by its id, when its owner goes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{getrlimit, kill_process, setrlimit, waitpid, Pid, Resource, Signal, WaitOptions};

use super::client::{Client, Protocol};
use super::eventually::PATIENCE;

const CONFIGURATION_FILE: &str = "server.conf";
const LOG_LINES: usize = 80;
const LOG_LINES_BEFORE_CRASH: usize = 20;

/// What a server or a module that failed writes into its log.
pub const CRASH_SIGNS: [&str; 3] = ["BUG REPORT", "ASSERTION FAILED", "panicked at"];

pub struct Process {
    child: Child,
    log: PathBuf,
}

/// What runs, and as what.
#[derive(Clone)]
pub struct Program {
    pub executable: PathBuf,
    pub is_sentinel: bool,
}

/// Why a server did not start.
pub enum Failure {
    /// Someone else took the port first.
    PortTaken,
    /// It ended, and this is its log.
    Ended(String),
}

impl Process {
    /// Starts the server in a directory, with a new configuration or with the one
    /// that is there, and waits until it answers, itself and no other on that port.
    pub fn start(
        program: &Program,
        directory: &Path,
        port: u16,
        configuration: Option<&str>,
    ) -> Result<Process, Failure> {
        if let Some(text) = configuration {
            fs::write(directory.join(CONFIGURATION_FILE), text).expect("a configuration file");
        }
        let log = directory.join("server.log");
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .expect("the server's log");
        let child = Command::new(&program.executable)
            .arg(CONFIGURATION_FILE)
            .args(program.is_sentinel.then_some("--sentinel"))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a second handle of the log"))
            .stderr(output)
            .spawn()
            .expect("the server should start");
        let mut process = Process { child, log };
        process.wait_until_ready(port).map(|()| process)
    }

    fn wait_until_ready(&mut self, port: u16) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            if self.exit_status().is_some() {
                let log = self.log_text();
                return Err(if log.contains("Address already in use") {
                    Failure::PortTaken
                } else {
                    Failure::Ended(log)
                });
            }
            if self.answers(port) {
                return Ok(());
            }
            assert!(
                start.elapsed() < PATIENCE,
                "the server does not answer:\n{}",
                self.log_text()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// PING works, and the process behind the port is this one.
    fn answers(&self, port: u16) -> bool {
        let Ok(mut client) = Client::connect(port, Protocol::Resp2) else {
            return false;
        };
        client.run("PING") == "PONG" && client.info("server", "process_id") == self.child.id().to_string()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal to our own child");
    }

    /// Stops the process, and waits until it has stopped.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        let pid = Pid::from_child(&self.child);
        waitpid(Some(pid), WaitOptions::UNTRACED).expect("the state of our own child");
    }

    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the state of our own child")
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn log_text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// What the log says of a crash, or else its last lines.
    pub fn log_excerpt(&self) -> String {
        let text = self.log_text();
        let lines: Vec<_> = text.lines().collect();
        let crash = lines
            .iter()
            .position(|line| CRASH_SIGNS.iter().any(|sign| line.contains(sign)));
        let first = match crash {
            Some(line) => line.saturating_sub(LOG_LINES_BEFORE_CRASH),
            None => lines.len().saturating_sub(LOG_LINES),
        };
        let shown: Vec<_> = lines[first..].iter().take(LOG_LINES).copied().collect();
        shown.join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- from {}:\n{}\n---", self.log.display(), self.log_excerpt());
        }
    }
}

/// Lets this process, and the servers that it starts from now on, open so many files.
pub fn raise_the_limit_of_open_files(count: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < count) {
        limit.current = Some(count);
        setrlimit(Resource::Nofile, limit).expect("the limit of open files, `ulimit -Hn`");
    }
}
