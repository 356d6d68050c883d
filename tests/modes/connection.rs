//! Connections that a test closes, in every way there is.

use crate::support::*;

/// How a connection comes to its end.
#[derive(Clone, Copy, Debug)]
pub enum Closing {
    /// The client says so.
    Quit,
    /// An operator closes it.
    Kill,
    /// The client is gone.
    Drop,
    /// The client is gone while an answer is on its way to it.
    DropUnread,
}

pub const CLOSINGS: [Closing; 4] = [Closing::Quit, Closing::Kill, Closing::Drop, Closing::DropUnread];

/// A connection of its own, by its number.
pub struct Connection {
    pub client: Client,
    pub id: i64,
}

impl Connection {
    #[track_caller]
    pub fn open(server: &Server) -> Connection {
        let mut client = server.connect(Protocol::Resp2);
        let id = client.id();
        Connection { client, id }
    }

    /// Waits until the server knows of the end, which it may not tell from a slow client at first.
    #[track_caller]
    pub fn close(self, admin: &mut Client) {
        let line = format!("CLIENT LIST ID {}", self.id);
        drop(self.client);
        eventually(
            "the connection is closed",
            || admin.run(&line).text(),
            String::is_empty,
        );
    }
}

/// Brings a connection to its end.
#[track_caller]
pub fn close(mut connection: Connection, closing: Closing, admin: &mut Client) {
    match closing {
        Closing::Quit => assert_eq!(connection.client.run("QUIT"), OK),
        Closing::Kill => assert_eq!(admin.run(&format!("CLIENT KILL ID {}", connection.id)), 1),
        Closing::Drop => {}
        Closing::DropUnread => connection.client.send_line("DEBUG SLEEP 0.01"),
    }
}
