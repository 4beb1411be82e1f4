//! The links between routers, as their dialers report them (protocol: control-plane 9, 10).
//!
//! Routers decide about links; the controller only keeps what it is told, to find paths over them.
//! A report counts only from the router that dials the link, a fault only from one of its ends.
//! Every link is found by its id and by both of its routers, so that what concerns one router costs
//! as much as that router has links.

mod overrides;

use std::sync::Arc;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use parking_lot::RwLock;
use weft_model::{Id, Timestamp};
use weft_wire::ctrl::{LinkConn, LinkConnState, RouterLink};

use super::path::Path;
use super::topology::Pending;
use overrides::Overrides;

/// Most links one router may report, and most between the same two routers.
const MAX_PER_ROUTER: usize = 10_000;
const MAX_PARALLEL: usize = 16;
/// Longest texts of a report, in bytes: real ids have 22, addresses are host and port.
const MAX_ID: usize = 128;
const MAX_TEXT: usize = 300;
/// Most connections of one link.
const MAX_CONNECTIONS: usize = 64;
/// What the connections of one link, and of all that a router dialed, may take, in bytes. Those of
/// a real link take some 600.
const MAX_CONNECTION_BYTES: usize = 8 * 1024;
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// What a connection takes beside its texts.
const CONNECTION: usize = 96;
/// The part of a link's cost that does not depend on measurements, unless an operator changes it.
const STATIC_COST: i32 = 1;
/// A change of a link's cost that never counts for paths, in milliseconds: both ends cut what they
/// measured to whole milliseconds, so that as much can be nothing but rounding.
const ROUNDING: u64 = 2;
/// The share of a link's cost below which a change does not count for paths, as a divisor: the mean
/// latency of a busy link moves by some percent from one report to the next.
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
    /// For example `tls`.
    pub protocol: String,
    /// The address that was dialed.
    pub address: String,
    /// Number of the dial; identifies this incarnation.
    pub iteration: u32,
    /// Part of its cost that does not depend on measurements.
    pub static_cost: i32,
    /// What the dialing side measured, in nanoseconds.
    pub source_latency: u64,
    /// What the other side measured, in nanoseconds.
    pub destination_latency: u64,
    /// What paths count it with: its cost, without changes that are too small to matter.
    pub counted: u64,
    /// Taken out of use by an operator.
    pub down: bool,
    /// Its connections.
    pub connections: LinkConnState,
    /// When it was reported first.
    pub since: Timestamp,
}

impl Link {
    /// What it costs to go over it: never negative.
    pub fn cost(&self) -> u64 {
        let millis = (self.source_latency / 1_000_000) + (self.destination_latency / 1_000_000);
        millis.saturating_add_signed(i64::from(self.static_cost))
    }

    /// Whether a router is one of its ends.
    pub fn has_end(&self, router: &str) -> bool {
        self.source.as_str() == router || self.destination.as_str() == router
    }

    /// The end that `router` is not.
    pub fn other_end(&self, router: &str) -> &Id {
        if self.source.as_str() == router { &self.destination } else { &self.source }
    }

    /// Takes a measured cost over if it differs enough from what paths count; true if so.
    fn recount(&mut self) -> bool {
        let cost = self.cost();
        let counts = cost.abs_diff(self.counted) > ROUNDING.max(self.counted / NOISE);
        if counts {
            self.counted = cost;
        }
        counts
    }
}

/// What became of one reported link.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// It is new, or a new incarnation.
    New(Arc<Link>),
    /// It was known.
    Known(Arc<Link>),
    /// It belongs to another router.
    Foreign,
    /// The router has as many as it may.
    TooMany,
    /// There are as many between these two routers as there may be.
    TooManyParallel,
    /// It is no link: an end leads nowhere, or a text is too long.
    Malformed,
}

/// What became of a report of latencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Measured {
    /// Latencies that were taken.
    pub taken: usize,
    /// Latencies of links that do not end at the router.
    pub foreign: usize,
}

#[derive(Debug)]
struct Entry {
    link: Arc<Link>,
    /// Later ones have a higher number.
    number: u64,
}

/// The links that end at a router.
#[derive(Debug, Default)]
struct Ends {
    /// How many of them it dialed.
    dialed: usize,
    /// What the connections of these take, in bytes.
    bytes: usize,
    /// The router at the other end, and the link: in this order.
    links: Vec<(Id, Arc<str>)>,
}

#[derive(Debug, Default)]
struct Table {
    links: HashMap<Arc<str>, Entry>,
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
        let entry = Entry { link: Arc::clone(&link), number: self.last_number };
        self.links.insert(id, entry);
        link
    }

    fn remove(&mut self, id: &str) -> Option<Arc<Link>> {
        let (id, Entry { link, .. }) = self.links.remove_entry(id)?;
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

    /// Whether the connections of a link may be these.
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
    /// An empty table that tells of changes which matter to paths.
    pub(super) fn telling(pending: Arc<Pending>) -> Self {
        Self { table: RwLock::default(), pending }
    }

    /// Every link.
    pub fn all(&self) -> Vec<Arc<Link>> {
        self.table.read().links.values().map(|entry| Arc::clone(&entry.link)).collect()
    }

    /// Every link, the last reported last: of equal ones it is the one that counts.
    pub(super) fn in_order(&self) -> Vec<Arc<Link>> {
        let links: Vec<(u64, Arc<Link>)> = {
            let table = self.table.read();
            table.links.values().map(|entry| (entry.number, Arc::clone(&entry.link))).collect()
        };
        let mut links = links;
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

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.read().links.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The routers that a router has links with.
    pub(super) fn neighbours(&self, router: &Id) -> Vec<Id> {
        let table = self.table.read();
        let mut peers: Vec<Id> = table.at(router).iter().map(|(peer, _)| peer.clone()).collect();
        peers.dedup();
        peers
    }

    /// The link that paths take between two routers, with its cost: the cheapest usable one, of
    /// equal ones that which was reported last.
    pub(super) fn best(&self, one: &Id, other: &Id) -> Option<(u64, Arc<str>)> {
        let table = self.table.read();
        let between = table.between(one, other).iter();
        let usable = between.filter_map(|(_, id)| Some((id, table.links.get(id)?)));
        let usable = usable.filter(|(_, entry)| !entry.link.down);
        let best = usable.min_by_key(|(_, it)| (it.link.counted, std::cmp::Reverse(it.number)))?;
        Some((best.1.link.counted, Arc::clone(best.0)))
    }

    /// What the links of a path cost now; none if one of them is gone, not to be used, or leads
    /// elsewhere.
    pub(super) fn cost_of(&self, path: &Path) -> Option<u64> {
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

    /// A router reports a link that it dialed.
    pub fn report(
        &self,
        source: &Id,
        reported: &RouterLink,
        initial_latency: Duration,
        now: Timestamp,
    ) -> Report {
        let mut connections = reported.conn_state.clone().unwrap_or_default();
        let is_sound = !reported.id.is_empty()
            && reported.id.len() <= MAX_ID
            && reported.link_protocol.len() <= MAX_TEXT
            && reported.dial_address.len() <= MAX_TEXT
            && is_bounded(&connections);
        let Ok(destination) = Id::parse(&reported.dest_router_id) else { return Report::Malformed };
        if !is_sound || destination == *source {
            return Report::Malformed;
        }
        let mut table = self.table.write();
        match table.links.get(reported.id.as_str()).map(|entry| &entry.link) {
            Some(known) if known.source != *source => return Report::Foreign,
            Some(known) if known.iteration >= reported.iteration => {
                return Report::Known(Arc::clone(known));
            }
            Some(former) => self.pending.link(&former.source, &former.destination),
            None => {
                let own = table.by_router.get(source).map_or(0, |ends| ends.dialed);
                if own >= MAX_PER_ROUTER {
                    return Report::TooMany;
                }
                if table.between(source, &destination).len() >= MAX_PARALLEL {
                    return Report::TooManyParallel;
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
        Report::New(link)
    }

    /// Ids of a router's own links that are not among `named`.
    pub fn missing(&self, source: &Id, named: &[RouterLink]) -> Vec<String> {
        let named: HashSet<&str> = named.iter().map(|link| link.id.as_str()).collect();
        let table = self.table.read();
        let gone = table.dialed_by(source).filter(|link| !named.contains(link.id.as_str()));
        gone.map(|link| link.id.clone()).collect()
    }

    /// A link broke. Taken out, unless the fault is about an earlier incarnation (0 is any).
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

    /// The connections of a link changed; false if that is old news.
    pub fn connections_changed(&self, id: &str, iteration: u32, state: LinkConnState) -> bool {
        let mut table = self.table.write();
        let Some(Entry { link, .. }) = table.links.get(id) else { return false };
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
        if let Some(Entry { link, .. }) = table.links.get_mut(id) {
            Arc::make_mut(link).connections = state;
        }
        true
    }

    /// Takes the links that a router dialed, when it has gone.
    pub fn take_of(&self, source: &Id) -> Vec<Arc<Link>> {
        let mut table = self.table.write();
        let ids: Vec<String> = table.dialed_by(source).map(|link| link.id.clone()).collect();
        let taken: Vec<_> = ids.iter().filter_map(|id| table.remove(id)).collect();
        taken.iter().for_each(|link| self.pending.link(&link.source, &link.destination));
        taken
    }

    /// A router measured links: their ids, with latencies in nanoseconds.
    pub fn measured<'a>(
        &self,
        router: &Id,
        latencies: impl Iterator<Item = (&'a str, u64)>,
    ) -> Measured {
        let mut table = self.table.write();
        let mut measured = Measured::default();
        for (id, latency) in latencies {
            // One that broke a moment ago is no link of anybody.
            let Some(Entry { link, .. }) = table.links.get_mut(id) else { continue };
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

    /// An operator changes a link.
    pub fn change(
        &self,
        id: &str,
        static_cost: Option<i32>,
        down: Option<bool>,
    ) -> Option<Arc<Link>> {
        let mut table = self.table.write();
        let Entry { link, .. } = table.links.get_mut(id)?;
        let changed = Arc::make_mut(link);
        changed.static_cost = static_cost.unwrap_or(changed.static_cost);
        changed.down = down.unwrap_or(changed.down);
        changed.counted = changed.cost();
        let link = Arc::clone(link);
        table.overrides.note(&link);
        self.pending.link(&link.source, &link.destination);
        Some(link)
    }

    /// A router was deleted.
    pub(super) fn forget(&self, router: &Id) {
        self.table.write().overrides.forget(router);
    }
}

/// Whether what a router says of the connections of a link may be kept.
fn is_bounded(state: &LinkConnState) -> bool {
    state.conns.len() <= MAX_CONNECTIONS && bytes_of(state) <= MAX_CONNECTION_BYTES
}

/// What the connections of a link take, in bytes.
fn bytes_of(state: &LinkConnState) -> usize {
    let texts = |it: &LinkConn| it.r#type.len() + it.local_addr.len() + it.remote_addr.len();
    state.conns.iter().map(|it| CONNECTION + texts(it)).sum()
}

#[cfg(test)]
const INITIAL: Duration = Duration::from_secs(65);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn reported(id: &str, to: &str, iteration: u32) -> RouterLink {
        RouterLink { id: id.into(), dest_router_id: to.into(), iteration, ..RouterLink::default() }
    }

    fn is_new(report: Report) -> bool {
        matches!(report, Report::New(_))
    }

    #[test]
    fn reports_make_and_replace_links() {
        let (links, r1, r2) = (Links::default(), Id::new("r1"), Id::new("r2"));
        let report = |from, link: &RouterLink| links.report(from, link, INITIAL, Timestamp(1));
        assert!(is_new(report(&r1, &reported("l1", "r2", 1))));
        assert_eq!(links.get("l1").unwrap().cost(), 130_001);
        assert!(matches!(report(&r1, &reported("l1", "r2", 1)), Report::Known(_)));
        assert_eq!(report(&r2, &reported("l1", "r1", 9)), Report::Foreign);
        let measured =
            |router, nanos| links.measured(&Id::new(router), [("l1", nanos)].into_iter());
        assert_eq!(measured("r1", 10_900_000), Measured { taken: 1, foreign: 0 });
        assert_eq!(measured("r2", 11_000_000).taken, 1);
        assert_eq!(measured("r3", 0), Measured { taken: 0, foreign: 1 });
        assert_eq!(links.get("l1").unwrap().cost(), 22);
        assert!(is_new(report(&r1, &reported("l1", "r2", 2))));
        assert_eq!(links.get("l1").unwrap().cost(), 130_001);
        assert_eq!(links.missing(&r1, &[]), ["l1"]);
        assert!(links.missing(&r2, &[]).is_empty(), "it did not dial the link");
        assert!(links.missing(&r1, &[reported("l1", "r2", 2)]).is_empty());
    }

    #[test]
    fn what_is_no_link_is_refused() {
        let (links, r1) = (Links::default(), Id::new("r1"));
        let long = "x".repeat(2_000);
        let whole = reported("l1", "r2", 1);
        for bad in [
            reported("", "r2", 1),
            reported(&long, "r2", 1),
            reported("l1", "", 1),
            reported("l1", "r1", 1),
            RouterLink { dial_address: long.clone(), ..whole.clone() },
            RouterLink { link_protocol: long.clone(), ..whole.clone() },
        ] {
            assert_eq!(links.report(&r1, &bad, INITIAL, Timestamp(1)), Report::Malformed);
        }
        for number in 0..MAX_PER_ROUTER {
            let to = format!("x{}", number / MAX_PARALLEL);
            let link = reported(&format!("m{number}"), &to, 1);
            assert!(is_new(links.report(&r1, &link, INITIAL, Timestamp(1))));
        }
        assert_eq!(links.report(&r1, &whole, INITIAL, Timestamp(1)), Report::TooMany);
        assert!(is_new(links.report(
            &Id::new("r2"),
            &reported("l1", "r1", 1),
            INITIAL,
            Timestamp(1)
        )));
    }

    #[test]
    fn two_routers_have_a_limit_of_links_between_them() {
        let (links, r1, r2) = (Links::default(), Id::new("r1"), Id::new("r2"));
        let report = |from: &Id, id: usize, to: &str| {
            links.report(from, &reported(&format!("l{id}"), to, 1), INITIAL, Timestamp(1))
        };
        for id in 0..MAX_PARALLEL {
            // Whoever dials them.
            let (from, to) = if id % 2 == 0 { (&r1, "r2") } else { (&r2, "r1") };
            assert!(is_new(report(from, id, to)));
        }
        assert_eq!(report(&r1, 99, "r2"), Report::TooManyParallel);
        assert_eq!(report(&r2, 99, "r1"), Report::TooManyParallel);
        assert!(is_new(report(&r1, 99, "r3")), "another router has its own");
        assert!(is_new(links.report(&r1, &reported("l0", "r2", 2), INITIAL, Timestamp(1))));
        links.fault("l1", 0).unwrap();
        assert!(is_new(report(&r1, 100, "r2")));
    }

    #[test]
    fn what_is_said_of_connections_has_a_limit_for_each_router() {
        let (links, r1) = (Links::default(), Id::new("r1"));
        let conn = |bytes: usize| LinkConn { local_addr: "x".repeat(bytes), ..LinkConn::default() };
        let state = |iteration, conns| LinkConnState { state_iteration: iteration, conns };
        let used = || {
            let table = links.table.read();
            table.by_router.get(&r1).map_or(0, |ends| ends.bytes)
        };
        let mut kept = 0;
        for number in 0..MAX_PER_ROUTER {
            let to = format!("x{}", number / MAX_PARALLEL);
            let mut link = reported(&format!("m{number}"), &to, 1);
            link.conn_state = Some(state(1, vec![conn(2_000), conn(2_000)]));
            let Report::New(link) = links.report(&r1, &link, INITIAL, Timestamp(1)) else {
                panic!("{number}")
            };
            kept += link.connections.conns.len();
            assert!(used() <= MAX_BYTES);
        }
        assert!(kept > 2_000 && kept * 2_000 <= MAX_BYTES, "{kept}");
        let mut link = reported("m0", "x0", 2);
        link.conn_state = Some(state(1, vec![conn(MAX_CONNECTION_BYTES)]));
        assert_eq!(links.report(&r1, &link, INITIAL, Timestamp(1)), Report::Malformed);
        assert!(!links.connections_changed("m9999", 1, state(2, vec![conn(5_000)])));
        assert!(links.connections_changed("m0", 1, state(2, Vec::new())));
        let before = used();
        assert!(links.connections_changed("m0", 1, state(3, vec![conn(100)])));
        assert_eq!(used(), before + CONNECTION + 100);
        links.take_of(&r1);
        assert_eq!(used(), 0);
    }

    #[test]
    fn old_faults_do_not_count() {
        let (links, r1) = (Links::default(), Id::new("r1"));
        links.report(&r1, &reported("l1", "r2", 3), INITIAL, Timestamp(1));
        assert!(links.fault("l1", 2).is_none());
        assert!(links.fault("l2", 0).is_none());
        assert_eq!(links.fault("l1", 3).unwrap().other_end("r1"), &Id::new("r2"));
        assert!(links.all().is_empty() && links.table.read().by_router.is_empty());
    }

    #[test]
    fn state_of_connections_only_goes_forward() {
        let (links, r1) = (Links::default(), Id::new("r1"));
        links.report(&r1, &reported("l1", "r2", 1), INITIAL, Timestamp(1));
        let state = |n| LinkConnState { state_iteration: n, conns: Vec::new() };
        assert!(links.connections_changed("l1", 1, state(2)));
        assert!(!links.connections_changed("l1", 1, state(2)));
        assert!(!links.connections_changed("l1", 2, state(3)));
        assert!(!links.connections_changed("l9", 1, state(3)));
        assert_eq!(links.change("l1", Some(-200_000), Some(true)).unwrap().cost(), 0);
        assert_eq!(links.take_of(&r1).len(), 1);
    }

    #[test]
    fn small_changes_of_latency_do_not_count_for_paths() {
        let (links, r1) = (Links::default(), Id::new("r1"));
        links.report(&r1, &reported("l1", "r2", 1), INITIAL, Timestamp(1));
        let counted = |millis: u64| {
            links.measured(&r1, [("l1", millis * 1_000_000)].into_iter());
            links.measured(&Id::new("r2"), [("l1", millis * 1_000_000)].into_iter());
            links.get("l1").unwrap().counted
        };
        assert_eq!(counted(10), 21);
        assert_eq!(counted(11), 21, "it may be rounding");
        assert_eq!(counted(12), 24, "it counts from the first of both reports");
        assert_eq!(counted(400), 801);
        assert_eq!(counted(410), 801, "some percent are noise");
        assert_eq!(counted(420), 801);
        assert_eq!(counted(430), 861, "but it adds up");
        // What an operator says counts as it is.
        assert_eq!(links.change("l1", Some(2), None).unwrap().counted, 862);
    }

    #[test]
    fn the_best_link_is_the_cheapest_usable_and_then_the_last() {
        let (links, r1, r2) = (Links::default(), Id::new("r1"), Id::new("r2"));
        for (id, from, to) in
            [("a", &r1, "r2"), ("b", &r2, "r1"), ("c", &r1, "r3"), ("0", &r1, "r2")]
        {
            links.report(from, &reported(id, to, 1), Duration::ZERO, Timestamp(1));
        }
        let best = |one, other| links.best(one, other).map(|(cost, id)| (cost, id.to_string()));
        assert_eq!(best(&r1, &r2), Some((1, "0".into())));
        links.change("0", None, Some(true));
        assert_eq!(best(&r1, &r2), Some((1, "b".into())));
        assert_eq!(best(&r2, &r1), Some((1, "b".into())));
        links.change("a", Some(0), None);
        assert_eq!(best(&r2, &r1), Some((0, "a".into())));
        assert_eq!(best(&r2, &Id::new("r3")), None);
        assert_eq!(links.neighbours(&r1), [Id::new("r2"), Id::new("r3")]);
        assert_eq!(links.at(&r2).len(), 3);
    }

    proptest! {
        /// The indexes say what the table says, whatever happened.
        #[test]
        fn indexes_follow_the_table(
            steps in prop::collection::vec((0u8..4, 0usize..4, 0usize..4, 0usize..6), 0..60),
        ) {
            let links = Links::default();
            let router = |n: usize| Id::new(&format!("r{n}"));
            for (number, (what, from, to, link)) in steps.into_iter().enumerate() {
                let id = format!("l{link}");
                match what {
                    0 | 1 => {
                        let link = reported(&id, router(to).as_str(), number as u32 + 1);
                        links.report(&router(from), &link, INITIAL, Timestamp(1));
                    }
                    2 => drop(links.fault(&id, 0)),
                    _ => drop(links.take_of(&router(from))),
                }
                let all = links.all();
                for n in 0..4 {
                    let at = router(n);
                    let mut own: Vec<_> = links.at(&at).iter().map(|it| it.id.clone()).collect();
                    own.sort();
                    let mut told: Vec<_> =
                        all.iter().filter(|it| it.has_end(at.as_str())).map(|it| it.id.clone()).collect();
                    told.sort();
                    prop_assert_eq!(own, told);
                    let dialed = all.iter().filter(|it| it.source == at).count();
                    let table = links.table.read();
                    prop_assert_eq!(table.by_router.get(&at).map_or(0, |ends| ends.dialed), dialed);
                }
            }
        }
    }
}
