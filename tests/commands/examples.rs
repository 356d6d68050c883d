//! Proves the examples: each session is run as the page shows it, and each reply is the one on the page.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::known::Known;
use crate::page::Page;
use crate::session::{words, Session, Step};
use crate::shown::lines;
use crate::support::*;

/// From when on redis-cli says how long a reply took.
const SLOW: Duration = Duration::from_millis(500);

/// The connections of a session.
struct Stage<'s> {
    server: &'s Server,
    protocol: Protocol,
    clients: BTreeMap<String, Client>,
    /// Those that have sent a command that is not answered yet, and what they sent.
    waiting: BTreeMap<String, String>,
}

impl Stage<'_> {
    fn client(&mut self, who: &str) -> &mut Client {
        let (server, protocol) = (self.server, self.protocol);
        self.clients
            .entry(who.to_owned())
            .or_insert_with(|| server.connect(protocol))
    }

    /// Sees a step through. What the page shows must be what came.
    #[track_caller]
    fn play(&mut self, step: &Step, known: &mut Known) {
        let start = Instant::now();
        let command = match &step.command {
            Some(command) if command == "exit" => {
                self.clients.remove(&step.who);
                return;
            }
            Some(command) => {
                let words = words(&known.put_into(command));
                self.client(&step.who).send(words);
                self.waiting.insert(step.who.clone(), command.clone());
                command.clone()
            }
            None => self.waiting[&step.who].clone(),
        };
        if step.reply.is_empty() {
            return;
        }
        let reply = lines(&self.client(&step.who).receive());
        self.waiting.remove(&step.who);
        let name = command.split(' ').next().unwrap_or_default();
        let agrees = known.agrees(&step.reply, &reply, name.ends_with("PTTL"));
        assert!(
            agrees,
            "{command}\nthe page shows:\n{}\nand it is:\n{}",
            step.reply.join("\n"),
            reply.join("\n")
        );
        if step.is_slow && step.command.is_some() {
            assert!(start.elapsed() >= SLOW, "{command} took {:?}", start.elapsed());
        }
    }

    /// Waits until everybody who is not answered stands in a queue.
    #[track_caller]
    fn wait_for_waiters(&self) {
        let mut admin = self.server.admin();
        eventually(
            &format!("they wait: {:?}", self.waiting),
            || admin.stat("waiters"),
            |waiters| *waiters == self.waiting.len() as i64,
        );
    }
}

#[track_caller]
fn play(server: &Server, block: &str) {
    let session = Session::parse(block);
    let mut known = Known::default();
    let mut stage = Stage {
        server,
        protocol: session.protocol,
        clients: BTreeMap::new(),
        waiting: BTreeMap::new(),
    };
    for (index, step) in session.steps.iter().enumerate() {
        stage.play(step, &mut known);
        let next_is_a_reply = session
            .steps
            .get(index + 1)
            .is_some_and(|next| next.command.is_none());
        // A reply that comes without anybody's doing is waited for by receiving it.
        if step.reply.is_empty() && !next_is_a_reply {
            stage.wait_for_waiters();
        }
    }
    assert!(stage.waiting.is_empty(), "never answered: {:?}", stage.waiting);
}

#[test]
fn every_example_is_what_the_server_says() {
    for page in Page::all() {
        println!("{}", page.name);
        let server = Server::builder().undressed().start();
        page.examples().iter().for_each(|block| play(&server, block));
    }
}

#[test]
fn each_command_is_in_an_example_of_its_page() {
    for page in Page::all() {
        let sessions = page.examples().into_iter().map(Session::parse);
        let steps: Vec<_> = sessions.flat_map(|session| session.steps).collect();
        let commands = steps.iter().filter_map(|step| step.command.as_ref());
        let names: BTreeSet<_> = commands.filter_map(|command| command.split(' ').next()).collect();
        assert!(names.contains(page.title()), "{}: {names:?}", page.name);
    }
}
