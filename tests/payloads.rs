//! Proves that no value from outside ends the server: truncated, bent and
//! random payloads for RESTORE, with a checksum that is right, so that the
//! module itself meets them. What RESTORE accepts must work as a lock, be
//! saved and loaded again, and be accepted by a replica too.

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use support::*;

/// A DUMP payload ends with the RDB version (2 bytes) and the checksum (8 bytes).
const VERSION_BYTES: usize = 2;
const FOOTER_BYTES: usize = VERSION_BYTES + 8;
/// The first byte is the type. Others than ours are the server's own decoders,
/// which by default trust a payload; the next 9 name the module.
const TYPE_BYTES: usize = 1;
const RANDOM_PAYLOADS: usize = 1_000;
const ACCEPTED_PER_RELOAD: usize = 100;

/// A lock's payload without version and checksum, and the version.
#[track_caller]
fn payload_of_a_lock(client: &mut Client) -> (Vec<u8>, Vec<u8>) {
    client
        .run("FLOCK.ACQUIRE origin some-token PX 60000 LABEL label")
        .fence();
    let dump = client.run("DUMP origin").bytes().to_vec();
    let (body, footer) = dump.split_at(dump.len() - FOOTER_BYTES);
    (body.to_vec(), footer[..VERSION_BYTES].to_vec())
}

/// The payload with version and checksum.
fn seal(body: &[u8], version: &[u8]) -> Vec<u8> {
    let mut payload = [body, version].concat();
    let checksum = crc64(&payload);
    payload.extend(checksum.to_le_bytes());
    payload
}

/// A pair of servers that are given payloads.
struct Target {
    primary: Server,
    replica: Server,
    client: Client,
    body: Vec<u8>,
    version: Vec<u8>,
    accepted: usize,
}

impl Target {
    fn new() -> Target {
        let (primary, replica) = start_with_companion(Server::builder().append_only());
        let mut client = primary.admin();
        let (body, version) = payload_of_a_lock(&mut client);
        Target {
            primary,
            replica,
            client,
            body,
            version,
            accepted: 0,
        }
    }

    /// Restores the payload. If the server takes it, uses the lock in all ways.
    #[track_caller]
    fn offer(&mut self, body: &[u8]) {
        let payload = seal(body, &self.version);
        let shown = body.escape_ascii().to_string();
        let client = &mut self.client;
        match client.call(("RESTORE", "k", 0, &payload, "REPLACE")) {
            Reply::Error(_) => {
                assert_eq!(client.run("PING"), "PONG", "after {shown}");
                return;
            }
            reply => assert_eq!(reply, OK, "{shown}"),
        }
        for line in [
            "FLOCK.INFO k",
            "FLOCK.PTTL k",
            "FLOCK.PTTL k t",
            "MEMORY USAGE k",
            "DEBUG DIGEST",
            "DUMP k",
            "FLOCK.REFRESH k t PX 50",
            "FLOCK.ACQUIRE k t PX 50",
            "FLOCK.ACQUIRE k some-token PX 50",
            "FLOCK.RELEASE k t",
        ] {
            assert_ne!(client.run(line), Reply::Closed, "{line} after {shown}");
        }
        self.accepted += 1;
        if self.accepted % ACCEPTED_PER_RELOAD == 0 {
            assert_eq!(client.run("DEBUG RELOAD"), OK, "after {shown}");
        }
        assert_ne!(
            client.run("FLOCK.BREAK k"),
            Reply::Closed,
            "FLOCK.BREAK after {shown}"
        );
    }

    /// Nothing that was taken lasts, and the replica went along.
    fn check(mut self) {
        for line in ["DEL k", "BGREWRITEAOF", "FLOCK.ACQUIRE k t PX 60000"] {
            self.client.run(line);
        }
        self.primary.check();
        self.replica.check();
        assert_agreement(&self.primary, &self.replica);
    }
}

#[test]
fn the_checksum_of_the_tests_is_the_servers() {
    // From the self-test in the servers' crc64.c.
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    let server = Server::start();
    let mut client = server.client();
    client.run("SET text 1");
    let dump = client.run("DUMP text").bytes().to_vec();
    let (sealed, checksum) = dump.split_at(dump.len() - size_of::<u64>());
    assert_eq!(crc64(sealed).to_le_bytes(), checksum);
}

#[test]
fn a_truncated_payload_is_refused() {
    let mut target = Target::new();
    for length in 0..target.body.len() {
        let body = target.body[..length].to_vec();
        target.offer(&body);
        // The server reads on into version and checksum, which may by chance be
        // what is missing: nobody can tell the last few from a whole payload.
        if length < target.body.len() - FOOTER_BYTES {
            assert_eq!(target.accepted, 0, "{length} bytes of {}", target.body.len());
        }
    }
    let longer = [target.body.clone(), vec![0; 5]].concat();
    target.offer(&longer);
    target.check();
}

#[test]
fn a_payload_with_any_bit_flipped_ends_nothing() {
    let mut target = Target::new();
    for index in TYPE_BYTES..target.body.len() {
        for bit in 0..8 {
            let mut body = target.body.clone();
            body[index] ^= 1 << bit;
            target.offer(&body);
        }
    }
    target.check();
}

#[test]
fn a_payload_with_an_extreme_value_in_any_place_ends_nothing() {
    let mut target = Target::new();
    // 0x80 and 0x81 announce a length of 4 and of 8 bytes in an RDB.
    let extremes: [&[u8]; 6] = [
        &[0x00],
        &[0xff],
        &[0x80, 0xff, 0xff, 0xff, 0xff],
        &[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x81, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x81, 0x00, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    ];
    for index in TYPE_BYTES..target.body.len() {
        for extreme in extremes {
            // Over what was there, and in the place of one byte.
            let mut over = target.body.clone();
            let end = (index + extreme.len()).min(over.len());
            over[index..end].copy_from_slice(&extreme[..end - index]);
            target.offer(&over);
            let mut inserted = target.body.clone();
            inserted.splice(index..=index, extreme.iter().copied());
            target.offer(&inserted);
        }
    }
    target.check();
}

#[test]
fn random_payloads_end_nothing() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut target = Target::new();
    for _ in 0..RANDOM_PAYLOADS {
        let mut body = target.body.clone();
        for _ in 0..random.random_range(1..=4) {
            // The name of the module stays, so that the module sees the rest.
            let index = random.random_range(TYPE_BYTES + 9..body.len());
            match random.random_range(0..3) {
                0 => body[index] = random.random(),
                1 => body.insert(index, random.random()),
                _ => drop(body.remove(index)),
            }
        }
        target.offer(&body);
    }
    target.check();
}
