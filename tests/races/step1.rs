//! Step 1: without a lock, more is sold than there is.

use crate::scene::{step1, Terms};
use crate::{breaks, start_redis};

#[test]
fn without_a_lock_the_balance_is_wrong() {
    let (_server, servers) = start_redis();
    breaks("no lock", || {
        step1::without_a_lock(&servers, Terms::new(50, 2, 0))
    });
}
