//! The open SDK channels, indexed by session and by identity, so that a change of one channel costs
//! the same however many there are.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Weak};

use weft_limits::Budget;

use crate::seam::ApiSession;

/// Identities without channels that are looked at when another one has none.
const LOOKED_AT: usize = 4;

/// The open channels.
pub(super) struct OpenChannels<T> {
    next: u64,
    all: HashMap<u64, Weak<T>>,
    by_session: HashMap<String, HashSet<u64>>,
    /// An identity without channels stays while circuits that its channels have left hold bytes of its budget:
    /// otherwise it would get another budget by connecting again.
    by_identity: HashMap<String, OfIdentity>,
    /// Identities that had no channels, or may have some again.
    without: VecDeque<String>,
}

/// The channels of an identity.
struct OfIdentity {
    numbers: HashSet<u64>,
    /// The budget that the channels share.
    budget: Budget,
    /// True while the identity is in the list of those without channels.
    is_listed: bool,
}

impl<T> Default for OpenChannels<T> {
    fn default() -> Self {
        Self {
            next: 0,
            all: HashMap::new(),
            by_session: HashMap::new(),
            by_identity: HashMap::new(),
            without: VecDeque::new(),
        }
    }
}

impl<T> OpenChannels<T> {
    /// Adds a channel, which `make` makes with its number.
    pub(super) fn add(&mut self, make: impl FnOnce(u64) -> Arc<T>) -> Arc<T> {
        let number = self.next;
        self.next += 1;
        let connection = make(number);
        self.all.insert(number, Arc::downgrade(&connection));
        connection
    }

    /// Notes that a channel belongs to this session from now on. Returns the number of channels of
    /// the session's identity, and the budget that these channels share; `share` makes the budget
    /// for the first of them.
    pub(super) fn attach(
        &mut self,
        number: u64,
        session: &ApiSession,
        share: impl FnOnce() -> Budget,
    ) -> (usize, Budget) {
        self.by_session.entry(session.id.clone()).or_default().insert(number);
        let of_identity = self.by_identity.entry(session.identity.clone());
        let known = of_identity.or_insert_with(|| OfIdentity {
            numbers: HashSet::new(),
            budget: share(),
            is_listed: false,
        });
        known.numbers.insert(number);
        (known.numbers.len(), known.budget.clone())
    }

    /// The number of channels of an identity.
    pub(super) fn count_of(&self, identity: &str) -> usize {
        self.by_identity.get(identity).map_or(0, |known| known.numbers.len())
    }

    /// Notes that a channel does not belong to this session any more. Returns the number of
    /// channels that the session's identity has left.
    pub(super) fn was_of(&mut self, number: u64, session: &ApiSession) -> usize {
        if let Entry::Occupied(mut of_session) = self.by_session.entry(session.id.clone()) {
            of_session.get_mut().remove(&number);
            if of_session.get().is_empty() {
                of_session.remove();
            }
        }
        let Some(known) = self.by_identity.get_mut(&session.identity) else { return 0 };
        known.numbers.remove(&number);
        let left = known.numbers.len();
        if left == 0 {
            if !std::mem::replace(&mut known.is_listed, true) {
                self.without.push_back(session.identity.clone());
            }
            self.forget_some();
        }
        left
    }

    /// Forgets identities without channels whose budgets are unused. It looks at a few: more than are added.
    fn forget_some(&mut self) {
        for _ in 0..self.without.len().min(LOOKED_AT) {
            let Some(identity) = self.without.pop_front() else { return };
            let Some(known) = self.by_identity.get_mut(&identity) else { continue };
            if !known.numbers.is_empty() {
                known.is_listed = false;
            } else if known.budget.used() > 0 {
                self.without.push_back(identity);
            } else {
                self.by_identity.remove(&identity);
            }
        }
    }

    /// Removes a channel.
    pub(super) fn remove(&mut self, number: u64) {
        self.all.remove(&number);
    }

    /// The number of channels.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// All channels.
    pub(super) fn all(&self) -> Vec<Arc<T>> {
        self.all.values().filter_map(Weak::upgrade).collect()
    }

    /// The channel of this number.
    pub(super) fn get(&self, number: u64) -> Option<Arc<T>> {
        self.all.get(&number).and_then(Weak::upgrade)
    }

    /// The channels of a session.
    pub(super) fn of_session(&self, session: &str) -> Vec<Arc<T>> {
        self.named(self.by_session.get(session))
    }

    /// The channels of an identity.
    pub(super) fn of_identity(&self, identity: &str) -> Vec<Arc<T>> {
        self.named(self.by_identity.get(identity).map(|known| &known.numbers))
    }

    fn named(&self, numbers: Option<&HashSet<u64>>) -> Vec<Arc<T>> {
        let known = |number: &u64| self.all.get(number).and_then(Weak::upgrade);
        numbers.into_iter().flatten().filter_map(known).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::Release;

    fn session(id: usize, identity: usize) -> ApiSession {
        ApiSession {
            id: format!("s{id}"),
            token: String::new(),
            identity: format!("i{identity}"),
            identity_name: None,
            legacy: false,
            controller: None,
            fingerprints: Vec::new(),
            release: Release::default(),
        }
    }

    #[test]
    fn whoever_goes_is_found_by_number_and_leaves_nothing() {
        let mut live = OpenChannels::<u64>::default();
        let all: Vec<_> = (0..10_000).map(|_| live.add(Arc::new)).collect();
        let of = |number: usize| session(number, number % 10);
        let mut held = Vec::new();
        for number in 0..all.len() {
            let (count, memory) = live.attach(number as u64, &of(number), || Budget::new(1000));
            assert_eq!((count, memory.used()), (number / 10 + 1, number as u64 / 10));
            held.push(memory.try_take(1));
        }
        assert_eq!(live.of_identity("i3").len(), 1000);
        assert_eq!(live.of_session("s77").iter().map(|one| **one).collect::<Vec<_>>(), [77]);
        for number in 0..all.len() {
            assert_eq!(live.was_of(number as u64, &of(number)), 999 - number / 10);
            live.remove(number as u64);
        }
        // What the circuits of an identity hold counts when it comes back.
        let (_, memory) = live.attach(7, &of(3), || Budget::new(1000));
        assert_eq!(memory.used(), 1000);
        held.clear();
        live.was_of(7, &of(3));
        for number in 0..4 {
            live.attach(number, &session(11, 11), || Budget::new(1000));
            live.was_of(number, &session(11, 11));
        }
        assert!(live.without.is_empty());
        assert!(live.all.is_empty() && live.by_session.is_empty() && live.by_identity.is_empty());
        assert_eq!(live.was_of(0, &of(0)), 0, "once more is nothing");
    }
}
