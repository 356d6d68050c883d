//! A connection that does not interpret what it reads: a reply is its bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use crate::support::{Protocol, Server, PATIENCE};

pub struct RawClient {
    reader: BufReader<TcpStream>,
}

impl RawClient {
    #[track_caller]
    pub fn connect(server: &Server, protocol: Protocol) -> RawClient {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        let mut client = RawClient {
            reader: BufReader::new(stream),
        };
        if protocol == Protocol::Resp3 {
            let reply = client.call(&[b"HELLO", b"3"]);
            assert_eq!(reply[0], b'%', "HELLO 3");
        }
        client
    }

    /// Sends a command and reads the bytes of one reply.
    #[track_caller]
    pub fn call(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).into_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.reader.get_mut().write_all(&request).expect("the request");
        let mut reply = Vec::new();
        self.read_reply(&mut reply);
        reply
    }

    fn read_reply(&mut self, reply: &mut Vec<u8>) {
        let start = reply.len();
        self.reader.read_until(b'\n', reply).expect("a line");
        let line = &reply[start..];
        assert!(
            line.ends_with(b"\r\n"),
            "not a line: {:?}",
            line.escape_ascii().to_string()
        );
        let kind = line[0];
        let count = std::str::from_utf8(&line[1..line.len() - 2])
            .ok()
            .and_then(|text| text.parse::<i64>().ok())
            .unwrap_or(-1);
        match (kind, usize::try_from(count)) {
            (b'$' | b'=' | b'!', Ok(length)) => {
                let start = reply.len();
                reply.resize(start + length + 2, 0);
                self.reader.read_exact(&mut reply[start..]).expect("a string");
            }
            (b'*' | b'~' | b'>', Ok(count)) => (0..count).for_each(|_| self.read_reply(reply)),
            (b'%', Ok(count)) => (0..2 * count).for_each(|_| self.read_reply(reply)),
            // What the attribute is about comes behind it.
            (b'|', Ok(count)) => (0..=2 * count).for_each(|_| self.read_reply(reply)),
            _ => {}
        }
    }
}
