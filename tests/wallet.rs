//! Proves the point of it all with real callers of a real client library: 50
//! of them spend from one balance. Without a lock money is made up; with
//! FLOCK.ACQUIRE … BLOCK it is exact, and nobody polls or gives up.

mod support;

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use redis::{cmd, Connection};

use support::*;

const CALLERS: usize = 50;
const BALANCE: i64 = 100;
const PRICE: i64 = 10;
/// What a caller does between reading the balance and writing it.
const WORK: Duration = Duration::from_millis(2);
const ATTEMPTS_TO_SHOW_THE_FAULT: usize = 20;

/// What one caller met.
#[derive(Debug, PartialEq)]
enum Purchase {
    Accepted,
    Refused,
}

fn read_modify_write(connection: &mut Connection) -> Purchase {
    let balance: i64 = cmd("GET").arg("wallet").query(connection).expect("the balance");
    thread::sleep(WORK);
    if balance < PRICE {
        return Purchase::Refused;
    }
    let rest = balance - PRICE;
    cmd("SET")
        .arg("wallet")
        .arg(rest)
        .exec(connection)
        .expect("the balance is written");
    Purchase::Accepted
}

fn with_the_lock(connection: &mut Connection, caller: usize) -> Purchase {
    let token = format!("caller-{caller}");
    let fence: Option<i64> = cmd("FLOCK.ACQUIRE")
        .arg(("lock:wallet", &token, "PX", 10_000, "BLOCK", 60_000))
        .query(connection)
        .expect("one answer");
    fence.expect("nobody gives up");
    let purchase = read_modify_write(connection);
    let released: i64 = cmd("FLOCK.RELEASE")
        .arg(("lock:wallet", &token))
        .query(connection)
        .expect("the release");
    assert_eq!(released, 1);
    purchase
}

/// All callers at once, each on a connection of its own, from one start line.
/// Returns how many were accepted.
fn shop(server: &Server, buy: fn(&mut Connection, usize) -> Purchase) -> usize {
    server.admin().call(("SET", "wallet", BALANCE));
    let address = format!("redis://127.0.0.1:{}", server.port());
    let start_line = Barrier::new(CALLERS);
    let purchases: Vec<Purchase> = thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (start_line, address) = (&start_line, address.as_str());
                scope.spawn(move || {
                    let mut connection = redis::Client::open(address)
                        .and_then(|client| client.get_connection())
                        .expect("a connection");
                    start_line.wait();
                    buy(&mut connection, caller)
                })
            })
            .collect();
        callers
            .into_iter()
            .map(|caller| caller.join().expect("a caller"))
            .collect()
    });
    purchases
        .iter()
        .filter(|purchase| **purchase == Purchase::Accepted)
        .count()
}

fn calls_of_acquire(client: &mut Client) -> i64 {
    let line = client.info("commandstats", "cmdstat_flock.acquire");
    line.split(',')
        .find_map(|field| field.strip_prefix("calls=")?.parse().ok())
        .expect("the number of calls")
}

#[test]
fn without_a_lock_the_balance_is_wrong() {
    let server = Server::builder().undressed().start();
    let is_wrong = (0..ATTEMPTS_TO_SHOW_THE_FAULT).any(|_| {
        let accepted = shop(&server, |connection, _| read_modify_write(connection)) as i64;
        let balance: i64 = server.admin().run("GET wallet").text().parse().expect("a number");
        BALANCE - accepted * PRICE != balance
    });
    assert!(is_wrong, "if this never shows, the other test proves nothing");
}

#[test]
fn with_the_lock_the_balance_is_exact_and_each_caller_asks_once() {
    let server = Server::start();
    let accepted = shop(&server, with_the_lock);
    let mut client = server.admin();
    assert_eq!(accepted as i64, BALANCE / PRICE);
    assert_eq!(client.run("GET wallet"), "0");
    assert_eq!(
        client.run("KEYS *"),
        Reply::List(vec![Reply::Bulk(b"wallet".to_vec())])
    );
    assert_eq!(calls_of_acquire(&mut client), CALLERS as i64);
    assert_eq!(client.stat("grants"), CALLERS as i64);
    assert_eq!(client.stat("refused_busy"), 0);
    assert_eq!(client.stat("waits_timed_out"), 0);
}
