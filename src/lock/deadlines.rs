//! The deadline index: what ends when. One entry for each hold and each wait; an entry that is
//! moved or removed leaves nothing behind.
//!
//! A `BTreeMap` serves: entries with later deadlines go to its end, where nodes stay full, and
//! the earliest is always at hand.

use std::collections::BTreeMap;

use super::time::Instant;

/// Entries in order of their deadlines, ties in order of entry.
#[derive(Debug)]
pub struct Deadlines<T> {
    entries: BTreeMap<(Instant, u64), T>,
    last_ticket: u64,
}

impl<T> Default for Deadlines<T> {
    fn default() -> Self {
        Deadlines {
            entries: BTreeMap::new(),
            last_ticket: 0,
        }
    }
}

impl<T> Deadlines<T> {
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an entry. Its ticket, never 0, and its deadline are the key to it.
    pub fn insert(&mut self, at: Instant, item: T) -> u64 {
        self.last_ticket += 1;
        self.entries.insert((at, self.last_ticket), item);
        self.last_ticket
    }

    pub fn remove(&mut self, at: Instant, ticket: u64) -> Option<T> {
        self.entries.remove(&(at, ticket))
    }

    /// Moves an entry to another deadline; it keeps its ticket.
    pub fn reschedule(&mut self, from: Instant, ticket: u64, to: Instant) {
        if let Some(item) = self.entries.remove(&(from, ticket)) {
            self.entries.insert((to, ticket), item);
        }
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Instant> {
        self.entries.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes out the earliest entry if its deadline has come.
    pub fn pop_due(&mut self, now: Instant) -> Option<T> {
        let entry = self.entries.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.entries.retain(|_, item| keep(item));
    }

    pub fn items_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.values_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_entries_come_in_order_and_not_early() {
        let mut index = Deadlines::default();
        for (at, item) in [(30, 'c'), (10, 'a'), (20, 'b'), (10, 'A')] {
            index.insert(Instant(at), item);
        }
        assert_eq!(index.next(), Some(Instant(10)));
        assert_eq!(index.pop_due(Instant(9)), None);
        let due: Vec<_> = std::iter::from_fn(|| index.pop_due(Instant(20))).collect();
        assert_eq!(due, ['a', 'A', 'b']);
        assert_eq!(index.len(), 1);
    }

    #[test]
    fn moved_and_removed_entries_leave_nothing_behind() {
        let mut index = Deadlines::default();
        for round in 0..1_000u64 {
            let ticket = index.insert(Instant(30_000 + round), round);
            index.reschedule(Instant(30_000 + round), ticket, Instant(60_000 + round));
            assert_eq!(index.remove(Instant(30_000 + round), ticket), None);
            assert_eq!(index.remove(Instant(60_000 + round), ticket), Some(round));
        }
        assert_eq!(index.len(), 0);
    }
}
