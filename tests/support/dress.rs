//! Dresses: the same tests, on a server that is made to prove more.

use std::collections::BTreeMap;

use super::client::Client;
use super::eventually::eventually;
use super::reply::Reply;
use super::server::Server;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Dress {
    /// One server.
    Plain,
    /// The data set is saved and loaded after each call of the test's client.
    Reload,
    /// A replica follows from the start, and must agree at the end.
    Replica,
    /// The server is a whole cluster of one node, and names of keys have hash tags or none, at random.
    Cluster,
}

impl Dress {
    /// `FLOCK_DRESS`, plain by default.
    pub fn from_environment() -> Dress {
        match std::env::var("FLOCK_DRESS").as_deref() {
            Err(_) | Ok("plain") => Dress::Plain,
            Ok("reload") => Dress::Reload,
            Ok("replica") => Dress::Replica,
            Ok("cluster") => Dress::Cluster,
            Ok(other) => panic!("FLOCK_DRESS is plain, reload, replica or cluster, not {other}"),
        }
    }
}

/// A replica with an append-only file of its own, which stops at the first
/// command of the stream that it cannot apply.
pub fn start_companion(primary: &Server) -> Server {
    // Straight into memory: Valkey 9 looks only once a second whether a file has come.
    let builder = Server::builder()
        .append_only()
        .set("repl-diskless-load", "on-empty-db");
    let companion = primary.start_replica(builder);
    // Redis 7.0 and later know it, under this name or not at all.
    companion
        .admin()
        .run("CONFIG SET propagation-error-behavior panic");
    companion
}

/// Primary and replica hold the same keys, and the same locks in every
/// database: mode, fences, holds, labels, and whether it is closed. A lease that
/// ends meanwhile is waited for.
#[track_caller]
pub fn assert_agreement(primary: &Server, replica: &Server) {
    let (mut primary, mut replica) = (primary.admin(), replica.admin());
    if primary.info("replication", "role") != "master" {
        return; // the test moved the role; there is no pair to compare
    }
    // Only so does a replica in a cluster let anybody look; elsewhere it is an error, and no matter.
    replica.run("READONLY");
    eventually(
        "the replica agrees with its primary",
        || (view(&mut primary), view(&mut replica)),
        |(primary, replica)| primary == replica,
    );
}

/// [`assert_agreement`] of two versions of flock, which make their digests differently.
#[track_caller]
pub fn assert_same_locks(primary: &Server, replica: &Server) {
    let (mut primary, mut replica) = (primary.admin(), replica.admin());
    eventually(
        "the replica has its primary's locks",
        || [&mut primary, &mut replica].map(|client| (offset(client), locks(client))),
        |[primary, replica]| primary == replica,
    );
}

/// What primary and replica must agree on.
#[derive(Debug, PartialEq)]
struct View {
    offset: String,
    digest: String,
    locks: BTreeMap<(u32, Vec<u8>), String>,
}

fn offset(client: &mut Client) -> String {
    let field = match client.info("replication", "role").as_str() {
        "master" => "master_repl_offset",
        _ => "slave_repl_offset",
    };
    client.info("replication", field)
}

fn view(client: &mut Client) -> View {
    View {
        offset: offset(client),
        digest: client.run("DEBUG DIGEST").text(),
        locks: locks(client),
    }
}

/// Each lock's holders, by database and key.
fn locks(client: &mut Client) -> BTreeMap<(u32, Vec<u8>), String> {
    let keyspace = client.run("INFO keyspace").text();
    let databases: Vec<u32> = keyspace
        .lines()
        .filter_map(|line| line.strip_prefix("db")?.split(':').next()?.parse().ok())
        .collect();
    let mut locks = BTreeMap::new();
    for database in databases {
        client.call(("SELECT", database));
        for key in client.run("KEYS *").items() {
            let key = key.bytes();
            if client.call(("TYPE", key)) == "flocklock" {
                let info = client.call(("FLOCK.INFO", key));
                locks.insert((database, key.to_vec()), holders(&info));
            }
        }
    }
    locks
}

fn holders(info: &Reply) -> String {
    if *info == Reply::Nil {
        return "over".to_owned();
    }
    let holders: Vec<_> = info
        .field("holders")
        .items()
        .iter()
        .map(|holder| ["fence", "holds", "label"].map(|field| holder.field(field)))
        .collect();
    let (mode, permits) = (info.field("mode"), info.field("permits"));
    let is_closed = info.field("delay_ms").int() > 0;
    format!("{mode:?} {permits:?} {holders:?} closed: {is_closed}")
}
