//! Changes that count before they are durable: those that routers make to their terminators while the log of the network
//! cannot be written.
//!
//! ```text
//!  a change that could not be written -> decided again on the view, held ---> other controllers hold it, too
//!                                                  │
//!  the log can be written again: written, or dropped if it contradicts the model
//! ```
//!
//! The view is the durable model with what is held. Dials choose among its terminators, so that a host that restarts while
//! etcd has no quorum can be dialed. Nothing that is held is on the disk: a controller that restarts hears it from
//! the others.
//!
//! A controller that reaches the log may write what another one holds, and the terminator may end after that. So a change
//! is held no longer when the model follows it, whoever has written it, and what has ended is kept in mind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::watch;
use weft_model::entity::Terminator;
use weft_model::{Change, ChangeSet, Entity, Id, Kind, Snapshot, Timestamp};

use crate::failure::{Failure, Result};

/// Most terminators of which a change is held: each is kept in memory, and applied again when the model changes.
const MOST_HELD: usize = 10_000;
/// Most of these that one router has made.
const MOST_OF_ROUTER: usize = MOST_HELD / 4;
/// Most ended terminators that are kept in mind.
const MOST_ENDED: usize = 50_000;
/// A terminator that is older than this, and that a controller which reaches the log does not know, has ended.
const FRESH: Duration = Duration::from_secs(10);
/// The end of a terminator that was never durable is told to others for this long.
const TOLD: Duration = Duration::from_secs(60);

/// The kind of entities whose changes are held.
pub(crate) const KIND: Kind = Kind::Terminator;

/// The changes that are held, the newest of each entity.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) state: Mutex<HeldState>,
    /// Whether any change is held, for readers that never wait.
    pub(crate) any: AtomicBool,
    pub(crate) last: watch::Sender<u64>,
    /// The number of channels on which others are told, and the number up to which one of them was told.
    pub(crate) tellers: AtomicUsize,
    pub(crate) told: watch::Sender<u64>,
}

/// Somebody who tells another controller what is held here.
pub struct HeldTeller(pub(crate) Arc<Held>);

impl HeldTeller {
    /// Notes that another controller was told the changes up to this number.
    pub fn told(&self, number: u64) {
        self.0.told.send_if_modified(|told| std::mem::replace(told, number.max(*told)) < number);
    }
}

impl Drop for HeldTeller {
    fn drop(&mut self) {
        self.0.tellers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A change that is held.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldChange {
    /// Its place among the changes of this controller.
    pub number: u64,
    /// When it was decided. Of two changes of one entity the later one counts.
    pub at: Timestamp,
    /// The change, of a terminator.
    pub change: Change,
}

impl HeldChange {
    /// The order of the changes of one entity: the same at all controllers.
    fn rank(&self) -> (Timestamp, bool, Vec<u8>) {
        match &self.change {
            Change::Put(entity) => (self.at, false, entity.to_row()),
            _ => (self.at, true, Vec::new()),
        }
    }

    fn terminator(&self) -> Option<&Arc<Terminator>> {
        match &self.change {
            Change::Put(Entity::Terminator(terminator)) => Some(terminator),
            _ => None,
        }
    }

    /// Whether the model has something as new.
    fn is_known(&self, model: &Snapshot) -> bool {
        let known = model.get::<Terminator>(self.change.id());
        match self.terminator() {
            Some(ours) => {
                known.is_some_and(|known| known == ours || known.base.updated_at > self.at)
            }
            None => known.is_none_or(|known| known.base.updated_at > self.at),
        }
    }

    /// The change that is to be written; none if it is known or contradicts the model.
    pub(crate) fn settled(&self, tip: &Snapshot) -> Option<Change> {
        if self.is_known(tip) {
            return None;
        }
        let Some(ours) = self.terminator() else { return Some(self.change.clone()) };
        if !tip.contains(Kind::Router, &ours.router_id)
            || !tip.contains(Kind::Service, &ours.service_id)
        {
            return None;
        }
        let Some(known) = tip.get::<Terminator>(&ours.base.id) else {
            return Some(self.change.clone());
        };
        let owner = |it: &Terminator| {
            let ids = (it.router_id.clone(), it.service_id.clone(), it.host_id.clone());
            (ids, Arc::clone(&it.binding))
        };
        // One that was removed and made again meanwhile is changed.
        let mut ours = (**ours).clone();
        ours.base.created_at = known.base.created_at;
        (owner(known) == owner(&ours)).then(|| Change::Put(ours.into()))
    }
}

#[derive(Default)]
pub(crate) struct HeldState {
    pub(crate) changes: HashMap<Id, HeldChange>,
    pub(crate) order: BTreeMap<u64, Id>,
    pub(crate) last: u64,
    /// The router of each of these changes, and their number of each router.
    routers: HashMap<Id, Id>,
    of_routers: HashMap<Id, usize>,
    /// When terminators have ended, by their ids and in order.
    ended: HashMap<Id, Timestamp>,
    ended_in_order: BTreeSet<(Timestamp, Id)>,
    /// The durable model, and the same with what is held.
    pub(crate) view: Option<(Arc<Snapshot>, Arc<Snapshot>)>,
}

impl HeldState {
    /// The durable model with what is held.
    pub(crate) fn view(&mut self, durable: &Arc<Snapshot>) -> Arc<Snapshot> {
        if let Some((of, view)) = &self.view
            && Arc::ptr_eq(of, durable)
        {
            return Arc::clone(view);
        }
        let held = self.order.values().filter_map(|id| self.changes.get(id));
        // What contradicts the model is dropped when it is to be written.
        let changes: Vec<Change> = held.filter_map(|held| held.settled(durable)).collect();
        let view = durable.apply(&ChangeSet::of(changes.iter().cloned())).unwrap_or_else(|_| {
            let mut view = (**durable).clone();
            for change in changes {
                let _ = view.advance(&ChangeSet::of([change]));
            }
            view
        });
        let view = Arc::new(view);
        self.view = Some((Arc::clone(durable), Arc::clone(&view)));
        view
    }

    /// Makes room for a change of a router's terminator, or refuses it.
    fn make_room(
        &mut self,
        durable: &Snapshot,
        (id, router): (&Id, &Id),
        now: Timestamp,
    ) -> Result<()> {
        let is_full = |state: &Self| {
            state.changes.len() >= MOST_HELD
                || state.of_routers.get(router).is_some_and(|held| *held >= MOST_OF_ROUTER)
        };
        if self.changes.contains_key(id) || !is_full(self) {
            return Ok(());
        }
        let is_told = |held: &&HeldChange| {
            let is_end = matches!(held.change, Change::Delete(..));
            is_end && !durable.contains(KIND, held.change.id()) && held.at.plus(TOLD) < now
        };
        let told: Vec<u64> = self.changes.values().filter(is_told).map(|it| it.number).collect();
        told.into_iter().for_each(|number| self.release(number));
        match is_full(self) {
            false => Ok(()),
            true => Err(Failure::unwritable(
                "etcd cannot be written, and too many changes of terminators wait for it",
            )),
        }
    }

    fn insert(&mut self, at: Timestamp, change: Change, router: Id) {
        if let Some(former) = self.changes.get(change.id()) {
            self.release(former.number);
        }
        self.last += 1;
        let (id, number) = (change.id().clone(), self.last);
        *self.of_routers.entry(router.clone()).or_default() += 1;
        self.routers.insert(id.clone(), router);
        self.order.insert(number, id.clone());
        self.changes.insert(id, HeldChange { number, at, change });
    }

    pub(crate) fn release(&mut self, number: u64) {
        let Some(id) = self.order.remove(&number) else { return };
        self.changes.remove(&id);
        if let Some(router) = self.routers.remove(&id)
            && let Some(count) = self.of_routers.get_mut(&router)
        {
            *count -= 1;
            if *count == 0 {
                self.of_routers.remove(&router);
            }
        }
    }

    /// Applies changes to the view, and holds them. All are held, or none.
    pub(crate) fn hold(
        &mut self,
        durable: &Arc<Snapshot>,
        now: Timestamp,
        changes: Vec<Change>,
    ) -> Result<()> {
        let view = self.view(durable);
        let set = ChangeSet::of(changes);
        let routers: Vec<Id> = set.changes.iter().map(|it| router_of(it, &view)).collect();
        let mut added = HashMap::<&Id, usize>::new();
        for (change, router) in set.changes.iter().zip(&routers) {
            self.make_room(durable, (change.id(), router), now)?;
            *added.entry(router).or_default() += 1;
        }
        // All of them have room together, too.
        let held = |router: &Id| self.of_routers.get(router).copied().unwrap_or_default();
        if added.into_iter().any(|(router, added)| held(router) + added > 2 * MOST_OF_ROUTER) {
            return Err(Failure::unwritable(
                "etcd cannot be written, and these changes are too many to wait",
            ));
        }
        let next = view.apply(&set).map_err(|error| Failure::unhandled(error.to_string()))?;
        self.view = Some((Arc::clone(durable), Arc::new(next)));
        for (change, router) in set.changes.into_iter().zip(routers) {
            // Clocks differ, and a change counts after those that it was decided on.
            let id = change.id();
            let known = view.get::<Terminator>(id).map(|known| known.base.updated_at);
            let held = self.changes.get(id).map(|held| now.after(held.at));
            let own = match &change {
                Change::Put(Entity::Terminator(new)) => Some(new.base.updated_at),
                _ => None,
            };
            let at = [known, held, own].into_iter().flatten().fold(now, Timestamp::max);
            self.insert(at, change, router);
        }
        Ok(())
    }

    /// Holds a change that another controller holds, unless something as new is known. `now` is given if this controller
    /// reaches the log.
    pub(crate) fn hold_theirs(
        &mut self,
        durable: &Arc<Snapshot>,
        theirs: HeldChange,
        now: Option<Timestamp>,
    ) {
        let id = theirs.change.id();
        let is_end = matches!(theirs.change, Change::Delete(..));
        let has_ended = self.ended.get(id).is_some_and(|ended| *ended >= theirs.at);
        let is_there = durable.contains(KIND, id);
        let is_newest = match self.changes.get(id) {
            Some(ours) => theirs.rank() > ours.rank(),
            None if is_there => !theirs.is_known(durable),
            // An end stays in mind, because the terminator may come from another controller later.
            None if is_end => now.is_none(),
            None => now.is_none_or(|now| theirs.at.plus(FRESH) > now),
        };
        if has_ended || !is_newest {
            return;
        }
        let (at, view) = (now.unwrap_or(theirs.at), self.view(durable));
        let router = router_of(&theirs.change, &view);
        if self.make_room(durable, (id, &router), at).is_err() {
            return;
        }
        if let Ok(next) = view.apply(&ChangeSet::of([theirs.change.clone()])) {
            self.view = Some((Arc::clone(durable), Arc::new(next)));
        }
        self.insert(theirs.at, theirs.change, router);
    }

    /// Follows a durable change of a terminator.
    fn follow(&mut self, change: &Change, at: Timestamp) {
        let (id, until) = match change {
            Change::Put(Entity::Terminator(new)) => (&new.base.id, new.base.updated_at),
            Change::Delete(KIND, id) => {
                self.end(id, at);
                (id, at)
            }
            _ => return,
        };
        if let Some(held) = self.changes.get(id)
            && held.at <= until
        {
            self.release(held.number);
        }
    }

    fn end(&mut self, id: &Id, at: Timestamp) {
        if let Some(former) = self.ended.insert(id.clone(), at) {
            self.ended_in_order.remove(&(former, id.clone()));
        }
        self.ended_in_order.insert((at, id.clone()));
        while self.ended.len() > MOST_ENDED
            && let Some((_, oldest)) = self.ended_in_order.pop_first()
        {
            self.ended.remove(&oldest);
        }
    }
}

/// The router of a terminator that changes; none if the terminator is unknown.
fn router_of(change: &Change, model: &Snapshot) -> Id {
    match change {
        Change::Put(Entity::Terminator(new)) => new.router_id.clone(),
        _ => {
            model.get::<Terminator>(change.id()).map_or_else(Id::default, |it| it.router_id.clone())
        }
    }
}

impl Held {
    /// To be called with each change set after it was published, and before anything is decided on it.
    pub(crate) fn follow(&self, sets: &[Arc<ChangeSet>]) {
        let of_terminator = |change: &&Change| change.kind() == KIND;
        if !sets.iter().flat_map(|set| &set.changes).any(|change| of_terminator(&change)) {
            return;
        }
        let mut state = self.state.lock();
        for set in sets {
            let changes = set.changes.iter().filter(of_terminator);
            changes.for_each(|change| state.follow(change, set.at));
        }
        self.changed(&state);
    }

    pub(crate) fn changed(&self, state: &HeldState) {
        self.any.store(!state.changes.is_empty(), Ordering::Release);
        self.last.send_if_modified(|last| std::mem::replace(last, state.last) != state.last);
    }
}

#[cfg(test)]
mod tests {
    use weft_model::entity::{Router, Service};
    use weft_model::{Base, Timeline};

    use super::*;

    fn base(id: &str) -> Base {
        Base::new(Id::new(id), Timestamp(1))
    }

    fn terminator(id: &str, cost: u16) -> Change {
        let (router_id, service_id) = (Id::new("r"), Id::new("s"));
        let base = base(id);
        Change::Put(Terminator { base, router_id, service_id, cost, ..Default::default() }.into())
    }

    fn end(id: &str) -> Change {
        Change::Delete(KIND, Id::new(id))
    }

    fn model(changes: &[Change]) -> Arc<Snapshot> {
        let mut set = ChangeSet::default();
        set.put(Router { base: base("r"), name: "r".into(), ..Default::default() });
        set.put(Service { base: base("s"), name: "s".into(), ..Default::default() });
        set.changes.extend_from_slice(changes);
        Arc::new(Snapshot::empty(Timeline::default()).apply(&set).unwrap())
    }

    fn costs(view: &Snapshot) -> Vec<(String, u16)> {
        let all = view.list::<Terminator>();
        all.map(|it| (it.base.id.to_string(), it.cost)).collect()
    }

    fn held(at: i64, change: Change) -> HeldChange {
        HeldChange { number: 0, at: Timestamp(at), change }
    }

    #[test]
    fn the_newest_change_of_each_terminator_is_held_over_any_model() {
        let (mut state, durable) = (HeldState::default(), model(&[terminator("old", 1)]));
        for change in [terminator("a", 1), terminator("b", 1), end("old"), terminator("a", 2)] {
            state.hold(&durable, Timestamp(2), vec![change]).unwrap();
        }
        let wanted = [("a".to_owned(), 2), ("b".to_owned(), 1)];
        assert_eq!(costs(&state.view(&durable)), wanted);
        assert_eq!(state.order.keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
        // The model goes on.
        let later = model(&[terminator("old", 1), terminator("c", 3)]);
        let wanted = [("a".to_owned(), 2), ("b".to_owned(), 1), ("c".to_owned(), 3)];
        assert_eq!(costs(&state.view(&later)), wanted);
        let without_service = Arc::new(Snapshot::empty(Timeline::default()));
        assert!(costs(&state.view(&without_service)).is_empty());
        let refused = state.hold(&without_service, Timestamp(2), vec![terminator("d", 1)]);
        assert!(refused.is_err() && state.changes.len() == 3);
    }

    fn of_router(number: usize) -> Change {
        let router_id = Id::new(&format!("r{}", number / MOST_OF_ROUTER));
        let (base, service_id) = (base(&format!("{number}")), Id::new("s"));
        Change::Put(Terminator { base, router_id, service_id, ..Default::default() }.into())
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let routers = (0..4).map(|number| {
            let (base, name) = (base(&format!("r{number}")), format!("r{number}").as_str().into());
            Change::Put(Router { base, name, ..Default::default() }.into())
        });
        let durable = model(&routers.collect::<Vec<_>>());
        let mut state = HeldState::default();
        let hold =
            |state: &mut HeldState, at, change| state.hold(&durable, Timestamp(at), vec![change]);
        for number in 0..MOST_OF_ROUTER {
            hold(&mut state, 2, of_router(number)).unwrap();
        }
        let Change::Put(Entity::Terminator(found)) = of_router(0) else { unreachable!() };
        let of_same = Terminator { base: base("more"), ..(*found).clone() };
        assert_eq!(hold(&mut state, 2, Change::Put(of_same.into())).unwrap_err().status(), 503);
        for number in MOST_OF_ROUTER..MOST_HELD {
            hold(&mut state, 2, of_router(number)).unwrap();
        }
        assert_eq!(hold(&mut state, 2, terminator("a", 1)).unwrap_err().status(), 503);
        state.hold_theirs(&durable, held(9, terminator("a", 1)), None);
        assert_eq!(state.changes.len(), MOST_HELD);
        // Ends of what was never durable make room after a while.
        hold(&mut state, 2, end("7")).unwrap();
        assert!(hold(&mut state, 60_003, terminator("a", 1)).is_err());
        hold(&mut state, 60_004, terminator("a", 1)).unwrap();
        let (one, other) = (state.of_routers[&Id::new("r0")], state.of_routers[&Id::new("r1")]);
        assert_eq!((one, other), (MOST_OF_ROUTER - 1, MOST_OF_ROUTER));
    }

    #[test]
    fn what_another_controller_has_written_is_held_no_more_and_does_not_come_back() {
        let (mut state, durable) = (HeldState::default(), model(&[]));
        let now = Timestamp(50_000);
        for (id, at) in [("a", 9), ("b", 9), ("c", 9)] {
            state.hold(&durable, Timestamp(at), vec![terminator(id, 1)]).unwrap();
        }
        let put = |id: &str, at: i64| {
            let Change::Put(Entity::Terminator(found)) = terminator(id, 1) else { unreachable!() };
            let mut found = (*found).clone();
            found.base.updated_at = Timestamp(at);
            Change::Put(found.into())
        };
        state.follow(&put("a", 8), Timestamp(8));
        assert_eq!(state.changes.len(), 3, "what is held is newer");
        state.follow(&put("a", 9), Timestamp(9));
        state.follow(&end("b"), Timestamp(10));
        assert_eq!(state.order.len(), 1);
        // Told once more by one that has not heard of it.
        for now in [None, Some(now)] {
            state.hold_theirs(&durable, held(9, terminator("b", 1)), now);
        }
        assert_eq!(state.order.len(), 1);
        // Whoever reaches the log knows all but the latest ones; without it, all may be new.
        state.hold_theirs(&durable, held(40_000, terminator("old", 1)), Some(now));
        state.hold_theirs(&durable, held(40_000, end("old")), Some(now));
        assert_eq!(state.order.len(), 1);
        state.hold_theirs(&durable, held(40_001, terminator("new", 1)), Some(now));
        state.hold_theirs(&durable, held(40_000, terminator("old", 1)), None);
        assert_eq!(state.order.len(), 3);
    }

    #[test]
    fn a_change_counts_after_what_it_was_decided_on_whatever_clocks_show() {
        let Change::Put(Entity::Terminator(ahead)) = terminator("a", 1) else { unreachable!() };
        let mut ahead = (*ahead).clone();
        ahead.base.updated_at = Timestamp(900);
        let durable = model(&[Change::Put(ahead.into())]);
        let mut state = HeldState::default();
        state.hold(&durable, Timestamp(2), vec![end("a")]).unwrap();
        state.view = None;
        assert!(costs(&state.view(&durable)).is_empty());
        state.hold(&durable, Timestamp(1), vec![terminator("a", 7)]).unwrap();
        let made = state.changes[&Id::new("a")].clone();
        assert_eq!(made.at, Timestamp(901));
        // Made again in the place of a durable one, it is a change of that one.
        assert!(matches!(made.settled(&durable), Some(Change::Put(_))));
    }

    #[test]
    fn all_controllers_hold_the_same_in_whatever_order_they_hear_of_it() {
        let all = [
            held(3, terminator("a", 1)),
            held(3, terminator("a", 2)),
            held(2, terminator("b", 1)),
            held(4, end("b")),
            held(4, end("c")),
            held(5, terminator("c", 7)),
            held(2, terminator("old", 9)),
            held(4, end("older")),
        ];
        let (old, older) = (terminator("old", 1), terminator("older", 1));
        let mut states: Vec<_> = Vec::new();
        for turn in 0..all.len() {
            let (mut state, mut heard) = (HeldState::default(), all.to_vec());
            heard.rotate_left(turn);
            let durable = model(&[old.clone(), older.clone()]);
            // Heard twice, as from two others.
            for theirs in heard.iter().chain(&heard) {
                state.hold_theirs(&durable, theirs.clone(), None);
            }
            states.push(costs(&state.view(&durable)));
        }
        assert_eq!(states[0].iter().map(|it| &it.0[..]).collect::<Vec<_>>(), ["a", "c", "old"]);
        assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
    }

    #[test]
    fn what_is_known_or_contradicts_the_model_is_not_written() {
        let tip = model(&[terminator("a", 1)]);
        let settled = |at, change: &Change| held(at, change.clone()).settled(&tip);
        for change in [terminator("a", 2), terminator("new", 1), end("a")] {
            assert_eq!(settled(2, &change), Some(change));
        }
        assert_eq!((settled(2, &terminator("a", 1)), settled(2, &end("gone"))), (None, None));
        // The model has a later change.
        assert_eq!((settled(0, &terminator("a", 2)), settled(0, &end("a"))), (None, None));
        let Change::Put(Entity::Terminator(found)) = terminator("a", 2) else { unreachable!() };
        let foreign = Terminator { host_id: Id::new("other"), ..(*found).clone() };
        assert_eq!(settled(2, &Change::Put(foreign.into())), None);
        let none = Id::new("none");
        let elsewhere = Terminator { base: base("z"), service_id: none, ..(*found).clone() };
        assert_eq!(settled(2, &Change::Put(elsewhere.into())), None);
    }
}
