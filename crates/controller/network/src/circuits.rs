//! The circuits of this controller: reserved ids of circuits in the making, circuits that are up,
//! and adopted circuits of an earlier run.

mod index;
mod making;
mod past;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashSet;
use index::{Counts, Index};
use making::{Making, Reservation};
use parking_lot::RwLock;
use past::CircuitHistory;
use weft_model::{Id, Timestamp};
use weft_paths::path::Path;

use crate::adoption::machine::Standing;
use crate::clock;
use crate::moving::Moving;
use crate::tags::CircuitTags;
use crate::traffic::Traffic;

/// Most circuits, reserved ones included.
const MAX_CIRCUITS: usize = 1_000_000;
/// One circuit in this many is reserved for dials: adopted circuits leave that room free.
const FOR_DIALS: usize = 4;
/// The number of circuits that are looked at before the lock is released for other tasks.
const TURN: usize = 500;

/// A circuit that is up.
#[derive(Debug)]
pub struct Circuit {
    /// The id of the circuit.
    pub id: String,
    /// The session or the identity that dials.
    pub client: String,
    /// Whether the client is a service session of this controller. The circuit ends with such a
    /// session.
    pub is_of_session: bool,
    /// Whether the dialer announced that it proves itself to the host. True for an adopted circuit, because the
    /// controller cannot know.
    pub dialer_proves: bool,
    /// The service.
    pub service: Id,
    /// The terminator; empty if it is not known any more.
    pub terminator: Id,
    /// The instance that was asked for.
    pub instance: String,
    /// The path of the circuit. The path of a circuit known in part has only the routers that
    /// reported it, and no links; the routers at its ends are first and last if both are known.
    pub path: Path,
    /// Address of the initiating end.
    pub ingress: String,
    /// Address of the terminating end.
    pub egress: String,
    /// Addresses of the applications, as far as the ends told them.
    pub addresses: EndAddresses,
    /// The time at which the circuit was made or adopted.
    pub created_at: Timestamp,
    /// When the circuit was made, on the monotonic clock; the start of the controller if it was adopted. The routers at
    /// known ends have carried the circuit since then.
    pub made_at: Instant,
    /// The time at which all routers on the path had set up the circuit.
    pub routed_at: Instant,
    /// The tags of the circuit.
    pub tags: CircuitTags,
    /// Since when this controller owns the circuit, as a number that is later for whoever owns the circuit later; 0 if the
    /// controller is alone. Routers obey a route of another controller than the one that owns the circuit if its term is
    /// higher.
    pub term: u64,
    /// Whether the whole path is known.
    pub is_whole: bool,
    /// Whether the circuit counts for the cost of its terminator.
    pub is_counted: bool,
    /// The time at which the circuit was moved last.
    pub moving: Arc<Moving>,
    /// The data that the circuit carried, as the router of its dialer reports it.
    pub traffic: Arc<Traffic>,
}

/// Addresses of the applications at the ends of a circuit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct EndAddresses {
    /// The initiator's own address.
    pub initiator_local: String,
    /// The address of the initiator's peer.
    pub initiator_remote: String,
    /// The terminator's own address.
    pub terminator_local: String,
    /// The address of the terminator's peer.
    pub terminator_remote: String,
}

impl Circuit {
    /// The id of the identity that dialed, if an identity did.
    pub fn dialer(&self) -> Option<&str> {
        self.tags.client.as_ref().map(Id::as_str)
    }

    /// The identity for which the circuit counts. A circuit that exists on the report of routers alone counts for
    /// nobody: otherwise a router could use up what an identity may dial.
    fn counts_for(&self) -> Option<&Id> {
        self.tags.client.as_ref().filter(|_| !self.is_of_earlier_run())
    }

    /// Whether the circuit exists on the report of routers alone: an earlier run of this controller
    /// made it.
    pub fn is_of_earlier_run(&self) -> bool {
        self.tags.reported_by.is_some()
    }

    /// The service and the terminator.
    fn used(&self) -> [Id; 2] {
        [self.service.clone(), self.terminator.clone()]
    }

    /// Whether both ends are known, so that the circuit can be moved.
    pub fn has_ends(&self) -> bool {
        self.is_whole || !(self.ingress.is_empty() || self.egress.is_empty())
    }

    /// Returns the circuit with another path.
    pub fn moved(&self, path: Path) -> Self {
        Self {
            path,
            id: self.id.clone(),
            client: self.client.clone(),
            is_of_session: self.is_of_session,
            dialer_proves: self.dialer_proves,
            service: self.service.clone(),
            terminator: self.terminator.clone(),
            instance: self.instance.clone(),
            ingress: self.ingress.clone(),
            egress: self.egress.clone(),
            addresses: self.addresses.clone(),
            created_at: self.created_at,
            made_at: self.made_at,
            routed_at: clock::now(),
            tags: self.tags.clone(),
            term: self.term,
            is_whole: self.is_whole,
            is_counted: self.is_counted,
            moving: Arc::clone(&self.moving),
            traffic: Arc::clone(&self.traffic),
        }
    }
}

/// The reason why an id cannot be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotReserved {
    /// Another circuit has the id.
    Taken,
    /// There are already `MAX_CIRCUITS` circuits.
    Full,
    /// The dialing identity has as many as it may have.
    Dialer,
}

/// What a router's report of the end of a circuit means for its making.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultInMaking {
    /// The present attempt has ended by it.
    Ends {
        /// The number of the attempt.
        attempt: u32,
    },
    /// It is about a former attempt, or of a router that the present one does not go over.
    Ignored,
    /// The circuit is not in the making.
    NotInMaking,
}

/// Who dials a circuit.
#[derive(Debug, Clone, Copy)]
pub struct Dialer<'d> {
    /// The session or the identity.
    pub client: &'d str,
    /// The identity, if it is known, and the most circuits that it may have.
    pub identity: Option<(&'d Id, u64)>,
}

#[derive(Debug, Default)]
struct Tables {
    /// Most circuits, reserved ones included.
    most: usize,
    /// In order, so that all of them are read in parts.
    up: BTreeMap<Arc<str>, Arc<Circuit>>,
    making: Making,
    by_link: Index<Arc<str>>,
    by_router: Index<Id>,
    by_client: Index<Arc<str>>,
    by_terminator: Index<Id>,
    by_dialer: Counts,
    /// Remembered circuits that ended or were moved.
    past: CircuitHistory,
}

/// All circuits.
#[derive(Debug)]
pub struct Circuits(RwLock<Tables>);

impl Default for Circuits {
    fn default() -> Self {
        Self::within(MAX_CIRCUITS)
    }
}

impl Circuits {
    fn within(most: usize) -> Self {
        Self(RwLock::new(Tables { most, ..Tables::default() }))
    }

    /// Reserves an id for a circuit that begins at the router `first`.
    pub fn reserve(&self, id: &str, by: Dialer<'_>, first: &Id) -> Result<(), NotReserved> {
        let mut tables = self.0.write();
        if tables.is_known(id) {
            return Err(NotReserved::Taken);
        }
        if tables.len() >= tables.most {
            return Err(NotReserved::Full);
        }
        let dialer = by.identity.map(|(dialer, _)| dialer);
        if by.identity.is_some_and(|(dialer, most)| tables.dialed_by(dialer) >= most) {
            return Err(NotReserved::Dialer);
        }
        tables.making.begin(id, by.client, dialer, first);
        Ok(())
    }

    /// Number of circuits of a dialing identity that are up or in the making.
    pub fn dialed_by(&self, dialer: &Id) -> u64 {
        self.0.read().dialed_by(dialer)
    }

    /// Begins the attempt of this number at a reserved circuit; false if the circuit is not wanted any more.
    pub fn attempt(&self, id: &str, number: u32, nodes: &[Id]) -> bool {
        self.0.write().making.attempt(id, number, nodes)
    }

    /// Gives a circuit in the making another id; false if the circuit is not in the making, or the
    /// id is taken.
    pub fn rename(&self, id: &str, new: &str) -> bool {
        let mut tables = self.0.write();
        !tables.is_known(new) && tables.making.rename(id, new)
    }

    /// Handles a router's report that a circuit has ended, which this attempt has set up, if the router says it. A circuit
    /// in the making whose present attempt is that one and goes over the router will not be put into the table.
    pub fn fault_in_making(&self, id: &str, router: &Id, attempt: Option<u32>) -> FaultInMaking {
        let mut tables = self.0.write();
        match tables.making.fault(id, router, attempt) {
            Some(attempt) => FaultInMaking::Ends { attempt },
            None if tables.making.has(id) => FaultInMaking::Ignored,
            None => FaultInMaking::NotInMaking,
        }
    }

    /// Drops the circuits in the making that begin or end at a router, and returns their ids.
    pub fn end_in_making_at(&self, router: &Id) -> Vec<Arc<str>> {
        self.0.write().making.end_at(router)
    }

    /// Drops the circuits in the making of a client that begin at a router, and returns their ids.
    pub fn end_in_making_of(&self, client: &str, router: &Id) -> Vec<Arc<str>> {
        self.0.write().making.end_of(client, router)
    }

    /// Gives a reserved id back.
    pub fn release(&self, id: &str) {
        self.0.write().making.remove(id);
    }

    /// Puts a circuit in the place of its reservation, or of its former state; false if the circuit
    /// was removed or ended meanwhile.
    pub fn put(&self, circuit: Arc<Circuit>) -> bool {
        self.put_with(circuit, || {})
    }

    /// Like [`put`](Self::put); `with` runs before anybody can remove the circuit again.
    pub fn put_with(&self, circuit: Arc<Circuit>, with: impl FnOnce()) -> bool {
        let mut tables = self.0.write();
        let known = tables.up.get_key_value(&*circuit.id);
        if let Some((id, before)) = known.map(|(id, it)| (Arc::clone(id), Arc::clone(it))) {
            tables.replace(&id, &before, circuit);
        } else {
            if !tables.making.get(&circuit.id).is_some_and(Reservation::is_wanted) {
                return false;
            }
            tables.making.remove(&circuit.id);
            tables.link(circuit);
        }
        with();
        true
    }

    /// Puts an adopted circuit into the table; false if the id is taken, the circuit has ended or there is no room. `with`
    /// runs before anybody can remove the circuit again.
    pub fn adopt(&self, circuit: Arc<Circuit>, with: impl FnOnce()) -> bool {
        let mut tables = self.0.write();
        let most = tables.most - tables.most / FOR_DIALS;
        let is_new = !tables.is_known(&circuit.id) && !tables.past.has_ended(&circuit.id);
        let has_room = tables.len() < most;
        if is_new && has_room {
            tables.link(circuit);
            with();
        }
        is_new && has_room
    }

    /// A circuit that is up.
    pub fn get(&self, id: &str) -> Option<Arc<Circuit>> {
        self.0.read().up.get(id).cloned()
    }

    /// Whether an id is reserved or up.
    pub fn is_known(&self, id: &str) -> bool {
        self.0.read().is_known(id)
    }

    /// What a circuit is to a router that names it.
    pub(crate) fn standing(&self, id: &str, router: &Id) -> Standing {
        let tables = self.0.read();
        match tables.up.get(id) {
            Some(circuit) if circuit.is_whole && circuit.path.nodes.contains(router) => {
                Standing::Wanted
            }
            Some(circuit) if circuit.is_whole => Standing::Unwanted,
            None if tables.making.has(id) => Standing::Wanted,
            None if tables.past.has_ended(id) => Standing::Unwanted,
            _ => Standing::Open { at_router: tables.by_router.count(router) },
        }
    }

    /// Whether a circuit of this id ended here.
    pub fn has_ended(&self, id: &str) -> bool {
        self.0.read().past.has_ended(id)
    }

    /// The service and the terminator of a circuit that goes or went over the router.
    pub(super) fn used_over(&self, id: &str, router: &str) -> Option<[Id; 2]> {
        let tables = self.0.read();
        let now = tables.up.get(id).filter(|circuit| circuit.path.has_node(router));
        now.map(|circuit| circuit.used()).or_else(|| tables.past.used_over(id, router))
    }

    /// Removes a circuit that is up.
    pub fn remove(&self, id: &str) -> Option<Arc<Circuit>> {
        let mut tables = self.0.write();
        let circuit = tables.up.remove(id)?;
        tables.unlink(&circuit);
        tables.past.note(&circuit.id, circuit.used(), &circuit.path.nodes, true);
        Some(circuit)
    }

    /// Removes a circuit that is up, and goes on without this controller.
    pub(crate) fn let_go(&self, id: &str) -> Option<Arc<Circuit>> {
        let mut tables = self.0.write();
        let circuit = tables.up.remove(id)?;
        tables.unlink(&circuit);
        tables.past.note(&circuit.id, circuit.used(), &circuit.path.nodes, false);
        Some(circuit)
    }

    /// All circuits that are up, ordered by id.
    pub fn all(&self) -> Vec<Arc<Circuit>> {
        self.in_turns(|tables, after| {
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            let behind = tables.up.range::<str, _>((from, Bound::Unbounded));
            behind.take(TURN).map(|(id, _)| Arc::clone(id)).collect()
        })
    }

    /// The circuits over a link.
    pub fn over_link(&self, link: &str) -> Vec<Arc<Circuit>> {
        self.in_turns(|tables, after| tables.by_link.some(link, after, TURN))
    }

    /// How many circuits go over a link.
    pub fn count_over(&self, link: &str) -> usize {
        self.0.read().by_link.count(link)
    }

    /// Ids of circuits over a link: at most `limit` of them, after the id `after`, and the id after
    /// which there are more. Circuits with the same ends follow each other, grouped by the end that
    /// has fewer routers.
    pub(super) fn part_over(
        &self,
        link: &str,
        mut after: Option<Arc<str>>,
        most: usize,
    ) -> (Vec<Arc<str>>, Option<Arc<str>>) {
        let mut found: Vec<([Id; 2], Arc<str>)> = Vec::new();
        while found.len() < most {
            let tables = self.0.read();
            let turn = TURN.min(most - found.len());
            let some = tables.by_link.some(link, after.as_deref(), turn);
            after = some.last().filter(|_| some.len() == turn).cloned();
            found.extend(some.into_iter().filter_map(|id| {
                let path = &tables.up.get(&id)?.path;
                Some(([path.first()?.clone(), path.last()?.clone()], id))
            }));
            if after.is_none() {
                break;
            }
        }
        let [first, last] = [0, 1].map(|end| {
            found.iter().filter_map(|(ends, _)| ends.get(end)).collect::<HashSet<_>>().len()
        });
        if last < first {
            found.iter_mut().for_each(|(ends, _)| ends.reverse());
        }
        found.sort_unstable();
        (found.into_iter().map(|(_, id)| id).collect(), after)
    }

    /// The routers that circuits go over.
    pub fn routers(&self) -> Vec<Id> {
        self.0.read().by_router.keys().cloned().collect()
    }

    /// The circuits over a router.
    pub fn at(&self, router: &Id) -> Vec<Arc<Circuit>> {
        self.in_turns(|tables, after| tables.by_router.some(router, after, TURN))
    }

    /// The first circuits over a router, after the id `after`.
    pub(super) fn some_at(&self, router: &Id, after: Option<&str>) -> Vec<Arc<Circuit>> {
        let tables = self.0.read();
        let ids = tables.by_router.some(router, after, TURN);
        ids.iter().filter_map(|id| tables.up.get(id).cloned()).collect()
    }

    /// The circuits of a session or an identity.
    pub fn of_client(&self, client: &str) -> Vec<Arc<Circuit>> {
        self.in_turns(|tables, after| tables.by_client.some(client, after, TURN))
    }

    /// The circuits to a terminator.
    pub fn to_terminator(&self, terminator: &Id) -> Vec<Arc<Circuit>> {
        self.in_turns(|tables, after| tables.by_terminator.some(terminator, after, TURN))
    }

    /// Circuits of an index, read in parts so that other tasks get the lock in between.
    fn in_turns(&self, some: impl Fn(&Tables, Option<&str>) -> Vec<Arc<str>>) -> Vec<Arc<Circuit>> {
        let (mut found, mut after) = (Vec::new(), None::<Arc<str>>);
        loop {
            let tables = self.0.read();
            let ids = some(&tables, after.as_deref());
            found.extend(ids.iter().filter_map(|id| tables.up.get(id).cloned()));
            match ids.len() < TURN {
                true => return found,
                false => after = ids.into_iter().next_back(),
            }
        }
    }

    /// Number of circuits in the making.
    pub fn in_making(&self) -> usize {
        self.0.read().making.len()
    }

    /// Number of circuits that are up or in the making.
    pub fn len(&self) -> usize {
        self.0.read().len()
    }

    /// Whether there are no circuits at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Tables {
    fn len(&self) -> usize {
        self.up.len() + self.making.len()
    }

    fn is_known(&self, id: &str) -> bool {
        self.up.contains_key(id) || self.making.has(id)
    }

    fn dialed_by(&self, dialer: &Id) -> u64 {
        self.by_dialer.of(dialer) + self.making.dialed_by(dialer)
    }

    fn link(&mut self, circuit: Arc<Circuit>) {
        let id: Arc<str> = circuit.id.as_str().into();
        for link in &circuit.path.links {
            self.by_link.insert(&link.as_str().into(), &id);
        }
        for router in &circuit.path.nodes {
            self.by_router.insert(router, &id);
        }
        self.by_client.insert(&circuit.client.as_str().into(), &id);
        self.by_terminator.insert(&circuit.terminator, &id);
        self.by_dialer.add(circuit.counts_for());
        self.up.insert(id, circuit);
    }

    fn unlink(&mut self, circuit: &Circuit) {
        let id = circuit.id.as_str();
        circuit.path.links.iter().for_each(|link| self.by_link.remove(link.as_str(), id));
        circuit.path.nodes.iter().for_each(|router| self.by_router.remove(router, id));
        self.by_client.remove(circuit.client.as_str(), id);
        self.by_terminator.remove(&circuit.terminator, id);
        self.by_dialer.remove(circuit.counts_for());
    }

    /// Replaces a circuit by its new state: another path, or more pieces of an adopted one.
    fn replace(&mut self, id: &Arc<str>, before: &Circuit, now: Arc<Circuit>) {
        let (old, new) = (&before.path, &now.path);
        if old.nodes.iter().any(|router| !new.nodes.contains(router)) {
            self.past.note(&before.id, before.used(), &old.nodes, false);
        }
        for link in old.links.iter().filter(|link| !new.has_link(link)) {
            self.by_link.remove(link.as_str(), id);
        }
        for link in new.links.iter().filter(|link| !old.has_link(link)) {
            self.by_link.insert(&link.as_str().into(), id);
        }
        for router in old.nodes.iter().filter(|router| !new.nodes.contains(router)) {
            self.by_router.remove(router, id);
        }
        for router in new.nodes.iter().filter(|router| !old.nodes.contains(router)) {
            self.by_router.insert(router, id);
        }
        if before.client != now.client {
            self.by_client.remove(before.client.as_str(), id);
            self.by_client.insert(&now.client.as_str().into(), id);
        }
        if before.terminator != now.terminator {
            self.by_terminator.remove(&before.terminator, id);
            self.by_terminator.insert(&now.terminator, id);
        }
        if before.counts_for() != now.counts_for() {
            self.by_dialer.remove(before.counts_for());
            self.by_dialer.add(now.counts_for());
        }
        self.up.insert(Arc::clone(id), now);
    }
}

/// A circuit over these routers and links, for tests.
#[cfg(any(test, feature = "testing"))]
pub fn sample(id: &str, nodes: &[&str], links: &[&str]) -> Circuit {
    Circuit {
        id: id.into(),
        client: "client".into(),
        is_of_session: false,
        dialer_proves: true,
        service: Id::new("svc"),
        terminator: Id::new("t"),
        instance: String::new(),
        path: Path {
            nodes: nodes.iter().map(|id| Id::new(id)).collect(),
            links: links.iter().map(|id| (*id).to_owned()).collect(),
            cost: 0,
        },
        ingress: "I".into(),
        egress: "E".into(),
        addresses: EndAddresses::default(),
        created_at: Timestamp(0),
        made_at: clock::now(),
        routed_at: clock::now(),
        tags: CircuitTags::default(),
        term: 0,
        is_whole: true,
        is_counted: true,
        moving: Arc::default(),
        traffic: Arc::default(),
    }
}

#[cfg(test)]
mod tests;
