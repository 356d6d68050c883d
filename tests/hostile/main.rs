//! Proves that no sequence of commands ends the server, leaves a client
//! without an answer, or makes a replica disagree: random commands, sound and
//! senseless, from several connections that also vanish, with AOF on and a
//! replica attached that stops at the first effect it cannot apply.
//!
//! A run prints its seed; `FLOCK_SEED` repeats the same commands (not the same
//! timing).

#[path = "../support/mod.rs"]
mod support;

mod commands;
mod locks;

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use commands::{Generator, Mix};
use support::*;

const CONNECTIONS: usize = 12;
const RUN_TIME: Duration = Duration::from_secs(9);
/// After this long without a reply, a command is taken to be waiting.
const REPLY_TIME: Duration = Duration::from_millis(3);
const STEPS_BETWEEN_LOOKS: usize = 200;
/// More commands than this behind a wait would only be a longer wait.
const MAX_UNANSWERED: usize = 4;

/// A connection, and how many of its commands are unanswered.
struct Caller {
    client: Client,
    id: i64,
    unanswered: usize,
}

impl Caller {
    /// None while the server does not answer, as in a pause.
    fn connect(server: &Server, random: &mut StdRng) -> Option<Caller> {
        let mut client = server.connect(Protocol::Resp2);
        client.send_line("CLIENT ID");
        let id = client.receive_within(REPLY_TIME)?;
        if random.random_bool(0.3) {
            client.send_line("HELLO 3");
            client.receive_within(REPLY_TIME)?;
        }
        match id {
            Reply::Int(id) => Some(Caller {
                client,
                id,
                unanswered: 0,
            }),
            _ => None,
        }
    }

    /// Reads the replies that are there. False if the connection is closed.
    fn catch_up(&mut self, bound: Duration) -> bool {
        while self.unanswered > 0 {
            match self.client.receive_within(bound) {
                None => break,
                Some(Reply::Closed) => return false,
                Some(Reply::Push(_)) => {}
                Some(_) => self.unanswered -= 1,
            }
        }
        true
    }
}

/// One run: the pair of servers, the callers, and the generator.
struct Run {
    primary: Server,
    replica: Server,
    random: StdRng,
    generator: Generator,
    callers: Vec<Option<Caller>>,
    sent: usize,
}

impl Run {
    fn new(mix: Mix) -> Run {
        let primary = Server::builder()
            .undressed()
            .append_only()
            .set("repl-diskless-sync", "yes")
            .module_arguments("max-lease-ms 200")
            .start();
        let replica = start_companion(&primary);
        let mut random = StdRng::seed_from_u64(seed());
        let callers = (0..CONNECTIONS)
            .map(|_| Caller::connect(&primary, &mut random))
            .collect();
        Run {
            generator: Generator::new(mix),
            primary,
            replica,
            random,
            callers,
            sent: 0,
        }
    }

    /// One connection does one thing.
    fn step(&mut self) {
        let index = self.random.random_range(0..CONNECTIONS);
        let Some(caller) = &mut self.callers[index] else {
            self.callers[index] = Caller::connect(&self.primary, &mut self.random);
            return;
        };
        if !caller.catch_up(REPLY_TIME) || self.random.random_bool(0.01) {
            self.callers[index] = None; // closed, or gone without a word
            return;
        }
        if caller.unanswered >= MAX_UNANSWERED {
            return;
        }
        let ids: Vec<_> = self.callers.iter().flatten().map(|caller| caller.id).collect();
        let commands = self.generator.next(&mut self.random, &ids);
        let caller = self.callers[index].as_mut().expect("still there");
        for command in commands {
            caller.client.send(command);
            caller.unanswered += 1;
            self.sent += 1;
        }
        if !caller.catch_up(REPLY_TIME) {
            self.callers[index] = None;
        }
    }

    /// Brings the pair together again after a change of roles.
    fn tend(&mut self) {
        self.primary.assert_alive();
        self.replica.assert_alive();
        for (server, wanted, line) in [
            (&self.primary, "master", "REPLICAOF NO ONE".to_owned()),
            (
                &self.replica,
                "slave",
                format!("REPLICAOF 127.0.0.1 {}", self.primary.port()),
            ),
        ] {
            let mut admin = server.admin();
            if admin.info("replication", "role") != wanted {
                admin.run(&line);
            }
        }
    }

    /// The end: all that was changed about the servers is undone, and then
    /// every client must have its answers, and nobody may be left waiting.
    fn finish(mut self) {
        println!("{} commands", self.sent);
        let mut admin = self.primary.admin();
        for line in [
            "CLIENT UNPAUSE",
            "REPLICAOF NO ONE",
            "CONFIG SET maxmemory 0",
            "CONFIG SET appendonly yes",
            "CONFIG SET flock.max-lease-ms 600000",
        ] {
            assert_eq!(admin.run(line), OK, "{line}");
        }
        for caller in self.callers.iter_mut().flatten() {
            let is_open = caller.catch_up(PATIENCE);
            assert!(
                !is_open || caller.unanswered == 0,
                "a client was left without an answer"
            );
        }
        eventually("nobody waits", || admin.stat("waiters"), |waiters| *waiters == 0);
        eventually("nothing is held", || admin.stat("held_locks"), |held| *held == 0);
        admin.run("FLOCK.ACQUIRE last t PX 600000").fence();
        self.tend();
        self.replica.wait_for_link();
        assert_agreement(&self.primary, &self.replica);
        self.primary.check();
        self.replica.check();
        assert_what_was_written_can_be_read(self.primary);
    }
}

/// The append-only file, however it came about, makes the same data set.
fn assert_what_was_written_can_be_read(mut server: Server) {
    let mut admin = server.admin();
    let fence = admin.run("FLOCK.INFO last").field("fence").fence();
    wait_for_own_file(&mut admin);
    server.kill9();
    server.restart();
    let mut client = server.admin();
    assert_eq!(*client.run("FLOCK.INFO last").field("fence"), fence);
    assert!(client.run("FLOCK.ACQUIRE other t PX 100").fence() > fence);
}

fn run(mix: Mix) {
    let mut run = Run::new(mix);
    let start = Instant::now();
    while start.elapsed() < RUN_TIME {
        for _ in 0..STEPS_BETWEEN_LOOKS {
            run.step();
        }
        run.tend();
    }
    run.finish();
}

#[test]
fn no_sequence_of_commands_ends_the_server_with_reloads_and_pauses() {
    run(Mix {
        reloads: true,
        native_expiry: false,
        snapshots: false,
        pauses: true,
        unblocks: Build::get().bears_unblocking_a_paused_client(),
    });
}

#[test]
fn no_sequence_of_commands_ends_the_server_with_native_expiry_and_unblocks() {
    run(Mix {
        reloads: false,
        native_expiry: true,
        snapshots: true,
        pauses: false,
        unblocks: true,
    });
}
