//! A counter for each resource cannot be deleted with the lock, or it would begin again at 1. So it stays, for every
//! resource that was ever locked.

use std::ops::Range;

use redis::{pipe, Connection, Pipeline};

use crate::start_redis;
use crate::support::{Client, Server};

const RESOURCES: u64 = 100_000;
const PER_PIPELINE: usize = 10_000;
/// What a server's own bookkeeping may add meanwhile.
const NOISE_BYTES: i64 = 1_000_000;

fn for_each_resource(connection: &mut Connection, commands: impl Fn(&mut Pipeline, u64)) {
    let starts = (0..RESOURCES).step_by(PER_PIPELINE);
    let batches = starts.map(|start| start..start + PER_PIPELINE as u64);
    for batch in batches {
        let mut pipeline = pipe();
        Range::for_each(batch, |resource| commands(&mut pipeline, resource));
        pipeline.exec(connection).expect("replies");
    }
}

/// Keys, and bytes since `before`.
fn left(client: &mut Client, before: i64) -> (i64, i64) {
    (client.run("DBSIZE").int(), used_bytes(client) - before)
}

fn used_bytes(client: &mut Client) -> i64 {
    client.info("memory", "used_memory").parse().expect("a number")
}

fn start() -> (Server, Connection, Client, i64) {
    let (server, servers) = start_redis();
    let connection = servers.redis().expect("a connection");
    let mut client = server.admin();
    let before = used_bytes(&mut client);
    (server, connection, client, before)
}

#[test]
fn a_counter_key_for_each_resource_stays_behind() {
    let (_server, mut connection, mut client, before) = start();
    for_each_resource(&mut connection, |pipeline, resource| {
        let (lock, counter) = (format!("lock:{resource}"), format!("fence:{resource}"));
        pipeline
            .cmd("SET")
            .arg((&lock, "token", "NX", "PX", 60_000))
            .ignore();
        pipeline.cmd("INCR").arg(&counter).ignore();
        pipeline.cmd("DEL").arg(&lock).ignore();
    });
    let (keys, bytes) = left(&mut client, before);
    println!("{RESOURCES} resources, SET and INCR: {keys} keys and {bytes} bytes are left");
    assert_eq!(keys, RESOURCES as i64);
    assert!(bytes > 2 * NOISE_BYTES, "{bytes}");
}

#[test]
fn flock_leaves_nothing_behind_for_a_resource() {
    let (_server, mut connection, mut client, before) = start();
    for_each_resource(&mut connection, |pipeline, resource| {
        let lock = format!("lock:{resource}");
        pipeline
            .cmd("FLOCK.ACQUIRE")
            .arg((&lock, "token", "PX", 60_000))
            .ignore();
        pipeline.cmd("FLOCK.RELEASE").arg((&lock, "token")).ignore();
    });
    let (keys, bytes) = left(&mut client, before);
    println!("{RESOURCES} resources, flock: {keys} keys and {bytes} bytes are left");
    assert_eq!(client.stat("grants"), RESOURCES as i64);
    assert_eq!(keys, 0);
    assert!(bytes < NOISE_BYTES, "{bytes}");
}
