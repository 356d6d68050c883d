//! Sound lock commands of every kind, on few keys and under few tokens, so that they meet.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::Rng;

use super::commands::Command;

pub const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const TOKENS: [&str; 6] = ["t0", "t1", "t2", "t3", "t4", "*"];
/// Short, so that the queues drain within a test; flock.max-lease-ms sees to the garbage.
const LEASES_MS: [&str; 5] = ["1", "5", "20", "80", "200"];
const WAITS_MS: [&str; 5] = ["0", "0", "1", "10", "100"];
const DELAYS_MS: [&str; 4] = ["0", "1", "10", "50"];

/// A sound command on one of the keys, or on several.
pub fn lock_command(random: &mut StdRng) -> Command {
    let key = pick(random, &KEYS);
    let token = pick(random, &TOKENS);
    let lease = pick(random, &LEASES_MS);
    let line = match random.random_range(0..100) {
        0..40 => acquire(random, key, token),
        40..50 => many(random, token),
        50..72 => format!("FLOCK.RELEASE {key} {token}"),
        72..80 => format!("FLOCK.REFRESH {key} {token} PX {lease}"),
        80..85 => format!("FLOCK.PTTL {key} {token}"),
        85..90 => format!("FLOCK.PTTL {key}"),
        90..96 => format!("FLOCK.INFO {key}"),
        96..99 => format!("FLOCK.BREAK {key}"),
        _ => "FLOCK.HELP".to_owned(),
    };
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn acquire(random: &mut StdRng, key: &str, token: &str) -> String {
    let mut line = format!("FLOCK.ACQUIRE {key} {token} PX {}", pick(random, &LEASES_MS));
    line += match random.random_range(0..10) {
        0..2 => " SHARED",
        2..4 => " PERMITS 2",
        4 => " PERMITS 3",
        _ => "",
    };
    line += &waits(random, 0.7);
    if random.random_bool(0.1) {
        line += &format!(" ABOVE {}", random.random_range(0..1_u64 << 40));
    }
    if random.random_bool(0.2) {
        line += &format!(" DELAY {}", pick(random, &DELAYS_MS));
    }
    for (option, chance) in [("LABEL me", 0.3), ("REENTRANT", 0.2), ("SESSION", 0.2)] {
        if random.random_bool(chance) {
            line += &format!(" {option}");
        }
    }
    line
}

/// A command on two or three locks, in any order.
fn many(random: &mut StdRng, token: &str) -> String {
    let count = random.random_range(2..4);
    let keys: Vec<&str> = KEYS.choose_multiple(random, count).copied().collect();
    let locks = format!("{count} {} {token}", keys.join(" "));
    let lease = pick(random, &LEASES_MS);
    match random.random_range(0..4) {
        0 => format!("FLOCK.MRELEASE {locks}"),
        1 => format!("FLOCK.MREFRESH {locks} PX {lease}"),
        _ => format!("FLOCK.MACQUIRE {locks} PX {lease}{}", waits(random, 0.8)),
    }
}

fn waits(random: &mut StdRng, chance: f64) -> String {
    match random.random_bool(chance) {
        true => format!(" BLOCK {}", pick(random, &WAITS_MS)),
        false => String::new(),
    }
}

fn pick<'a>(random: &mut StdRng, words: &[&'a str]) -> &'a str {
    words.choose(random).expect("not empty")
}
