//! The pieces of circuits of an earlier run of this controller, from which circuits are adopted so
//! that a restart breaks none.
//!
//! A router of weft that connects reports the routes that it carries
//! ([`CarriedCircuits`](weft_wire::ctrl::CarriedCircuits)). When all routers of a circuit have done so,
//! the circuit is whole and works like any other. Until then the circuit is *known in part*: a router
//! that asks whether the circuit is still wanted is told that it is, and the circuit can be ended. The
//! circuit can be moved to another path once both of its ends are known (`network::closing`). A circuit
//! over a router that reports no routes, and only asks about idle circuits, stays known in part.
//!
//! Circuits of this run are never adopted: their ids begin with the tag of the run. Ended circuits
//! are remembered and not adopted either.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use parking_lot::Mutex;
use prost::Message as _;
use weft_model::Id;
use weft_paths::path::Path;
use weft_wire::ctrl::route::{Egress, Forward};
use weft_wire::ctrl::{DestType, Route};

use crate::tags::CircuitTags;

/// Most circuits of which pieces are kept.
const MAX_CIRCUITS: usize = 200_000;
/// Most circuits known in part for which one router was the first reporter.
const MAX_BEGUN: usize = 100_000;

/// Most bytes for the pieces of one router and the whole circuits that it reported first. A real
/// circuit takes some 300 bytes, so this is enough for all circuits over a router.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Longest route that is adopted, in bytes; real ones have some hundred bytes.
const MAX_ROUTE: usize = 2 * 1024;
/// Longest id of a circuit, in bytes; real ones have 22.
const MAX_ID: usize = 128;
/// Most routers one circuit goes over.
pub(crate) const MAX_NODES: usize = 64;

/// The pieces of circuits that are not whole.
#[derive(Debug, Default)]
pub struct Pieces {
    pub(crate) state: Mutex<State>,
    /// Held while a circuit is adopted, so that pieces from two routers at the same time add up.
    pub(crate) taking_up: Mutex<()>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) circuits: HashMap<String, BTreeMap<Id, Route>>,
    /// For each circuit known in part, the router that reported it first.
    pub(crate) first: HashMap<String, Id>,
    /// For each router, the number of circuits in `first` that it reported first.
    pub(crate) begun: HashMap<Id, usize>,
    /// For each adopted circuit that is whole, the router that reported it first, and its size in
    /// bytes.
    pub(crate) whole: HashMap<String, (Id, usize)>,
    /// For each router, the bytes of its pieces and of the whole circuits that it reported first.
    pub(crate) bytes: HashMap<Id, usize>,
}

impl State {
    /// Notes that a router reports a circuit that is not whole; false if it has reported too many.
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

    /// Puts a router's piece in the place of its former one; false if the router's pieces are too
    /// large.
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

    /// Marks a circuit as whole: its pieces are dropped, and the bytes of the circuit are charged
    /// to its first reporter. False if that router has too many bytes.
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

    /// Removes a circuit that has ended.
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
    pub(crate) fn begin(&self, router: &Id, circuit: &str) -> bool {
        self.state.lock().begin(router, circuit)
    }

    pub(crate) fn add(&self, router: &Id, route: Route) -> Option<BTreeMap<Id, Route>> {
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

    /// The circuits that are known in part.
    pub(super) fn in_part(&self) -> Vec<String> {
        self.state.lock().first.keys().cloned().collect()
    }

    /// The pieces of a circuit known in part, by router.
    pub(crate) fn of(&self, circuit: &str) -> Option<BTreeMap<Id, Route>> {
        self.state.lock().circuits.get(circuit).cloned()
    }

    /// Takes away the piece of a router between the ends, and returns the other pieces. None if the
    /// router has an end of the circuit, or there are no other pieces.
    pub(crate) fn without(&self, circuit: &str, router: &Id) -> Option<BTreeMap<Id, Route>> {
        let mut state = self.state.lock();
        let pieces = state.circuits.get_mut(circuit)?;
        if pieces.len() < 2 || is_end(pieces.get(router)?) {
            return None;
        }
        let taken = pieces.remove(router)?;
        let others = pieces.clone();
        state.give_back(router, taken.encoded_len());
        Some(others)
    }

    /// Marks a circuit as whole: no more pieces are added. False if there is no room for it.
    pub(crate) fn put_whole(&self, circuit: &str, bytes: usize) -> bool {
        self.state.lock().put_whole(circuit, bytes)
    }

    /// Removes an adopted circuit, whole or in part, that has ended.
    pub fn over(&self, circuit: &str) {
        self.state.lock().over(circuit);
    }
}

/// A circuit put together from its pieces.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct AssembledCircuit {
    pub(crate) path: Path,
    pub(crate) ingress: String,
    pub(crate) egress: String,
    pub(crate) is_whole: bool,
    pub(crate) dialed: Option<(Id, Egress)>,
    pub(crate) tags: CircuitTags,
    /// The highest term that a router reported.
    pub(crate) term: u64,
}

impl AssembledCircuit {
    /// The size of the circuit, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size(&self.path, [&self.ingress, &self.egress], &self.tags)
    }
}

/// The size of a circuit, in bytes.
pub(crate) fn size(path: &Path, ends: [&str; 2], tags: &CircuitTags) -> usize {
    let nodes = path.nodes.iter().map(|id| id.as_str().len());
    let links = path.links.iter().map(String::len);
    let tags = tags.iter().map(|(name, value)| name.len() + value.len());
    nodes.chain(links).chain(tags).chain(ends.map(str::len)).sum()
}

/// Whether a route leads to an end of its circuit.
fn is_end(route: &Route) -> bool {
    route.forwards.iter().any(|forward| forward.dst_type() != DestType::Link)
}

/// The only router that reports this end of a circuit, and the address of the end.
fn only_end(pieces: &BTreeMap<Id, Route>, kind: DestType) -> Option<(&Id, &str)> {
    let mut ends = pieces.iter().filter_map(|(router, route)| {
        let end = route.forwards.iter().find(|forward| forward.dst_type() == kind)?;
        Some((router, end.dst_address.as_str()))
    });
    let only = ends.next()?;
    ends.next().is_none().then_some(only)
}

/// Gives a circuit with a gap between its ends the addresses of these ends; its path begins and
/// ends with their routers, without links. A circuit of which an end is not known stays as it is.
fn with_ends(assembled: AssembledCircuit, pieces: &BTreeMap<Id, Route>) -> AssembledCircuit {
    let (start, end) = (only_end(pieces, DestType::Start), only_end(pieces, DestType::End));
    let Some(((first, ingress), (last, egress))) = start.zip(end) else { return assembled };
    if first == last {
        return assembled;
    }
    let between = pieces.keys().filter(|router| ![first, last].contains(router));
    let nodes = std::iter::once(first).chain(between).chain([last]).cloned().collect();
    let path = Path { nodes, links: Vec::new(), cost: 0 };
    AssembledCircuit { path, ingress: ingress.to_owned(), egress: egress.to_owned(), ..assembled }
}

pub(crate) fn is_id(circuit: &str) -> bool {
    (1..=MAX_ID).contains(&circuit.len())
}

/// Puts pieces together.
pub(crate) fn put_together(pieces: &BTreeMap<Id, Route>) -> AssembledCircuit {
    let assembled = walk(pieces);
    if assembled.is_whole { assembled } else { with_ends(assembled, pieces) }
}

/// Walks along the links from the initiating end. The way back has to be the same: while a circuit moves, its ends may
/// send over different paths, and no router of either may be taken for one beside the path.
fn walk(pieces: &BTreeMap<Id, Route>) -> AssembledCircuit {
    let term = pieces.values().map(|route| route.term).max().unwrap_or_default();
    let mut assembled =
        AssembledCircuit { tags: tags(pieces), term, ..AssembledCircuit::default() };
    let nodes = pieces.keys().cloned().collect();
    let in_part = Path { nodes, links: Vec::new(), cost: 0 };
    let dialed = pieces.iter().find_map(|(id, route)| Some((id.clone(), route.egress.clone()?)));
    assembled.dialed = dialed;
    let starts = pieces.iter().find_map(|(router, route)| {
        let start = route.forwards.iter().find(|it| it.dst_type() == DestType::Start)?;
        Some((router, start.dst_address.clone()))
    });
    let Some((mut router, ingress)) = starts else {
        return AssembledCircuit { path: in_part, ..assembled };
    };
    assembled.ingress.clone_from(&ingress);
    let mut from = ingress;
    let mut path = Path::default();
    loop {
        path.nodes.push(router.clone());
        let forwards = pieces.get(router).into_iter().flat_map(|route| &route.forwards);
        let next = forwards.clone().find(|forward| forward.src_address == from);
        let Some(next) = next else { return AssembledCircuit { path: in_part, ..assembled } };
        let is_back = |it: &Forward| it.src_address == next.dst_address && it.dst_address == from;
        if !forwards.clone().any(is_back) {
            return AssembledCircuit { path: in_part, ..assembled };
        }
        match next.dst_type() {
            DestType::End => {
                assembled.egress.clone_from(&next.dst_address);
                return AssembledCircuit { path, is_whole: true, ..assembled };
            }
            DestType::Start => return AssembledCircuit { path: in_part, ..assembled },
            DestType::Link => from.clone_from(&next.dst_address),
        }
        path.links.push(from.clone());
        let over_link = pieces.iter().find(|(id, route)| {
            !path.nodes.contains(id) && route.forwards.iter().any(|it| it.src_address == from)
        });
        match over_link {
            Some((id, _)) => router = id,
            None => return AssembledCircuit { path: in_part, ..assembled },
        }
    }
}

fn tags(pieces: &BTreeMap<Id, Route>) -> CircuitTags {
    let told = pieces.values().find(|route| !route.tags.is_empty());
    told.map(|route| CircuitTags::reported(&route.tags)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
