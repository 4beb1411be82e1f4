//! The current graph in its versions, shared by all, and the trees of cheapest paths over it.
//!
//! A change is noted with the ids that it concerns ([`Pending`]); the new state is looked up when
//! somebody needs a path. Routers, links and changes by operators count at once; a measured latency
//! makes a new version only once in an interval. A version holds its changes and shares the rest.
//! Changes between versions are kept for a while, so that trees can be updated.

mod history;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hashbrown::HashSet;
use history::History;
use parking_lot::Mutex;
use weft_model::Id;

use super::detours::Detours;
use super::graph::Graph;
use super::links::Links;
use super::path::Path;
use super::pending::{Noted, Pair, Pending, pair};
use super::tree::Tree;
use super::trees::Trees;

/// The connected routers get new numbers once more numbers belong to disconnected routers than to connected
/// ones and this many together.
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
    pub fn paths_from(&self, world: &impl World, links: &Links, from: &Id) -> ShortestPaths {
        loop {
            let graph = self.current(world, links);
            let detours = Arc::clone(&self.detours);
            let Some(source) = graph.number(from) else {
                return ShortestPaths { graph, tree: None, detours };
            };
            let tree =
                self.trees.with(source, graph.size(), |kept| self.renew(kept, &graph, source));
            if tree.is_some() {
                return ShortestPaths { graph, tree, detours };
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
pub struct ShortestPaths {
    graph: Arc<Graph>,
    /// None if the router is not connected.
    tree: Option<Arc<Tree>>,
    detours: Arc<Detours>,
}

impl ShortestPaths {
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
mod tests;
