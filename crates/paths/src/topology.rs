//! The current graph in its versions, shared by all, and the trees of cheapest paths over it.
//!
//! A change is noted with the ids that it concerns ([`Pending`]); the new state is looked up when
//! somebody needs a path. Routers, links and changes by operators count at once; a measured latency
//! makes a new version only once in an interval. A version holds its changes and shares the rest.
//! Changes between versions are kept for a while, so that trees can be updated.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hashbrown::HashSet;
use parking_lot::Mutex;
use weft_model::Id;

use super::detours::Detours;
use super::graph::Graph;
use super::links::Links;
use super::path::Path;
use super::pending::{Noted, Pair, Pending, pair};
use super::tree::Tree;
use super::trees::Trees;

/// Changed pairs that are kept for trees of earlier versions; they take 2 MiB.
const MAX_KEPT: usize = 262_144;
/// Numbers of disconnected routers above which the connected ones get new numbers: more than this
/// many, and more than connected routers.
const SPARE_NUMBERS: usize = 1_024;

/// The present state of routers.
pub trait World {
    /// Cost and `noTraversal` of a router, if it is connected and may be used.
    fn router(&self, id: &Id) -> Option<(u16, bool)>;

    /// Every connected router.
    fn routers(&self) -> Vec<Id>;
}

/// The graph and the trees over it.
#[derive(Debug)]
pub struct Topology {
    min_router_cost: u16,
    /// The shortest time between versions for latencies alone.
    latency_interval: Duration,
    pending: Arc<Pending>,
    current: ArcSwap<Graph>,
    /// Whether noted changes are on their way into the next version.
    is_making: AtomicBool,
    begun: Instant,
    /// When latencies may make the next version, in microseconds since the start.
    latencies_due: AtomicU64,
    making: Mutex<History>,
    trees: Trees,
    detours: Arc<Detours>,
}

/// The changes of a version, as pairs of neighbours.
#[derive(Debug)]
struct Step {
    version: u64,
    changed: Vec<(u32, u32)>,
}

/// The changes from version to version.
#[derive(Debug, Default)]
struct History {
    steps: VecDeque<Step>,
    kept: usize,
}

impl History {
    fn add(&mut self, version: u64, changed: Vec<(u32, u32)>) {
        self.kept += changed.len();
        self.steps.push_back(Step { version, changed });
        while self.kept > MAX_KEPT || self.steps.len() > MAX_KEPT {
            let Some(oldest) = self.steps.pop_front() else { return };
            self.kept -= oldest.changed.len();
        }
    }

    /// The changes since a version; none if some of them are not kept, or if there are more than
    /// `most`.
    fn since(&self, version: u64, most: usize) -> Option<Vec<(u32, u32)>> {
        let first = self.steps.front()?.version;
        let skipped = usize::try_from((version + 1).checked_sub(first)?).ok()?;
        let steps = self.steps.iter().skip(skipped);
        let mut counted = 0;
        let is_beyond = |step: &Step| {
            counted += step.changed.len();
            counted > most
        };
        if steps.clone().any(is_beyond) {
            return None;
        }
        let mut changed: Vec<_> = steps.flat_map(|step| step.changed.iter().copied()).collect();
        changed.sort_unstable();
        changed.dedup();
        Some(changed)
    }
}

impl Topology {
    /// A topology without routers. Changes come from `pending`; latencies count once in
    /// `latency_interval`.
    pub fn new(min_router_cost: u16, latency_interval: Duration, pending: Arc<Pending>) -> Self {
        Self {
            min_router_cost,
            latency_interval,
            pending,
            current: ArcSwap::from_pointee(Graph::new(min_router_cost)),
            is_making: AtomicBool::new(false),
            begun: Instant::now(),
            latencies_due: AtomicU64::new(0),
            making: Mutex::default(),
            trees: Trees::default(),
            detours: Arc::default(),
        }
    }

    /// The changes for the next version.
    pub fn pending(&self) -> &Pending {
        &self.pending
    }

    /// The current graph.
    pub fn current(&self, world: &impl World, links: &Links) -> Arc<Graph> {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        let (urgent, latencies) = (&self.pending.is_urgent, &self.pending.has_latencies);
        let now = || u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        // Latencies that are not due are left alone; nearly always there are some.
        let are_due = || is_set(latencies) && now() >= self.latencies_due.load(Ordering::Acquire);
        // The order matters: changes are taken only after `is_making` is set.
        if is_set(urgent) || is_set(&self.is_making) || are_due() {
            let mut history = self.making.lock();
            let with_latencies = are_due();
            if with_latencies || is_set(urgent) {
                if with_latencies {
                    let interval = u64::try_from(self.latency_interval.as_micros());
                    let due = now().saturating_add(interval.unwrap_or(u64::MAX));
                    self.latencies_due.store(due, Ordering::Release);
                }
                self.is_making.store(true, Ordering::Release);
                let noted = self.pending.take(with_latencies);
                self.advance(&mut history, noted, world, links);
                self.is_making.store(false, Ordering::Release);
            }
        }
        self.current.load_full()
    }

    /// Makes the next version, if anything changed.
    fn advance(&self, history: &mut History, noted: Noted, world: &impl World, links: &Links) {
        let before = self.current.load_full();
        let (mut graph, mut changed) = (Graph::clone(&before), Vec::new());
        let mut routers = noted.routers;
        let spare = before.size() - before.connected();
        let is_anew = noted.all || spare > before.connected() + SPARE_NUMBERS;
        if is_anew {
            graph = Graph::new(self.min_router_cost);
            graph.set_version(before.version());
            routers = world.routers().into_iter().collect();
        }
        let mut pairs: HashSet<Pair> = noted.links;
        pairs.extend(noted.latencies);
        for router in &routers {
            let was_there = graph.has(router);
            graph.set_router(router, world.router(router), &mut changed);
            if graph.has(router) && !was_there {
                pairs.extend(links.neighbours(router).iter().map(|peer| pair(router, peer)));
            }
        }
        for (one, other) in &pairs {
            if graph.has(one) && graph.has(other) {
                graph.set_link(one, other, links.best(one, other), &mut changed);
            }
        }
        // A router without links changes no paths, but may be connected now or not.
        if !is_anew && changed.is_empty() && routers.is_empty() {
            return;
        }
        let version = before.version() + 1;
        graph.set_version(version);
        if is_anew {
            *history = History::default();
            self.trees.clear();
        } else {
            history.add(version, changed);
        }
        self.current.store(Arc::new(graph));
    }

    /// The cheapest paths from a router, in the current graph.
    pub fn ways(&self, world: &impl World, links: &Links, from: &Id) -> Ways {
        loop {
            let graph = self.current(world, links);
            let detours = Arc::clone(&self.detours);
            let Some(source) = graph.number(from) else {
                return Ways { graph, tree: None, detours };
            };
            let tree =
                self.trees.with(source, graph.size(), |kept| self.renew(kept, &graph, source));
            if tree.is_some() {
                return Ways { graph, tree, detours };
            }
        }
    }
}

impl Topology {
    /// Updates a kept tree to this version of the graph; none if it has a later version.
    fn renew(&self, kept: &mut Option<Arc<Tree>>, graph: &Graph, source: u32) -> Option<Arc<Tree>> {
        if let Some(tree) = kept {
            if tree.version() > graph.version() {
                return None;
            }
            if tree.version() < graph.version() {
                let most = Tree::most_mended(graph);
                let changed = self.making.lock().since(tree.version(), most);
                match changed {
                    Some(changed) => Arc::make_mut(tree).mend(graph, &changed),
                    None => *tree = Arc::new(Tree::grow(graph, source, None)),
                }
            }
            return Some(Arc::clone(tree));
        }
        let tree = Arc::new(Tree::grow(graph, source, None));
        *kept = Some(Arc::clone(&tree));
        Some(tree)
    }
}

/// The cheapest paths from one router, in one version of the graph.
#[derive(Debug)]
pub struct Ways {
    graph: Arc<Graph>,
    /// None if the router is not connected.
    tree: Option<Arc<Tree>>,
    detours: Arc<Detours>,
}

impl Ways {
    /// Whether a router is connected, and the cost of the path to it, if there is one.
    pub fn reach(&self, router: &Id) -> Option<Option<u32>> {
        let number = self.graph.number(router)?;
        Some(self.tree.as_ref().and_then(|tree| tree.cost(number)))
    }

    /// The cost of the path to a router; none if there is no path.
    pub fn cost(&self, to: &Id) -> Option<u32> {
        self.tree.as_ref()?.cost(self.graph.number(to)?)
    }

    /// The path to a router.
    pub fn path(&self, to: &Id) -> Option<Path> {
        self.tree.as_ref()?.path(&self.graph, self.graph.number(to)?)
    }

    /// The cheapest path to a router that avoids some routers. Routers in `avoided` that are not
    /// connected are on no path anyway.
    pub fn path_around(&self, to: &Id, avoided: &[Id]) -> Option<Path> {
        let (source, to) = (self.tree.as_ref()?.source(), self.graph.number(to)?);
        let avoided = avoided.iter().filter_map(|router| self.graph.number(router)).collect();
        self.detours.path(&self.graph, source, to, avoided)
    }

    /// The graph of these paths.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use weft_model::Timestamp;
    use weft_wire::ctrl::RouterLink;

    /// Routers whose states a test sets.
    #[derive(Default)]
    struct Routers(Mutex<BTreeMap<Id, (u16, bool)>>);

    impl World for Routers {
        fn router(&self, id: &Id) -> Option<(u16, bool)> {
            self.0.lock().get(id).copied()
        }

        fn routers(&self) -> Vec<Id> {
            self.0.lock().keys().cloned().collect()
        }
    }

    struct Bed {
        routers: Routers,
        links: Links,
        topology: Topology,
    }

    impl Bed {
        fn new(latency_interval: Duration) -> Self {
            let pending = Arc::new(Pending::default());
            Self {
                routers: Routers::default(),
                links: Links::telling(Arc::clone(&pending)),
                topology: Topology::new(10, latency_interval, pending),
            }
        }

        fn router(&self, id: &str, now: Option<u16>) {
            match now {
                Some(cost) => self.routers.0.lock().insert(Id::new(id), (cost, false)),
                None => self.routers.0.lock().remove(&Id::new(id)),
            };
            self.topology.pending().router(&Id::new(id));
        }

        fn link(&self, id: &str, from: &str, to: &str) {
            let link = RouterLink {
                id: id.into(),
                dest_router_id: to.into(),
                iteration: 1,
                ..RouterLink::default()
            };
            self.links.report(&Id::new(from), &link, Duration::from_millis(50), Timestamp(0));
        }

        fn measure(&self, link: &str, router: &str, millis: u64) {
            self.links.measured(&Id::new(router), [(link, millis * 1_000_000)].into_iter());
        }

        fn version(&self) -> u64 {
            self.topology.current(&self.routers, &self.links).version()
        }

        fn path(&self, from: &str, to: &str) -> Option<(Vec<String>, u32)> {
            let ways = self.topology.ways(&self.routers, &self.links, &Id::new(from));
            let path = ways.path(&Id::new(to))?;
            assert_eq!(Some(path.cost), ways.cost(&Id::new(to)));
            // The tree agrees with the graph.
            let found = ways.graph().path(&Id::new(from), &Id::new(to));
            assert_eq!(found.as_ref(), Some(&path));
            Some((path.links, path.cost))
        }
    }

    fn over(links: &[&str], cost: u32) -> Option<(Vec<String>, u32)> {
        Some((links.iter().map(|id| (*id).to_owned()).collect(), cost))
    }

    /// The paths a - b - d and, at a higher cost, a - c - d.
    fn diamond(latency_interval: Duration) -> Bed {
        let bed = Bed::new(latency_interval);
        for (router, cost) in [("a", 0), ("b", 0), ("c", 20), ("d", 0)] {
            bed.router(router, Some(cost));
        }
        for (id, from, to) in
            [("ab", "a", "b"), ("bd", "b", "d"), ("ac", "a", "c"), ("cd", "d", "c")]
        {
            bed.link(id, from, to);
        }
        bed
    }

    #[test]
    fn what_comes_and_goes_counts_at_once() {
        let bed = diamond(Duration::from_secs(1_000));
        assert_eq!(bed.path("a", "d"), over(&["ab", "bd"], 2 * 101 + 20));
        bed.links.fault("bd", 0);
        assert_eq!(bed.path("a", "d"), over(&["ac", "cd"], 2 * 101 + 30));
        bed.link("b2", "d", "b");
        assert_eq!(bed.path("a", "d"), over(&["ab", "b2"], 222));
        bed.links.change("b2", Some(200), None);
        assert_eq!(bed.path("a", "d"), over(&["ac", "cd"], 232));
        bed.links.change("b2", Some(1), Some(true));
        assert_eq!(bed.path("a", "d"), over(&["ac", "cd"], 232));
        bed.router("c", None);
        assert_eq!(bed.path("a", "d"), None);
        bed.links.change("b2", None, Some(false));
        bed.router("b", Some(300));
        assert_eq!(bed.path("a", "d"), over(&["ab", "b2"], 512));
        bed.router("c", Some(0));
        assert_eq!(bed.path("a", "d"), over(&["ac", "cd"], 222));
        assert_eq!(bed.path("d", "a"), over(&["cd", "ac"], 222));
        bed.router("a", None);
        assert_eq!((bed.path("a", "d"), bed.path("d", "a")), (None, None));
        // A link that is reported before its routers connect is used once they do.
        bed.link("ae", "a", "e");
        bed.router("e", Some(0));
        bed.router("a", Some(0));
        assert_eq!(bed.path("e", "d"), over(&["ae", "ac", "cd"], 333));
    }

    /// A noted change is seen by the task that noted it, even while other tasks make a version of
    /// it.
    #[test]
    fn what_was_noted_is_seen_whoever_makes_the_version() {
        let bed = diamond(Duration::ZERO);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let bed = &bed;
                scope.spawn(move || {
                    for turn in 0..300 {
                        let id = format!("x{thread}");
                        bed.router(&id, Some(0));
                        bed.link(&format!("l{thread}-{turn}"), &id, "a");
                        assert!(bed.path(&id, "d").is_some());
                        bed.links.take_of(&Id::new(&id));
                        assert!(bed.path(&id, "d").is_none());
                        bed.router(&id, None);
                        assert!(!bed.topology.current(&bed.routers, &bed.links).has(&Id::new(&id)));
                    }
                });
            }
        });
    }

    #[test]
    fn nothing_new_makes_no_version() {
        let bed = diamond(Duration::ZERO);
        let version = bed.version();
        assert_eq!(bed.version(), version);
        bed.measure("ab", "a", 51);
        bed.measure("ab", "b", 51);
        assert_eq!(bed.version(), version, "too small to count");
        bed.measure("ab", "a", 10);
        assert_eq!(bed.version(), version + 1);
        let first = bed.topology.current(&bed.routers, &bed.links);
        assert!(
            Arc::ptr_eq(&first, &bed.topology.current(&bed.routers, &bed.links)),
            "it is shared"
        );
    }

    #[test]
    fn avoided_routers_are_on_no_path() {
        let bed = diamond(Duration::ZERO);
        let around = |avoided: &[&str]| {
            let ways = bed.topology.ways(&bed.routers, &bed.links, &Id::new("a"));
            let avoided: Vec<Id> = avoided.iter().map(|id| Id::new(id)).collect();
            ways.path_around(&Id::new("d"), &avoided).map(|path| (path.links, path.cost))
        };
        assert_eq!(around(&["b"]), over(&["ac", "cd"], 232));
        assert_eq!(around(&["c", "nobody"]), over(&["ab", "bd"], 222));
        assert_eq!(around(&["b", "c"]), None);
        bed.links.fault("cd", 0);
        assert_eq!(around(&["b"]), None, "of a version that is over");
        assert_eq!(around(&["a", "d"]), over(&["ab", "bd"], 222), "the ends are on every path");
    }

    #[test]
    fn latencies_make_few_versions() {
        let bed = diamond(Duration::from_secs(1_000));
        bed.version();
        bed.measure("ac", "a", 1);
        assert_eq!(
            bed.path("a", "d"),
            over(&["ac", "cd"], 52 + 101 + 30),
            "the first counts at once"
        );
        let version = bed.version();
        for millis in [0, 100, 200] {
            bed.measure("ab", "a", millis);
            bed.measure("bd", "b", millis);
            assert_eq!(bed.version(), version);
        }
        // A change that counts at once does not make latencies count.
        bed.links.fault("cd", 0);
        assert_eq!(bed.path("a", "d"), over(&["ab", "bd"], 222));
        assert_eq!(bed.version(), version + 1);
        let bed = diamond(Duration::from_millis(1));
        bed.measure("ab", "a", 200);
        let deadline = Instant::now() + Duration::from_secs(60);
        bed.version();
        bed.measure("ac", "a", 1);
        while bed.path("a", "d") != over(&["ac", "cd"], 52 + 101 + 30) {
            assert!(Instant::now() < deadline);
        }
    }

    /// Searches for paths do not wait for changes that are not due.
    #[test]
    fn latencies_that_are_not_due_hold_nobody_up() {
        let bed = diamond(Duration::from_secs(1_000));
        bed.measure("ab", "a", 1);
        let version = bed.version();
        bed.measure("ab", "a", 200);
        let _made_by_another = bed.topology.making.lock();
        assert_eq!(bed.version(), version);
    }

    #[test]
    fn a_network_that_everybody_left_is_empty() {
        let bed = diamond(Duration::ZERO);
        assert_eq!(bed.topology.current(&bed.routers, &bed.links).connected(), 4);
        bed.routers.0.lock().clear();
        bed.topology.pending().everything();
        assert_eq!(bed.topology.current(&bed.routers, &bed.links).connected(), 0);
        assert_eq!(bed.path("a", "d"), None);
    }

    #[test]
    fn numbers_of_routers_that_are_gone_are_given_again() {
        let bed = diamond(Duration::ZERO);
        for number in 0..3 * SPARE_NUMBERS {
            let id = format!("x{number}");
            bed.router(&id, Some(0));
            bed.link(&format!("l{number}"), &id, "a");
            assert_eq!(bed.path(&id, "d").unwrap().0.len(), 3);
            bed.router(&id, None);
            bed.links.take_of(&Id::new(&id));
        }
        let graph = bed.topology.current(&bed.routers, &bed.links);
        assert!(graph.size() <= SPARE_NUMBERS + 16, "{}", graph.size());
        assert_eq!(bed.path("a", "d"), over(&["ab", "bd"], 222));
        bed.topology.pending().everything();
        assert_eq!(bed.path("a", "d"), over(&["ab", "bd"], 222));
    }

    #[test]
    fn history_that_is_not_kept_is_not_claimed() {
        let mut history = History::default();
        assert_eq!(history.since(3, MAX_KEPT), None);
        history.add(4, vec![(1, 2)]);
        history.add(5, vec![(3, 4), (1, 2)]);
        assert_eq!(history.since(2, MAX_KEPT), None);
        assert_eq!(history.since(3, MAX_KEPT), Some(vec![(1, 2), (3, 4)]));
        assert_eq!(history.since(4, MAX_KEPT), Some(vec![(1, 2), (3, 4)]));
        assert_eq!((history.since(3, 2), history.since(4, 2).is_some()), (None, true));
        assert_eq!(history.since(5, MAX_KEPT), Some(vec![]));
        history.add(6, vec![(0, 0); MAX_KEPT]);
        assert_eq!((history.since(4, MAX_KEPT), history.kept), (None, MAX_KEPT));
    }
}
