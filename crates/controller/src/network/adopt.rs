//! Circuits of an earlier run of this controller are taken up again, so that a restart breaks none.
//!
//! Routers of weft repeat the routes they carry when they connect
//! ([`CarriedCircuits`]); from the pieces of all its routers the whole of a circuit is put
//! together, and from then on it is like any other. Until all pieces are there, and for routers
//! that only ever confirm idle circuits, a circuit is kept in part: it is confirmed and ended, but
//! cannot be moved.
//!
//! Never taken up is what this run made or ended itself: its ids begin with the tag of the run, and
//! ended ones are remembered.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use prost::Message as _;
use weft_model::entity::Terminator;
use weft_model::{Id, Snapshot};
use weft_wire::StringMap;
use weft_wire::ctrl::route::Egress;
use weft_wire::ctrl::{CarriedCircuits, DestType, Route};

use super::Network;
use super::circuits::{Circuit, EndAddresses};
use super::create::HOST_TAG;
use super::misreports::Misreport;
use super::moves::Why;
use super::path::Path;
use super::routers::LiveRouter;
use crate::events::CircuitChange;

/// Most circuits of which pieces are kept.
const MAX_CIRCUITS: usize = 200_000;
/// Most circuits known in part that one router was the first to tell of.
const MAX_BEGUN: usize = 100_000;
/// Most circuits over one router, above which none is taken up on its word.
const MAX_AT_ROUTER: usize = 200_000;
/// What the pieces of one router, and the circuits that it was the first to tell of, may take, in
/// bytes: real circuits take some 300, so it is enough for as many as may go over it.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Longest route that is taken up, in bytes: real ones have some hundred.
const MAX_ROUTE: usize = 2 * 1024;
/// Longest id of a circuit, in bytes: real ones have 22.
const MAX_ID: usize = 128;
/// Most routers one circuit goes over.
const MAX_NODES: usize = 64;
/// Tag with the service, possibly `instance@service`.
const SERVICE_TAG: &str = "serviceId";
/// Tag with the routers on whose word alone a circuit is there: this run did not make it.
const REPORTED_TAG: &str = "reportedBy";
/// Tag with the dialing identity.
const CLIENT_TAG: &str = "clientId";
/// The tags that are taken up: no others are ever given to a circuit.
const KNOWN_TAGS: [&str; 3] = [SERVICE_TAG, CLIENT_TAG, HOST_TAG];

/// The pieces of circuits that are not whole yet, and what routers are telling right now.
#[derive(Debug, Default)]
pub struct Pieces {
    state: Mutex<State>,
    /// Held while a circuit is taken up, so that what routers tell at the same time adds up.
    taking_up: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    circuits: HashMap<String, BTreeMap<Id, Route>>,
    /// Circuits known in part, with the router that told of each first.
    first: HashMap<String, Id>,
    /// Of how many of these each router was the first to tell.
    begun: HashMap<Id, usize>,
    /// Circuits that were taken up and are whole, with the router that told of each first, and what
    /// they take, in bytes.
    whole: HashMap<String, (Id, usize)>,
    /// What the pieces of each router take, and the whole circuits that it told of first, in bytes.
    bytes: HashMap<Id, usize>,
    /// Circuits of before over connected routers that these have not named so far, while they tell.
    telling: HashMap<Id, HashSet<String>>,
    /// Connected routers that have told everything.
    told: HashSet<Id>,
}

impl State {
    /// A router tells of a circuit that is not whole; false if it told of too many.
    fn begin(&mut self, router: &Id, circuit: &str) -> bool {
        if self.first.contains_key(circuit) {
            return true;
        }
        let begun = self.begun.entry(router.clone()).or_default();
        if *begun >= MAX_BEGUN {
            return false;
        }
        *begun += 1;
        self.first.insert(circuit.to_owned(), router.clone());
        true
    }

    /// Puts a piece in the place of what the router told before; false if it told too much.
    fn put(&mut self, router: &Id, route: Route) -> bool {
        let pieces = self.circuits.entry(route.circuit_id.clone()).or_default();
        if pieces.len() >= MAX_NODES && !pieces.contains_key(router) {
            return true;
        }
        let size = route.encoded_len();
        let before = pieces.get(router).map_or(0, Route::encoded_len);
        let bytes = self.bytes.entry(router.clone()).or_default();
        let now = *bytes + size - before;
        let has_room = size <= MAX_ROUTE && now <= MAX_BYTES;
        if has_room {
            *bytes = now;
            pieces.insert(router.clone(), route);
        }
        has_room
    }

    fn done(&mut self, circuit: &str) {
        for (router, route) in self.circuits.remove(circuit).into_iter().flatten() {
            self.give_back(&router, route.encoded_len());
        }
        let Some(router) = self.first.remove(circuit) else { return };
        if let Some(begun) = self.begun.get_mut(&router) {
            *begun -= 1;
            if *begun == 0 {
                self.begun.remove(&router);
            }
        }
    }

    /// A circuit is whole: in place of its pieces what is kept of it counts, for the router that told of
    /// it first. False if that told too much.
    fn put_whole(&mut self, circuit: &str, bytes: usize) -> bool {
        let Some(router) = self.first.get(circuit).cloned() else { return false };
        let piece = self.circuits.get(circuit).and_then(|pieces| pieces.get(&router));
        let before = self.bytes.get(&router).copied().unwrap_or_default();
        let others = before.saturating_sub(piece.map_or(0, Route::encoded_len));
        let has_room = others + bytes <= MAX_BYTES;
        if has_room {
            self.done(circuit);
            *self.bytes.entry(router.clone()).or_default() += bytes;
            self.whole.insert(circuit.to_owned(), (router, bytes));
        }
        has_room
    }

    /// A circuit has ended.
    fn over(&mut self, circuit: &str) {
        self.done(circuit);
        if let Some((router, bytes)) = self.whole.remove(circuit) {
            self.give_back(&router, bytes);
        }
    }

    fn give_back(&mut self, router: &Id, bytes: usize) {
        let Some(taken) = self.bytes.get_mut(router) else { return };
        *taken = taken.saturating_sub(bytes);
        if *taken == 0 {
            self.bytes.remove(router);
        }
    }
}

impl Pieces {
    fn begin(&self, router: &Id, circuit: &str) -> bool {
        self.state.lock().begin(router, circuit)
    }

    fn add(&self, router: &Id, route: Route) -> Option<BTreeMap<Id, Route>> {
        let mut state = self.state.lock();
        let known = state.circuits.contains_key(&route.circuit_id);
        if !known && state.circuits.len() >= MAX_CIRCUITS {
            return None;
        }
        if !state.begin(router, &route.circuit_id) {
            return None;
        }
        let id = route.circuit_id.clone();
        if !state.put(router, route) {
            if state.circuits.get(&id).is_some_and(BTreeMap::is_empty) {
                state.done(&id);
            }
            return None;
        }
        state.circuits.get(&id).cloned()
    }

    /// Whether a router may tell what it carries; `of_before` says which circuits it is to name.
    fn begin_to_tell(&self, router: &Id, of_before: impl FnOnce() -> HashSet<String>) -> bool {
        let has_told = {
            let state = self.state.lock();
            if state.telling.contains_key(router) {
                return true;
            }
            state.told.contains(router)
        };
        if !has_told {
            let missing = of_before();
            self.state.lock().telling.insert(router.clone(), missing);
        }
        !has_told
    }

    /// A router has named these. With the last of them: what it has not named.
    fn named(&self, router: &Id, named: &[String], is_last: bool) -> HashSet<String> {
        let mut state = self.state.lock();
        let Some(missing) = state.telling.get_mut(router) else { return HashSet::new() };
        for id in named {
            missing.remove(id);
        }
        if !is_last {
            return HashSet::new();
        }
        state.told.insert(router.clone());
        state.telling.remove(router).unwrap_or_default()
    }

    /// A connection of a router begins or is over: what it tells, or has told, is void.
    pub(super) fn forget_report(&self, router: &Id) {
        let mut state = self.state.lock();
        state.telling.remove(router);
        state.told.remove(router);
    }

    /// Whether a router tells, or has told, which circuits it carries.
    pub(super) fn has_begun(&self, router: &Id) -> bool {
        let state = self.state.lock();
        state.telling.contains_key(router) || state.told.contains(router)
    }

    /// A circuit is whole: nothing is to be added any more. False if there is no room for it.
    fn put_whole(&self, circuit: &str, bytes: usize) -> bool {
        self.state.lock().put_whole(circuit, bytes)
    }

    /// A circuit that was taken up, perhaps in part, has ended.
    pub(super) fn over(&self, circuit: &str) {
        self.state.lock().over(circuit);
    }
}

/// A circuit as its pieces tell it.
#[derive(Debug, Default, PartialEq)]
struct Told {
    path: Path,
    ingress: String,
    egress: String,
    is_whole: bool,
    dialed: Option<(Id, Egress)>,
    tags: StringMap,
}

impl Told {
    /// What is kept of it, in bytes.
    fn bytes(&self) -> usize {
        let nodes = self.path.nodes.iter().map(|id| id.as_str().len());
        let links = self.path.links.iter().map(String::len);
        let tags = self.tags.iter().map(|(name, value)| name.len() + value.len());
        let texts: usize = nodes.chain(links).chain(tags).sum();
        texts + self.ingress.len() + self.egress.len()
    }
}

impl Network {
    /// A router tells which circuits of this controller it carries, once for each connection.
    pub(crate) fn on_carried(&self, router: &Arc<LiveRouter>, part: CarriedCircuits) {
        if !self.0.routers.is_current(router) {
            return;
        }
        let of_before = || self.of_before(router).iter().map(|it| it.id.clone()).collect();
        if !self.0.pieces.begin_to_tell(&router.id, of_before) {
            tracing::debug!(router = %router.id, "circuits told once more, ignored");
            return;
        }
        let snapshot = self.0.controller.snapshot();
        let mut named = Vec::with_capacity(part.routes.len());
        for route in part.routes {
            let id = route.circuit_id.clone();
            if !is_id(&id) {
                self.refuse(router, Misreport::MalformedCircuit, &id);
                continue;
            }
            if !self.take_up(&snapshot, router, route) {
                self.unroute_at(&router.id, &id);
            }
            named.push(id);
        }
        for id in self.0.pieces.named(&router.id, &named, part.last) {
            if let Some(circuit) = self.0.circuits.get(&id)
                && is_of_before(&circuit, router)
            {
                self.not_carried(&circuit, &router.id);
            }
        }
    }

    /// A router does not carry a circuit any more that goes over it. If it is none of the ends, the
    /// others can do without it, or tell it again. True if the circuit has ended.
    pub(super) fn not_carried(&self, circuit: &Circuit, router: &Id) -> bool {
        let ends = [circuit.path.first(), circuit.path.last()];
        if circuit.is_whole && !ends.contains(&Some(router)) {
            self.move_or_end(circuit, Why::Lost);
            return false;
        }
        self.remove_circuit(&circuit.id, true)
    }

    /// Takes a carried route up; false if its circuit is over.
    fn take_up(&self, snapshot: &Snapshot, router: &Arc<LiveRouter>, route: Route) -> bool {
        let id = route.circuit_id.clone();
        let _one_by_one = self.0.pieces.taking_up.lock();
        match self.0.circuits.get(&id) {
            Some(circuit) if circuit.is_whole => {
                return circuit.path.has_node(router.id.as_str());
            }
            Some(_) => {}
            None if self.0.circuits.is_known(&id) => return true,
            None if self.is_over(&id) => return false,
            None if self.0.circuits.count_at(&router.id) >= MAX_AT_ROUTER => {
                tracing::warn!(circuit = %id, router = %router.id, "circuit not taken up: there are too many over its router");
                return true;
            }
            None => {}
        }
        let Some(pieces) = self.0.pieces.add(&router.id, route) else {
            tracing::warn!(circuit = %id, "circuit not taken up: there are too many in pieces");
            return true;
        };
        let told = put_together(&pieces);
        if told.is_whole && !self.0.pieces.put_whole(&id, id.len() + told.bytes()) {
            tracing::warn!(circuit = %id, router = %router.id, "circuit not taken up: its router tells of too many");
            if self.0.circuits.get(&id).is_none() {
                self.0.pieces.over(&id);
            }
            return true;
        }
        self.keep(snapshot, &id, told);
        true
    }

    fn is_over(&self, id: &str) -> bool {
        self.is_of_this_run(id) || self.0.circuits.has_ended(id)
    }

    /// Puts a circuit in the table, or in the place of what was known of it.
    fn keep(&self, snapshot: &Snapshot, id: &str, told: Told) {
        let mut told = told;
        // Whoever sees the circuit sees on whose word it is there.
        let by: Vec<&str> = told.path.nodes.iter().map(Id::as_str).collect();
        told.tags.insert(REPORTED_TAG.to_owned(), by.join(","));
        let target = told.tags.get(SERVICE_TAG).map(String::as_str).unwrap_or_default();
        let (instance, service) = target.split_once('@').unwrap_or(("", target));
        let service = Id::new(service);
        let terminator = told.dialed.as_ref();
        let terminator = terminator
            .and_then(|(router, egress)| find_terminator(snapshot, &service, router, egress));
        let circuit = Arc::new(Circuit {
            id: id.to_owned(),
            // The identity: which session it was is not told.
            client: told.tags.get(CLIENT_TAG).cloned().unwrap_or_default(),
            is_of_session: false,
            instance: instance.to_owned(),
            service,
            terminator: terminator.unwrap_or_default(),
            path: told.path,
            ingress: told.ingress,
            egress: told.egress,
            addresses: EndAddresses::default(),
            created_at: self.0.controller.now(),
            routed_at: Instant::now(),
            tags: told.tags,
            is_whole: told.is_whole,
            moving: Arc::default(),
        });
        let before = self.0.circuits.get(id);
        let is_counted = before.as_ref().is_some_and(|before| !before.terminator.is_empty());
        let event = match circuit.is_whole {
            true => self.circuit_event(CircuitChange::Adopted, &circuit, Duration::ZERO),
            false => None,
        };
        let with = || {
            if !is_counted && !circuit.terminator.is_empty() {
                self.0.costs.created(&circuit.terminator);
            }
            self.tell_event(event);
        };
        let is_kept = match before {
            Some(_) => self.0.circuits.put_with(Arc::clone(&circuit), with),
            None => self.0.circuits.adopt(Arc::clone(&circuit), with),
        };
        if !is_kept {
            self.0.pieces.over(id);
        }
    }

    /// An idle circuit that nobody here knows is confirmed by a router that does not tell what it
    /// carries: it is kept in part, unless the router has confirmed too many. False if it is over.
    pub(super) fn adopt_confirmed(&self, router: &Arc<LiveRouter>, id: &str) -> bool {
        if !is_id(id) || self.is_over(id) || self.0.pieces.state.lock().told.contains(&router.id) {
            return false;
        }
        let _one_by_one = self.0.pieces.taking_up.lock();
        if self.0.circuits.is_known(id) || !self.0.pieces.begin(&router.id, id) {
            return true;
        }
        let path = Path::of_one(router.id.clone());
        let snapshot = self.0.controller.snapshot();
        self.keep(&snapshot, id, Told { path, ..Told::default() });
        true
    }

    /// A circuit that is kept in part goes over this router too. False if it cannot.
    pub(super) fn confirm_member(&self, router: &Arc<LiveRouter>, circuit: &Circuit) -> bool {
        if circuit.is_whole || circuit.path.nodes.len() >= MAX_NODES {
            return false;
        }
        let mut path = circuit.path.clone();
        path.nodes.push(router.id.clone());
        self.0.circuits.put(Arc::new(circuit.moved(path)))
    }

    /// Of how many circuits only a part is known.
    #[cfg(test)]
    pub(crate) fn in_part(&self) -> usize {
        let state = self.0.pieces.state.lock();
        state.first.len().max(state.circuits.len())
    }

    fn unroute_at(&self, router: &Id, circuit: &str) {
        use weft_wire::ProtoBody as _;
        let unroute = weft_wire::ctrl::Unroute { circuit_id: circuit.to_owned(), now: true };
        self.tell(router.as_str(), weft_channel::Lane::High, unroute.to_message());
    }
}

fn is_id(circuit: &str) -> bool {
    (1..=MAX_ID).contains(&circuit.len())
}

/// Whether a circuit went over a router before that was connected: later ones it need not know.
pub(super) fn is_of_before(circuit: &Circuit, router: &LiveRouter) -> bool {
    circuit.path.nodes.contains(&router.id) && circuit.routed_at < router.since
}

/// The terminator that an end was dialed for, if it still exists.
fn find_terminator(snapshot: &Snapshot, service: &Id, router: &Id, egress: &Egress) -> Option<Id> {
    let mut found = snapshot.referring::<Terminator>(Terminator::SERVICE, service);
    let same = |one: &&Arc<Terminator>| {
        one.router_id == *router
            && *one.binding == *egress.binding
            && *one.address == *egress.destination
    };
    found.find(same).map(|terminator| terminator.base.id.clone())
}

/// Walks from the initiating end along the links.
fn put_together(pieces: &BTreeMap<Id, Route>) -> Told {
    let mut told = Told { tags: tags(pieces), ..Told::default() };
    let nodes = pieces.keys().cloned().collect();
    let in_part = Path { nodes, links: Vec::new(), cost: 0 };
    let dialed = pieces.iter().find_map(|(id, route)| Some((id.clone(), route.egress.clone()?)));
    told.dialed = dialed;
    let starts = pieces.iter().find_map(|(router, route)| {
        let start = route.forwards.iter().find(|it| it.dst_type() == DestType::Start)?;
        Some((router, start.dst_address.clone()))
    });
    let Some((mut router, ingress)) = starts else { return Told { path: in_part, ..told } };
    told.ingress.clone_from(&ingress);
    let mut from = ingress;
    let mut path = Path::default();
    loop {
        path.nodes.push(router.clone());
        let forwards = pieces.get(router).into_iter().flat_map(|route| &route.forwards);
        let next = forwards.into_iter().find(|forward| forward.src_address == from);
        let Some(next) = next else { return Told { path: in_part, ..told } };
        match next.dst_type() {
            DestType::End => {
                told.egress.clone_from(&next.dst_address);
                return Told { path, is_whole: true, ..told };
            }
            DestType::Start => return Told { path: in_part, ..told },
            DestType::Link => from.clone_from(&next.dst_address),
        }
        path.links.push(from.clone());
        let over_link = pieces.iter().find(|(id, route)| {
            !path.nodes.contains(id) && route.forwards.iter().any(|it| it.src_address == from)
        });
        match over_link {
            Some((id, _)) => router = id,
            None => return Told { path: in_part, ..told },
        }
    }
}

fn tags(pieces: &BTreeMap<Id, Route>) -> StringMap {
    pieces
        .values()
        .find(|route| !route.tags.is_empty())
        .map(|route| route.tags.iter().filter(|(name, _)| KNOWN_TAGS.contains(&name.as_str())))
        .map(|known| known.map(|(name, value)| (name.clone(), value.clone())).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
