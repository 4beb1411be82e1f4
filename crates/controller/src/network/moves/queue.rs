//! Circuits that are to be moved, each at most once: in which order, and for what each waits. Pure.
//!
//! What concerns all circuits over a link is noted as the link, and becomes circuits bit by bit. A
//! circuit that is removed leaves nothing behind.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use weft_model::Id;

use super::Why;

/// What a circuit that waits is to be moved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wish {
    /// It comes before others.
    pub(super) is_urgent: bool,
    /// All its routers hear their routes, also where nothing changes.
    pub(super) sends_again: bool,
    /// It stays if it gains nothing.
    pub(super) only_if_cheaper: bool,
}

impl From<Why> for Wish {
    fn from(why: Why) -> Self {
        Self {
            is_urgent: matches!(why, Why::Broken | Why::Lost),
            sends_again: matches!(why, Why::Lost | Why::Faulty),
            only_if_cheaper: why == Why::Cost,
        }
    }
}

impl Wish {
    fn and(self, other: Self) -> Self {
        Self {
            is_urgent: self.is_urgent || other.is_urgent,
            sends_again: self.sends_again || other.sends_again,
            only_if_cheaper: self.only_if_cheaper && other.only_if_cheaper,
        }
    }
}

/// Urgent ones first, and of each the first that came.
type Turn = (bool, u64);

#[derive(Debug, Clone)]
enum Place {
    /// It can go on.
    Ready,
    /// A router has to answer others first.
    Parked(Id),
    /// It is being moved; with what came up meanwhile.
    UnderWay(Option<Wish>),
    /// It has no path, since when and in which version of the graph.
    Stranded(Instant, u64),
}

#[derive(Debug)]
struct Entry {
    wish: Wish,
    number: u64,
    place: Place,
    /// Since when it had no path, if it seems to have one again and has not taken it yet.
    since: Option<Instant>,
}

impl Entry {
    fn turn(&self) -> Turn {
        (!self.wish.is_urgent, self.number)
    }
}

/// All circuits over a link.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Source {
    pub(super) link: Arc<str>,
    why: Why,
    /// Those up to this one are in the queue.
    pub(super) after: Option<Arc<str>>,
}

/// Circuits that are to be moved.
#[derive(Debug, Default)]
pub(super) struct Queue {
    circuits: HashMap<Arc<str>, Entry>,
    ready: BTreeMap<Turn, Arc<str>>,
    parked: HashMap<Id, BTreeMap<Turn, Arc<str>>>,
    /// Those that have waited longest first.
    stranded: BTreeMap<(Instant, u64), Arc<str>>,
    /// The last of the stranded that was looked at.
    looked_at: Option<(Instant, u64)>,
    sources: VecDeque<Source>,
    last_number: u64,
}

impl Queue {
    /// A circuit is to be moved.
    pub(super) fn push(&mut self, id: &Arc<str>, why: Why) {
        let wish = Wish::from(why);
        let Some(entry) = self.circuits.get_mut(id) else {
            let number = self.next_number();
            return self.put(id, Entry { wish, number, place: Place::Ready, since: None });
        };
        if let Place::UnderWay(meanwhile) = &mut entry.place {
            // What else there is shows when it has arrived.
            if why == Why::Lost {
                *meanwhile = Some(wish);
            }
            return;
        }
        let Some(entry) = self.take(id) else { return };
        self.put(id, Entry { wish: entry.wish.and(wish), ..entry });
    }

    /// All circuits over a link are to be moved.
    pub(super) fn push_link(&mut self, link: &str, why: Why) {
        let is_same = |it: &Source| *it.link == *link && it.why == why && it.after.is_none();
        if self.sources.iter().any(is_same) {
            return;
        }
        let at = match Wish::from(why).is_urgent {
            true => self.sources.iter().position(|it| !Wish::from(it.why).is_urgent),
            false => None,
        };
        let source = Source { link: link.into(), why, after: None };
        self.sources.insert(at.unwrap_or(self.sources.len()), source);
    }

    /// Circuits over this link, behind one of them, are to come into the queue next; none while
    /// there are `enough` that come before them.
    pub(super) fn wants_more(&self, enough: usize) -> Option<Source> {
        let source = self.sources.front()?;
        let last = (!Wish::from(source.why).is_urgent, u64::MAX);
        let before = self.ready.range(..=last).take(enough).count();
        (before < enough).then(|| source.clone())
    }

    /// The next circuits over a link; there are no more if these are fewer than `most`.
    pub(super) fn expand(&mut self, source: &Source, circuits: &[Arc<str>], most: usize) {
        let Some(at) = self.sources.iter().position(|it| it == source) else { return };
        match circuits.last().filter(|_| circuits.len() >= most) {
            Some(last) => self.sources[at].after = Some(Arc::clone(last)),
            None => drop(self.sources.remove(at)),
        }
        circuits.iter().for_each(|id| self.push(id, source.why));
    }

    /// The next circuit to be moved, an urgent one or any.
    pub(super) fn pop(&mut self, only_urgent: bool) -> Option<(Arc<str>, Wish)> {
        let (&(is_other, _), id) = self.ready.first_key_value()?;
        if is_other && only_urgent {
            return None;
        }
        let id = Arc::clone(id);
        let entry = self.take(&id)?;
        let wish = entry.wish;
        self.put(&id, Entry { place: Place::UnderWay(None), ..entry });
        Some((id, wish))
    }

    /// A circuit that is being moved has to wait for a router.
    pub(super) fn park(&mut self, id: &Arc<str>, router: &Id) {
        self.put_back(id, Place::Parked(router.clone()), None);
    }

    /// A router has room for so many.
    pub(super) fn unpark(&mut self, router: &Id, room: usize) -> bool {
        let Some(parked) = self.parked.get(router) else { return false };
        let ids: Vec<Arc<str>> = parked.values().take(room).cloned().collect();
        for id in &ids {
            if let Some(entry) = self.take(id) {
                self.put(id, Entry { place: Place::Ready, ..entry });
            }
        }
        !ids.is_empty()
    }

    /// A circuit that was to be moved has no path in this version of the graph.
    pub(super) fn strand(&mut self, id: &Arc<str>, wish: Wish, now: Instant, version: u64) {
        self.put_back(id, Place::Stranded(now, version), Some(wish));
    }

    /// A circuit is not being moved any more, but waits.
    fn put_back(&mut self, id: &Arc<str>, place: Place, wish: Option<Wish>) {
        // It is not there if it was removed meanwhile.
        let Some(entry) = self.take(id) else { return };
        let Place::UnderWay(meanwhile) = entry.place else {
            return self.put(id, entry);
        };
        let wish = wish.unwrap_or(entry.wish);
        let wish = meanwhile.map_or(wish, |more| wish.and(more));
        let place = match place {
            Place::Stranded(now, version) => Place::Stranded(entry.since.unwrap_or(now), version),
            other => other,
        };
        self.put(id, Entry { wish, place, ..entry });
    }

    /// A circuit is where it shall be; if it came up meanwhile that it is not, it waits again.
    pub(super) fn done(&mut self, id: &Arc<str>) {
        let Some(entry) = self.take(id) else { return };
        if let Place::UnderWay(Some(wish)) = entry.place {
            let number = self.next_number();
            self.put(id, Entry { wish, number, place: Place::Ready, since: None });
        }
    }

    /// A circuit was removed.
    pub(super) fn forget(&mut self, id: &str) {
        self.take(id);
    }

    /// Whether a circuit is being moved.
    pub(super) fn is_under_way(&self, id: &str) -> bool {
        self.circuits.get(id).is_some_and(|it| matches!(it.place, Place::UnderWay(_)))
    }

    /// The first circuits that have had no path for so long.
    pub(super) fn expired(&self, now: Instant, after: Duration, most: usize) -> Vec<Arc<str>> {
        let has_expired = |id: &&Arc<str>| {
            let place = self.circuits.get(*id).map(|entry| &entry.place);
            matches!(place, Some(Place::Stranded(since, _)) if now.duration_since(*since) >= after)
        };
        self.stranded.values().take_while(has_expired).take(most).cloned().collect()
    }

    /// Those of the next `most` circuits without a path that were not looked at in this version of the
    /// graph: from now on they were.
    pub(super) fn take_to_look_at(&mut self, version: u64, most: usize) -> Vec<Arc<str>> {
        let from = self.looked_at.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.stranded.range((from, Bound::Unbounded)).take(most);
        let next: Vec<_> = next.map(|(at, id)| (*at, Arc::clone(id))).collect();
        // After the last it begins again.
        self.looked_at = next.last().map(|(at, _)| *at).filter(|_| next.len() >= most);
        let mut found = Vec::new();
        for (_, id) in next {
            let place = self.circuits.get_mut(&id).map(|entry| &mut entry.place);
            if let Some(Place::Stranded(_, seen)) = place
                && *seen != version
            {
                *seen = version;
                found.push(id);
            }
        }
        found
    }

    /// A circuit that had no path has one.
    pub(super) fn found_path(&mut self, id: &Arc<str>) {
        let Some(entry) = self.take(id) else { return };
        match entry.place {
            Place::Stranded(since, _) => {
                self.put(id, Entry { place: Place::Ready, since: Some(since), ..entry });
            }
            _ => self.put(id, entry),
        }
    }

    /// How many can go on.
    #[cfg(test)]
    fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many have no path.
    pub(super) fn stranded(&self) -> usize {
        self.stranded.len()
    }

    /// How many wait for their turn, and the links whose circuits do too.
    pub(super) fn waiting(&self) -> (usize, Vec<Arc<str>>) {
        let parked: usize = self.parked.values().map(BTreeMap::len).sum();
        let links = self.sources.iter().map(|source| Arc::clone(&source.link));
        (self.ready.len() + parked, links.collect())
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn put(&mut self, id: &Arc<str>, entry: Entry) {
        match &entry.place {
            Place::Ready => drop(self.ready.insert(entry.turn(), Arc::clone(id))),
            Place::Parked(router) => {
                let parked = self.parked.entry(router.clone()).or_default();
                parked.insert(entry.turn(), Arc::clone(id));
            }
            Place::Stranded(since, _) => {
                self.stranded.insert((*since, entry.number), Arc::clone(id));
            }
            Place::UnderWay(_) => {}
        }
        self.circuits.insert(Arc::clone(id), entry);
    }

    fn take(&mut self, id: &str) -> Option<Entry> {
        let entry = self.circuits.remove(id)?;
        match &entry.place {
            Place::Ready => drop(self.ready.remove(&entry.turn())),
            Place::Parked(router) => {
                if let Some(parked) = self.parked.get_mut(router) {
                    parked.remove(&entry.turn());
                    if parked.is_empty() {
                        self.parked.remove(router);
                    }
                }
            }
            Place::Stranded(since, _) => drop(self.stranded.remove(&(*since, entry.number))),
            Place::UnderWay(_) => {}
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> Arc<str> {
        format!("c{number}").into()
    }

    fn popped(queue: &mut Queue, only_urgent: bool) -> Option<String> {
        queue.pop(only_urgent).map(|(id, _)| id.to_string())
    }

    fn is_bare(queue: &Queue) -> bool {
        queue.circuits.is_empty()
            && queue.ready.is_empty()
            && queue.parked.is_empty()
            && queue.stranded.is_empty()
    }

    #[test]
    fn a_circuit_that_ends_leaves_nothing_in_the_queue() {
        let (mut queue, router, now) = (Queue::default(), Id::new("r"), Instant::now());
        for number in 0..100 {
            for why in [Why::Faulty, Why::Broken, Why::Cost, Why::Lost] {
                queue.push(&id(number), why);
            }
        }
        assert_eq!((queue.circuits.len(), queue.ready()), (100, 100));
        for number in 0..90 {
            let (next, wish) = queue.pop(false).unwrap();
            match number / 30 {
                0 => queue.park(&next, &router),
                1 => queue.strand(&next, wish, now, 1),
                _ => {}
            }
        }
        for number in 0..100 {
            queue.forget(&id(number));
        }
        assert!(is_bare(&queue));
        // What was under way comes to nothing.
        queue.strand(&id(70), Why::Broken.into(), now, 1);
        queue.park(&id(71), &router);
        queue.done(&id(72));
        assert!(is_bare(&queue));
    }

    #[test]
    fn the_urgent_come_first_and_what_adds_up_is_kept() {
        let mut queue = Queue::default();
        queue.push(&id(1), Why::Cost);
        queue.push(&id(2), Why::Faulty);
        queue.push(&id(3), Why::Broken);
        queue.push(&id(1), Why::Broken);
        let (first, wish) = queue.pop(true).unwrap();
        assert_eq!((&*first, wish), ("c1", Why::Broken.into()), "it came first");
        queue.push(&first, Why::Broken);
        queue.push(&first, Why::Lost);
        queue.done(&first);
        assert_eq!(popped(&mut queue, true).unwrap(), "c3");
        let (again, wish) = queue.pop(true).unwrap();
        assert_eq!((&*again, wish), ("c1", Why::Lost.into()), "it came up meanwhile");
        assert_eq!((popped(&mut queue, true), queue.ready()), (None, 1));
        queue.push(&id(2), Why::Broken);
        let (_, wish) = queue.pop(true).unwrap();
        assert!(wish.is_urgent && wish.sends_again);
        queue.done(&again);
        assert_eq!(queue.ready(), 0);
    }

    #[test]
    fn who_waits_for_a_router_goes_on_when_it_has_room() {
        let (mut queue, router) = (Queue::default(), Id::new("r"));
        (0..4).for_each(|number| queue.push(&id(number), Why::Faulty));
        for _ in 0..4 {
            let (next, _) = queue.pop(false).unwrap();
            queue.park(&next, &router);
        }
        assert_eq!((queue.ready(), queue.waiting().0), (0, 4));
        queue.push(&id(3), Why::Broken);
        assert!(queue.unpark(&router, 2) && !queue.unpark(&Id::new("other"), 2));
        assert_eq!(popped(&mut queue, false).unwrap(), "c3");
        assert_eq!(popped(&mut queue, false).unwrap(), "c0");
        assert!(queue.unpark(&router, usize::MAX) && !queue.unpark(&router, 1));
        assert_eq!((queue.ready(), queue.parked.len()), (2, 0));
    }

    #[test]
    fn circuits_without_a_path_are_looked_at_once_in_each_version() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        for number in 0..10 {
            queue.push(&id(number), Why::Broken);
            let (next, wish) = queue.pop(false).unwrap();
            queue.strand(&next, wish, start + Duration::from_secs(number as u64), 7);
        }
        assert!(queue.take_to_look_at(7, 100).is_empty());
        assert_eq!(queue.take_to_look_at(8, 4), [id(0), id(1), id(2), id(3)]);
        assert_eq!(queue.take_to_look_at(8, 4), [id(4), id(5), id(6), id(7)]);
        assert_eq!(queue.take_to_look_at(8, 4), [id(8), id(9)]);
        assert!(queue.take_to_look_at(8, 4).is_empty());
        queue.found_path(&id(5));
        queue.found_path(&id(5));
        assert_eq!((queue.stranded(), queue.ready()), (9, 1));
        // One whose path turns out to be none has had none since then.
        let (again, wish) = queue.pop(false).unwrap();
        queue.strand(&again, wish, start + Duration::from_secs(100), 9);
        assert_eq!(queue.stranded(), 10);
        let (now, second) = (start + Duration::from_secs(7), Duration::from_secs(1));
        assert_eq!(queue.expired(now, second, 99).len(), 7);
        let later = start + Duration::from_secs(3);
        assert_eq!(queue.expired(later, Duration::from_secs(1), 2), [id(0), id(1)]);
        assert_eq!(queue.expired(later, Duration::from_secs(1), 9).len(), 3);
    }

    #[test]
    fn a_lost_link_costs_as_little_as_it_is_named() {
        let mut queue = Queue::default();
        (0..1_000).for_each(|_| queue.push_link("l", Why::Broken));
        assert_eq!(queue.sources.len(), 1);
        queue.push_link("dear", Why::Cost);
        let first = queue.wants_more(3).unwrap();
        assert_eq!((&*first.link, &first.after), ("l", &None));
        queue.expand(&first, &[id(1), id(2)], 2);
        // It breaks again meanwhile: those that came back to it may be among the first.
        queue.push_link("l", Why::Broken);
        queue.push_link("l", Why::Broken);
        let second = queue.wants_more(3).unwrap();
        assert_eq!(second.after, Some(id(2)));
        queue.expand(&second, &[id(3)], 2);
        assert_eq!(queue.wants_more(3), None, "three come before");
        let again = queue.wants_more(4).unwrap();
        assert_eq!((queue.ready(), &*again.link, &again.after), (3, "l", &None));
        queue.expand(&again, &[], 2);
        let dear = queue.wants_more(4).unwrap();
        assert_eq!(&*dear.link, "dear");
        queue.expand(&first, &[id(9)], 2);
        queue.expand(&dear, &[id(4)], 2);
        assert_eq!((queue.wants_more(9), queue.ready()), (None, 4));
    }
}
