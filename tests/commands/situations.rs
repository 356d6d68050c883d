//! Requests and the errors that they get, in the situations where they get them: what the pages must list.

pub const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const SYNTAX: &str = "ERR syntax error";
const NOT_A_NUMBER: &str = "ERR value is not an integer or out of range";
const NOT_A_TIMEOUT: &str = "ERR timeout is not an integer or out of range";
const TOKEN_LENGTH: &str = "ERR the token must be 1 to 1024 bytes";
const LABEL_LENGTH: &str = "ERR the label must be at most 256 bytes";
const ABOVE_RANGE: &str = "ERR ABOVE must be between 0 and 9007199254740990";
const HELD_OTHERWISE: &str = "ERR this token holds the lock in another mode; release it first";
const WAITS_OTHERWISE: &str =
    "ERR this token waits for the lock in another mode, or together with other locks";
const NUMKEYS: &str = "ERR numkeys should be greater than 0";
const TOO_FEW_KEYS: &str = "ERR Number of keys can't be greater than number of args";
const TOO_MANY_LOCKS: &str = "ERR at most 1024 locks at once";
const NAMED_TWICE: &str = "ERR a lock is named twice";
const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
const OUT_OF_MEMORY: &str = "OOM …";
const NO_RIGHT: &str = "NOPERM …";
const CROSS_SLOT: &str = "CROSSSLOT …";
const QUEUE_FULL: &str = "QUEUEFULL too many clients wait; see flock.max-waiters and flock.max-waiters-total";
const SUPERSEDED: &str = "SUPERSEDED a newer request with the same token took over this place in the queue";
const UNBLOCKED: &str = "UNBLOCKED …";

/// What a request meets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Situation {
    /// `text` is a string; the token `t` holds `mine` and `other`, `shared` as one of many, and `permits` as one of
    /// two; the token `w` waits for `mine`.
    Ordinary,
    /// The server is a replica.
    Replica,
    /// No memory is left.
    NoMemory,
    /// The user has no rights.
    Stranger,
    /// The node has all the slots of a cluster.
    Cluster,
    /// `mine` is held, and nobody may wait.
    NoRoom,
    /// The request waits for `mine`, and is sent again over another connection.
    SentAgain,
    /// The request waits for `mine`, and the server becomes a replica.
    Demoted,
    /// The request waits for `mine`, and something else is stored there.
    Replaced,
}

/// Requests with the error that each gets, as its page lists it. `{bytes:9}` stands for 9 bytes, `{keys:9}` for
/// 9 keys.
pub type Requests = &'static [(&'static str, &'static str)];

pub const SITUATIONS: &[(Situation, Requests)] = &[
    (Situation::Ordinary, ARGUMENTS_OF_ONE),
    (Situation::Ordinary, ARGUMENTS_OF_MANY),
    (Situation::Ordinary, ONE_TOKEN),
    (Situation::Ordinary, OTHER_TYPE),
    (Situation::Replica, ON_A_REPLICA),
    (Situation::NoMemory, WITHOUT_MEMORY),
    (Situation::Stranger, WITHOUT_RIGHTS),
    (Situation::Cluster, ACROSS_SLOTS),
    (
        Situation::NoRoom,
        &[
            ("FLOCK.ACQUIRE mine u PX 1000 BLOCK 0", QUEUE_FULL),
            ("FLOCK.MACQUIRE 2 free mine u PX 1000 BLOCK 0", QUEUE_FULL),
        ],
    ),
    (
        Situation::SentAgain,
        &[
            ("FLOCK.ACQUIRE mine u PX 1000 BLOCK 0", SUPERSEDED),
            ("FLOCK.MACQUIRE 2 free mine u PX 1000 BLOCK 0", SUPERSEDED),
        ],
    ),
    (
        Situation::Demoted,
        &[
            ("FLOCK.ACQUIRE mine u PX 1000 BLOCK 0", UNBLOCKED),
            ("FLOCK.MACQUIRE 2 free mine u PX 1000 BLOCK 0", UNBLOCKED),
        ],
    ),
    (
        Situation::Replaced,
        &[
            ("FLOCK.ACQUIRE mine u PX 1000 BLOCK 0", WRONG_TYPE),
            ("FLOCK.MACQUIRE 2 free mine u PX 1000 BLOCK 0", WRONG_TYPE),
        ],
    ),
];

const ARGUMENTS_OF_ONE: Requests = &[
    (
        "FLOCK.ACQUIRE free u PX",
        "ERR wrong number of arguments for 'flock.acquire' command",
    ),
    ("FLOCK.ACQUIRE free u BLOCK 0", SYNTAX),
    ("FLOCK.ACQUIRE free u PX 1000 NX", SYNTAX),
    ("FLOCK.ACQUIRE free u PX 1000 SESSION SESSION", SYNTAX),
    ("FLOCK.ACQUIRE free u PX 1000 LABEL", SYNTAX),
    ("FLOCK.ACQUIRE free u PX 1000 EX 1", SYNTAX),
    ("FLOCK.ACQUIRE free u PX 1000 SHARED PERMITS 2", SYNTAX),
    ("FLOCK.ACQUIRE free u PX 1e3", NOT_A_NUMBER),
    ("FLOCK.ACQUIRE free u EX 05", NOT_A_NUMBER),
    ("FLOCK.ACQUIRE free u PX 1000 PERMITS two", NOT_A_NUMBER),
    ("FLOCK.ACQUIRE free u PX 1000 ABOVE +1", NOT_A_NUMBER),
    ("FLOCK.ACQUIRE free u PX 1000 DELAY 1.5", NOT_A_NUMBER),
    (
        "FLOCK.ACQUIRE free u PX 0",
        "ERR invalid expire time in 'flock.acquire' command",
    ),
    ("FLOCK.ACQUIRE free u PX 1000 BLOCK x", NOT_A_TIMEOUT),
    (
        "FLOCK.ACQUIRE free u PX 1000 BLOCK 4611686018427388",
        NOT_A_TIMEOUT,
    ),
    ("FLOCK.ACQUIRE free u PX 1000 BLOCK -1", "ERR timeout is negative"),
    (
        "FLOCK.ACQUIRE free u PX 1000 PERMITS 0",
        "ERR PERMITS must be between 1 and 4294967295",
    ),
    ("FLOCK.ACQUIRE free u PX 1000 ABOVE -1", ABOVE_RANGE),
    (
        "FLOCK.ACQUIRE free u PX 1000 DELAY -1",
        "ERR DELAY must be between 0 and 4611686018427387",
    ),
    ("FLOCK.ACQUIRE free {bytes:0} PX 1000", TOKEN_LENGTH),
    ("FLOCK.ACQUIRE free u PX 1000 LABEL {bytes:257}", LABEL_LENGTH),
    (
        "FLOCK.GUARD mine t FLOCK.ACQUIRE free u PX 1000 SESSION",
        "ERR SESSION needs a connection of the caller's own; a script or a guarded command has none",
    ),
    (
        "FLOCK.REFRESH mine t",
        "ERR wrong number of arguments for 'flock.refresh' command",
    ),
    ("FLOCK.REFRESH mine t NX 1000", SYNTAX),
    ("FLOCK.REFRESH mine t PX 10ms", NOT_A_NUMBER),
    (
        "FLOCK.REFRESH mine t EX -1",
        "ERR invalid expire time in 'flock.refresh' command",
    ),
    ("FLOCK.REFRESH mine {bytes:1025} PX 1000", TOKEN_LENGTH),
    (
        "FLOCK.RELEASE mine",
        "ERR wrong number of arguments for 'flock.release' command",
    ),
    ("FLOCK.RELEASE mine {bytes:1025}", TOKEN_LENGTH),
    (
        "FLOCK.PTTL mine t more",
        "ERR wrong number of arguments for 'flock.pttl' command",
    ),
    ("FLOCK.PTTL mine {bytes:1025}", TOKEN_LENGTH),
    (
        "FLOCK.GUARD mine t",
        "ERR wrong number of arguments for 'flock.guard' command",
    ),
    ("FLOCK.GUARD mine {bytes:1025} PING", TOKEN_LENGTH),
    (
        "FLOCK.GUARD mine u PING",
        "NOTHELD the token does not hold the lock; the command did not run",
    ),
    (
        "FLOCK.GUARD mine t BLPOP list 0",
        "ERR this command cannot be guarded: it may block, or belongs to a connection, a transaction, \
         a subscription or an administrator, or is FLOCK.GUARD itself",
    ),
    (
        "FLOCK.INFO",
        "ERR wrong number of arguments for 'flock.info' command",
    ),
    (
        "FLOCK.BREAK",
        "ERR wrong number of arguments for 'flock.break' command",
    ),
    (
        "FLOCK.HELP me",
        "ERR wrong number of arguments for 'flock.help' command",
    ),
];

const ARGUMENTS_OF_MANY: Requests = &[
    (
        "FLOCK.MACQUIRE 1 free u PX",
        "ERR wrong number of arguments for 'flock.macquire' command",
    ),
    ("FLOCK.MACQUIRE no free u PX 1000", NUMKEYS),
    ("FLOCK.MACQUIRE 5 free u PX 1000", TOO_FEW_KEYS),
    ("FLOCK.MACQUIRE {keys:1025} u PX 1000", TOO_MANY_LOCKS),
    ("FLOCK.MACQUIRE 2 free free u PX 1000", NAMED_TWICE),
    ("FLOCK.MACQUIRE 4 free u PX 1000", SYNTAX),
    ("FLOCK.MACQUIRE 1 free u PX 1000 SHARED", SYNTAX),
    ("FLOCK.MACQUIRE 1 free u PX 1000 EX 1", SYNTAX),
    ("FLOCK.MACQUIRE 1 free u PX x", NOT_A_NUMBER),
    ("FLOCK.MACQUIRE 1 free u PX 1000 ABOVE x", NOT_A_NUMBER),
    (
        "FLOCK.MACQUIRE 1 free u PX 0",
        "ERR invalid expire time in 'flock.macquire' command",
    ),
    ("FLOCK.MACQUIRE 1 free u PX 1000 BLOCK x", NOT_A_TIMEOUT),
    (
        "FLOCK.MACQUIRE 1 free u PX 1000 BLOCK -1",
        "ERR timeout is negative",
    ),
    ("FLOCK.MACQUIRE 1 free u PX 1000 ABOVE -1", ABOVE_RANGE),
    ("FLOCK.MACQUIRE 1 free {bytes:1025} PX 1000", TOKEN_LENGTH),
    ("FLOCK.MACQUIRE 1 free u PX 1000 LABEL {bytes:257}", LABEL_LENGTH),
    (
        "FLOCK.MREFRESH 1 mine t PX",
        "ERR wrong number of arguments for 'flock.mrefresh' command",
    ),
    ("FLOCK.MREFRESH 0 mine t PX 1000", NUMKEYS),
    ("FLOCK.MREFRESH 5 mine t PX 1000", TOO_FEW_KEYS),
    ("FLOCK.MREFRESH {keys:1025} t PX 1000", TOO_MANY_LOCKS),
    ("FLOCK.MREFRESH 2 mine mine t PX 1000", NAMED_TWICE),
    ("FLOCK.MREFRESH 1 mine t PX 1000 BLOCK 0", SYNTAX),
    ("FLOCK.MREFRESH 1 mine t PX x", NOT_A_NUMBER),
    (
        "FLOCK.MREFRESH 1 mine t PX 0",
        "ERR invalid expire time in 'flock.mrefresh' command",
    ),
    ("FLOCK.MREFRESH 1 mine {bytes:1025} PX 1000", TOKEN_LENGTH),
    (
        "FLOCK.MRELEASE 1 mine",
        "ERR wrong number of arguments for 'flock.mrelease' command",
    ),
    ("FLOCK.MRELEASE -1 mine t", NUMKEYS),
    ("FLOCK.MRELEASE 5 mine t", TOO_FEW_KEYS),
    ("FLOCK.MRELEASE {keys:1025} t", TOO_MANY_LOCKS),
    ("FLOCK.MRELEASE 2 mine mine t", NAMED_TWICE),
    ("FLOCK.MRELEASE 1 mine t t", SYNTAX),
    ("FLOCK.MRELEASE 1 mine {bytes:1025}", TOKEN_LENGTH),
];

const ONE_TOKEN: Requests = &[
    ("FLOCK.ACQUIRE mine t PX 1000 SHARED", HELD_OTHERWISE),
    ("FLOCK.ACQUIRE shared t PX 1000", HELD_OTHERWISE),
    ("FLOCK.ACQUIRE mine w PX 1000 PERMITS 2", WAITS_OTHERWISE),
    (
        "FLOCK.ACQUIRE permits u PX 1000 PERMITS 3",
        "ERR the lock is held or waited for with another number of PERMITS",
    ),
    ("FLOCK.MACQUIRE 1 shared t PX 1000", HELD_OTHERWISE),
    ("FLOCK.MACQUIRE 2 free mine w PX 1000", WAITS_OTHERWISE),
    (
        "FLOCK.MACQUIRE 2 mine other t PX 1000",
        "ERR this token holds some of these locks, but not all under one fence; release them first",
    ),
    (
        "FLOCK.MACQUIRE 2 mine free t PX 1000",
        "ERR this token holds some of these locks, but not all under one fence; release them first",
    ),
];

const OTHER_TYPE: Requests = &[
    ("FLOCK.ACQUIRE text t PX 1000", WRONG_TYPE),
    ("FLOCK.REFRESH text t PX 1000", WRONG_TYPE),
    ("FLOCK.RELEASE text t", WRONG_TYPE),
    ("FLOCK.PTTL text", WRONG_TYPE),
    ("FLOCK.GUARD text t PING", WRONG_TYPE),
    ("FLOCK.MACQUIRE 2 free text t PX 1000", WRONG_TYPE),
    ("FLOCK.MREFRESH 2 mine text t PX 1000", WRONG_TYPE),
    ("FLOCK.MRELEASE 2 mine text t", WRONG_TYPE),
    ("FLOCK.INFO text", WRONG_TYPE),
    ("FLOCK.BREAK text", WRONG_TYPE),
];

const ON_A_REPLICA: Requests = &[
    ("FLOCK.ACQUIRE mine t PX 1000", READ_ONLY),
    ("FLOCK.REFRESH mine t PX 1000", READ_ONLY),
    ("FLOCK.RELEASE mine t", READ_ONLY),
    (
        "FLOCK.GUARD mine t PING",
        "READONLY only the primary can guard a command; this is a replica.",
    ),
    ("FLOCK.MACQUIRE 1 mine t PX 1000", READ_ONLY),
    ("FLOCK.MREFRESH 1 mine t PX 1000", READ_ONLY),
    ("FLOCK.MRELEASE 1 mine t", READ_ONLY),
    ("FLOCK.BREAK mine", READ_ONLY),
];

const WITHOUT_MEMORY: Requests = &[
    ("FLOCK.ACQUIRE free u PX 1000", OUT_OF_MEMORY),
    ("FLOCK.MACQUIRE 1 free u PX 1000", OUT_OF_MEMORY),
];

const WITHOUT_RIGHTS: Requests = &[
    ("FLOCK.ACQUIRE free u PX 1000", NO_RIGHT),
    ("FLOCK.REFRESH mine t PX 1000", NO_RIGHT),
    ("FLOCK.RELEASE mine t", NO_RIGHT),
    ("FLOCK.PTTL mine", NO_RIGHT),
    ("FLOCK.GUARD mine t PING", NO_RIGHT),
    ("FLOCK.MACQUIRE 1 free u PX 1000", NO_RIGHT),
    ("FLOCK.MREFRESH 1 mine t PX 1000", NO_RIGHT),
    ("FLOCK.MRELEASE 1 mine t", NO_RIGHT),
    ("FLOCK.INFO mine", NO_RIGHT),
    ("FLOCK.BREAK mine", NO_RIGHT),
    ("FLOCK.HELP", NO_RIGHT),
];

const ACROSS_SLOTS: Requests = &[
    ("FLOCK.GUARD mine t SET data 1", CROSS_SLOT),
    ("FLOCK.MACQUIRE 2 a b u PX 1000", CROSS_SLOT),
    ("FLOCK.MREFRESH 2 a b u PX 1000", CROSS_SLOT),
    ("FLOCK.MRELEASE 2 a b u", CROSS_SLOT),
];
