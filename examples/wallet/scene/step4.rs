//! Step 4: how callers wait. All stand before a closed door, which then opens: who comes in when, at what price?
//!
//! The door is the lock itself, held by nobody who shops until everybody has asked once. So all ways of waiting begin alike,
//! and in a queue the order of arrival is known before the first is served. The order of service is that of the fences.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use redis::{cmd, Connection, Value};

use super::hammer::hammer;
use super::redis_wallet::{self, spend};
use super::{flock, Check, Fallible, Purchase, Servers, Terms};

/// Someone who polls gives up after so many tries.
const TRIES: u32 = 10;
const FIRST_DELAY: Duration = Duration::from_millis(1);
const LONGEST_DELAY: Duration = Duration::from_millis(64);
const DOORKEEPER: &str = "doorkeeper";
const PAUSE_BETWEEN_LOOKS: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strategy {
    /// Asks again after 1 ms, 2 ms, 4 ms …
    Backoff,
    /// Asks again after a random part of that.
    Jitter,
    /// FLOCK.ACQUIRE … BLOCK: asks once, and is called.
    Queue,
}

impl Strategy {
    pub const ALL: [Strategy; 3] = [Strategy::Backoff, Strategy::Jitter, Strategy::Queue];

    pub fn name(self) -> &'static str {
        match self {
            Strategy::Backoff => "polling, exponential backoff",
            Strategy::Jitter => "polling, backoff with full jitter",
            Strategy::Queue => "FLOCK.ACQUIRE … BLOCK",
        }
    }

    /// How long to wait after a try that failed: `tries` have.
    fn delay(self, tries: u32) -> Duration {
        let longest = (FIRST_DELAY * 2_u32.pow(tries - 1)).min(LONGEST_DELAY);
        match self {
            Strategy::Jitter => longest.mul_f64(rand::random()),
            Strategy::Backoff | Strategy::Queue => longest,
        }
    }
}

/// What a way of waiting came to.
#[derive(Debug)]
pub struct Service {
    pub check: Check,
    pub served: usize,
    pub gave_up: usize,
    /// FLOCK.ACQUIREs that were sent.
    pub acquires: usize,
    /// Pairs of callers of which the later was served first.
    pub overtakings: usize,
    /// From the opening of the door until the last was served or gave up.
    pub elapsed: Duration,
    /// How much of that somebody held the lock: what the purchases take one after the other. The rest is lost between
    /// them.
    pub held: Duration,
}

impl Service {
    pub fn acquires_per_service(&self) -> f64 {
        self.acquires as f64 / self.served.max(1) as f64
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} served={} gave_up={} acquires_each={:.1} overtakings={} ({} ms, held for {})",
            self.check,
            self.served,
            self.gave_up,
            self.acquires_per_service(),
            self.overtakings,
            self.elapsed.as_millis(),
            self.held.as_millis()
        )
    }
}

/// What one caller met. The fence is None for one who gave up.
struct Wait {
    fence: Option<i64>,
    acquires: usize,
    purchase: Option<Purchase>,
    held: Duration,
    done: Instant,
}

impl Wait {
    /// Someone who got the lock after so many tries, and now buys.
    fn served(
        connection: &mut Connection,
        token: &str,
        terms: Terms,
        fence: i64,
        acquires: u32,
    ) -> Fallible<Wait> {
        let granted = Instant::now();
        let purchase = spend(connection, terms.work)?;
        if !flock::release(connection, token)? {
            return Err("the lease ended before the work: take a longer one".into());
        }
        Ok(Wait {
            fence: Some(fence),
            acquires: acquires as usize,
            purchase: Some(purchase),
            held: granted.elapsed(),
            done: Instant::now(),
        })
    }

    fn given_up() -> Wait {
        Wait {
            fence: None,
            acquires: TRIES as usize,
            purchase: None,
            held: Duration::ZERO,
            done: Instant::now(),
        }
    }
}

pub fn play(servers: &Servers, terms: Terms, strategy: Strategy) -> Fallible<Service> {
    let mut door = servers.redis()?;
    redis_wallet::fill(&mut door)?;
    flock::acquire(&mut door, DOORKEEPER, flock::PATIENCE)?;
    let arrivals = Arrivals::default();
    let (waits, opened, arrived) = thread::scope(|scope| {
        let doorkeeper = scope.spawn(|| open_when_all_are_there(&mut door, terms, strategy, &arrivals));
        let waits = hammer(
            terms.callers,
            || servers.redis(),
            |connection, caller| match strategy {
                Strategy::Queue => wait_in_line(connection, caller, terms),
                Strategy::Backoff | Strategy::Jitter => poll(connection, caller, terms, strategy, &arrivals),
            },
        );
        let (opened, arrived) = doorkeeper.join().expect("a doorkeeper that does not panic")?;
        Fallible::Ok((waits?.0, opened, arrived))
    })?;
    let last = waits.iter().map(|wait| wait.done).max().unwrap_or(opened);
    let accepted = waits
        .iter()
        .filter(|wait| wait.purchase == Some(Purchase::Accepted));
    let served = waits.iter().filter(|wait| wait.fence.is_some()).count();
    Ok(Service {
        check: Check::new(accepted.count(), redis_wallet::read(&mut servers.redis()?)?),
        served,
        gave_up: waits.len() - served,
        acquires: waits.iter().map(|wait| wait.acquires).sum(),
        overtakings: overtakings(&arrived, &waits),
        elapsed: last.duration_since(opened),
        held: waits.iter().map(|wait| wait.held).sum(),
    })
}

/// Who has asked, in order, as far as the callers themselves can tell.
#[derive(Default)]
struct Arrivals {
    order: Mutex<Vec<usize>>,
    count: AtomicUsize,
}

impl Arrivals {
    fn note(&self, caller: usize) {
        let mut order = self.order.lock().expect("a list that nobody panics over");
        order.push(caller);
        self.count.store(order.len(), Ordering::Release);
    }
}

/// Opens the door once everybody has asked. When that was, and in which order they came.
fn open_when_all_are_there(
    door: &mut Connection,
    terms: Terms,
    strategy: Strategy,
    arrivals: &Arrivals,
) -> Fallible<(Instant, Vec<usize>)> {
    let start = Instant::now();
    let mut queue = Queue::look(door)?;
    let mut here = 0;
    while here < terms.callers {
        if start.elapsed() > flock::PATIENCE {
            return Err(format!("only {here} of {} callers have come", terms.callers).into());
        }
        thread::sleep(PAUSE_BETWEEN_LOOKS);
        queue = Queue::look(door)?;
        here = match strategy {
            Strategy::Queue => queue.waiters,
            Strategy::Backoff | Strategy::Jitter => arrivals.count.load(Ordering::Acquire),
        };
    }
    let opened = Instant::now();
    flock::release(door, DOORKEEPER)?;
    let order = match strategy {
        Strategy::Queue => queue.order,
        Strategy::Backoff | Strategy::Jitter => arrivals.order.lock().expect("the list").clone(),
    };
    Ok((opened, order))
}

fn wait_in_line(connection: &mut Connection, caller: usize, terms: Terms) -> Fallible<Wait> {
    let token = format!("caller-{caller}");
    let fence = flock::acquire_labelled(connection, &token, terms.lease, &caller.to_string())?;
    Wait::served(connection, &token, terms, fence, 1)
}

fn poll(
    connection: &mut Connection,
    caller: usize,
    terms: Terms,
    strategy: Strategy,
    arrivals: &Arrivals,
) -> Fallible<Wait> {
    let token = format!("caller-{caller}");
    for tries in 1..=TRIES {
        let fence = flock::try_acquire(connection, &token, terms.lease)?;
        if tries == 1 {
            arrivals.note(caller);
        }
        if let Some(fence) = fence {
            return Wait::served(connection, &token, terms, fence, tries);
        }
        if tries < TRIES {
            thread::sleep(strategy.delay(tries));
        }
    }
    Ok(Wait::given_up())
}

/// The queue, as FLOCK.INFO shows it.
struct Queue {
    waiters: usize,
    /// Their labels, which are the callers' numbers: of the first hundred.
    order: Vec<usize>,
}

impl Queue {
    fn look(connection: &mut Connection) -> Fallible<Queue> {
        let info: Value = cmd("FLOCK.INFO").arg(flock::KEY).query(connection)?;
        let waiters = field(&info, "waiters").ok_or("FLOCK.INFO without waiters")?;
        let queue = field(&info, "queue").ok_or("FLOCK.INFO without a queue")?;
        let Value::Array(queue) = queue else {
            return Err("a queue that is not a list".into());
        };
        let label = |waiter| redis::from_redis_value::<String>(field(waiter, "label")?.clone()).ok();
        Ok(Queue {
            waiters: redis::from_redis_value(waiters.clone())?,
            order: queue
                .iter()
                .filter_map(|waiter| label(waiter)?.parse().ok())
                .collect(),
        })
    }
}

/// A field of a map, which is a list of names and values in RESP2.
fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let Value::Array(words) = map else { return None };
    let mut pairs = words.chunks_exact(2);
    pairs.find_map(|pair| match &pair[0] {
        Value::BulkString(bytes) if bytes == name.as_bytes() => Some(&pair[1]),
        Value::SimpleString(text) if text == name => Some(&pair[1]),
        _ => None,
    })
}

fn overtakings(arrived: &[usize], waits: &[Wait]) -> usize {
    let fences: Vec<i64> = arrived.iter().filter_map(|caller| waits[*caller].fence).collect();
    let later_but_first = |index: usize| {
        fences[index + 1..]
            .iter()
            .filter(|later| **later < fences[index])
            .count()
    };
    (0..fences.len()).map(later_but_first).sum()
}
