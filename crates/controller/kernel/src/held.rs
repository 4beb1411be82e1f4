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

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::watch;
use weft_contract::ErrorCode;
use weft_model::entity::Terminator;
use weft_model::{Change, ChangeSet, Entity, Id, Kind, Snapshot, Timestamp};
use weft_store::Sharing;

use crate::caller::Caller;
use crate::decision::Decision;
use crate::failure::{Failure, Result};
use crate::kernel::Kernel;

/// Most terminators of which a change is held: each is kept in memory, and applied again when the model changes.
const MOST_HELD: usize = 20_000;

/// The kind of entities whose changes are held.
const KIND: Kind = Kind::Terminator;

/// The changes that are held, the newest of each entity.
#[derive(Default)]
pub(crate) struct Held {
    state: Mutex<State>,
    /// Whether any change is held, for readers that never wait.
    any: AtomicBool,
    last: watch::Sender<u64>,
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
            Change::Put(entity) => (self.at, false, entity.to_row().to_vec()),
            _ => (self.at, true, Vec::new()),
        }
    }

    /// Whether the model has something as new.
    fn is_known(&self, model: &Snapshot) -> bool {
        let id = self.change.id();
        match (&self.change, model.get::<Terminator>(id)) {
            (Change::Put(Entity::Terminator(ours)), Some(known)) => {
                known == ours || known.base.updated_at > self.at
            }
            (Change::Put(_), None) => false,
            (_, known) => known.is_none_or(|known| known.base.updated_at > self.at),
        }
    }

    /// The change that is to be written; none if it is known or contradicts the model.
    pub fn settled(&self, tip: &Snapshot) -> Option<&Change> {
        let is_possible = match &self.change {
            Change::Put(Entity::Terminator(ours)) => {
                let is_same_owner = |known: &Arc<Terminator>| {
                    known.router_id == ours.router_id
                        && known.service_id == ours.service_id
                        && known.host_id == ours.host_id
                        && known.binding == ours.binding
                };
                tip.contains(Kind::Router, &ours.router_id)
                    && tip.contains(Kind::Service, &ours.service_id)
                    && tip.get::<Terminator>(&ours.base.id).is_none_or(is_same_owner)
            }
            Change::Delete(..) => true,
            _ => false,
        };
        (is_possible && !self.is_known(tip)).then_some(&self.change)
    }
}

#[derive(Default)]
struct State {
    changes: HashMap<Id, HeldChange>,
    order: BTreeMap<u64, Id>,
    last: u64,
    /// The durable model, and the same with what is held.
    view: Option<(Arc<Snapshot>, Arc<Snapshot>)>,
}

impl State {
    /// The durable model with what is held.
    fn view(&mut self, durable: Arc<Snapshot>) -> Arc<Snapshot> {
        if let Some((of, view)) = &self.view
            && Arc::ptr_eq(of, &durable)
        {
            return Arc::clone(view);
        }
        let mut view = (*durable).clone();
        for held in self.order.values().filter_map(|id| self.changes.get(id)) {
            // What contradicts the model is dropped when it is to be written.
            if let Some(change) = held.settled(&view) {
                let _ = view.advance(&ChangeSet::of([change.clone()]));
            }
        }
        let view = Arc::new(view);
        self.view = Some((durable, Arc::clone(&view)));
        view
    }

    /// Whether there is room for changes.
    fn has_room(&self, changes: &[Change]) -> bool {
        let new = changes.iter().filter(|change| !self.changes.contains_key(change.id())).count();
        self.changes.len() + new <= MOST_HELD
    }

    fn insert(&mut self, at: Timestamp, change: Change) {
        self.last += 1;
        let (id, number) = (change.id().clone(), self.last);
        self.order.insert(number, id.clone());
        if let Some(former) = self.changes.insert(id, HeldChange { number, at, change }) {
            self.order.remove(&former.number);
        }
    }

    /// Applies changes to the view, and holds them. All are held, or none.
    fn hold(&mut self, durable: Arc<Snapshot>, at: Timestamp, changes: Vec<Change>) -> Result<()> {
        let view = self.view(Arc::clone(&durable));
        if !self.has_room(&changes) {
            return Err(Failure::unwritable(
                "etcd cannot be written, and too many changes of terminators wait for it",
            ));
        }
        let set = ChangeSet::of(changes);
        let next = view.apply(&set).map_err(|error| Failure::unhandled(error.to_string()))?;
        self.view = Some((durable, Arc::new(next)));
        set.changes.into_iter().for_each(|change| self.insert(at, change));
        Ok(())
    }

    /// Holds a change that another controller holds, unless something as new is known.
    fn hold_theirs(&mut self, durable: &Arc<Snapshot>, theirs: HeldChange) {
        let is_newest = match self.changes.get(theirs.change.id()) {
            Some(ours) => theirs.rank() > ours.rank(),
            // An end stays in mind, because the terminator may come from another controller later.
            None => matches!(theirs.change, Change::Delete(..)) || !theirs.is_known(durable),
        };
        if !is_newest || !self.has_room(std::slice::from_ref(&theirs.change)) {
            return;
        }
        let view = self.view(Arc::clone(durable));
        if let Ok(next) = view.apply(&ChangeSet::of([theirs.change.clone()])) {
            self.view = Some((Arc::clone(durable), Arc::new(next)));
        }
        self.insert(theirs.at, theirs.change);
    }
}

impl Kernel {
    /// The durable model with the changes of terminators that are held.
    pub fn with_held(&self) -> Arc<Snapshot> {
        let (durable, held) = (self.snapshot(), self.held());
        match self.holds_any() {
            true => held.state.lock().view(durable),
            false => durable,
        }
    }

    /// Whether a change of a terminator that failed so may be held: the log of the network could not be written.
    pub fn may_hold(&self, failure: &Failure) -> bool {
        let was_not_written =
            matches!(failure.code(), ErrorCode::ClusterNoLeader | ErrorCode::OutcomeUnknown);
        was_not_written && self.is_cut_off()
    }

    /// Whether this controller shares the network with others, and does not reach their log.
    pub fn is_cut_off(&self) -> bool {
        self.settings().store.live().sharing() == Sharing::CutOff
    }

    /// Decides changes of terminators on the durable model with what is held, and holds them.
    ///
    /// # Errors
    /// The refusal of `decide`; 503 if too many changes are held; 500 if a change concerns something else than
    /// terminators or contradicts the model.
    pub fn hold(
        &self,
        caller: &Caller,
        decide: impl Fn(&mut Decision<'_>) -> Result<()>,
    ) -> Result<()> {
        let (durable, now) = (self.snapshot(), self.now());
        let mut state = self.held().state.lock();
        let view = state.view(Arc::clone(&durable));
        let mut decision = Decision::new(&view, caller, now);
        decide(&mut decision)?;
        let changes = decision.finish()?.changes;
        if changes.is_empty() {
            return Ok(());
        }
        if changes.iter().any(|change| change.kind() != KIND) {
            return Err(Failure::unhandled("only changes of terminators are held"));
        }
        state.hold(durable, now, changes)?;
        self.told(&state);
        Ok(())
    }

    /// Holds what another controller holds, unless something as new is known here. There is no error: what has no room is
    /// left out, and is written by the other controller.
    pub fn hold_theirs(&self, changes: impl IntoIterator<Item = HeldChange>) {
        let durable = self.snapshot();
        let mut state = self.held().state.lock();
        for theirs in changes.into_iter().filter(|theirs| theirs.change.kind() == KIND) {
            state.hold_theirs(&durable, theirs);
        }
        self.told(&state);
    }

    fn told(&self, state: &State) {
        let held = self.held();
        held.any.store(!state.changes.is_empty(), Ordering::Release);
        held.last.send_if_modified(|last| std::mem::replace(last, state.last) != state.last);
    }

    /// The number of the last change that was held.
    pub fn last_held(&self) -> watch::Receiver<u64> {
        self.held().last.subscribe()
    }

    /// Whether any change is held.
    pub fn holds_any(&self) -> bool {
        self.held().any.load(Ordering::Acquire)
    }

    /// The changes that are held with higher numbers than this one, the first ones of them.
    pub fn held_after(&self, number: u64, most: usize) -> Vec<HeldChange> {
        let state = self.held().state.lock();
        let after = state.order.range(number.saturating_add(1)..).take(most);
        after.filter_map(|(_, id)| state.changes.get(id).cloned()).collect()
    }

    /// Holds changes no longer: they are durable, or dropped. A newer change of the same entity stays.
    pub fn release_held(&self, numbers: impl IntoIterator<Item = u64>) {
        let mut state = self.held().state.lock();
        for number in numbers {
            if let Some(id) = state.order.remove(&number) {
                state.changes.remove(&id);
            }
        }
        state.view = None;
        self.told(&state);
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
        let (mut state, durable) = (State::default(), model(&[terminator("old", 1)]));
        for change in [terminator("a", 1), terminator("b", 1), end("old"), terminator("a", 2)] {
            state.hold(Arc::clone(&durable), Timestamp(2), vec![change]).unwrap();
        }
        let wanted = [("a".to_owned(), 2), ("b".to_owned(), 1)];
        assert_eq!(costs(&state.view(Arc::clone(&durable))), wanted);
        assert_eq!(state.order.keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
        // The model goes on.
        let later = model(&[terminator("old", 1), terminator("c", 3)]);
        let wanted = [("a".to_owned(), 2), ("b".to_owned(), 1), ("c".to_owned(), 3)];
        assert_eq!(costs(&state.view(later)), wanted);
        let without_service = Arc::new(Snapshot::empty(Timeline::default()));
        assert!(costs(&state.view(Arc::clone(&without_service))).is_empty());
        let refused = state.hold(without_service, Timestamp(2), vec![terminator("d", 1)]);
        assert!(refused.is_err() && state.changes.len() == 3);
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let (mut state, durable) = (State::default(), model(&[]));
        let hold = |state: &mut State, changes| state.hold(model(&[]), Timestamp(2), changes);
        let all = (0..MOST_HELD).map(|number| terminator(&format!("{number}"), 1)).collect();
        hold(&mut state, all).unwrap();
        assert_eq!(hold(&mut state, vec![terminator("a", 1)]).unwrap_err().status(), 503);
        state.hold_theirs(&durable, held(9, terminator("a", 1)));
        hold(&mut state, vec![terminator("7", 2), end("8")]).unwrap();
        assert_eq!(state.changes.len(), MOST_HELD);
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
            let (mut state, mut heard) = (State::default(), all.to_vec());
            heard.rotate_left(turn);
            let durable = model(&[old.clone(), older.clone()]);
            // Heard twice, as from two others.
            for theirs in heard.iter().chain(&heard) {
                state.hold_theirs(&durable, theirs.clone());
            }
            states.push(costs(&state.view(durable)));
        }
        assert_eq!(states[0].iter().map(|it| &it.0[..]).collect::<Vec<_>>(), ["a", "c", "old"]);
        assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
    }

    #[test]
    fn what_is_known_or_contradicts_the_model_is_not_written() {
        let tip = model(&[terminator("a", 1)]);
        let settled = |at, change: &Change| held(at, change.clone()).settled(&tip).cloned();
        for change in [terminator("a", 2), terminator("new", 1), end("a")] {
            assert_eq!(settled(2, &change), Some(change));
        }
        assert_eq!((settled(2, &terminator("a", 1)), settled(2, &end("gone"))), (None, None));
        // The model has a later change.
        assert_eq!((settled(0, &terminator("a", 2)), settled(0, &end("a"))), (None, None));
        let Change::Put(Entity::Terminator(found)) = terminator("a", 2) else { return };
        let foreign = Terminator { host_id: Id::new("other"), ..(*found).clone() };
        assert_eq!(settled(2, &Change::Put(foreign.into())), None);
        let none = Id::new("none");
        let elsewhere = Terminator { base: base("z"), service_id: none, ..(*found).clone() };
        assert_eq!(settled(2, &Change::Put(elsewhere.into())), None);
    }
}
