//! Proves that the errors on the pages are those there are: each is provoked, and each that is provoked is on the
//! page of its command; and no error of flock's is on no page.

use crate::page::{index, Page};
use crate::situations::{Requests, Situation, SITUATIONS};
use crate::support::*;

/// Every error text of flock's, as its sources have them.
const TEXTS: &str = include_str!("../../src/command/errors.rs");

/// Errors that take too much to provoke: four billion entries, a system without randomness, a server that keeps silent.
const NOT_PROVOKED: [(&str, &str); 4] = [
    (
        "flock.acquire",
        "ERR this token has entered the lock as often as can be counted",
    ),
    (
        "flock.acquire",
        "ERR the operating system gave no randomness for a token; name one",
    ),
    (
        "flock.macquire",
        "ERR the operating system gave no randomness for a token; name one",
    ),
    ("flock.guard", "ERR the server did not run the guarded command"),
];

/// The page that must list the error of a request: a guarded FLOCK.ACQUIRE's is on its own.
fn page_of(request: &str) -> Page {
    let guarded = request.find("FLOCK.ACQUIRE").unwrap_or_default();
    Page::of(&request[guarded..])
}

fn words(request: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for word in request.split(' ') {
        let placeholder = word.trim_matches(['{', '}']).split_once(':');
        match placeholder.and_then(|(kind, count)| Some((kind, count.parse().ok()?))) {
            Some(("bytes", count)) => words.push(vec![b'x'; count]),
            Some(("keys", count)) => {
                words.push(count.to_string().into());
                words.extend((0..count).map(|index: usize| format!("k{index}").into_bytes()));
            }
            _ => words.push(word.into()),
        }
    }
    words
}

fn is_error(reply: &Reply, listed: &str) -> bool {
    let Reply::Error(text) = reply else {
        return false;
    };
    match listed.strip_suffix('…') {
        Some(start) => text.starts_with(start),
        None => text == listed,
    }
}

#[track_caller]
fn prepare(server: &Server) -> Client {
    let mut client = server.admin();
    client.run("SET text 1");
    for key in ["mine", "other"] {
        client.run(&format!("FLOCK.ACQUIRE {key} t PX 600000")).fence();
    }
    client.run("FLOCK.ACQUIRE shared t PX 600000 SHARED").fence();
    client.run("FLOCK.ACQUIRE permits t PX 600000 PERMITS 2").fence();
    client
}

/// A client that waits, and the reply that ends its wait.
#[track_caller]
fn waits(server: &Server, request: &str, end: impl FnOnce(&mut Client)) -> Reply {
    let mut admin = prepare(server);
    let mut waiter = server.enqueue("mine", request);
    end(&mut admin);
    waiter.receive()
}

/// The reply to a request in a situation that there is one request for.
#[track_caller]
fn reply_in(situation: Situation, server: &Server, request: &str) -> Reply {
    let mut again = server.admin();
    match situation {
        Situation::SentAgain => waits(server, request, |_| again.send_line(request)),
        Situation::Demoted => waits(server, request, |admin| {
            assert_eq!(admin.run("REPLICAOF 127.0.0.1 1"), OK);
        }),
        _ => waits(server, request, |admin| {
            assert_eq!(admin.run("SET mine text"), OK)
        }),
    }
}

/// A client in a situation, whom every request gets an error.
#[track_caller]
fn client_in(situation: Situation, server: &Server) -> Client {
    if situation == Situation::Cluster {
        return server.admin();
    }
    let mut client = prepare(server);
    for line in match situation {
        Situation::Replica => &["REPLICAOF 127.0.0.1 1"][..],
        Situation::NoMemory => &["CONFIG SET maxmemory 1"],
        Situation::NoRoom => &["CONFIG SET flock.max-waiters 0"],
        Situation::Stranger => &["ACL SETUSER stranger on nopass ~* &* +ping", "AUTH stranger any"],
        _ => &[],
    } {
        assert_eq!(client.run(line), OK, "{line}");
    }
    client
}

fn server_for(situation: Situation) -> Server {
    match situation {
        Situation::Cluster => cluster::start_node(Some((0, cluster::SLOTS - 1))),
        _ => Server::builder().undressed().start(),
    }
}

#[track_caller]
fn provoke(situation: Situation, requests: Requests) {
    let check = |request: &str, listed: &str, reply: Reply| {
        assert!(
            is_error(&reply, listed),
            "{situation:?}: {request}: {reply:?}, not {listed}"
        );
        let page = page_of(request);
        let errors = page.errors();
        assert!(errors.contains(listed), "{} does not list {listed}", page.name);
    };
    if matches!(
        situation,
        Situation::SentAgain | Situation::Demoted | Situation::Replaced
    ) {
        for (request, listed) in requests {
            let server = server_for(situation);
            check(request, listed, reply_in(situation, &server, request));
        }
        return;
    }
    let server = server_for(situation);
    let mut client = client_in(situation, &server);
    let _waiter = (situation == Situation::Ordinary)
        .then(|| server.enqueue("mine", "FLOCK.ACQUIRE mine w PX 600000 BLOCK 0"));
    for (request, listed) in requests {
        check(request, listed, client.call(words(request)));
    }
}

#[test]
fn each_request_gets_the_error_that_its_page_lists() {
    for (situation, requests) in SITUATIONS {
        provoke(*situation, requests);
    }
}

#[test]
fn each_error_that_a_page_lists_is_provoked() {
    let provoked: Vec<_> = SITUATIONS
        .iter()
        .flat_map(|(_, requests)| requests.iter())
        .map(|(request, listed)| (page_of(request).name, *listed))
        .collect();
    for page in Page::all() {
        for error in page.errors() {
            let error = (page.name.as_str(), error.as_str());
            let is_provoked = provoked
                .iter()
                .any(|(name, listed)| (name.as_str(), *listed) == error);
            assert!(is_provoked != NOT_PROVOKED.contains(&error), "{error:?}");
        }
    }
    for (_, listed) in NOT_PROVOKED {
        assert!(TEXTS.contains(&format!("c\"{listed}\"")), "{listed}");
    }
}

#[test]
fn each_error_of_flocks_own_is_on_a_page() {
    let texts = TEXTS
        .split("c\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let texts: Vec<_> = texts.collect();
    assert!(texts.len() > 20, "{texts:?}");
    let pages = Page::all();
    for text in texts {
        // What no client may send is no page's matter.
        let is_internal = text.contains("is internal") || text.contains("not an effect");
        let is_listed = pages.iter().any(|page| page.errors().contains(text));
        assert!(is_listed != is_internal, "{text}");
    }
    assert!(index().contains("flock failed inside"));
}
