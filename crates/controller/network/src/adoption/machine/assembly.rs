//! Circuits put together from the routes that their routers report. Pure.

use std::collections::BTreeMap;

use weft_model::Id;
use weft_paths::path::Path;
use weft_wire::ctrl::route::{Egress, Forward};
use weft_wire::ctrl::{DestType, Route};

use crate::tags::CircuitTags;

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
    /// Whether both ends are known.
    pub(super) fn has_ends(&self) -> bool {
        !(self.ingress.is_empty() || self.egress.is_empty())
    }

    /// The size of the circuit, in bytes.
    pub(super) fn bytes(&self) -> usize {
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
pub(super) fn is_end(route: &Route) -> bool {
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

/// Puts pieces together.
pub(super) fn put_together(pieces: &BTreeMap<Id, Route>) -> AssembledCircuit {
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
