//! A reply as a value that tests compare and take apart. It hides the
//! differences between RESP2 and RESP3 only where a method says so.

use std::fmt;

use redis::Value;

/// One reply, or the end of the connection.
#[derive(Clone, PartialEq)]
pub enum Reply {
    Nil,
    Int(i64),
    Bool(bool),
    Double(f64),
    Status(String),
    Bulk(Vec<u8>),
    /// The whole text, first word included: `ERR syntax error`.
    Error(String),
    List(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    /// Out of band, RESP3 only.
    Push(Vec<Reply>),
    /// The server closed the connection.
    Closed,
}

pub const NIL: Reply = Reply::Nil;
pub const OK: &str = "OK";

impl Reply {
    pub fn error(text: &str) -> Reply {
        Reply::Error(text.to_owned())
    }

    /// The integer, or a failed test.
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Reply::Int(number) => *number,
            other => panic!("expected an integer, got {other:?}"),
        }
    }

    /// A fence: an integer above 0.
    #[track_caller]
    pub fn fence(&self) -> i64 {
        let fence = self.int();
        assert!(fence > 0, "a fence is above 0, got {fence}");
        fence
    }

    /// The bytes of a bulk or status reply.
    #[track_caller]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Reply::Bulk(bytes) => bytes,
            Reply::Status(text) => text.as_bytes(),
            other => panic!("expected a string, got {other:?}"),
        }
    }

    #[track_caller]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// The text of an error reply.
    #[track_caller]
    pub fn error_text(&self) -> &str {
        match self {
            Reply::Error(text) => text,
            other => panic!("expected an error, got {other:?}"),
        }
    }

    /// The first word of an error reply.
    #[track_caller]
    pub fn error_word(&self) -> &str {
        self.error_text().split(' ').next().unwrap_or_default()
    }

    #[track_caller]
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::List(items) | Reply::Push(items) => items,
            other => panic!("expected a list, got {other:?}"),
        }
    }

    /// The names of a map's fields, in order: a RESP3 map or a flat RESP2 array.
    #[track_caller]
    pub fn names(&self) -> Vec<String> {
        self.pairs().map(|(name, _)| name.text()).collect()
    }

    /// A map's field: of a RESP3 map or of a flat RESP2 array.
    #[track_caller]
    pub fn field(&self, name: &str) -> &Reply {
        self.pairs()
            .find(|(key, _)| *key == name)
            .unwrap_or_else(|| panic!("no field {name} in {self:?}"))
            .1
    }

    #[track_caller]
    fn pairs(&self) -> Box<dyn Iterator<Item = (&Reply, &Reply)> + '_> {
        match self {
            Reply::Map(pairs) => Box::new(pairs.iter().map(|(key, value)| (key, value))),
            Reply::List(items) => {
                assert!(items.len() % 2 == 0, "not a flat map: {self:?}");
                Box::new(items.chunks(2).map(|pair| (&pair[0], &pair[1])))
            }
            other => panic!("expected a map, got {other:?}"),
        }
    }

    /// Yes or no: a RESP3 boolean, or 0 and 1 in RESP2.
    #[track_caller]
    pub fn is_true(&self) -> bool {
        match self {
            Reply::Bool(value) => *value,
            Reply::Int(0) => false,
            Reply::Int(1) => true,
            other => panic!("expected a boolean, got {other:?}"),
        }
    }
}

impl PartialEq<i64> for Reply {
    fn eq(&self, other: &i64) -> bool {
        matches!(self, Reply::Int(number) if number == other)
    }
}

impl PartialEq<str> for Reply {
    fn eq(&self, other: &str) -> bool {
        match self {
            Reply::Bulk(bytes) => bytes == other.as_bytes(),
            Reply::Status(text) => text == other,
            _ => false,
        }
    }
}

impl PartialEq<&str> for Reply {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl From<Value> for Reply {
    fn from(value: Value) -> Reply {
        let list = |items: Vec<Value>| items.into_iter().map(Reply::from).collect();
        match value {
            Value::Nil => Reply::Nil,
            Value::Int(number) => Reply::Int(number),
            Value::Boolean(value) => Reply::Bool(value),
            Value::Double(number) => Reply::Double(number),
            Value::Okay => Reply::Status(OK.to_owned()),
            Value::SimpleString(text) => Reply::Status(text),
            Value::BulkString(bytes) | Value::BigNumber(bytes) => Reply::Bulk(bytes),
            Value::VerbatimString { text, .. } => Reply::Bulk(text.into_bytes()),
            Value::Array(items) | Value::Set(items) => Reply::List(list(items)),
            Value::Map(pairs) => Reply::Map(
                pairs
                    .into_iter()
                    .map(|(key, value)| (key.into(), value.into()))
                    .collect(),
            ),
            Value::Attribute { data, .. } => (*data).into(),
            Value::Push { kind, data } => {
                let kind = Reply::Status(kind.to_string());
                Reply::Push(std::iter::once(kind).chain(list(data)).collect())
            }
            Value::ServerError(error) => Reply::Error(match error.details() {
                Some(details) => format!("{} {details}", error.code()),
                None => error.code().to_owned(),
            }),
            other => panic!("a reply the harness does not know: {other:?}"),
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Nil => f.write_str("nil"),
            Reply::Int(number) => write!(f, "{number}"),
            Reply::Bool(value) => write!(f, "{value}"),
            Reply::Double(number) => write!(f, "{number:?}"),
            Reply::Status(text) => write!(f, "+{text}"),
            Reply::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Reply::Error(text) => write!(f, "-{text}"),
            Reply::List(items) => f.debug_list().entries(items).finish(),
            Reply::Map(pairs) => f
                .debug_map()
                .entries(pairs.iter().map(|(key, value)| (key, value)))
                .finish(),
            Reply::Push(items) => {
                f.write_str(">")?;
                f.debug_list().entries(items).finish()
            }
            Reply::Closed => f.write_str("(connection closed)"),
        }
    }
}
