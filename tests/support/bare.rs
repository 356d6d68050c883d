//! A server without the module, for files that must load there, or must not.

use std::path::Path;

use super::build::Build;
use super::builder::free_port;
use super::client::{Client, Protocol};
use super::process::{Failure, Process, Program};

pub struct BareServer {
    process: Process,
    port: u16,
}

impl BareServer {
    /// Starts on the files of `directory`; its log, if it refuses.
    pub fn start(directory: &Path) -> Result<BareServer, String> {
        let port = free_port();
        let configuration = format!("port {port}\nbind 127.0.0.1\nsave \"\"\nenable-module-command yes\n");
        let program = Program {
            executable: Build::get().executable.clone(),
            is_sentinel: false,
        };
        match Process::start(&program, directory, port, Some(&configuration)) {
            Ok(process) => Ok(BareServer { process, port }),
            Err(Failure::PortTaken) => BareServer::start(directory),
            Err(Failure::Ended(log)) => Err(log),
        }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.port, Protocol::Resp2).expect("a connection")
    }
}
