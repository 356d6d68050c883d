//! The seed of random tests: `FLOCK_SEED`, or a new one. It is printed, so a
//! test that fails says how to repeat it.

pub fn seed() -> u64 {
    let seed = match std::env::var("FLOCK_SEED") {
        Ok(text) => text.parse().expect("FLOCK_SEED is a number"),
        Err(_) => rand::random(),
    };
    println!("FLOCK_SEED={seed}");
    seed
}
