//! The queue of circuits to be moved, each at most once, in their order, with the reason why each
//! waits. Pure.
//!
//! A broken link is one entry at first, and its circuits enter the queue in parts. A circuit that is
//! removed leaves no entry behind.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::{HashMap, HashSet};
use weft_model::Id;

/// How long a circuit that cannot be moved is kept, whatever the reasons.
const IN_ALL: Duration = Duration::from_secs(60);

/// How long a circuit is kept that has no path, while the routers at its ends are there. Less than a minute after a
/// link broke, whoever waits at the ends is told.
const WITH_BOTH_ENDS: Duration = Duration::from_secs(45);

/// The interval of looks at circuits of which no end is heard. They are looked at earlier when the graph changes.
const UNHEARD: Duration = Duration::from_secs(60);

/// Why a circuit has to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MoveReason {
    /// A link or router on its path is gone.
    Broken,
    /// A router between its ends has lost its routes: all routers are told their routes again, even
    /// on the same path.
    Lost,
    /// A router on its path could not forward a message: all routers are told their routes again, as for
    /// `Lost`, but later than circuits that are `Broken` or `Lost`.
    Faulty,
    /// A cheaper path may exist. Without one the circuit stays.
    Cost,
    /// A link or router on its path is back. A circuit that waits for a path is tried at once, and its
    /// time without a path begins anew: a link that breaks again and again keeps its circuits, although
    /// each try may come after it broke again. Other circuits stay as they are.
    Back,
}

/// The terms of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveTerms {
    /// Whether it comes before others.
    pub is_urgent: bool,
    /// Whether all routers are told their routes, even unchanged ones.
    pub sends_again: bool,
    /// Whether the circuit stays if no path is cheaper.
    pub only_if_cheaper: bool,
}

impl From<MoveReason> for MoveTerms {
    fn from(why: MoveReason) -> Self {
        Self {
            is_urgent: matches!(why, MoveReason::Broken | MoveReason::Lost | MoveReason::Back),
            sends_again: matches!(why, MoveReason::Lost | MoveReason::Faulty),
            only_if_cheaper: why == MoveReason::Cost,
        }
    }
}

impl MoveTerms {
    fn and(self, other: Self) -> Self {
        Self {
            is_urgent: self.is_urgent || other.is_urgent,
            sends_again: self.sends_again || other.sends_again,
            only_if_cheaper: self.only_if_cheaper && other.only_if_cheaper,
        }
    }
}

/// The position in the queue: urgent ones first, then in the order of arrival.
type QueueOrder = (bool, u64);

/// The state of a circuit in the queue.
#[derive(Debug, Clone)]
enum MoveState {
    /// The circuit can be moved.
    Ready,
    /// The circuit waits until this router has answered other routes.
    Parked(Id),
    /// The circuit waits until this router, at one of its ends, answers or is heard again.
    Resting(Id),
    /// The circuit is being moved. A wish that came meanwhile waits.
    UnderWay(Option<MoveTerms>),
    /// The circuit has no path, or could not take its path: the time until which the circuit is kept,
    /// and the version of the graph for which it was checked.
    Stranded(Instant, Option<u64>),
}

/// How long a circuit has waited.
#[derive(Debug, Clone, Copy, Default)]
struct Waits {
    /// The time since which it could not be moved.
    since: Option<Instant>,
    /// The time since which it has no path.
    without_path: Option<Instant>,
    /// The version of the graph in which it was tried once more after a failure.
    again: Option<u64>,
    /// True once it was tried for the last time.
    is_last: bool,
    /// The time since which neither of its ends is heard.
    unheard: Option<Instant>,
}

#[derive(Debug)]
struct QueuedMove {
    wish: MoveTerms,
    number: u64,
    state: MoveState,
    waits: Waits,
    /// The router for which it waited until a moment ago, and which now has room for its route.
    awaited: Option<Id>,
}

impl QueuedMove {
    fn new(wish: MoveTerms, number: u64) -> Self {
        Self { wish, number, state: MoveState::Ready, waits: Waits::default(), awaited: None }
    }

    fn order(&self) -> QueueOrder {
        (!self.wish.is_urgent, self.number)
    }
}

/// All circuits over a link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSource {
    /// The link.
    pub link: Arc<str>,
    why: MoveReason,
    /// The circuits up to this one are in the queue already.
    pub after: Option<Arc<str>>,
}

/// Circuits that are to be moved.
#[derive(Debug)]
pub struct Queue {
    circuits: HashMap<Arc<str>, QueuedMove>,
    ready: BTreeMap<QueueOrder, Arc<str>>,
    parked: ByRouter,
    resting: ByRouter,
    /// Circuits without path, those that are given up first in front.
    stranded: BTreeMap<(Instant, u64), Arc<str>>,
    /// The last one of them that was checked.
    looked_at: Option<(Instant, u64)>,
    /// Links whose circuits have to move: urgent ones, and others.
    sources: [VecDeque<LinkSource>; 2],
    /// Links of which no circuit is in the queue yet.
    untouched: HashSet<(Arc<str>, MoveReason)>,
    last_number: u64,
    /// How long a circuit may be without a path.
    without_path: Duration,
}

impl Queue {
    /// An empty queue; a circuit may be without a path for `without_path`.
    pub fn new(without_path: Duration) -> Self {
        Self {
            circuits: HashMap::new(),
            ready: BTreeMap::new(),
            parked: HashMap::new(),
            resting: HashMap::new(),
            stranded: BTreeMap::new(),
            looked_at: None,
            sources: Default::default(),
            untouched: HashSet::new(),
            last_number: 0,
            without_path,
        }
    }

    /// Adds a circuit; one that is [`MoveReason::Back`] is not added.
    pub fn push(&mut self, id: &Arc<str>, why: MoveReason) {
        if why == MoveReason::Back {
            return self.resume(id);
        }
        let wish = MoveTerms::from(why);
        let Some(entry) = self.circuits.get_mut(id) else {
            let number = self.next_number();
            return self.put(id, QueuedMove::new(wish, number));
        };
        if let MoveState::UnderWay(meanwhile) = &mut entry.state {
            // Other problems show when it has arrived.
            if why == MoveReason::Lost {
                *meanwhile = Some(wish);
            }
            return;
        }
        let Some(mut entry) = self.take(id) else { return };
        if matches!(entry.state, MoveState::Resting(_)) && why == MoveReason::Broken {
            // It may have rested while its path worked.
            entry.state = MoveState::Ready;
        }
        self.put(id, QueuedMove { wish: entry.wish.and(wish), ..entry });
    }

    /// Lets a circuit in the queue continue whose path may be whole again.
    fn resume(&mut self, id: &Arc<str>) {
        let Some(mut entry) = self.take(id) else { return };
        entry.waits.without_path = None;
        if matches!(entry.state, MoveState::Stranded(..)) {
            entry.state = MoveState::Ready;
        }
        self.put(id, entry);
    }

    /// Adds all circuits over a link.
    pub fn push_link(&mut self, link: &str, why: MoveReason) {
        let link: Arc<str> = link.into();
        if self.untouched.insert((Arc::clone(&link), why)) {
            self.sources_for(why).push_back(LinkSource { link, why, after: None });
        }
    }

    fn sources_for(&mut self, why: MoveReason) -> &mut VecDeque<LinkSource> {
        let [urgent, others] = &mut self.sources;
        if MoveTerms::from(why).is_urgent { urgent } else { others }
    }

    /// The link whose circuits should enter the queue next, those behind [`LinkSource::after`]. `None`
    /// while at least `enough` circuits in the queue are to be moved before them.
    pub fn wants_more(&self, enough: usize) -> Option<LinkSource> {
        let source = self.sources.iter().find_map(VecDeque::front)?;
        let last = (!MoveTerms::from(source.why).is_urgent, u64::MAX);
        let are_few = || self.ready.range(..=last).take(enough).count() < enough;
        (self.ready.len() < enough || are_few()).then(|| source.clone())
    }

    /// Adds the next circuits over a link, in the order in which they are to be moved. `behind` is
    /// the last of them; `None` if the link has no further circuits.
    pub fn expand(&mut self, source: &LinkSource, circuits: &[Arc<str>], behind: Option<Arc<str>>) {
        if source.after.is_none() {
            self.untouched.remove(&(Arc::clone(&source.link), source.why));
        }
        let sources = self.sources_for(source.why);
        let Some(first) = sources.front_mut().filter(|it| *it == source) else { return };
        match behind {
            Some(_) => first.after = behind,
            None => drop(sources.pop_front()),
        }
        circuits.iter().for_each(|id| self.push(id, source.why));
    }

    /// Takes the next circuit to be moved, an urgent one or any.
    pub fn pop(&mut self, only_urgent: bool) -> Option<(Arc<str>, MoveTerms)> {
        let (&(is_other, _), id) = self.ready.first_key_value()?;
        if is_other && only_urgent {
            return None;
        }
        let id = Arc::clone(id);
        let entry = self.take(&id)?;
        let wish = entry.wish;
        self.put(&id, QueuedMove { state: MoveState::UnderWay(None), ..entry });
        Some((id, wish))
    }

    /// Makes a circuit that is being moved wait for a router.
    pub fn park(&mut self, id: &Arc<str>, router: &Id) {
        self.put_back(id, None, |_| MoveState::Parked(router.clone()));
    }

    /// Continues circuits that wait for a router, up to `room` of them.
    pub fn unpark(&mut self, router: &Id, room: usize) -> bool {
        let Some(parked) = self.parked.get(router) else { return false };
        let ids = parked.values().take(room).cloned().collect();
        self.go_on(ids, Some(router))
    }

    /// Takes the router for which a circuit has waited until now. If the circuit needs it no more, others have to
    /// continue.
    pub fn take_awaited(&mut self, id: &str) -> Option<Id> {
        self.circuits.get_mut(id)?.awaited.take()
    }

    /// Makes a circuit wait until a router at one of its ends answers, or is heard, again. False if it has waited
    /// for long enough; while its path works, it never has.
    pub fn rest(
        &mut self,
        id: &Arc<str>,
        wish: MoveTerms,
        router: &Id,
        now: Instant,
        path_works: bool,
    ) -> bool {
        let Some(entry) = self.circuits.get(id) else { return true };
        let is_over = |since| now.duration_since(since) >= IN_ALL;
        if !path_works && entry.waits.since.is_some_and(is_over) {
            return false;
        }
        self.put_back(id, Some(wish), |waits| {
            waits.since = waits.since.filter(|_| !path_works).or(Some(now));
            waits.without_path = None;
            MoveState::Resting(router.clone())
        });
        true
    }

    /// Continues circuits that wait for a router at their end.
    pub fn end_rest(&mut self, router: &Id) -> bool {
        let Some(resting) = self.resting.get(router) else { return false };
        let ids = resting.values().cloned().collect();
        self.go_on(ids, None)
    }

    fn go_on(&mut self, ids: Vec<Arc<str>>, awaited: Option<&Id>) -> bool {
        for id in &ids {
            if let Some(entry) = self.take(id) {
                let awaited = awaited.cloned();
                self.put(id, QueuedMove { state: MoveState::Ready, awaited, ..entry });
            }
        }
        !ids.is_empty()
    }

    /// Notes that a circuit has no path in this version of the graph.
    pub fn strand(&mut self, id: &Arc<str>, wish: MoveTerms, now: Instant, version: u64) {
        let without_path = self.without_path;
        self.put_back(id, Some(wish), |waits| {
            waits.without_path.get_or_insert(now);
            MoveState::Stranded(waits.until(now, without_path), Some(version))
        });
    }

    /// Notes that a circuit could not take its path in this version of the graph. The obstacle may
    /// end without a new version, so that the circuit is checked once more in this one.
    pub fn fail(&mut self, id: &Arc<str>, wish: MoveTerms, now: Instant, version: u64) {
        let without_path = self.without_path;
        self.put_back(id, Some(wish), |waits| {
            waits.without_path = None;
            let was_again = waits.again.replace(version) == Some(version);
            let until = waits.until(now, without_path);
            MoveState::Stranded(until, was_again.then_some(version))
        });
    }

    /// Notes that payloads of a circuit that is being moved may take another path from now on: the time for which it could
    /// not be moved begins anew.
    pub fn begin_anew(&mut self, id: &str) {
        if let Some(entry) = self.circuits.get_mut(id) {
            entry.waits = Waits::default();
        }
    }

    /// Makes a circuit that was being moved wait.
    fn put_back(
        &mut self,
        id: &Arc<str>,
        wish: Option<MoveTerms>,
        state: impl FnOnce(&mut Waits) -> MoveState,
    ) {
        // The circuit may have been removed meanwhile.
        let Some(mut entry) = self.take(id) else { return };
        if let MoveState::UnderWay(meanwhile) = entry.state {
            let wish = wish.unwrap_or(entry.wish);
            entry.wish = meanwhile.map_or(wish, |more| wish.and(more));
            entry.state = state(&mut entry.waits);
        }
        self.put(id, entry);
    }

    /// Notes that a circuit has arrived; with a new wish it waits again.
    pub fn done(&mut self, id: &Arc<str>) {
        let Some(entry) = self.take(id) else { return };
        if let MoveState::UnderWay(Some(wish)) = entry.state {
            let number = self.next_number();
            self.put(id, QueuedMove::new(wish, number));
        }
    }

    /// Removes a circuit. True if another one, which waits for the same router, goes on in its place.
    pub fn forget(&mut self, id: &str) -> bool {
        let awaited = self.take(id).and_then(|entry| entry.awaited);
        awaited.is_some_and(|router| self.unpark(&router, 1))
    }

    /// Whether a circuit is to be moved, or is being moved.
    pub fn has(&self, id: &str) -> bool {
        self.circuits.contains_key(id)
    }

    /// Whether a circuit is being moved.
    pub fn is_under_way(&self, id: &str) -> bool {
        self.circuits.get(id).is_some_and(|it| matches!(it.state, MoveState::UnderWay(_)))
    }

    /// Lets a circuit continue whose time is over and whose path works: the circuit may not be in the queue for that
    /// yet. False if its time in all is over and it was continued since: then it cannot take its path, although the
    /// path works.
    pub fn try_at_last(&mut self, id: &Arc<str>, now: Instant) -> bool {
        let Some(entry) = self.circuits.get_mut(id) else { return false };
        let is_over = entry.waits.since.is_some_and(|since| now >= since + IN_ALL);
        if is_over && std::mem::replace(&mut entry.waits.is_last, true) {
            return false;
        }
        self.resume(id);
        true
    }

    /// Lets a circuit without path wait once more as long as before, because the routers at its ends are there. False if
    /// it has waited for long enough.
    pub fn wait_longer(&mut self, id: &Arc<str>, now: Instant) -> bool {
        let further = now + self.without_path;
        let Some(mut entry) = self.take(id) else { return false };
        let mut waits = false;
        if let MoveState::Stranded(until, _) = &mut entry.state {
            let last = *entry.waits.since.get_or_insert(now) + WITH_BOTH_ENDS;
            waits = now < last;
            *until = (*until).max(last.min(further));
        }
        self.put(id, entry);
        waits
    }

    /// Lets a circuit without path wait until a router at one of its ends is heard again: nobody can be told anything
    /// about it before. False if that has taken `most`.
    pub fn wait_for_ends(&mut self, id: &Arc<str>, now: Instant, most: Duration) -> bool {
        let Some(mut entry) = self.take(id) else { return false };
        let unheard = *entry.waits.unheard.get_or_insert(now);
        let waits = now.saturating_duration_since(unheard) < most;
        if let MoveState::Stranded(until, _) = &mut entry.state
            && waits
        {
            // It begins to wait for a path when one of them is back.
            (entry.waits.since, entry.waits.without_path, entry.waits.is_last) =
                (None, None, false);
            *until = now + UNHEARD;
        }
        self.put(id, entry);
        waits
    }

    /// The first circuits whose time is over.
    pub fn expired(&self, now: Instant, most: usize) -> Vec<Arc<str>> {
        let expired = self.stranded.range(..=(now, u64::MAX));
        expired.take(most).map(|(_, id)| Arc::clone(id)).collect()
    }

    /// Takes the next `most` circuits without path, and returns those that were not checked in this
    /// version of the graph; they count as checked from then on.
    pub fn take_to_look_at(&mut self, version: u64, most: usize) -> Vec<Arc<str>> {
        let from = self.looked_at.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.stranded.range((from, Bound::Unbounded)).take(most);
        let next: Vec<_> = next.map(|(at, id)| (*at, Arc::clone(id))).collect();
        // After the last one, the first one is next.
        self.looked_at = next.last().map(|(at, _)| *at).filter(|_| next.len() >= most);
        let mut found = Vec::new();
        for (_, id) in next {
            let state = self.circuits.get_mut(&id).map(|entry| &mut entry.state);
            if let Some(MoveState::Stranded(_, seen)) = state
                && *seen != Some(version)
            {
                *seen = Some(version);
                found.push(id);
            }
        }
        found
    }

    /// Notes that a circuit has a path again.
    pub fn found_path(&mut self, id: &Arc<str>) {
        let Some(mut entry) = self.take(id) else { return };
        if matches!(entry.state, MoveState::Stranded(..)) {
            entry.state = MoveState::Ready;
        }
        self.put(id, entry);
    }

    /// Notes that a circuit was checked and has no path.
    pub fn found_none(&mut self, id: &Arc<str>, now: Instant) {
        let Some(mut entry) = self.take(id) else { return };
        if let MoveState::Stranded(until, _) = &mut entry.state {
            entry.waits.without_path.get_or_insert(now);
            *until = entry.waits.until(now, self.without_path);
        }
        self.put(id, entry);
    }

    /// Number of circuits that can be moved.
    #[cfg(test)]
    fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Number of circuits without path.
    pub fn stranded(&self) -> usize {
        self.stranded.len()
    }

    /// Number of circuits that wait for their turn, and the links whose circuits wait, too.
    pub fn waiting(&self) -> (usize, Vec<Arc<str>>) {
        let aside = self.parked.values().chain(self.resting.values());
        let links = self.sources.iter().flatten().map(|source| Arc::clone(&source.link));
        (self.ready.len() + aside.map(BTreeMap::len).sum::<usize>(), links.collect())
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn put(&mut self, id: &Arc<str>, entry: QueuedMove) {
        let (order, id) = (entry.order(), Arc::clone(id));
        match &entry.state {
            MoveState::Ready => drop(self.ready.insert(order, Arc::clone(&id))),
            MoveState::Parked(router) => add(&mut self.parked, router, order, &id),
            MoveState::Resting(router) => add(&mut self.resting, router, order, &id),
            MoveState::Stranded(until, _) => {
                self.stranded.insert((*until, entry.number), Arc::clone(&id));
            }
            MoveState::UnderWay(_) => {}
        }
        self.circuits.insert(id, entry);
    }

    fn take(&mut self, id: &str) -> Option<QueuedMove> {
        let entry = self.circuits.remove(id)?;
        match &entry.state {
            MoveState::Ready => drop(self.ready.remove(&entry.order())),
            MoveState::Parked(router) => remove(&mut self.parked, router, entry.order()),
            MoveState::Resting(router) => remove(&mut self.resting, router, entry.order()),
            MoveState::Stranded(until, _) => drop(self.stranded.remove(&(*until, entry.number))),
            MoveState::UnderWay(_) => {}
        }
        Some(entry)
    }
}

impl Waits {
    /// The time until which a circuit without path is kept.
    fn until(&mut self, now: Instant, without_path: Duration) -> Instant {
        let last = *self.since.get_or_insert(now) + IN_ALL;
        self.without_path.map_or(last, |since| last.min(since + without_path))
    }
}

/// Circuits that wait for a router, by the router.
type ByRouter = HashMap<Id, BTreeMap<QueueOrder, Arc<str>>>;

fn add(waiting: &mut ByRouter, router: &Id, order: QueueOrder, id: &Arc<str>) {
    waiting.entry(router.clone()).or_default().insert(order, Arc::clone(id));
}

fn remove(waiting: &mut ByRouter, router: &Id, order: QueueOrder) {
    if let Some(circuits) = waiting.get_mut(router) {
        circuits.remove(&order);
        if circuits.is_empty() {
            waiting.remove(router);
        }
    }
}

#[cfg(test)]
mod tests;
