//! Proves the rule on each command that the server knows, its subcommands included, now and in versions to come: what
//! it flags as blocking or as not for scripts is refused, and nothing else harms server or connection.

use crate::support::*;
use crate::{guard, guard_words, CANNOT};

/// A command or a subcommand, as COMMAND INFO describes it.
#[derive(Debug)]
struct Known {
    words: Vec<String>,
    /// How many words a call has at least, its own included.
    least: usize,
    flags: Vec<String>,
}

impl Known {
    fn read(description: &Reply) -> Vec<Known> {
        let fields = description.items();
        let arity = fields[1].int();
        let known = Known {
            words: fields[0].text().split('|').map(str::to_owned).collect(),
            least: usize::try_from(arity.abs()).expect("a small number"),
            flags: fields[2].items().iter().map(Reply::text).collect(),
        };
        let subcommands = fields.get(9).map(Reply::items).unwrap_or_default();
        let subcommands = subcommands.iter().flat_map(Known::read);
        std::iter::once(known).chain(subcommands).collect()
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    /// The scripting commands are flagged as not for scripts, and are what guards are for.
    fn is_allowed_though_flagged(&self) -> bool {
        let name = self.words[0].as_str();
        ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"].contains(&name)
    }

    fn must_be_refused(&self) -> bool {
        (self.has("noscript") || self.has("blocking")) && !self.is_allowed_though_flagged()
    }

    /// A call with as many arguments as it takes at least, and some more.
    fn call(&self, argument: &str, more: usize) -> Vec<String> {
        let filled = self.least.saturating_sub(self.words.len()) + more;
        let arguments = std::iter::repeat_n(argument.to_owned(), filled);
        self.words.iter().cloned().chain(arguments).collect()
    }
}

#[track_caller]
fn all_commands(client: &mut Client) -> Vec<Known> {
    let commands = client.call("COMMAND");
    let known: Vec<_> = commands.items().iter().flat_map(Known::read).collect();
    assert!(known.len() > 300, "only {} commands", known.len());
    assert!(known.iter().any(|known| known.words == ["flock.guard"]));
    known
}

#[test]
fn each_command_that_is_blocking_or_not_for_scripts_is_refused() {
    let server = Server::builder().undressed().start();
    let mut client = server.client();
    client.run("SET data before");
    let fence = client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
    let digest = client.run("DEBUG DIGEST");
    let mut refused = 0;
    for known in all_commands(&mut client) {
        if !known.must_be_refused() {
            continue;
        }
        for (argument, more) in [("1", 0), ("data", 1)] {
            let call = known.call(argument, more);
            let words: Vec<_> = call.iter().map(String::as_str).collect();
            let reply = guard_words(&mut client, &words);
            assert!(matches!(reply, Reply::Error(_)), "{call:?}: {reply:?}");
            // A subcommand, or another number of arguments, the server may refuse first.
            if known.words.len() == 1 && more == 0 {
                assert!(reply.error_text().starts_with(CANNOT), "{call:?}: {reply:?}");
            }
            refused += 1;
        }
        assert_eq!(client.run("PING"), "PONG", "after {known:?}");
    }
    assert!(refused > 80, "only {refused}");
    assert_eq!(client.run("DEBUG DIGEST"), digest);
    assert_eq!(*client.run("FLOCK.INFO lock").field("fence"), fence);
    assert_eq!(client.info("replication", "role"), "master");
}

#[test]
fn no_other_command_harms_the_server_or_the_connection() {
    let server = Server::builder().undressed().set("appendonly", "yes").start();
    let mut client = server.client();
    for known in all_commands(&mut client) {
        if known.must_be_refused() {
            continue;
        }
        for (argument, more) in [("1", 0), ("lock", 0), ("lock", 1), ("tok", 3), ("", 2)] {
            // Some of them remove the lock, or put something else in its place.
            client.run("FLUSHALL");
            client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
            let call = known.call(argument, more);
            let words: Vec<_> = call.iter().map(String::as_str).collect();
            client.send([&["FLOCK.GUARD", "lock", "tok"], &words[..]].concat());
            let reply = client.receive_within(PATIENCE);
            let reply = reply.unwrap_or_else(|| panic!("no reply to {call:?}"));
            assert_ne!(reply, Reply::Closed, "{call:?}");
            assert_eq!(client.run("ECHO here"), "here", "after {call:?}: {reply:?}");
        }
    }
    client.run("FLUSHALL");
    client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
    assert_eq!(guard(&mut client, "SET data after"), OK);
    let state = client.run("CLIENT INFO").text();
    assert!(
        state.contains(" db=0 ") && state.contains(" multi=-1 "),
        "{state}"
    );
}
