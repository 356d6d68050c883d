//! What the hostile callers send: mostly sound lock commands on few keys, so
//! that they meet; the rest is everything around them that may go wrong.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::Rng;

use super::locks::{lock_command, KEYS};

/// What may be in a run. Some servers cannot bear some of it together, with or
/// without a module.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// DEBUG RELOAD. The servers forget a native expiry that passes meanwhile
    /// without telling their replicas, and after a reload during a BGSAVE they
    /// send the next reload to their replicas and files. So not together with
    /// `native_expiry` and `snapshots`.
    pub reloads: bool,
    pub native_expiry: bool,
    pub snapshots: bool,
    /// CLIENT PAUSE and FAILOVER. Redis 8.6 ends at a native SET, too, that follows them in one
    /// transaction, if its key has a native expiry that has passed: so not with `native_expiry`.
    /// Older servers crash when CLIENT UNBLOCK meets
    /// a client whose command a pause has put off.
    pub pauses: bool,
    pub unblocks: bool,
}

pub type Command = Vec<Vec<u8>>;

const DATABASES: [&str; 3] = ["0", "1", "2"];
/// Words that are no key, token or number in their place, or strange ones.
const GARBAGE: [&[u8]; 21] = [
    b"",
    b"0",
    b"-1",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9007199254740990",
    b"4611686018427387",
    b"1e3",
    b"\0",
    b"a\0b",
    // ASCII, since an error may quote it in part, and is read as text; other bytes are in contract/.
    b"x\r\n",
    b"PX",
    b"BLOCK",
    b"ABOVE",
    b"LABEL",
    b"SHARED",
    b"PERMITS",
    b"SESSION",
    b"DELAY",
    b"FLOCK.GUARD",
    b"{a}",
];

const KEYSPACE: [&str; 24] = [
    "DEL {key}",
    "DEL {key} {key}",
    "UNLINK {key}",
    "SET {key} text",
    "SETRANGE {key} 3 x",
    "APPEND {key} x",
    "GETDEL {key}",
    "RPUSH {key} x",
    "RENAME {key} {key}",
    "RENAMENX {key} {key}",
    "MOVE {key} {db}",
    "COPY {key} {key} REPLACE",
    "SWAPDB {db} {db}",
    "FLUSHDB",
    "FLUSHALL",
    "FLUSHALL ASYNC",
    "FLUSHDB ASYNC",
    "PERSIST {key}",
    "OBJECT ENCODING {key}",
    "DUMP {key}",
    "TYPE {key}",
    "SCAN 0 TYPE flocklock",
    "MEMORY USAGE {key}",
    "SELECT {db}",
];

const UNGUARDABLE: [&str; 8] = [
    "MULTI",
    "BLPOP {key} 0",
    "SUBSCRIBE {key}",
    "FLOCK.GUARD {key} t0 FLOCK.GUARD {key} t0 DEL {key}",
    "CLIENT KILL ID {id}",
    "CONFIG SET maxmemory 1",
    "DEBUG RELOAD",
    "WAIT 1 0",
];

const NATIVE_EXPIRY: &[&str] = &[
    "PEXPIRE {key} 1",
    "PEXPIRE {key} 20",
    "PEXPIRE {key} -1",
    "EXPIREAT {key} 1",
    "PEXPIRE {key} 100",
];

const UNBLOCKS: &[&str] = &[
    "CLIENT UNBLOCK {id}",
    "CLIENT UNBLOCK {id} TIMEOUT",
    "CLIENT UNBLOCK {id} ERROR",
];

const PAUSES: &[&str] = &["CLIENT PAUSE 20 WRITE", "CLIENT PAUSE 10 ALL", "CLIENT UNPAUSE"];

const ADMINISTRATION: &[&str] = &[
    "CLIENT KILL ID {id}",
    "CLIENT KILL ID {id}",
    "CONFIG SET flock.max-waiters 2",
    "CONFIG SET flock.max-waiters 1000",
    "CONFIG SET flock.max-waiters-total 3",
    "CONFIG SET flock.max-waiters-total 10000",
    "CONFIG SET flock.max-lease-ms 50",
    "CONFIG SET flock.max-lease-ms 200",
    "CONFIG SET flock.fence-source counter",
    "CONFIG SET flock.fence-source clock",
    "CONFIG SET flock.notify no",
    "CONFIG SET flock.notify yes",
    "CONFIG SET notify-keyspace-events KEA",
    "CONFIG SET maxmemory-policy allkeys-lru",
    "CONFIG SET maxmemory-policy noeviction",
    "INFO everything",
    "RESET",
    "HELLO 3",
    "HELLO 2",
];

/// What costs more than the others, and is rarer. What is changed here is
/// changed back on the same connection, after lock commands (`{lock}`) that meet it.
const SEQUENCES: &[&[&str]] = &[
    &["BGREWRITEAOF"],
    &["CONFIG SET appendonly no", "{lock}", "CONFIG SET appendonly yes"],
    &[
        "CONFIG SET maxmemory 1",
        "{lock}",
        "{lock}",
        "CONFIG SET maxmemory 0",
    ],
    &["REPLICAOF 127.0.0.1 1", "{lock}", "{lock}", "REPLICAOF NO ONE"],
];

const FAILOVER: &[&str] = &["FAILOVER TIMEOUT 1", "{lock}", "{lock}", "REPLICAOF NO ONE"];

pub struct Generator {
    administration: Vec<&'static str>,
    sequences: Vec<&'static [&'static str]>,
}

impl Generator {
    pub fn new(mix: Mix) -> Generator {
        let mut administration = ADMINISTRATION.to_vec();
        let mut sequences = SEQUENCES.to_vec();
        if mix.native_expiry {
            administration.extend(NATIVE_EXPIRY);
        }
        if mix.unblocks {
            administration.extend(UNBLOCKS);
        }
        if mix.pauses {
            administration.extend(PAUSES);
            sequences.push(FAILOVER);
        }
        if mix.snapshots {
            sequences.push(&["BGSAVE"]);
        }
        if mix.reloads {
            sequences.extend([&["DEBUG RELOAD"][..]; 3]);
        }
        Generator {
            administration,
            sequences,
        }
    }

    /// The next command, or commands that belong together.
    pub fn next(&self, random: &mut StdRng, ids: &[i64]) -> Vec<Command> {
        match random.random_range(0..1000) {
            0..580 => vec![lock_command(random)],
            580..600 => vec![guarded(random, ids, &KEYSPACE)],
            600..680 => vec![garbage(random, ids)],
            680..780 => vec![fill(random, ids, &KEYSPACE)],
            780..850 => self.transaction(random, ids),
            850..890 => vec![script(random)],
            890..980 => vec![fill(random, ids, &self.administration)],
            _ => self.sequence(random),
        }
    }

    /// Commands of all kinds between MULTI and EXEC, sometimes behind WATCH.
    fn transaction(&self, random: &mut StdRng, ids: &[i64]) -> Vec<Command> {
        let mut commands = Vec::new();
        if random.random_bool(0.2) {
            commands.push(fill(random, ids, &["WATCH {key}"]));
        }
        commands.push(words("MULTI"));
        for _ in 0..random.random_range(1..6) {
            commands.push(match random.random_range(0..10) {
                0..5 => lock_command(random),
                5 => fill(random, ids, &KEYSPACE),
                6 => guarded(random, ids, &KEYSPACE),
                7..9 => fill(random, ids, &self.administration),
                _ => garbage(random, ids),
            });
        }
        commands.push(words(if random.random_bool(0.9) {
            "EXEC"
        } else {
            "DISCARD"
        }));
        commands
    }

    /// A sequence from the list, its lock commands filled in.
    fn sequence(&self, random: &mut StdRng) -> Vec<Command> {
        let lines = self.sequences.choose(random).expect("not empty");
        lines
            .iter()
            .map(|line| match *line {
                "{lock}" => lock_command(random),
                line => words(line),
            })
            .collect()
    }
}

/// One of the lines under the guard of a lock: as it is, or in a script.
fn guarded(random: &mut StdRng, ids: &[i64], lines: &[&str]) -> Command {
    let mut command = fill(random, ids, &["FLOCK.GUARD {key} t0", "FLOCK.GUARD {key} t1"]);
    if random.random_bool(0.3) {
        command.extend(words("EVAL"));
        command.push(b"return redis.pcall(unpack(ARGV))".to_vec());
        command.push(b"0".to_vec());
    }
    command.extend(match random.random_range(0..4) {
        0 => lock_command(random),
        _ => fill(random, ids, lines),
    });
    command
}

/// One of the lines, with its placeholders filled.
fn fill(random: &mut StdRng, ids: &[i64], lines: &[&str]) -> Command {
    let line = pick(random, lines);
    let id = ids.choose(random).copied().unwrap_or(1).to_string();
    line.split(' ')
        .map(|word| match word {
            "{key}" => pick(random, &KEYS).as_bytes().to_vec(),
            "{db}" => pick(random, &DATABASES).as_bytes().to_vec(),
            "{id}" => id.as_bytes().to_vec(),
            word => word.as_bytes().to_vec(),
        })
        .collect()
}

fn pick<'a>(random: &mut StdRng, words: &[&'a str]) -> &'a str {
    words.choose(random).expect("not empty")
}

fn words(line: &str) -> Command {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// A lock command with some of its words replaced, dropped or doubled, or an
/// internal one.
fn garbage(random: &mut StdRng, ids: &[i64]) -> Command {
    let mut command = match random.random_range(0..10) {
        0 => words("FLOCK.APPLY a GRANT 9 t 1000 1"),
        1 => words("FLOCK.APPLY a RELEASE 9"),
        2 => words("FLOCK.FENCE 9"),
        3 => guarded(random, ids, &KEYSPACE),
        4 => guarded(random, ids, &UNGUARDABLE),
        _ => lock_command(random),
    };
    for _ in 0..random.random_range(1..4) {
        let index = random.random_range(1..=command.len());
        let word = GARBAGE.choose(random).expect("not empty").to_vec();
        match random.random_range(0..3) {
            0 if index < command.len() => drop(command.remove(index)),
            1 if index < command.len() => command[index] = word,
            _ => command.insert(index, word),
        }
    }
    command
}

/// A lock command in a script.
fn script(random: &mut StdRng) -> Command {
    let mut command = words("EVAL");
    let call = if random.random_bool(0.5) { "call" } else { "pcall" };
    command.push(format!("return redis.{call}(unpack(ARGV))").into_bytes());
    command.push(b"0".to_vec());
    command.extend(lock_command(random));
    command
}
