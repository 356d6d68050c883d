//! What a server is told at its start, and the start.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use super::build::Build;
use super::client::Protocol;
use super::dress::Dress;
use super::module;
use super::process::{Failure, Process, Program};
use super::server::Server;

const PORT_ATTEMPTS: usize = 20;

/// What the server is told at its start, besides the harness' own settings.
#[derive(Clone)]
pub struct Builder {
    settings: Vec<(String, String)>,
    pub(super) program: Program,
    module: Option<PathBuf>,
    module_arguments: String,
    files: Option<PathBuf>,
    is_cluster_node: bool,
    pub(super) dress: Dress,
    pub(super) protocol: Protocol,
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder {
            settings: Vec::new(),
            program: Program {
                executable: Build::get().executable.clone(),
                is_sentinel: false,
            },
            module: None,
            module_arguments: String::new(),
            files: None,
            is_cluster_node: false,
            dress: Dress::from_environment(),
            protocol: Protocol::Resp2,
        }
    }

    /// A setting, as in the configuration file.
    pub fn set(mut self, name: &str, value: &str) -> Builder {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Another server than the one under test.
    pub fn executable(mut self, executable: &Path) -> Builder {
        self.program.executable = executable.to_owned();
        self
    }

    /// Another module than the one under test.
    pub fn module(mut self, module: &Path) -> Builder {
        self.module = Some(module.to_owned());
        self
    }

    /// A copy of these files is in the server's directory when it starts.
    pub fn on_files(mut self, directory: &Path) -> Builder {
        self.files = Some(directory.to_owned());
        self
    }

    /// A sentinel: it has no data, and loads no module.
    pub fn sentinel(mut self) -> Builder {
        self.program.is_sentinel = true;
        self.undressed()
    }

    /// Arguments of the module, separated by spaces.
    pub fn module_arguments(mut self, arguments: &str) -> Builder {
        self.module_arguments = arguments.to_owned();
        self
    }

    /// What [`Server::client`] speaks.
    pub fn protocol(mut self, protocol: Protocol) -> Builder {
        self.protocol = protocol;
        self
    }

    /// For tests that a reload or a replica would disturb or does not concern.
    pub fn undressed(mut self) -> Builder {
        self.dress = Dress::Plain;
        self
    }

    /// In this dress, whatever the others wear.
    pub fn dressed(mut self, dress: Dress) -> Builder {
        self.dress = dress;
        self
    }

    /// A node for a cluster: no slots yet, and it knows no other.
    pub fn cluster_node(mut self) -> Builder {
        self.is_cluster_node = true;
        self
    }

    /// With the append-only file, flushed at each write.
    pub fn append_only(self) -> Builder {
        self.set("appendonly", "yes").set("appendfsync", "always")
    }

    #[track_caller]
    pub fn start(self) -> Server {
        self.try_start()
            .unwrap_or_else(|log| panic!("the server did not start:\n{log}"))
    }

    /// The server, or the log of one that refused to start.
    pub fn try_start(self) -> Result<Server, String> {
        let directory = tempfile::Builder::new()
            .prefix("flock-test-")
            .tempdir()
            .expect("a directory for the server");
        if let Some(files) = &self.files {
            copy(files, directory.path()).expect("a copy of the files");
        }
        for _ in 0..PORT_ATTEMPTS {
            let port = free_port();
            let configuration = self.configuration(port);
            match Process::start(&self.program, directory.path(), port, Some(&configuration)) {
                Err(Failure::PortTaken) => continue,
                Err(Failure::Ended(log)) => return Err(log),
                Ok(process) => {
                    return Ok(Server::new(self, directory, port, process));
                }
            }
        }
        panic!("no free port in {PORT_ATTEMPTS} attempts");
    }

    /// The text of the configuration file.
    fn configuration(&self, port: u16) -> String {
        let port = port.to_string();
        let address = [("port", port.as_str()), ("bind", "127.0.0.1")];
        let own = [
            ("save", "\"\""),
            ("enable-debug-command", "yes"),
            ("enable-module-command", "yes"),
            // From a file: after a socket some servers hold the stream back
            // until the replica's next acknowledgement, a second later.
            ("repl-diskless-sync", "no"),
            ("repl-diskless-sync-delay", "0"),
        ];
        let settings = self.settings.iter();
        let settings = settings.map(|(name, value)| (name.as_str(), value.as_str()));
        if self.program.is_sentinel {
            return lines(address.into_iter().chain(settings));
        }
        let module = self.module.as_deref().unwrap_or_else(|| module::path());
        let module = format!("{} {}", module.display(), self.module_arguments);
        // By default the bus is at the port + 10,000, which may be none.
        let bus = free_port().to_string();
        let cluster = [("cluster-enabled", "yes"), ("cluster-port", bus.as_str())];
        let is_node = self.is_cluster_node || self.dress == Dress::Cluster;
        let cluster = cluster.into_iter().filter(|_| is_node);
        let all = address.into_iter().chain(own).chain(settings).chain(cluster);
        lines(all.chain([("loadmodule", module.as_str())]))
    }
}

fn lines<'a>(settings: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    settings
        .map(|(name, value)| format!("{name} {value}\n"))
        .collect()
}

/// Copies what is in a folder, folders included.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir(&target)?;
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Asks the system for a free port. Another process may take it before the
/// server does: then the server says so and [`Builder::try_start`] asks again.
pub fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port()
}
