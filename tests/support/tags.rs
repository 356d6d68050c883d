//! Names of keys in the cluster dress: with a hash tag or without, at random. Clients add the tags to
//! what they send and take them from what they are told, so a test sees the names that it knows.

use std::sync::OnceLock;

use super::reply::Reply;
use super::seed::seed;

const TAG_START: &[u8] = b"{tag-";
const TAG_END: &[u8] = b"}:";
/// So many tags there are; and as many more fates of a name, in which it has none.
const TAGS: u64 = 40;
const EVENTS: &[u8] = b"__keyspace@0__:";

/// How the names of a test are treated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Names {
    /// Each has a tag of its own, or none.
    Scattered,
    /// All have the same tag: the test puts several keys into one command or transaction.
    Together,
    /// None has one: the test has the names in places where no client finds them.
    Bare,
}

use Names::{Bare, Together};

/// Tests whose names are not to be scattered.
const EXCEPTIONS: [(&str, Names); 5] = [
    // With RENAME and COPY, or several keys in one transaction.
    (
        "fences_grow_across_locks_and_through_all_that_removes_them",
        Together,
    ),
    ("a_lock_cannot_be_copied", Together),
    ("block_in_a_transaction_is_one_try", Together),
    // Names in the text of a script, and in the rules of a user.
    ("a_script_hands_the_lock_to_the_queue_before_it_goes_on", Bare),
    ("a_user_needs_the_command_and_the_key", Bare),
];

/// Tests that a cluster has no place for, and why.
const SKIPPED: [(&str, &str); 1] = [(
    "locks_of_one_name_in_two_databases_are_two_locks",
    "a cluster has one database",
)];

/// The tags of one server.
#[derive(Clone, Copy, Debug)]
pub struct Tags {
    names: Names,
    seed: u64,
}

impl Tags {
    /// Prints the seed, which `FLOCK_SEED` repeats.
    pub fn of_this_test() -> Tags {
        static SEED: OnceLock<u64> = OnceLock::new();
        let seed = *SEED.get_or_init(seed);
        println!("FLOCK_SEED={seed} (hash tags)");
        let name = test_name();
        let exception = EXCEPTIONS.iter().find(|(test, _)| *test == name);
        let names = exception.map_or(Names::Scattered, |(_, names)| *names);
        // Most tests call their key `k`: let not all of them have the same tag, or none.
        let seed = mix(seed, name.as_bytes());
        Tags { names, seed }
    }

    fn tag(self, key: &[u8]) -> Option<u64> {
        let fate = match self.names {
            // A key with a brace may have a tag already, and is to be what it is.
            _ if key.contains(&b'{') => return None,
            Names::Scattered => mix(self.seed, key) % (2 * TAGS),
            Names::Together => self.seed % TAGS,
            Names::Bare => return None,
        };
        (fate < TAGS).then_some(fate)
    }

    fn add(self, key: &mut Vec<u8>) {
        let (prefix, name) = match key.strip_prefix(EVENTS) {
            Some(name) => (EVENTS, name),
            None => (&b""[..], &key[..]),
        };
        if let Some(tag) = self.tag(name) {
            let tag = format!("{{tag-{tag}}}:");
            *key = [prefix, tag.as_bytes(), name].concat();
        }
    }

    /// Adds the tags to the keys of a command.
    pub fn add_to(self, command: &mut [Vec<u8>]) {
        for place in places(command) {
            if let Some(key) = command.get_mut(place) {
                self.add(key);
            }
        }
    }
}

/// A number that looks random, and is the same for the same text.
fn mix(seed: u64, text: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| {
        let product = (sum ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        product ^ product >> 32
    };
    text.iter().fold(seed, step)
}

/// Where the keys are in a command. Only what the tests send needs to be known.
fn places(command: &[Vec<u8>]) -> Vec<usize> {
    let word = |index: usize| {
        let word = command.get(index).map_or(&b""[..], Vec::as_slice);
        String::from_utf8_lossy(word).to_uppercase()
    };
    let within = |start: usize| {
        places(&command[start.min(command.len())..])
            .into_iter()
            .map(move |at| at + start)
    };
    match word(0).as_str() {
        "FLOCK.HELP" => Vec::new(),
        "FLOCK.MACQUIRE" | "FLOCK.MREFRESH" | "FLOCK.MRELEASE" => {
            let count = word(1).parse().unwrap_or(0).min(command.len());
            (2..2 + count).collect()
        }
        "FLOCK.GUARD" => std::iter::once(1).chain(within(3)).collect(),
        "COMMAND" if word(1) == "GETKEYS" => within(2).collect(),
        "OBJECT" | "MEMORY" => vec![2],
        "DEBUG" if word(1) == "OBJECT" => vec![2],
        "DEL" | "UNLINK" | "EXISTS" | "MGET" | "WATCH" | "SUBSCRIBE" => (1..command.len()).collect(),
        "RENAME" | "RENAMENX" | "COPY" => vec![1, 2],
        "GET" | "SET" | "APPEND" | "INCR" | "RPUSH" | "HSET" | "SADD" | "ZADD" | "XADD" | "DUMP"
        | "RESTORE" | "TYPE" | "TTL" | "PTTL" | "EXPIRE" | "PEXPIRE" | "PERSIST" => vec![1],
        name if name.starts_with("FLOCK.") => vec![1],
        _ => Vec::new(),
    }
}

/// A reply as it would be without tags.
pub fn without_tags(reply: Reply) -> Reply {
    let all = |items: Vec<Reply>| items.into_iter().map(without_tags).collect();
    match reply {
        Reply::Bulk(bytes) => Reply::Bulk(strip(&bytes)),
        Reply::Status(text) => Reply::Status(String::from_utf8_lossy(&strip(text.as_bytes())).into_owned()),
        Reply::Error(text) => Reply::Error(String::from_utf8_lossy(&strip(text.as_bytes())).into_owned()),
        Reply::List(items) => Reply::List(all(items)),
        Reply::Push(items) => Reply::Push(all(items)),
        Reply::Map(pairs) => {
            let pairs = pairs.into_iter();
            Reply::Map(
                pairs
                    .map(|(name, value)| (without_tags(name), without_tags(value)))
                    .collect(),
            )
        }
        other => other,
    }
}

fn strip(text: &[u8]) -> Vec<u8> {
    let find = |text: &[u8], part: &[u8]| text.windows(part.len()).position(|window| window == part);
    let Some(start) = find(text, TAG_START) else {
        return text.to_vec();
    };
    let Some(length) = find(&text[start..], TAG_END) else {
        return text.to_vec();
    };
    let rest = strip(&text[start + length + TAG_END.len()..]);
    [&text[..start], &rest].concat()
}

/// The running test's name, without its modules: libtest gives it to the thread.
fn test_name() -> String {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("main");
    assert_ne!(name, "main", "the cluster dress needs a thread for each test");
    name.rsplit("::").next().unwrap_or_default().to_owned()
}

/// Whether the running test has no place in a cluster; it says why.
pub fn is_skipped() -> bool {
    let name = test_name();
    let reason = SKIPPED.iter().find(|(test, _)| *test == name);
    if let Some((_, reason)) = reason {
        println!("skipped in the cluster dress: {reason}");
    }
    reason.is_some()
}
