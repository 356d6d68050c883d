//! The waiters: one first-come-first-served queue per lock name.
//!
//! Push, pop and cancel by id cost the same however long the queue is: waiters live in one table
//! by id, and each knows its neighbours. Queues are bounded, each and all together ([`Limits`]).
//! A queue belongs to a name, not to a value: it outlives the key, and stays where it is when
//! databases are swapped.

use std::collections::HashMap;
use std::rc::Rc;

use super::engine::Request;
use super::holder::{Label, Mode, Token};
use super::time::{Instant, Lease};
use super::{LockName, Place};

/// Names one waiter for as long as it waits; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId(u64);

/// How many may wait (settings `flock.max-waiters` and `flock.max-waiters-total`).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub per_lock: usize,
    pub total: usize,
}

/// A blocked caller and what it asked for. `C` is the server's handle of the caller.
#[derive(Debug)]
pub struct Waiter<C> {
    pub token: Token,
    pub lease: Lease,
    pub above: u64,
    pub label: Option<Label>,
    pub mode: Mode,
    pub caller: C,
    /// When it began to wait.
    pub since: Instant,
    /// When it gives up, with its ticket in the index of waits; `None` waits without limit.
    pub until: Option<(Instant, u64)>,
    name: Rc<LockName>,
    before: Option<WaiterId>,
    behind: Option<WaiterId>,
}

impl<C> Waiter<C> {
    pub fn name(&self) -> &LockName {
        &self.name
    }
}

#[derive(Debug)]
struct Queue {
    name: Rc<LockName>,
    head: Option<WaiterId>,
    tail: Option<WaiterId>,
    by_token: HashMap<Token, WaiterId>,
}

/// All the queues.
#[derive(Debug)]
pub struct Queues<C> {
    waiters: HashMap<WaiterId, Waiter<C>>,
    queues: HashMap<i32, HashMap<Box<[u8]>, Queue>>,
    last_id: u64,
    peak: usize,
}

impl<C> Default for Queues<C> {
    fn default() -> Self {
        Queues {
            waiters: HashMap::new(),
            queues: HashMap::new(),
            last_id: 0,
            peak: 0,
        }
    }
}

impl<C> Queues<C> {
    /// Waiters in all queues.
    pub fn total(&self) -> usize {
        self.waiters.len()
    }

    /// The most there ever were at once.
    pub fn peak(&self) -> usize {
        self.peak
    }

    pub fn len(&self, place: Place) -> usize {
        self.queue(place).map_or(0, |queue| queue.by_token.len())
    }

    pub fn has_room(&self, place: Place, limits: Limits) -> bool {
        self.total() < limits.total && self.len(place) < limits.per_lock
    }

    /// Adds a waiter at the end. The token must not wait there yet: see [`Queues::find`].
    pub fn push(&mut self, place: Place, request: &Request, caller: C, since: Instant) -> Option<WaiterId> {
        let token = Token::new(request.token)?;
        self.last_id += 1;
        let id = WaiterId(self.last_id);
        let queue = self
            .queues
            .entry(place.db)
            .or_default()
            .entry(place.key.into())
            .or_insert_with(|| Queue::new(place));
        let waiter = Waiter {
            token: token.clone(),
            lease: request.lease,
            above: request.above,
            label: request.label.and_then(Label::new),
            mode: request.mode,
            caller,
            since,
            until: None,
            name: Rc::clone(&queue.name),
            before: queue.tail,
            behind: None,
        };
        queue.by_token.insert(token, id);
        queue.head.get_or_insert(id);
        if let Some(tail) = queue.tail.replace(id) {
            if let Some(last) = self.waiters.get_mut(&tail) {
                last.behind = Some(id);
            }
        }
        self.waiters.insert(id, waiter);
        self.peak = self.peak.max(self.waiters.len());
        Some(id)
    }

    pub fn get_mut(&mut self, id: WaiterId) -> Option<&mut Waiter<C>> {
        self.waiters.get_mut(&id)
    }

    /// The waiter with that token.
    pub fn find(&self, place: Place, token: &[u8]) -> Option<WaiterId> {
        self.queue(place)?.by_token.get(token).copied()
    }

    pub fn head(&self, place: Place) -> Option<(WaiterId, &Waiter<C>)> {
        let id = self.queue(place)?.head?;
        Some((id, self.waiters.get(&id)?))
    }

    pub fn is_head(&self, id: WaiterId) -> bool {
        self.waiters.get(&id).is_some_and(|w| w.before.is_none())
    }

    /// Takes a waiter out, wherever it stands.
    pub fn remove(&mut self, id: WaiterId) -> Option<Waiter<C>> {
        let waiter = self.waiters.remove(&id)?;
        if let Some(before) = waiter.before.and_then(|w| self.waiters.get_mut(&w)) {
            before.behind = waiter.behind;
        }
        if let Some(behind) = waiter.behind.and_then(|w| self.waiters.get_mut(&w)) {
            behind.before = waiter.before;
        }
        let db = self.queues.get_mut(&waiter.name.db)?;
        let queue = db.get_mut(&waiter.name.key)?;
        queue.by_token.remove(&waiter.token);
        if queue.head == Some(id) {
            queue.head = waiter.behind;
        }
        if queue.tail == Some(id) {
            queue.tail = waiter.before;
        }
        if queue.by_token.is_empty() {
            db.remove(&waiter.name.key);
        }
        Some(waiter)
    }

    /// The waiters of one lock in the order of their arrival.
    pub fn iter<'a>(&'a self, place: Place) -> impl Iterator<Item = (WaiterId, &'a Waiter<C>)> + 'a {
        let mut next = self.queue(place).and_then(|queue| queue.head);
        std::iter::from_fn(move || {
            let id = next?;
            let waiter = self.waiters.get(&id)?;
            next = waiter.behind;
            Some((id, waiter))
        })
    }

    /// The names that have waiters, in one database or in all.
    pub fn names(&self, db: Option<i32>) -> Vec<LockName> {
        let of_db = |(number, _): &(&i32, _)| db.is_none_or(|db| db == **number);
        let queues = self
            .queues
            .iter()
            .filter(of_db)
            .flat_map(|(_, queues)| queues.values());
        queues.map(|queue| LockName::clone(&queue.name)).collect()
    }

    /// The ids of all waiters, oldest first.
    pub fn ids(&self) -> Vec<WaiterId> {
        let mut ids: Vec<_> = self.waiters.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    fn queue(&self, place: Place) -> Option<&Queue> {
        // The common case, a server where nobody waits, costs no hashing of the key.
        if self.waiters.is_empty() {
            return None;
        }
        self.queues.get(&place.db)?.get(place.key)
    }
}

impl Queue {
    fn new(place: Place) -> Queue {
        Queue {
            name: Rc::new(place.into()),
            head: None,
            tail: None,
            by_token: HashMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { db: 0, key: b"lock" };

    fn push(queues: &mut Queues<u32>, token: u32) -> WaiterId {
        let name = token.to_string();
        let request = Request {
            token: name.as_bytes(),
            lease: Lease::from_ms(1).unwrap(),
            above: 0,
            label: None,
            mode: Mode::Exclusive,
        };
        queues.push(PLACE, &request, token, Instant(0)).unwrap()
    }

    fn order(queues: &Queues<u32>) -> Vec<u32> {
        queues.iter(PLACE).map(|(_, w)| w.caller).collect()
    }

    #[test]
    fn waiters_leave_in_the_order_they_came_wherever_others_are_cancelled() {
        let mut queues = Queues::default();
        let ids: Vec<_> = (0..6).map(|n| push(&mut queues, n)).collect();
        for cancelled in [0, 3, 5] {
            assert_eq!(queues.remove(ids[cancelled]).unwrap().caller, cancelled as u32);
            assert!(queues.remove(ids[cancelled]).is_none(), "cancelled twice");
        }
        assert_eq!(order(&queues), [1, 2, 4]);
        push(&mut queues, 7);
        assert_eq!(order(&queues), [1, 2, 4, 7]);
        while let Some((id, _)) = queues.head(PLACE) {
            queues.remove(id);
        }
        assert_eq!((queues.total(), queues.len(PLACE), queues.peak()), (0, 0, 6));
        assert!(
            queues.queues[&0].is_empty(),
            "an empty queue leaves nothing behind"
        );
    }

    #[test]
    fn a_token_is_found_while_it_waits_and_only_then() {
        let mut queues = Queues::default();
        let id = push(&mut queues, 1);
        assert_eq!(queues.find(PLACE, b"1"), Some(id));
        assert_eq!(queues.find(Place { db: 1, key: b"lock" }, b"1"), None);
        queues.remove(id);
        assert_eq!(queues.find(PLACE, b"1"), None);
    }

    #[test]
    fn both_limits_bound_a_queue() {
        let mut queues = Queues::default();
        push(&mut queues, 1);
        let limits = |per_lock, total| Limits { per_lock, total };
        assert!(queues.has_room(PLACE, limits(2, 2)));
        assert!(!queues.has_room(PLACE, limits(1, 2)));
        assert!(!queues.has_room(PLACE, limits(2, 1)));
    }
}
