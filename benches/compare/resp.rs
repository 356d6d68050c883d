//! A connection that speaks just enough of the servers' protocol, so that all
//! contenders are driven by the same few lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Long enough for a server under valgrind; short enough to end a hung run.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub enum Reply {
    Nil,
    Int(i64),
    Text(String),
    Error(String),
    List(Vec<Reply>),
}

impl Reply {
    pub fn is_granted(&self) -> bool {
        match self {
            Reply::Int(number) => *number > 0,
            Reply::Text(_) => true,
            Reply::List(items) => !items.is_empty(),
            Reply::Nil | Reply::Error(_) => false,
        }
    }

    pub fn into_text(self) -> String {
        match self {
            Reply::Text(text) => text,
            other => panic!("expected a string, got {other:?}"),
        }
    }
}

pub struct Connection {
    stream: BufReader<TcpStream>,
}

/// One command, in the form it is sent.
pub fn encode(arguments: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend(format!("${}\r\n{argument}\r\n", argument.len()).into_bytes());
    }
    bytes
}

impl Connection {
    pub fn try_open(port: u16) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection {
            stream: BufReader::new(stream),
        })
    }

    pub fn open(port: u16) -> Connection {
        Connection::try_open(port).expect("the server should accept connections")
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream
            .get_mut()
            .write_all(bytes)
            .expect("the server should read");
    }

    pub fn call(&mut self, arguments: &[&str]) -> Reply {
        self.send(&encode(arguments));
        self.read()
    }

    /// A call whose success the measurement rests on.
    pub fn must(&mut self, arguments: &[&str]) -> Reply {
        match self.call(arguments) {
            Reply::Error(error) => panic!("{arguments:?}: {error}"),
            reply => reply,
        }
    }

    pub fn read(&mut self) -> Reply {
        self.try_read().expect("the server should answer")
    }

    pub fn try_read(&mut self) -> std::io::Result<Reply> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.split_at(1);
        Ok(match kind {
            "+" => Reply::Text(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Int(number(rest)),
            "$" => match usize::try_from(number(rest)) {
                Ok(length) => Reply::Text(self.bulk(length)?),
                Err(_) => Reply::Nil,
            },
            "*" => match usize::try_from(number(rest)) {
                Ok(length) => Reply::List((0..length).map(|_| self.try_read()).collect::<Result<_, _>>()?),
                Err(_) => Reply::Nil,
            },
            _ => panic!("not a RESP2 reply: {line:?}"),
        })
    }

    fn bulk(&mut self, length: usize) -> std::io::Result<String> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn number(text: &str) -> i64 {
    text.parse().expect("a number in a reply's head")
}
