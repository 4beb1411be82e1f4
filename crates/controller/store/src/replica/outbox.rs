//! Changes of shared entities that the shared log does not have yet: the newest of each entity, in the order in which they
//! were made.

use std::collections::{BTreeMap, HashMap, HashSet};

use weft_model::{Change, Entity, Id, Kind};

use crate::WaitingChange;

/// Most changes that are sent together.
const MOST: usize = 512;
/// A batch is full when its rows take so many bytes.
const MOST_BYTES: usize = 512 << 10;

/// Most ended entities that are kept in mind.
const MOST_ENDED: usize = 65_536;

type Key = (Kind, Id);

/// A change that waits.
#[derive(Debug, Clone)]
struct Waiting {
    change: Change,
    number: u64,
    /// Whether the shared log has had the entity: then it does not begin again.
    is_known: bool,
    /// Whether the change only says that the entity is used: any change of others is worth more.
    is_use: bool,
}

/// Makes one entity of two that were changed at once: theirs, which comes first in the log, and that of this controller.
pub(super) type Merge = fn(&Entity, &Entity) -> Entity;

/// Changes that were sent together, with their numbers.
pub(super) type Sent = Vec<(u64, Change)>;

/// Changes that the shared log does not have yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: HashMap<Key, Waiting>,
    order: BTreeMap<u64, Key>,
    /// The number of the last change.
    last: u64,
    /// What has ended: it does not begin again, whoever says so.
    ended: BTreeMap<u64, Key>,
    ended_keys: HashSet<Key>,
    ends: u64,
    /// The number up to which changes were told to other controllers.
    told: u64,
}

fn key(change: &Change) -> Key {
    (change.kind(), change.id().clone())
}

impl Outbox {
    /// Adds a change, in the place of an earlier one of its entity. `is_known` says whether the shared log has the entity.
    pub(super) fn add(&mut self, change: Change, is_known: bool) {
        self.insert(change, (is_known, false));
    }

    /// Adds that an entity which the shared log has is used, unless a change of it waits: that says so, too.
    pub(super) fn add_use(&mut self, entity: Entity) {
        let key = (entity.kind(), entity.id().clone());
        let is_use = self.waiting.get(&key).is_none_or(|waiting| waiting.is_use);
        match self.waiting.get(&key) {
            Some(Waiting { change: Change::Delete(..), .. }) => {}
            _ => self.insert(Change::Put(entity), (true, is_use)),
        }
    }

    fn insert(&mut self, change: Change, (is_known, is_use): (bool, bool)) {
        self.last += 1;
        let (key, number) = (key(&change), self.last);
        if let Change::Delete(..) = change {
            self.note_end(key.clone());
        }
        let before = self.waiting.remove(&key);
        // One that waits to be sent for the first time is new, whatever is changed of it.
        let is_known = before.as_ref().map_or(is_known, |before| before.is_known);
        if let Some(before) = before {
            self.order.remove(&before.number);
        }
        self.waiting.insert(key.clone(), Waiting { change, number, is_known, is_use });
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
    /// its end; of two changes one is made, which is sent in their place. True if this controller has to follow.
    pub(super) fn take(&mut self, change: &Change, merge: Option<Merge>) -> bool {
        let key = key(change);
        match change {
            Change::Delete(..) => {
                self.note_end(key.clone());
                if let Some(waiting) = self.waiting.remove(&key) {
                    self.order.remove(&waiting.number);
                    return matches!(waiting.change, Change::Put(_));
                }
                true
            }
            Change::Put(theirs) => {
                let Some(waiting) = self.waiting.get_mut(&key) else { return true };
                waiting.is_known = true;
                let Change::Put(ours) = &mut waiting.change else { return false };
                if waiting.is_use {
                    let number = waiting.number;
                    self.waiting.remove(&key);
                    self.order.remove(&number);
                } else if let Some(merge) = merge {
                    *ours = merge(theirs, ours);
                }
                true
            }
            Change::Cold { .. } => true,
        }
    }

    /// The shared log has exactly what waits: nothing is to be sent.
    pub(super) fn drop_same(&mut self, change: &Change) {
        let key = key(change);
        if self.waiting.get(&key).is_some_and(|waiting| waiting.change == *change)
            && let Some(waiting) = self.waiting.remove(&key)
        {
            self.order.remove(&waiting.number);
        }
    }

    /// The changes after this number, the first ones of them, and the number of the last of these.
    pub(super) fn after(&self, number: u64, most: usize) -> (Vec<WaitingChange>, u64) {
        let after = self.order.range(number.saturating_add(1)..).take(most);
        let (mut found, mut last) = (Vec::new(), number);
        for (number, key) in after {
            if let Some(Waiting { change, is_known, .. }) = self.waiting.get(key) {
                found.push(WaitingChange { change: change.clone(), is_known: *is_known });
            }
            last = *number;
        }
        (found, last)
    }

    /// Takes over a change that waits at another controller, where the copy of the log has this row. The change that this
    /// controller has to follow; none if it says nothing new.
    pub(super) fn take_waiting(
        &mut self,
        theirs: &WaitingChange,
        row: Option<&Entity>,
        merge: Merge,
    ) -> Option<Change> {
        let key = key(&theirs.change);
        let ours = match self.of(key.0, &key.1) {
            Some(Change::Put(ours)) => Some(ours),
            Some(_) => return None,
            None => row,
        };
        let (is_there, change) = match (&theirs.change, ours) {
            (Change::Put(theirs), Some(ours)) => {
                let merged = merge(theirs, ours);
                if merged == *ours {
                    return None;
                }
                (true, Change::Put(merged))
            }
            (change, ours) => (ours.is_some(), change.clone()),
        };
        let counts = match &change {
            Change::Put(_) => is_there || (!theirs.is_known && !self.ended_keys.contains(&key)),
            Change::Delete(..) => is_there,
            Change::Cold { .. } => false,
        };
        if !counts {
            return None;
        }
        self.add(change.clone(), row.is_some());
        Some(change)
    }

    /// Notes that an entity has ended.
    fn note_end(&mut self, key: Key) {
        if self.ended_keys.insert(key.clone()) {
            self.ends += 1;
            self.ended.insert(self.ends, key);
            while self.ended.len() > MOST_ENDED
                && let Some((_, oldest)) = self.ended.pop_first()
            {
                self.ended_keys.remove(&oldest);
            }
        }
    }

    /// Joins an entity of another controller with the change of it that waits, if there is one.
    pub(super) fn join(&mut self, theirs: &Entity, merge: Option<Merge>) {
        let waiting = self.waiting.get_mut(&(theirs.kind(), theirs.id().clone()));
        if let Some(Waiting { change: Change::Put(ours), is_use: false, .. }) = waiting
            && let Some(merge) = merge
        {
            *ours = merge(theirs, ours);
        }
    }

    /// Changes up to this number were told to other controllers, which may have written them.
    pub(super) fn note_told(&mut self, number: u64) {
        self.told = self.told.max(number);
    }

    /// The shared log was loaded anew: entities that it had, and has no longer, have ended.
    pub(super) fn retain_known(&mut self, is_there: impl Fn(&Key) -> bool) {
        let Self { waiting, order, told, .. } = self;
        waiting.retain(|key, waiting| {
            let was_there = waiting.is_known || waiting.number <= *told;
            let has_ended = was_there && !is_there(key);
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
        assert!(outbox.take(&end("a"), None));
        assert_eq!((waiting(&outbox), outbox.done()), (vec![], 1));
        outbox.add(end("b"), true);
        assert!(!outbox.take(&session("b", "theirs"), None), "it has ended here");
        assert!(!outbox.take(&end("b"), None));
        assert_eq!(waiting(&outbox), []);
        assert!(outbox.take(&session("c", "theirs"), None));
    }

    #[test]
    fn of_two_changes_one_is_made_and_a_use_changes_nothing() {
        let mut outbox = Outbox::default();
        let joined: Merge = |theirs, ours| {
            let token = |entity: &Entity| entity.get::<ServiceSession>().unwrap().token.to_string();
            match session("a", &format!("{} {}", token(theirs), token(ours))) {
                Change::Put(entity) => entity,
                _ => unreachable!(),
            }
        };
        outbox.add(session("a", "ours"), true);
        assert!(outbox.take(&session("a", "theirs"), Some(joined)));
        assert_eq!(waiting(&outbox), [session("a", "theirs ours")]);
        let used = |id: &str| match session(id, "old") {
            Change::Put(entity) => entity,
            _ => unreachable!(),
        };
        let mut outbox = Outbox::default();
        outbox.add_use(used("a"));
        assert!(outbox.take(&session("a", "theirs"), Some(joined)));
        assert_eq!(waiting(&outbox), []);
        // With a change that waits, it is one; after an end it is none.
        outbox.add(session("a", "1"), false);
        outbox.add_use(used("a"));
        assert!(outbox.take(&session("a", "theirs"), Some(joined)));
        assert_eq!(waiting(&outbox), [session("a", "theirs old")]);
        outbox.add(end("a"), true);
        outbox.add_use(used("a"));
        assert_eq!(waiting(&outbox), [end("a")]);
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
        // Another controller may have written it since it was told.
        let mut told = Outbox::default();
        told.add(session("told", "1"), false);
        told.note_told(1);
        told.add(session("new", "1"), false);
        told.retain_known(|_| false);
        assert_eq!(waiting(&told), [session("new", "1")]);
        outbox.retain_known(|(_, id)| id == "there");
        assert_eq!(waiting(&outbox), [session("new", "1"), session("there", "1")]);
    }

    #[test]
    fn what_waits_elsewhere_waits_here_too_and_nothing_begins_again() {
        let later: Merge = |theirs, ours| {
            let token = |entity: &Entity| entity.get::<ServiceSession>().unwrap().token.clone();
            if token(theirs) > token(ours) { theirs.clone() } else { ours.clone() }
        };
        let waiting_change = |change, is_known| WaitingChange { change, is_known };
        let (new, known) = (|it| waiting_change(it, false), |it| waiting_change(it, true));
        let row_of = |id, token| match session(id, token) {
            Change::Put(entity) => entity,
            _ => unreachable!(),
        };
        let row = |token| row_of("row", token);
        let mut outbox = Outbox::default();
        let mut take = |theirs: WaitingChange, row: Option<Entity>| {
            let followed = outbox.take_waiting(&theirs, row.as_ref(), later);
            (followed.is_some(), outbox.all().count())
        };
        assert_eq!(take(new(session("a", "2")), None), (true, 1));
        // Heard again, older, newer.
        assert_eq!(take(new(session("a", "2")), None), (false, 1));
        assert_eq!(take(new(session("a", "1")), None), (false, 1));
        assert_eq!(take(known(session("a", "3")), None), (true, 1));
        // One that the log has, and one that it has had.
        assert_eq!(take(known(session("row", "2")), Some(row("1"))), (true, 2));
        assert_eq!(take(known(session("row", "1")), Some(row("2"))), (false, 2));
        assert_eq!(take(known(session("had", "1")), None), (false, 2));
        // Ends, of what is there.
        assert_eq!(take(known(end("a")), None), (true, 2));
        assert_eq!(take(known(end("a")), None), (false, 2));
        assert_eq!(take(known(session("a", "9")), None), (false, 2));
        assert_eq!(take(known(end("other")), None), (false, 2));
        assert_eq!(take(known(end("there")), Some(row("1"))), (true, 3));
        let (all, last) = outbox.after(0, 9);
        assert_eq!((all.len(), last), (3, outbox.last()));
        assert_eq!(outbox.after(last, 9), (vec![], last));
        assert_eq!(outbox.after(0, 1).0, [known(session("row", "2"))]);
        // What is told to the listener is joined, and is as new as before.
        outbox.take_waiting(&new(session("n", "1")), None, later);
        outbox.join(&row_of("n", "1"), Some(later));
        assert_eq!(outbox.after(last, 9).0, [new(session("n", "1"))]);
        // Sent, ended in the log, and told once more.
        outbox.take_waiting(&new(session("e", "1")), None, later);
        let sent = outbox.batch();
        outbox.sent(&sent);
        assert!(outbox.take(&end("e"), None));
        for ended in ["e", "a"] {
            assert_eq!(outbox.take_waiting(&new(session(ended, "2")), None, later), None);
        }
        assert_eq!(waiting(&outbox), []);
        // The log has what waits.
        outbox.take_waiting(&new(session("b", "1")), None, later);
        outbox.drop_same(&session("b", "2"));
        assert_eq!(waiting(&outbox), [session("b", "1")]);
        outbox.drop_same(&session("b", "1"));
        assert_eq!((waiting(&outbox), outbox.done()), (vec![], outbox.last()));
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
