//! The links between routers, as their dialers report them (docs/protocol/control-plane.md 9, 10).
//!
//! Routers make and close links; the controller only keeps the reports, to find paths over them. A
//! report counts only from the router that dialed the link, a fault only from one of its ends.
//! Links are indexed by id and by both routers, so that a change of one router takes time in
//! proportion to its links.

mod overrides;

use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use overrides::Overrides;
use parking_lot::RwLock;
use weft_model::{Id, Timestamp};
use weft_wire::ctrl::{LinkConn, LinkConnState, RouterLink};

use super::path::Path;
use super::pending::Pending;

/// Most links that one router may report, and most between the same two routers.
const MAX_PER_ROUTER: usize = 10_000;
const MAX_PARALLEL: usize = 16;
/// Longest texts of a report, in bytes; real ids have 22 bytes, and addresses are host and port.
const MAX_ID: usize = 128;
const MAX_TEXT: usize = 300;
/// Most connections of one link.
const MAX_CONNECTIONS: usize = 64;
/// Most bytes for the connections of one link, and of all links that a router dialed. A real link
/// needs some 600 bytes.
const MAX_CONNECTION_BYTES: usize = 8 * 1024;
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a connection beside its texts.
const CONNECTION: usize = 96;
/// The static cost of a link, unless an operator changes it.
const STATIC_COST: i32 = 1;
/// A change of a link's cost up to this, in milliseconds, never counts for paths: both ends cut
/// their latency to whole milliseconds, so that it may be rounding.
const ROUNDING: u64 = 2;
/// A change of a link's cost below one part in this many does not count for paths: the mean latency
/// of a busy link varies by some percent from one report to the next.
const NOISE: u64 = 16;

/// A link.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Its id, chosen by the router that dials it.
    pub id: String,
    /// The router that dialed it.
    pub source: Id,
    /// The router at the other end.
    pub destination: Id,
    /// The protocol, for example `tls`.
    pub protocol: String,
    /// The address that was dialed.
    pub address: String,
    /// Number of the dial, which tells this link from earlier ones with its id.
    pub iteration: u32,
    /// The part of its cost that does not depend on latency.
    pub static_cost: i32,
    /// The latency measured by the dialing side, in nanoseconds.
    pub source_latency: u64,
    /// The latency measured by the other side, in nanoseconds.
    pub destination_latency: u64,
    /// The cost that paths use, without changes that are too small to count.
    pub counted: u64,
    /// Whether an operator has taken it out of use.
    pub down: bool,
    /// Its connections.
    pub connections: LinkConnState,
    /// The time of its first report.
    pub since: Timestamp,
}

impl Link {
    /// The cost of the link; never negative.
    pub fn cost(&self) -> u64 {
        let millis = (self.source_latency / 1_000_000) + (self.destination_latency / 1_000_000);
        millis.saturating_add_signed(i64::from(self.static_cost))
    }

    /// Whether a router is one of its ends.
    pub fn has_end(&self, router: &str) -> bool {
        self.source.as_str() == router || self.destination.as_str() == router
    }

    /// The end other than `router`.
    pub fn other_end(&self, router: &str) -> &Id {
        if self.source.as_str() == router { &self.destination } else { &self.source }
    }

    /// Makes paths use the present cost if it differs enough from the one that they use. True if they do.
    fn recount(&mut self) -> bool {
        let cost = self.cost();
        let counts = cost.abs_diff(self.counted) > ROUNDING.max(self.counted / NOISE);
        if counts {
            self.counted = cost;
        }
        counts
    }
}

/// The result of a reported link.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportedLinkOutcome {
    /// The link is new, or has a new iteration.
    New(Arc<Link>),
    /// The link was known.
    Known(Arc<Link>),
    /// The link belongs to another router.
    Foreign,
    /// The router has the most links already.
    TooMany,
    /// The two routers have the most links between them already.
    TooManyParallel,
    /// The report is invalid: an end is missing, or a text is too long.
    Malformed,
}

/// The result of a report of latencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AppliedLatencies {
    /// Number of applied latencies.
    pub taken: usize,
    /// Latencies of links that do not end at the router.
    pub foreign: usize,
}

#[derive(Debug)]
struct ReportedLink {
    link: Arc<Link>,
    /// The order of reports: later ones have a higher number.
    number: u64,
}

/// The links that end at a router.
#[derive(Debug, Default)]
struct Ends {
    /// The number of links among them that it dialed.
    dialed: usize,
    /// Bytes of the connections of those links.
    bytes: usize,
    /// The router at the other end and the link, sorted.
    links: Vec<(Id, Arc<str>)>,
}

#[derive(Debug, Default)]
struct Table {
    links: HashMap<Arc<str>, ReportedLink>,
    by_router: HashMap<Id, Ends>,
    overrides: Overrides,
    last_number: u64,
}

/// All links.
#[derive(Debug, Default)]
pub struct Links {
    table: RwLock<Table>,
    pending: Arc<Pending>,
}

impl Table {
    fn insert(&mut self, link: Link) -> Arc<Link> {
        self.remove(&link.id);
        self.last_number += 1;
        let (id, link): (Arc<str>, _) = (link.id.as_str().into(), Arc::new(link));
        for (at, other) in [(&link.source, &link.destination), (&link.destination, &link.source)] {
            let ends = self.by_router.entry(at.clone()).or_default();
            let place = ends.links.partition_point(|(peer, known)| (peer, known) < (other, &id));
            ends.links.insert(place, (other.clone(), Arc::clone(&id)));
            ends.dialed += usize::from(*at == link.source);
        }
        self.count_bytes(&link.source, 0, bytes_of(&link.connections));
        let entry = ReportedLink { link: Arc::clone(&link), number: self.last_number };
        self.links.insert(id, entry);
        link
    }

    fn remove(&mut self, id: &str) -> Option<Arc<Link>> {
        let (id, ReportedLink { link, .. }) = self.links.remove_entry(id)?;
        self.count_bytes(&link.source, bytes_of(&link.connections), 0);
        for (at, other) in [(&link.source, &link.destination), (&link.destination, &link.source)] {
            let Some(ends) = self.by_router.get_mut(at) else { continue };
            let place =
                ends.links.binary_search_by(|(peer, known)| (peer, known).cmp(&(other, &id)));
            if let Ok(place) = place {
                ends.links.remove(place);
                ends.dialed -= usize::from(*at == link.source);
            }
            if ends.links.is_empty() {
                self.by_router.remove(at);
            }
        }
        Some(link)
    }

    fn count_bytes(&mut self, source: &Id, before: usize, now: usize) {
        if let Some(ends) = self.by_router.get_mut(source) {
            ends.bytes = (ends.bytes + now).saturating_sub(before);
        }
    }

    /// Whether there is room for these connections of a link.
    fn has_room(&self, source: &Id, known: Option<&Link>, state: &LinkConnState) -> bool {
        let used = self.by_router.get(source).map_or(0, |ends| ends.bytes);
        let before = known.map_or(0, |link| bytes_of(&link.connections));
        (used + bytes_of(state)).saturating_sub(before) <= MAX_BYTES
    }

    /// The links between two routers.
    fn between(&self, one: &Id, other: &Id) -> &[(Id, Arc<str>)] {
        let links = self.at(one);
        let first = links.partition_point(|(peer, _)| peer < other);
        let links = &links[first..];
        &links[..links.partition_point(|(peer, _)| peer == other)]
    }

    fn at(&self, router: &Id) -> &[(Id, Arc<str>)] {
        self.by_router.get(router).map_or(&[], |ends| &ends.links)
    }

    /// The links that a router dialed.
    fn dialed_by<'a>(&'a self, router: &'a Id) -> impl Iterator<Item = &'a Arc<Link>> + use<'a> {
        let links = self.at(router).iter().filter_map(|(_, id)| Some(&self.links.get(id)?.link));
        links.filter(move |link| link.source == *router)
    }
}

impl Links {
    /// An empty table that notes changes for paths in `pending`.
    pub fn telling(pending: Arc<Pending>) -> Self {
        Self { table: RwLock::default(), pending }
    }

    /// Every link.
    pub fn all(&self) -> Vec<Arc<Link>> {
        self.table.read().links.values().map(|entry| Arc::clone(&entry.link)).collect()
    }

    /// All links in the order of their reports: of equal ones the last one counts.
    pub fn in_order(&self) -> Vec<Arc<Link>> {
        let mut links: Vec<(u64, Arc<Link>)> = {
            let table = self.table.read();
            table.links.values().map(|entry| (entry.number, Arc::clone(&entry.link))).collect()
        };
        links.sort_unstable_by_key(|(number, _)| *number);
        links.into_iter().map(|(_, link)| link).collect()
    }

    /// A link by id.
    pub fn get(&self, id: &str) -> Option<Arc<Link>> {
        Some(Arc::clone(&self.table.read().links.get(id)?.link))
    }

    /// The links that end at a router.
    pub fn at(&self, router: &Id) -> Vec<Arc<Link>> {
        let table = self.table.read();
        let links = table.at(router).iter().filter_map(|(_, id)| Some(&table.links.get(id)?.link));
        links.cloned().collect()
    }

    /// The number of links.
    pub fn len(&self) -> usize {
        self.table.read().links.len()
    }

    /// Whether there are no links.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a router has links.
    pub fn has_any(&self, router: &Id) -> bool {
        !self.table.read().at(router).is_empty()
    }

    /// The routers to which a router has links.
    pub fn neighbours(&self, router: &Id) -> Vec<Id> {
        let table = self.table.read();
        let mut peers: Vec<Id> = table.at(router).iter().map(|(peer, _)| peer.clone()).collect();
        peers.dedup();
        peers
    }

    /// The link that paths use between two routers, with its cost: the cheapest usable one; of
    /// equal ones, the last one reported.
    pub fn best(&self, one: &Id, other: &Id) -> Option<(u64, Arc<str>)> {
        let table = self.table.read();
        let between = table.between(one, other).iter();
        let usable = between.filter_map(|(_, id)| Some((id, table.links.get(id)?)));
        let usable = usable.filter(|(_, entry)| !entry.link.down);
        let best = usable.min_by_key(|(_, it)| (it.link.counted, std::cmp::Reverse(it.number)))?;
        Some((best.1.link.counted, Arc::clone(best.0)))
    }

    /// The cost of the links of a path; none if one of them is missing, unusable, or between other
    /// routers.
    pub fn cost_of(&self, path: &Path) -> Option<u64> {
        let table = self.table.read();
        let mut cost = 0;
        for (id, ends) in path.links.iter().zip(path.nodes.windows(2)) {
            let link = &table.links.get(id.as_str())?.link;
            let leads_there =
                link.has_end(ends[0].as_str()) && link.other_end(ends[0].as_str()) == &ends[1];
            if link.down || !leads_there {
                return None;
            }
            cost += link.counted;
        }
        Some(cost)
    }

    /// Enters a link that a router reports.
    pub fn report(
        &self,
        source: &Id,
        reported: &RouterLink,
        initial_latency: Duration,
        now: Timestamp,
    ) -> ReportedLinkOutcome {
        let mut connections = reported.conn_state.clone().unwrap_or_default();
        let is_sound = !reported.id.is_empty()
            && reported.id.len() <= MAX_ID
            && reported.link_protocol.len() <= MAX_TEXT
            && reported.dial_address.len() <= MAX_TEXT
            && is_bounded(&connections);
        let Ok(destination) = Id::parse(&reported.dest_router_id) else {
            return ReportedLinkOutcome::Malformed;
        };
        if !is_sound || destination == *source {
            return ReportedLinkOutcome::Malformed;
        }
        let mut table = self.table.write();
        match table.links.get(reported.id.as_str()).map(|entry| &entry.link) {
            Some(known) if known.source != *source => return ReportedLinkOutcome::Foreign,
            Some(known) if known.iteration >= reported.iteration => {
                return ReportedLinkOutcome::Known(Arc::clone(known));
            }
            // A link leads to one router for as long as it is known: the limits below hold for that.
            Some(known) if known.destination != destination => {
                return ReportedLinkOutcome::Malformed;
            }
            Some(former) => self.pending.link(&former.source, &former.destination),
            None => {
                let own = table.by_router.get(source).map_or(0, |ends| ends.dialed);
                if own >= MAX_PER_ROUTER {
                    return ReportedLinkOutcome::TooMany;
                }
                if table.between(source, &destination).len() >= MAX_PARALLEL {
                    return ReportedLinkOutcome::TooManyParallel;
                }
            }
        }
        let known = table.links.get(reported.id.as_str()).map(|entry| &*entry.link);
        if !table.has_room(source, known, &connections) {
            connections.conns = Vec::new();
        }
        let latency = u64::try_from(initial_latency.as_nanos()).unwrap_or(u64::MAX);
        let mut link = Link {
            id: reported.id.clone(),
            source: source.clone(),
            destination,
            protocol: reported.link_protocol.clone(),
            address: reported.dial_address.clone(),
            iteration: reported.iteration,
            static_cost: STATIC_COST,
            source_latency: latency,
            destination_latency: latency,
            counted: 0,
            down: false,
            connections,
            since: now,
        };
        table.overrides.apply(&mut link);
        link.counted = link.cost();
        let link = table.insert(link);
        self.pending.link(&link.source, &link.destination);
        ReportedLinkOutcome::New(link)
    }

    /// Ids of the links that a router dialed and that are not among `named`.
    pub fn missing(&self, source: &Id, named: &[RouterLink]) -> Vec<String> {
        let named: HashSet<&str> = named.iter().map(|link| link.id.as_str()).collect();
        let table = self.table.read();
        let gone = table.dialed_by(source).filter(|link| !named.contains(link.id.as_str()));
        gone.map(|link| link.id.clone()).collect()
    }

    /// Removes a link that broke. A fault with an older iteration is ignored; 0 means any.
    pub fn fault(&self, id: &str, iteration: u32) -> Option<Arc<Link>> {
        let mut table = self.table.write();
        let link = &table.links.get(id)?.link;
        if iteration != 0 && link.iteration != 0 && iteration < link.iteration {
            return None;
        }
        let link = table.remove(id)?;
        self.pending.link(&link.source, &link.destination);
        Some(link)
    }

    /// Sets the connections of a link; false if the state is older than the known one.
    pub fn connections_changed(&self, id: &str, iteration: u32, state: LinkConnState) -> bool {
        let mut table = self.table.write();
        let Some(ReportedLink { link, .. }) = table.links.get(id) else { return false };
        let newer = state.state_iteration > link.connections.state_iteration;
        if link.iteration != iteration || !newer || !is_bounded(&state) {
            return false;
        }
        let source = link.source.clone();
        if !table.has_room(&source, Some(link), &state) {
            return false;
        }
        let (before, now) = (bytes_of(&link.connections), bytes_of(&state));
        table.count_bytes(&source, before, now);
        if let Some(ReportedLink { link, .. }) = table.links.get_mut(id) {
            Arc::make_mut(link).connections = state;
        }
        true
    }

    /// Removes the links that a router dialed.
    pub fn take_of(&self, source: &Id) -> Vec<Arc<Link>> {
        let mut table = self.table.write();
        let ids: Vec<String> = table.dialed_by(source).map(|link| link.id.clone()).collect();
        let taken: Vec<_> = ids.iter().filter_map(|id| table.remove(id)).collect();
        taken.iter().for_each(|link| self.pending.link(&link.source, &link.destination));
        taken
    }

    /// Applies latencies that a router measured: ids of links, and nanoseconds.
    pub fn measured<'a>(
        &self,
        router: &Id,
        latencies: impl Iterator<Item = (&'a str, u64)>,
    ) -> AppliedLatencies {
        let mut table = self.table.write();
        let mut measured = AppliedLatencies::default();
        for (id, latency) in latencies {
            // A link that broke a moment ago is unknown: its latency is no misreport.
            let Some(ReportedLink { link, .. }) = table.links.get_mut(id) else { continue };
            if !link.has_end(router.as_str()) {
                measured.foreign += 1;
                continue;
            }
            measured.taken += 1;
            let link = Arc::make_mut(link);
            match link.source == *router {
                true => link.source_latency = latency,
                false => link.destination_latency = latency,
            }
            if link.recount() {
                self.pending.latency(&link.source, &link.destination);
            }
        }
        measured
    }

    /// Applies a change by an operator.
    pub fn change(
        &self,
        id: &str,
        static_cost: Option<i32>,
        down: Option<bool>,
    ) -> Option<Arc<Link>> {
        let mut table = self.table.write();
        let ReportedLink { link, .. } = table.links.get_mut(id)?;
        let changed = Arc::make_mut(link);
        changed.static_cost = static_cost.unwrap_or(changed.static_cost);
        changed.down = down.unwrap_or(changed.down);
        changed.counted = changed.cost();
        let link = Arc::clone(link);
        table.overrides.note(&link);
        self.pending.link(&link.source, &link.destination);
        Some(link)
    }

    /// Forgets a deleted router.
    pub fn forget(&self, router: &Id) {
        self.table.write().overrides.forget(router);
    }
}

/// Whether a report of connections is within its limits.
fn is_bounded(state: &LinkConnState) -> bool {
    state.conns.len() <= MAX_CONNECTIONS && bytes_of(state) <= MAX_CONNECTION_BYTES
}

/// Bytes of the connections of a link.
fn bytes_of(state: &LinkConnState) -> usize {
    let texts = |it: &LinkConn| it.r#type.len() + it.local_addr.len() + it.remote_addr.len();
    state.conns.iter().map(|it| CONNECTION + texts(it)).sum()
}

#[cfg(test)]
const INITIAL: Duration = Duration::from_secs(65);

#[cfg(test)]
mod tests;
