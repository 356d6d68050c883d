//! Proves that no depth of guards in guards ends the server: asked for their keys, run, queued, checked for a user's
//! rights or for a slot, a thousand deep and as deep as the server reads a request.

use crate::support::*;
use crate::CANNOT;

/// A request may have 1,048,576 words; each guard has three, and some are of what is asked.
const DEPTHS: [usize; 3] = [1_000, 60_000, 349_000];

/// Guards in guards, and a SET in the innermost.
fn nested(depth: usize) -> Vec<&'static str> {
    let guards = ["FLOCK.GUARD", "lock", "tok"].repeat(depth);
    guards.into_iter().chain(["SET", "data", "after"]).collect()
}

/// The same, without a command in the innermost.
fn unfinished(depth: usize) -> Vec<&'static str> {
    ["FLOCK.GUARD", "lock", "tok"].repeat(depth)
}

#[track_caller]
fn assert_unharmed(client: &mut Client) {
    assert_eq!(client.run("PING"), "PONG");
    assert_eq!(client.run("GET data"), "before");
    assert!(client.run("FLOCK.PTTL lock tok").int() > 0);
}

#[track_caller]
fn client_of_a_holder(server: &Server) -> Client {
    let mut client = server.client();
    client.run("SET data before");
    client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
    client
}

#[test]
fn guards_in_guards_are_refused_however_deep() {
    let server = Server::builder().undressed().start();
    let mut client = client_of_a_holder(&server);
    for depth in [vec![2], DEPTHS.to_vec()].concat() {
        let reply = client.call(nested(depth));
        assert!(reply.error_text().starts_with(CANNOT), "{depth}: {reply:?}");
        let reply = client.call(unfinished(depth));
        assert!(matches!(reply, Reply::Error(_)), "{depth}: {reply:?}");
        assert_unharmed(&mut client);
    }
}

#[test]
fn the_keys_of_guards_in_guards_can_be_asked_for_however_deep() {
    let server = Server::builder().undressed().start();
    let mut client = client_of_a_holder(&server);
    for depth in [vec![2], DEPTHS.to_vec()].concat() {
        for name in ["GETKEYS", "GETKEYSANDFLAGS"] {
            for inner in [nested(depth), unfinished(depth)] {
                let words: Vec<_> = ["COMMAND", name].into_iter().chain(inner).collect();
                match client.call(words) {
                    Reply::Error(_) => {}
                    keys => assert!(!keys.items().is_empty(), "{name} {depth}"),
                }
                assert_unharmed(&mut client);
            }
        }
    }
}

#[test]
fn guards_in_guards_are_checked_for_a_users_keys_however_deep() {
    let server = Server::builder().undressed().start();
    let mut client = client_of_a_holder(&server);
    client.run("ACL SETUSER worker on nopass ~lock ~data +@all");
    let mut worker = server.admin();
    worker.run("AUTH worker any");
    for depth in DEPTHS {
        assert!(matches!(worker.call(nested(depth)), Reply::Error(_)), "{depth}");
        assert_unharmed(&mut client);
    }
}

#[test]
fn guards_in_guards_are_queued_however_deep() {
    let server = Server::builder().undressed().start();
    let mut client = client_of_a_holder(&server);
    for depth in DEPTHS {
        assert_eq!(client.run("MULTI"), OK);
        client.call(nested(depth));
        match client.run("EXEC") {
            Reply::Error(text) => assert!(text.starts_with("EXECABORT"), "{depth}: {text}"),
            replies => assert!(matches!(replies.items()[0], Reply::Error(_)), "{depth}"),
        }
        assert_unharmed(&mut client);
    }
}

#[test]
fn guards_in_guards_are_looked_up_in_a_cluster_however_deep() {
    let node = cluster::start_alone();
    let mut client = node.client();
    client.run("SET {lock}data before");
    client.run("FLOCK.ACQUIRE lock tok PX 600000").fence();
    for depth in DEPTHS {
        assert!(matches!(client.call(nested(depth)), Reply::Error(_)), "{depth}");
        assert_eq!(client.run("PING"), "PONG");
    }
    assert_eq!(client.run("GET {lock}data"), "before");
}

/// Each layer unpacks its arguments into the next one.
#[test]
fn guards_and_scripts_in_turn_are_refused_however_deep() {
    let server = Server::builder().undressed().start();
    let mut client = client_of_a_holder(&server);
    let body = "return redis.call(unpack(ARGV))";
    for depth in [2, 1_000] {
        let layer = ["FLOCK.GUARD", "lock", "tok", "EVAL", body, "0"].repeat(depth);
        let words: Vec<_> = layer.into_iter().chain(["SET", "data", "after"]).collect();
        assert!(matches!(client.call(words), Reply::Error(_)), "{depth}");
        assert_unharmed(&mut client);
    }
}
