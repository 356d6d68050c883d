//! Step 4: those who poll ask often, are served in any order, and some give up. Those in the queue ask once and are served
//! in the order in which they came.

use crate::scene::step4::{self, Service, Strategy};
use crate::scene::{Check, Servers, Terms, AFFORDABLE};
use crate::{start_redis, TRIES};

const CALLERS: usize = 50;
/// How much longer the queue may take than the purchases do, which must be one after the other.
const OVERHEAD: f64 = 1.3;
/// So long that a machine which is busy with other tests, and stalls for a moment, is not taken for a slow queue.
const WORK_IN_THE_QUEUE_MS: u64 = 200;

fn play(servers: &Servers, strategy: Strategy, work_ms: u64) -> Service {
    let terms = Terms::new(CALLERS, work_ms, 10_000);
    let service = step4::play(servers, terms, strategy).expect("servers that work");
    println!("{}: {service}", strategy.name());
    assert!(service.check.is_ok(), "any of them keeps the balance right");
    assert_eq!(service.served + service.gave_up, CALLERS);
    service
}

#[test]
fn those_who_poll_ask_often_and_overtake_and_some_give_up() {
    let (_server, servers) = start_redis();
    for strategy in [Strategy::Backoff, Strategy::Jitter] {
        let shows = |service: &Service| {
            service.gave_up > 0 && service.overtakings > 0 && service.acquires > 2 * service.served
        };
        let shown = (0..TRIES).any(|_| shows(&play(&servers, strategy, 10)));
        assert!(shown, "{}: not in {TRIES} runs", strategy.name());
    }
}

#[test]
fn those_in_the_queue_ask_once_and_are_served_in_their_order() {
    let (server, servers) = start_redis();
    let service = play(&servers, Strategy::Queue, WORK_IN_THE_QUEUE_MS);
    let sent = server.admin().info("commandstats", "cmdstat_flock.acquire");
    assert_eq!(service.check, Check::new(AFFORDABLE, 0));
    assert_eq!(service.gave_up, 0);
    assert_eq!(service.overtakings, 0);
    let doorkeeper = 1;
    assert_eq!(service.acquires, CALLERS);
    assert!(
        sent.starts_with(&format!("calls={},", CALLERS + doorkeeper)),
        "{sent}"
    );
    let most = service.held.mul_f64(OVERHEAD);
    assert!(service.elapsed <= most, "{:?}, of {most:?}", service.elapsed);
}
