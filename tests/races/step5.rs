//! Step 5: a holder that sleeps through its lease is refused by a storage that checks fences, and believed by one that does
//! not.

use std::time::Duration;

use crate::scene::postgres_wallet::Guard;
use crate::scene::step5::{self, Story, SEEN_FENCE};
use crate::scene::{Check, Servers};
use crate::{plain, start_both};

const LEASE: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(250);

fn play(servers: &Servers, guard: Guard) -> Story {
    let story = step5::pause(servers, LEASE, PAUSE, guard).expect("servers that work");
    println!("WHERE id = 1{}: {story}", guard.condition());
    assert!(story.b_believed, "B holds the lock");
    assert!(
        story.a_fence > SEEN_FENCE && story.b_fence > story.a_fence,
        "{story}"
    );
    story
}

#[test]
fn without_a_fence_check_the_sleeper_is_believed_too() {
    let (_server, _postgres, servers) = start_both(plain());
    let story = play(&servers, Guard::Nothing);
    assert!(story.a_believed);
    assert_eq!(story.check, Check::new(2, 90));
    assert!(!story.check.is_ok());
}

#[test]
fn with_the_fence_check_the_sleeper_is_refused() {
    let (_server, _postgres, servers) = start_both(plain());
    let story = play(&servers, Guard::Newer);
    assert!(!story.a_believed);
    assert_eq!(story.check, Check::new(1, 90));
    assert!(story.check.is_ok());
}

#[test]
fn a_counter_goes_on_above_the_fence_that_the_storage_has_seen() {
    let counting = plain().module_arguments("fence-source counter");
    let (_server, _postgres, servers) = start_both(counting);
    let story = play(&servers, Guard::Newer);
    assert_eq!((story.a_fence, story.b_fence), (33, 34));
    assert!(story.check.is_ok());
}
