//! One connection. The `redis` crate encodes and decodes; the socket is ours,
//! so that a test may send now and read later, or vanish in between.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use redis::{Cmd, Parser, ToRedisArgs};

use super::eventually::PATIENCE;
use super::reply::Reply;
use super::tags::{without_tags, Tags};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Protocol {
    Resp2,
    Resp3,
}

pub struct Client {
    stream: TcpStream,
    parser: Parser,
    /// Reloads the data set after each call, in the dress of that name.
    reloader: Option<Box<Client>>,
    /// Hash tags of the keys, in the cluster dress.
    tags: Option<Tags>,
}

impl Client {
    pub fn connect(port: u16, protocol: Protocol) -> std::io::Result<Client> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        let mut client = Client {
            stream,
            parser: Parser::new(),
            reloader: None,
            tags: None,
        };
        if protocol == Protocol::Resp3 {
            client.run("HELLO 3");
        }
        Ok(client)
    }

    /// From now on `DEBUG RELOAD` runs on `reloader` after each call of this client.
    pub fn reload_after_calls(&mut self, reloader: Client) {
        self.reloader = Some(Box::new(reloader));
    }

    /// From now on the keys have hash tags at the server, unseen by the test.
    pub fn tag_keys(&mut self, tags: Tags) {
        self.tags = Some(tags);
    }

    /// Sends a command: a tuple or a slice of anything that can be an argument.
    pub fn send(&mut self, arguments: impl ToRedisArgs) {
        let mut words = arguments.to_redis_args();
        if let Some(tags) = self.tags {
            tags.add_to(&mut words);
        }
        let packed = Cmd::new().arg(words).get_packed_command();
        // A server that closes this connection meanwhile shows in `receive`.
        let _ = self.stream.write_all(&packed);
    }

    /// Sends a command of plain words.
    pub fn send_line(&mut self, line: &str) {
        self.send(line.split(' ').collect::<Vec<_>>());
    }

    /// The next reply. A test fails rather than hang.
    #[track_caller]
    pub fn receive(&mut self) -> Reply {
        self.receive_within(PATIENCE)
            .unwrap_or_else(|| panic!("no reply within {PATIENCE:?}"))
    }

    /// The next reply, or `None` if there is none within `bound`.
    pub fn receive_within(&mut self, bound: Duration) -> Option<Reply> {
        self.stream
            .set_read_timeout(Some(bound.max(Duration::from_millis(1))))
            .expect("a read timeout");
        match self.parser.parse_value(&mut self.stream) {
            Ok(value) if self.tags.is_some() => Some(without_tags(value.into())),
            Ok(value) => Some(value.into()),
            Err(error) if error.is_timeout() => None,
            Err(error) if error.is_io_error() => Some(Reply::Closed),
            Err(error) => panic!("not a reply: {error}"),
        }
    }

    /// Sends a command and reads its reply.
    #[track_caller]
    pub fn call(&mut self, arguments: impl ToRedisArgs) -> Reply {
        self.send(arguments);
        let reply = self.receive();
        if let Some(reloader) = &mut self.reloader {
            let reloaded = reloader.run("DEBUG RELOAD");
            assert_eq!(reloaded, super::OK, "DEBUG RELOAD");
        }
        reply
    }

    /// [`call`](Client::call) with a command of plain words, separated by one space.
    #[track_caller]
    pub fn run(&mut self, line: &str) -> Reply {
        self.call(line.split(' ').collect::<Vec<_>>())
    }

    /// Runs the lines in MULTI and EXEC; returns the replies of the lines.
    #[track_caller]
    pub fn transaction(&mut self, lines: &[&str]) -> Vec<Reply> {
        assert_eq!(self.run("MULTI"), super::OK);
        for line in lines {
            assert_eq!(self.run(line), "QUEUED", "{line}");
        }
        self.run("EXEC").items().to_vec()
    }

    /// Runs one command of plain words inside a script.
    #[track_caller]
    pub fn script(&mut self, line: &str) -> Reply {
        let mut words: Vec<_> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        if let Some(tags) = self.tags {
            tags.add_to(&mut words);
        }
        let words = words
            .iter()
            .map(|word| format!("'{}'", String::from_utf8_lossy(word)));
        let words: Vec<_> = words.collect();
        let body = format!("return redis.call({})", words.join(","));
        self.call(("EVAL", body, 0))
    }

    #[track_caller]
    pub fn id(&mut self) -> i64 {
        self.run("CLIENT ID").int()
    }

    /// A number from `INFO flock`.
    #[track_caller]
    pub fn stat(&mut self, name: &str) -> i64 {
        let text = self.info("flock", &format!("flock_{name}"));
        text.parse()
            .unwrap_or_else(|_| panic!("flock_{name} is {text:?}"))
    }

    /// A field of a section of INFO.
    #[track_caller]
    pub fn info(&mut self, section: &str, name: &str) -> String {
        let text = self.call(("INFO", section)).text();
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .unwrap_or_else(|| panic!("no {name} in INFO {section}:\n{text}"))
            .to_owned()
    }

    /// The clients that wait for a lock, as FLOCK.INFO shows it.
    #[track_caller]
    pub fn waiters(&mut self, key: &str) -> i64 {
        match self.call(("FLOCK.INFO", key)) {
            Reply::Nil => 0,
            info => info.field("waiters").int(),
        }
    }
}
