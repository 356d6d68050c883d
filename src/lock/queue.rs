//! The waiters: one first-come-first-served queue per lock name.
//!
//! A waiter for one lock stands in one queue, a waiter for many in the queue of each. Ids are given
//! in order of arrival, so a queue is a set of ids: its head is the least, and no two queues order
//! two waiters differently. Queues are bounded, each and all together ([`Limits`]). A queue belongs
//! to a name, not to a value: it outlives the key, and stays where it is when databases are
//! swapped.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::holder::{Mode, Terms, Token};
use super::request::Request;
use super::time::{Instant, Lease};
use super::{LockName, Place};

/// Names one waiter for as long as it waits; never used twice, and greater than all before it.
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
    pub mode: Mode,
    pub terms: Terms,
    pub caller: C,
    /// When it began to wait.
    pub since: Instant,
    /// When it gives up, with its ticket in the index of waits; `None` waits without limit.
    pub until: Option<(Instant, u64)>,
    names: Box<[Rc<LockName>]>,
}

impl<C> Waiter<C> {
    /// The locks it waits for: one, or many at once.
    pub fn names(&self) -> &[Rc<LockName>] {
        &self.names
    }

    /// What it asks for, but that a wait is never for one more hold.
    pub fn request(&self) -> Request<'_> {
        Request {
            token: self.token.bytes(),
            lease: self.lease,
            above: self.above,
            label: self.terms.label.as_ref().map(|label| label.bytes()),
            mode: self.mode,
            reentrant: false,
            delay: self.terms.delay,
            session: self.terms.session,
        }
    }
}

#[derive(Debug)]
struct Queue {
    name: Rc<LockName>,
    order: BTreeSet<WaiterId>,
    by_token: HashMap<Token, WaiterId>,
    /// The number of permits that its waiters for permits agree on, and how many those are.
    permits: (u32, usize),
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
        self.queue(place).map_or(0, |queue| queue.order.len())
    }

    pub fn has_room(&self, place: Place, limits: Limits) -> bool {
        self.total() < limits.total && self.len(place) < limits.per_lock
    }

    /// The number of permits that is waited for; `None` if nobody waits for one.
    pub fn agreed_permits(&self, place: Place) -> Option<u32> {
        let (n, waiting) = self.queue(place)?.permits;
        (waiting > 0).then_some(n)
    }

    /// Adds a waiter at the end of the queue of each place. The token must not wait in any of
    /// them yet: see [`Queues::find`].
    pub fn push(
        &mut self,
        places: &[Place],
        request: &Request,
        caller: C,
        since: Instant,
    ) -> Option<WaiterId> {
        let token = Token::new(request.token)?;
        self.last_id += 1;
        let id = WaiterId(self.last_id);
        let names = places.iter().map(|place| {
            let queues = self.queues.entry(place.db).or_default();
            let queue = queues
                .entry(place.key.into())
                .or_insert_with(|| Queue::new(*place));
            queue.push(id, token.clone(), request.mode);
            Rc::clone(&queue.name)
        });
        let waiter = Waiter {
            names: names.collect(),
            token,
            lease: request.lease,
            above: request.above,
            mode: request.mode,
            terms: request.terms(),
            caller,
            since,
            until: None,
        };
        self.waiters.insert(id, waiter);
        self.peak = self.peak.max(self.waiters.len());
        Some(id)
    }

    pub fn get(&self, id: WaiterId) -> Option<&Waiter<C>> {
        self.waiters.get(&id)
    }

    pub fn get_mut(&mut self, id: WaiterId) -> Option<&mut Waiter<C>> {
        self.waiters.get_mut(&id)
    }

    /// The waiter with that token.
    pub fn find(&self, place: Place, token: &[u8]) -> Option<WaiterId> {
        self.queue(place)?.by_token.get(token).copied()
    }

    pub fn head(&self, place: Place) -> Option<(WaiterId, &Waiter<C>)> {
        let id = *self.queue(place)?.order.first()?;
        Some((id, self.waiters.get(&id)?))
    }

    /// Whether a waiter is the first in all the queues it stands in.
    pub fn heads_all(&self, id: WaiterId) -> bool {
        let heads = |name: &Rc<LockName>| self.head(name.place()).is_some_and(|(head, _)| head == id);
        self.waiters.get(&id).is_some_and(|w| w.names.iter().all(heads))
    }

    /// The locks that a waiter is the first to wait for, and others behind it.
    pub fn headed_by(&self, id: WaiterId) -> impl Iterator<Item = &Rc<LockName>> {
        let names = self.waiters.get(&id).map_or(&[][..], |w| &w.names);
        names.iter().filter(move |name| {
            let queue = self.queue(name.place());
            queue.is_some_and(|queue| queue.order.len() > 1 && queue.order.first() == Some(&id))
        })
    }

    /// Takes a waiter out, wherever it stands.
    pub fn remove(&mut self, id: WaiterId) -> Option<Waiter<C>> {
        let waiter = self.waiters.remove(&id)?;
        for name in &waiter.names {
            let Some(db) = self.queues.get_mut(&name.db) else {
                continue;
            };
            if let Some(queue) = db.get_mut(&name.key) {
                queue.remove(id, &waiter.token, waiter.mode);
                if queue.order.is_empty() {
                    db.remove(&name.key);
                }
            }
        }
        Some(waiter)
    }

    /// The waiters of one lock in the order of their arrival.
    pub fn iter<'a>(&'a self, place: Place) -> impl Iterator<Item = (WaiterId, &'a Waiter<C>)> + 'a {
        let order = self.queue(place).into_iter().flat_map(|queue| &queue.order);
        order.filter_map(|id| Some((*id, self.waiters.get(id)?)))
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
            order: BTreeSet::new(),
            by_token: HashMap::new(),
            permits: (0, 0),
        }
    }

    fn push(&mut self, id: WaiterId, token: Token, mode: Mode) {
        self.order.insert(id);
        self.by_token.insert(token, id);
        if let Mode::Permits(n) = mode {
            self.permits = (n, self.permits.1 + 1);
        }
    }

    fn remove(&mut self, id: WaiterId, token: &Token, mode: Mode) {
        self.order.remove(&id);
        if self.by_token.get(token) == Some(&id) {
            self.by_token.remove(token);
        }
        if let Mode::Permits(n) = mode {
            self.permits = (n, self.permits.1.saturating_sub(1));
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
            reentrant: false,
            delay: Lease::ZERO,
            session: None,
        };
        queues.push(&[PLACE], &request, token, Instant(0)).unwrap()
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
