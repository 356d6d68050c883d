//! Proves what the server itself tells about the commands and the type: COMMAND
//! INFO, DOCS and GETKEYS, ACL categories, SCAN TYPE, MEMORY USAGE, COPY, and
//! keyspace notifications.

use crate::support::*;

/// Each command that takes a key: a call that fits it, and whether it writes.
const KEYED: [(&str, bool); 9] = [
    ("FLOCK.ACQUIRE lock t PX 1000", true),
    ("FLOCK.REFRESH lock t PX 1000", true),
    ("FLOCK.RELEASE lock t", true),
    ("FLOCK.PTTL lock t", false),
    ("FLOCK.INFO lock", false),
    ("FLOCK.BREAK lock", true),
    ("FLOCK.MACQUIRE 1 lock t PX 1000", true),
    ("FLOCK.MREFRESH 1 lock t PX 1000", true),
    ("FLOCK.MRELEASE 1 lock t", true),
];

/// What writes, if at all, is the command that it runs.
const GUARD: &str = "FLOCK.GUARD lock t PING";

fn name_of(line: &str) -> String {
    line.split(' ').next().unwrap_or_default().to_lowercase()
}

#[test]
fn command_getkeys_finds_the_key() {
    let server = Server::start();
    let mut client = server.client();
    for line in KEYED.map(|(line, _)| line).into_iter().chain([GUARD]) {
        let keys = client.run(&format!("COMMAND GETKEYS {line}"));
        assert_eq!(keys, Reply::List(vec![Reply::Bulk(b"lock".to_vec())]), "{line}");
    }
}

/// The flags in the reply to COMMAND INFO.
#[track_caller]
fn flags(client: &mut Client, name: &str) -> Vec<String> {
    let info = client.call(("COMMAND", "INFO", name));
    let fields = info.items()[0].items();
    assert_eq!(fields[0], *name);
    fields[2].items().iter().map(Reply::text).collect()
}

#[test]
fn command_info_says_who_writes_and_who_only_reads() {
    let server = Server::start();
    let mut client = server.client();
    for (line, writes) in KEYED {
        let flags = flags(&mut client, &name_of(line));
        let has = |flag: &str| flags.iter().any(|own| own == flag);
        assert_eq!(has("write"), writes, "{line}: {flags:?}");
        assert_eq!(has("readonly"), !writes, "{line}: {flags:?}");
    }
    // Who only lets go, or keeps what it has, may do so without memory.
    for (line, _) in KEYED {
        let flags = flags(&mut client, &name_of(line));
        let takes = ["flock.acquire", "flock.macquire"].contains(&name_of(line).as_str());
        assert_eq!(flags.contains(&"denyoom".to_owned()), takes, "{line}: {flags:?}");
    }
    let guard = flags(&mut client, "flock.guard");
    for flag in ["write", "readonly", "denyoom"] {
        assert!(!guard.contains(&flag.to_owned()), "{guard:?}");
    }
}

#[test]
fn command_docs_describes_each_command() {
    let server = Server::start();
    let mut client = server.client();
    let names = KEYED.iter().map(|(line, _)| name_of(line));
    for name in names.chain(["flock.guard".to_owned(), "flock.help".to_owned()]) {
        let docs = client.call(("COMMAND", "DOCS", &name));
        let docs = docs.field(&name);
        for field in ["summary", "since", "complexity"] {
            assert!(!docs.field(field).text().is_empty(), "{name}: {field}");
        }
        if name != "flock.help" {
            let arguments = docs.field("arguments").items();
            // Of many keys their number comes first.
            let place = usize::from(*arguments[0].field("name") == "numkeys");
            assert_eq!(*arguments[place].field("name"), "key", "{name}");
            assert_eq!(*arguments[place].field("type"), "key", "{name}");
        }
    }
}

#[test]
fn the_options_of_acquire_are_described_by_their_words() {
    let server = Server::start();
    let mut client = server.client();
    let docs = client.run("COMMAND DOCS flock.acquire");
    let arguments = docs.field("flock.acquire").field("arguments");
    let shown = format!("{arguments:?}");
    for word in [
        "PX",
        "EX",
        "BLOCK",
        "SHARED",
        "PERMITS",
        "REENTRANT",
        "ABOVE",
        "LABEL",
        "DELAY",
        "SESSION",
    ] {
        assert!(shown.contains(&format!("\"{word}\"")), "{word} in {shown}");
    }
}

#[test]
fn the_commands_are_in_the_acl_categories_that_the_server_can_give() {
    let server = Server::start();
    let mut client = server.client();
    let mut members = |category: &str| -> Vec<String> {
        let reply = client.call(("ACL", "CAT", category));
        reply.items().iter().map(Reply::text).collect()
    };
    if server.build().has_own_acl_categories() {
        let own = members("flock");
        for line in KEYED
            .map(|(line, _)| line)
            .into_iter()
            .chain([GUARD, "FLOCK.HELP"])
        {
            assert!(own.contains(&name_of(line)), "{line} in {own:?}");
        }
    }
    if server.build().has_acl_categories() {
        for category in ["admin", "dangerous"] {
            let members = members(category);
            assert!(
                members.contains(&"flock.break".to_owned()),
                "{category}: {members:?}"
            );
            assert!(
                !members.contains(&"flock.acquire".to_owned()),
                "{category}: {members:?}"
            );
        }
        for (line, writes) in KEYED {
            let category = if writes { "write" } else { "read" };
            assert!(members(category).contains(&name_of(line)), "{line} in {category}");
        }
    }
}

#[test]
fn a_user_needs_the_command_and_the_key() {
    let server = Server::start();
    let mut client = server.client();
    client.run("ACL SETUSER worker on nopass ~own:* +flock.acquire +flock.release +flock.info");
    let mut worker = server.admin();
    worker.run("AUTH worker any");
    worker.run("FLOCK.ACQUIRE own:k t PX 60000").fence();
    for line in [
        "FLOCK.ACQUIRE other t PX 60000",
        "FLOCK.ACQUIRE other t PX 60000 BLOCK 0",
        "FLOCK.RELEASE other t",
        "FLOCK.INFO other",
        "FLOCK.BREAK own:k",
        "FLOCK.REFRESH own:k t PX 1000",
    ] {
        assert_eq!(worker.run(line).error_word(), "NOPERM", "{line}");
    }
    assert_eq!(worker.run("FLOCK.RELEASE own:k t"), 1);
}

#[test]
fn a_user_who_may_only_read_a_key_can_look_at_its_lock() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    client.run("ACL SETUSER reader on nopass %R~* +@all");
    let mut reader = server.admin();
    reader.run("AUTH reader any");
    assert!(reader.run("FLOCK.PTTL k").int() > 0);
    assert_eq!(*reader.run("FLOCK.INFO k").field("mode"), "exclusive");
    for line in [
        "FLOCK.ACQUIRE k u PX 1",
        "FLOCK.RELEASE k t",
        "FLOCK.REFRESH k t PX 1",
        "FLOCK.BREAK k",
    ] {
        assert_eq!(reader.run(line).error_word(), "NOPERM", "{line}");
    }
}

#[test]
fn locks_can_be_scanned_for_by_type() {
    let server = Server::start();
    let mut client = server.client();
    client.run("SET text 1");
    client.run("FLOCK.ACQUIRE a t PX 60000").fence();
    client.run("FLOCK.ACQUIRE b t PX 60000").fence();
    let page = client.run("SCAN 0 COUNT 1000 TYPE flocklock");
    let mut keys: Vec<_> = page.items()[1].items().iter().map(Reply::text).collect();
    keys.sort();
    assert_eq!(keys, ["a", "b"]);
}

#[test]
fn memory_usage_counts_what_a_lock_holds() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE small t PX 60000").fence();
    let (token, label) = (vec![b't'; 1024], vec![b'l'; 256]);
    client
        .call(("FLOCK.ACQUIRE", "large", token, "PX", 60_000, "LABEL", label))
        .fence();
    let small = client.run("MEMORY USAGE small").int();
    let large = client.run("MEMORY USAGE large").int();
    assert!(small > 0 && small < 1024, "{small}");
    assert!(large - small >= 1024 + 256 - 64, "{small} and {large}");
    assert!(large < 4096, "{large}");
}

#[test]
fn a_lock_cannot_be_copied() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    assert_eq!(client.run("COPY k l").error_word(), "ERR");
    assert_eq!(client.run("EXISTS l"), 0);
    assert_eq!(*client.run("FLOCK.INFO k").field("fence"), fence);
}

#[test]
fn the_object_and_debug_commands_accept_a_lock() {
    let server = Server::start();
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    assert_eq!(client.run("OBJECT REFCOUNT k"), 1);
    assert_eq!(client.run("OBJECT ENCODING k"), "raw");
    assert!(client.run("DEBUG OBJECT k").text().contains("serializedlength"));
    assert_eq!(client.run("PERSIST k"), 0);
    assert_eq!(client.run("TTL k"), -1);
}

/// Subscribes to all events of `k` of class `d`, and returns the listener.
#[track_caller]
fn listen(server: &Server) -> Client {
    server.admin().run("CONFIG SET notify-keyspace-events Kd");
    let mut listener = server.admin();
    listener.run("SUBSCRIBE __keyspace@0__:k");
    listener
}

/// The next event's name.
#[track_caller]
fn event(listener: &mut Client) -> String {
    listener.receive().items()[2].text()
}

#[test]
fn each_transition_is_one_keyspace_event() {
    let server = Server::builder().undressed().start();
    let mut listener = listen(&server);
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    assert_eq!(event(&mut listener), "flock.acquire");
    // None for a refresh, for what is refused, nor for a retry.
    client.run("FLOCK.REFRESH k t PX 60000");
    client.run("FLOCK.ACQUIRE k u PX 60000");
    client.run("FLOCK.ACQUIRE k t PX 60000");
    client.run("FLOCK.RELEASE k u");
    client.run("FLOCK.RELEASE k t");
    assert_eq!(event(&mut listener), "flock.release");
    client.run("FLOCK.ACQUIRE k t PX 5").fence();
    assert_eq!(event(&mut listener), "flock.acquire");
    assert_eq!(event(&mut listener), "flock.expire");
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    let mut waiter = server.enqueue("k", "FLOCK.ACQUIRE k u PX 60000 BLOCK 0");
    client.run("FLOCK.BREAK k");
    waiter.receive().fence();
    for expected in ["flock.acquire", "flock.break", "flock.acquire"] {
        assert_eq!(event(&mut listener), expected);
    }
}

#[test]
fn keyspace_events_can_be_turned_off() {
    let server = Server::builder()
        .undressed()
        .module_arguments("notify no")
        .start();
    let mut listener = listen(&server);
    let mut client = server.client();
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    client.run("FLOCK.RELEASE k t");
    assert_eq!(client.run("CONFIG SET flock.notify yes"), OK);
    client.run("FLOCK.ACQUIRE k t PX 60000").fence();
    client.run("FLOCK.BREAK k");
    // The first event comes from after they were turned on.
    assert_eq!(event(&mut listener), "flock.acquire");
    assert_eq!(event(&mut listener), "flock.break");
}
