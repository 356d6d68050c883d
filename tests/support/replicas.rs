//! A primary and its replica: started, in step, and one in the other's place.

use super::builder::Builder;
use super::client::Client;
use super::dress::start_companion;
use super::eventually::eventually;
use super::reply::OK;
use super::server::Server;

/// A primary of this kind, and its companion.
#[track_caller]
pub fn start_with_companion(primary: Builder) -> (Server, Server) {
    let primary = primary.undressed().start();
    let companion = start_companion(&primary);
    (primary, companion)
}

/// Waits until so many replicas have applied all that `client` wrote.
#[track_caller]
pub fn wait_for_replicas(client: &mut Client, replicas: i64) {
    let acknowledged = client.run(&format!("WAIT {replicas} 20000")).int();
    assert!(acknowledged >= replicas, "{acknowledged} of {replicas} replicas");
}

/// The replica leaves its primary; from now on it is one.
#[track_caller]
pub fn promote(replica: &Server) -> Client {
    let mut client = replica.admin();
    assert_eq!(client.run("REPLICAOF NO ONE"), OK);
    client
}

/// A planned failover: the two change places, without a loss.
#[track_caller]
pub fn fail_over(primary: &Server, replica: &Server) -> Client {
    let line = format!("FAILOVER TO 127.0.0.1 {}", replica.port());
    assert_eq!(primary.admin().run(&line), OK);
    wait_until_primary(replica)
}

/// Waits until the server is a primary.
#[track_caller]
pub fn wait_until_primary(server: &Server) -> Client {
    let mut admin = server.admin();
    eventually(
        "it is a primary",
        || admin.info("replication", "role"),
        |role| role == "master",
    );
    admin
}
