//! A server, a client, and what each of its commands sends to replicas.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::client::Client;
use super::eventually::eventually;
use super::server::Server;
use super::stream::ReplicationStream;

/// A stream, and a client whose commands show in it.
pub struct Scene {
    pub server: Server,
    pub client: Client,
    stream: ReplicationStream,
}

impl Scene {
    #[track_caller]
    pub fn start() -> Scene {
        let server = Server::builder().undressed().start();
        let client = server.client();
        let stream = ReplicationStream::attach(&server);
        Scene {
            server,
            client,
            stream,
        }
    }

    /// What was sent since the last look, with `AT` for each stamp that is the time of now.
    #[track_caller]
    pub fn sent(&mut self) -> Vec<String> {
        let commands = self.stream.commands_so_far(&mut self.client);
        commands.iter().map(|command| without_stamp(command)).collect()
    }

    /// Runs a line and returns what it sent.
    #[track_caller]
    pub fn sent_by(&mut self, line: &str) -> Vec<String> {
        self.client.run(line);
        self.sent()
    }

    /// Takes a lock; the stream is empty after it.
    #[track_caller]
    pub fn acquire(&mut self, line: &str) -> i64 {
        let fence = self.client.run(line).fence();
        self.sent();
        fence
    }

    /// Waits until something was sent that nobody asked for now.
    #[track_caller]
    pub fn sent_by_itself(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        eventually(
            "the server sends something by itself",
            || {
                seen.extend(self.sent());
                seen.clone()
            },
            |seen| !seen.is_empty(),
        )
    }
}

/// The stamp is the word behind the lease or the delay, and near to the time of now.
#[track_caller]
fn without_stamp(command: &str) -> String {
    let mut words: Vec<_> = command.split(' ').collect();
    let place = match words.get(2) {
        Some(&"GRANT") => 6,
        Some(&"RENEW" | &"CLOSE") => 5,
        _ => return command.to_owned(),
    };
    let stamp: u64 = words[place].parse().expect("a stamp");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the time");
    let distance = now.abs_diff(Duration::from_millis(stamp));
    assert!(
        distance < Duration::from_secs(60),
        "a stamp {distance:?} away: {command}"
    );
    words[place] = "AT";
    words.join(" ")
}
