//! Two primaries, which a test hands on to the next: to start them takes longer than most tests do.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::moving::Move;
use crate::stage::{on_stage, Staged};
use crate::support::cluster::start_two;
use crate::support::*;

const LOG_LINES: usize = 60;

/// The nodes that the running test has, for the one that begins meanwhile. The last one ends them.
static IN_USE: Mutex<Weak<Nodes>> = Mutex::new(Weak::new());

struct Nodes([Server; 2]);

/// Two primaries with half of the slots each, or what earlier tests have made of that. Each test has
/// a slot of its own, by its tag.
pub struct Pair {
    nodes: Staged<Arc<Nodes>>,
    /// Which of them has the slot.
    source: usize,
    pub slot: i64,
}

impl Pair {
    #[track_caller]
    pub fn start(tag: &str) -> Pair {
        let nodes = on_stage(in_use_or_new);
        // The test before this one failed: who knows what it has left.
        let is_still_in_use = std::ptr::eq(in_use().as_ptr(), Arc::as_ptr(&nodes));
        if !is_still_in_use {
            drop(nodes);
            return Pair::start(tag);
        }
        let look = ("FLOCK.INFO", tag);
        let is_there = |node: &Server| !matches!(node.admin().call(look), Reply::Error(_));
        let source = nodes
            .0
            .iter()
            .position(is_there)
            .expect("a node that serves the slot");
        let line = format!("CLUSTER KEYSLOT {tag}");
        let slot = nodes.0[source].admin().run(&line).int();
        Pair { nodes, source, slot }
    }

    pub fn source(&self) -> &Server {
        &self.nodes.0[self.source]
    }

    pub fn target(&self) -> &Server {
        &self.nodes.0[1 - self.source]
    }

    pub fn there(&self) -> Move<'_> {
        Move::new(self.source(), self.target(), &[], self.slot)
    }

    pub fn back(&self) -> Move<'_> {
        Move::new(self.target(), self.source(), &[], self.slot)
    }

    pub fn ports(&self) -> Vec<u16> {
        self.nodes.0.iter().map(Server::port).collect()
    }
}

/// Nothing of the test is left but the places of the slots.
impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            *in_use() = Weak::new();
            self.nodes.0.iter().for_each(show_log);
            return;
        }
        for node in &self.nodes.0 {
            let mut admin = node.admin();
            admin.run(&format!("CLUSTER SETSLOT {} STABLE", self.slot));
            assert_eq!(admin.run("FLUSHALL"), OK);
        }
    }
}

fn in_use() -> std::sync::MutexGuard<'static, Weak<Nodes>> {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[track_caller]
fn in_use_or_new() -> Arc<Nodes> {
    if let Some(nodes) = in_use().upgrade() {
        return nodes;
    }
    let (first, second, _) = start_two("any");
    let nodes = Arc::new(Nodes([first, second]));
    *in_use() = Arc::downgrade(&nodes);
    nodes
}

/// They may go on living, and then would not show it themselves.
fn show_log(node: &Server) {
    let log = node.log();
    let lines: Vec<_> = log.lines().collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    eprintln!("--- the node at port {}:\n{}\n---", node.port(), last.join("\n"));
}
