//! Changes of shared entities that the shared log does not have yet: the newest of each entity, in the order in which they
//! were made.

use std::collections::{BTreeMap, HashMap};

use weft_model::{Change, Id, Kind};

/// Most changes that are sent together.
const MOST: usize = 512;
/// A batch is full when its rows take so many bytes.
const MOST_BYTES: usize = 512 << 10;

type Key = (Kind, Id);

/// A change that waits.
#[derive(Debug, Clone)]
struct Waiting {
    change: Change,
    number: u64,
    /// Whether the shared log had the entity when the change was made.
    is_known: bool,
}

/// Changes that were sent together, with their numbers.
pub(super) type Sent = Vec<(u64, Change)>;

/// Changes that the shared log does not have yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: HashMap<Key, Waiting>,
    order: BTreeMap<u64, Key>,
    /// The number of the last change.
    last: u64,
}

fn key(change: &Change) -> Key {
    (change.kind(), change.id().clone())
}

impl Outbox {
    /// Adds a change, in the place of an earlier one of its entity. `is_known` says whether the shared log has the entity.
    pub(super) fn add(&mut self, change: Change, is_known: bool) {
        self.last += 1;
        let (key, number) = (key(&change), self.last);
        let before = self.waiting.insert(key.clone(), Waiting { change, number, is_known });
        if let Some(before) = before {
            self.order.remove(&before.number);
        }
        self.order.insert(number, key);
    }

    /// The change of an entity that waits.
    pub(super) fn of(&self, kind: Kind, id: &Id) -> Option<&Change> {
        self.waiting.get(&(kind, id.clone())).map(|waiting| &waiting.change)
    }

    /// All changes that wait, the oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = &Change> {
        self.order.values().filter_map(|key| self.waiting.get(key)).map(|waiting| &waiting.change)
    }

    /// The number of the last change.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The number up to which the shared log has all changes, or does not get them any more.
    pub(super) fn done(&self) -> u64 {
        self.order.first_key_value().map_or(self.last, |(number, _)| number - 1)
    }

    /// The oldest changes, to be sent. They wait on until [`Self::sent`].
    pub(super) fn batch(&self) -> Sent {
        let mut bytes = 0;
        let oldest = self.order.values().filter_map(|key| self.waiting.get(key));
        let fitting = oldest.take(MOST).take_while(|waiting| {
            let fits = bytes < MOST_BYTES;
            if let Change::Put(entity) = &waiting.change {
                bytes += entity.to_row().len();
            }
            fits
        });
        fitting.map(|waiting| (waiting.number, waiting.change.clone())).collect()
    }

    /// The shared log has these changes. A newer change of an entity waits on. Returns the entities of which none waits.
    pub(super) fn sent(&mut self, sent: &Sent) -> Vec<Key> {
        let mut done = Vec::new();
        for (number, change) in sent {
            let key = key(change);
            if self.order.remove(number).is_some() {
                self.waiting.remove(&key);
                done.push(key);
            } else if let Some(newer) = self.waiting.get_mut(&key) {
                newer.is_known = true;
            }
        }
        done
    }

    /// Another controller has changed an entity. An end counts whatever waits here, because no entity begins again after
    /// its end; a change of this controller comes after that of the other one. True if this controller has to follow.
    pub(super) fn is_overtaken_by(&mut self, change: &Change) -> bool {
        let key = key(change);
        match change {
            Change::Delete(..) => {
                if let Some(waiting) = self.waiting.remove(&key) {
                    self.order.remove(&waiting.number);
                    return matches!(waiting.change, Change::Put(_));
                }
                true
            }
            Change::Put(_) | Change::Cold { .. } => match self.waiting.get_mut(&key) {
                Some(waiting) => {
                    waiting.is_known = true;
                    false
                }
                None => true,
            },
        }
    }

    /// The shared log was loaded anew: entities that it had, and has no longer, have ended.
    pub(super) fn retain_known(&mut self, is_there: impl Fn(&Key) -> bool) {
        let Self { waiting, order, .. } = self;
        waiting.retain(|key, waiting| {
            let has_ended = waiting.is_known && !is_there(key);
            if has_ended {
                order.remove(&waiting.number);
            }
            !has_ended
        });
    }

    /// The shared log may have taken these changes.
    pub(super) fn note_known(&mut self, sent: &Sent) {
        for (_, change) in sent {
            if let Some(waiting) = self.waiting.get_mut(&key(change)) {
                waiting.is_known = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_model::entity::ServiceSession;
    use weft_model::{Base, Timestamp};

    use super::*;

    fn session(id: &str, token: &str) -> Change {
        let base = Base::new(Id::new(id), Timestamp(1));
        Change::Put(ServiceSession { base, token: token.into(), ..Default::default() }.into())
    }

    fn end(id: &str) -> Change {
        Change::Delete(Kind::ServiceSession, Id::new(id))
    }

    fn waiting(outbox: &Outbox) -> Vec<Change> {
        outbox.all().cloned().collect()
    }

    #[test]
    fn the_newest_change_of_each_entity_waits_until_it_was_sent() {
        let mut outbox = Outbox::default();
        for change in [session("a", "1"), session("b", "1"), session("a", "2")] {
            outbox.add(change, false);
        }
        assert_eq!(waiting(&outbox), [session("b", "1"), session("a", "2")]);
        assert_eq!((outbox.last(), outbox.done()), (3, 1));
        let sent = outbox.batch();
        // One changes while it is under way.
        outbox.add(session("b", "3"), false);
        assert_eq!(outbox.sent(&sent), [(Kind::ServiceSession, Id::new("a"))]);
        assert_eq!(waiting(&outbox), [session("b", "3")]);
        assert_eq!((outbox.last(), outbox.done()), (4, 3));
        let sent = outbox.batch();
        outbox.sent(&sent);
        assert_eq!((waiting(&outbox), outbox.done()), (vec![], 4));
    }

    #[test]
    fn an_end_counts_over_every_change() {
        let mut outbox = Outbox::default();
        outbox.add(session("a", "1"), true);
        assert!(!outbox.is_overtaken_by(&session("a", "theirs")), "its own change comes later");
        assert!(outbox.is_overtaken_by(&end("a")));
        assert_eq!((waiting(&outbox), outbox.done()), (vec![], 1));
        outbox.add(end("b"), true);
        assert!(!outbox.is_overtaken_by(&end("b")), "it has ended here");
        assert_eq!(waiting(&outbox), []);
        assert!(outbox.is_overtaken_by(&session("c", "theirs")));
    }

    #[test]
    fn what_has_ended_while_nobody_looked_is_not_sent() {
        let mut outbox = Outbox::default();
        outbox.add(session("known", "1"), true);
        outbox.add(session("new", "1"), false);
        outbox.add(session("there", "1"), true);
        // The log has taken the first change of it.
        outbox.add(session("sent", "1"), false);
        let sent = outbox.batch();
        outbox.add(session("sent", "2"), false);
        outbox.sent(&vec![sent[3].clone()]);
        outbox.retain_known(|(_, id)| id == "there");
        assert_eq!(waiting(&outbox), [session("new", "1"), session("there", "1")]);
    }

    #[test]
    fn a_batch_has_a_bound() {
        let mut outbox = Outbox::default();
        let large = "x".repeat(100_000);
        (0..10).for_each(|number| outbox.add(session(&format!("large{number}"), &large), false));
        assert_eq!(outbox.batch().len(), 6);
        let mut outbox = Outbox::default();
        (0..2 * MOST).for_each(|number| outbox.add(session(&format!("{number}"), "1"), false));
        assert_eq!(outbox.batch().len(), MOST);
        assert!(outbox.batch().iter().map(|(number, _)| *number).eq(1..=MOST as u64));
    }
}
