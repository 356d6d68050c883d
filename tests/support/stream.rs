//! The replication stream as a replica sees it, so that a test can say exactly
//! what one transition sends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use redis::Parser;

use super::client::Client;
use super::eventually::PATIENCE;
use super::reply::Reply;
use super::server::Server;

const MARKER: &str = "stream:marker";

/// A connection that the server takes for a replica.
pub struct ReplicationStream {
    reader: BufReader<TcpStream>,
    parser: Parser,
    markers: i64,
}

impl ReplicationStream {
    /// Attaches, and drains the snapshot that comes first.
    pub fn attach(server: &Server) -> ReplicationStream {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).expect("a connection");
        socket.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        // Without `REPLCONF capa eof` the snapshot comes with its length in front.
        socket.write_all(b"PSYNC ? -1\r\n").expect("PSYNC");
        let mut reader = BufReader::new(socket);
        let answer = read_line(&mut reader);
        assert!(answer.starts_with("+FULLRESYNC "), "{answer:?}");
        let length = read_line(&mut reader);
        let length: u64 = length
            .strip_prefix('$')
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("not the length of a snapshot: {length:?}"));
        std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink()).expect("the snapshot");
        ReplicationStream {
            reader,
            parser: Parser::new(),
            markers: 0,
        }
    }

    /// All that was sent since the last call, one string a command, without
    /// what the server sends of its own accord (PING, REPLCONF, SELECT).
    /// The end is found by a write of `client`, not by waiting.
    #[track_caller]
    pub fn commands_so_far(&mut self, client: &mut Client) -> Vec<String> {
        self.markers += 1;
        let end = format!("SET {MARKER} {}", self.markers);
        assert_eq!(client.run(&end), super::OK);
        let mut commands = Vec::new();
        loop {
            let command = self.next_command();
            if command == end {
                return commands;
            }
            let name = command.split(' ').next().unwrap_or_default();
            if !["PING", "REPLCONF", "SELECT"].contains(&name.to_ascii_uppercase().as_str()) {
                commands.push(command);
            }
        }
    }

    fn next_command(&mut self) -> String {
        let value = self
            .parser
            .parse_value(&mut self.reader)
            .expect("a command in the stream");
        let words: Vec<_> = Reply::from(value).items().iter().map(Reply::text).collect();
        words.join(" ")
    }
}

/// A line, after any of the bare newlines that keep the link alive.
fn read_line(reader: &mut impl BufRead) -> String {
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        assert!(!line.is_empty(), "the server closed the link");
        let line = line.trim_end();
        if !line.is_empty() {
            return line.to_owned();
        }
    }
}
