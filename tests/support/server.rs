//! A server under test: how it is stopped, restarted and looked at.

use std::path::Path;
use std::process::ExitStatus;

use rustix::process::Signal;
use tempfile::TempDir;

use super::build::Build;
use super::builder::Builder;
use super::client::{Client, Protocol};
use super::cluster;
use super::dress::{self, Dress};
use super::eventually::{eventually, PATIENCE};
use super::process::{Failure, Process, CRASH_SIGNS};
use super::tags::{self, Tags};

/// A running server. When it goes, it must still be alive and, in the replica
/// dress, its replica must agree with it.
pub struct Server {
    builder: Builder,
    port: u16,
    /// None after the test itself ended it.
    process: Option<Process>,
    /// The companion of the replica dress.
    companion: Option<Box<Server>>,
    directory: TempDir,
    /// Those of the cluster dress.
    tags: Option<Tags>,
}

impl Server {
    pub(super) fn new(builder: Builder, directory: TempDir, port: u16, process: Process) -> Server {
        let mut server = Server {
            builder,
            port,
            process: Some(process),
            companion: None,
            directory,
            tags: None,
        };
        if server.builder.dress == Dress::Cluster {
            cluster::take_all_slots(&server);
            server.tags = Some(Tags::of_this_test());
        }
        if server.builder.dress == Dress::Replica {
            server.companion = Some(Box::new(dress::start_companion(&server)));
        }
        server
    }

    /// A server with nothing special about it.
    #[track_caller]
    pub fn start() -> Server {
        Server::builder().start()
    }

    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A replica of this server, in step with it.
    #[track_caller]
    pub fn start_replica(&self, builder: Builder) -> Server {
        let replica = builder
            .undressed()
            .set("replicaof", &format!("127.0.0.1 {}", self.port))
            .start();
        replica.wait_for_link();
        self.wait_for_stream();
        replica
    }

    /// Waits until a replica is sent the stream, which does not
    /// always begin with the end of the synchronization.
    #[track_caller]
    fn wait_for_stream(&self) {
        let mut admin = self.admin();
        if admin.info("replication", "role") != "master" {
            return; // a replica of its own, which knows no WAIT
        }
        admin.run("PUBLISH flock:test stream"); // goes into the stream, and changes nothing
        let acknowledged = admin.call(("WAIT", 1, PATIENCE.as_millis() as u64));
        assert!(acknowledged.int() > 0, "no replica acknowledges");
    }

    /// Waits until this replica has its primary's data and stream.
    #[track_caller]
    pub fn wait_for_link(&self) {
        let mut admin = self.admin();
        eventually(
            "the replica is connected",
            || admin.info("replication", "master_link_status"),
            |status| status == "up",
        );
    }

    /// A client of the test's own: in the reload dress, the data set is
    /// reloaded after each of its calls.
    #[track_caller]
    pub fn client(&self) -> Client {
        let mut client = self.connect(self.builder.protocol);
        if self.builder.dress == Dress::Reload {
            client.reload_after_calls(self.admin());
        }
        client
    }

    /// A client that no dress touches.
    #[track_caller]
    pub fn admin(&self) -> Client {
        self.connect(Protocol::Resp2)
    }

    #[track_caller]
    pub fn connect(&self, protocol: Protocol) -> Client {
        let mut client = Client::connect(self.port, protocol).expect("a connection");
        if let Some(tags) = self.tags {
            client.tag_keys(tags);
        }
        client
    }

    /// Sends a command that blocks from a client of its own, and returns that
    /// client once the command stands in the queue of `key` (in database 0).
    #[track_caller]
    pub fn enqueue(&self, key: &str, line: &str) -> Client {
        self.enqueue_in(0, key, line)
    }

    /// [`enqueue`](Server::enqueue) in another database.
    #[track_caller]
    pub fn enqueue_in(&self, database: u32, key: &str, line: &str) -> Client {
        let mut admin = self.admin();
        admin.call(("SELECT", database));
        let mut client = self.connect(self.builder.protocol);
        client.call(("SELECT", database));
        let before = admin.waiters(key);
        client.send_line(line);
        eventually(
            &format!("in the queue: {line}"),
            || admin.waiters(key),
            |waiters| *waiters == before + 1,
        );
        client
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log_text).unwrap_or_default()
    }

    pub fn build(&self) -> &'static Build {
        Build::get()
    }

    fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("a running server")
    }

    /// The test has not ended it.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// The power goes.
    pub fn kill9(&mut self) {
        self.process().kill();
        self.process = None;
    }

    /// Starts again on the same port with the same files, configuration included.
    #[track_caller]
    pub fn restart(&mut self) {
        self.try_restart()
            .unwrap_or_else(|log| panic!("the server did not start again:\n{log}"));
    }

    /// [`restart`](Server::restart), or the log of a server that refused to.
    pub fn try_restart(&mut self) -> Result<(), String> {
        self.process = None;
        match Process::start(&self.builder.program, self.directory.path(), self.port, None) {
            Ok(process) => self.process = Some(process),
            Err(Failure::PortTaken) => panic!("port {} was taken meanwhile", self.port),
            Err(Failure::Ended(log)) => return Err(log),
        }
        if self.builder.dress == Dress::Cluster {
            cluster::wait_until_the_cluster_is_up(self);
        }
        Ok(())
    }

    /// Freezes the process; it does nothing any more when this returns.
    pub fn stop(&mut self) {
        self.process().stop();
    }

    pub fn resume(&mut self) {
        self.process().signal(Signal::CONT);
    }

    /// Waits until the server has ended by itself, and returns how.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> (ExitStatus, String) {
        let process = self.process();
        let status = eventually("the server ends", || process.exit_status(), Option::is_some);
        let log = process.log_text();
        self.process = None;
        (status.expect("an exit status"), log)
    }

    #[track_caller]
    pub fn assert_alive(&mut self) {
        let status = self.process().exit_status();
        assert!(status.is_none(), "the server ended: {status:?}");
    }

    /// Fails unless the server is alive and well.
    #[track_caller]
    pub fn check(&mut self) {
        if self.process.is_none() {
            return;
        }
        self.assert_alive();
        let log = self.log();
        for sign in CRASH_SIGNS {
            assert!(!log.contains(sign), "the server's log says {sign}");
        }
        assert_eq!(self.admin().run("PING"), "PONG");
        if let Some(companion) = &mut self.companion {
            companion.check();
        }
        if let Some(companion) = &self.companion {
            dress::assert_agreement(self, companion);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}

/// Runs a test twice, each time on a server of its own, with a RESP2 and a
/// RESP3 client.
#[track_caller]
pub fn in_both_protocols(test: impl Fn(&Server, &mut Client)) {
    in_both_protocols_with(Server::builder(), test);
}

/// [`in_both_protocols`] on servers of a special kind.
#[track_caller]
pub fn in_both_protocols_with(builder: Builder, test: impl Fn(&Server, &mut Client)) {
    if builder.dress == Dress::Cluster && tags::is_skipped() {
        return;
    }
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let server = builder.clone().protocol(protocol).start();
        test(&server, &mut server.client());
    }
}
