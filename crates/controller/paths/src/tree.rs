//! The cheapest paths from one router to all others, as a tree. Pure.
//!
//! A tree is computed once and then updated: for a later version of the graph it needs the pairs of
//! neighbours that changed, and looks only at routers whose paths may change. An updated tree
//! equals a newly computed one: of equal paths the one over fewer routers counts, and then, at each
//! router, the one over the neighbour with the lowest id.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::graph::{Graph, UNREACHED};
use super::path::Path;

/// A number that no router has.
const NOBODY: u32 = u32::MAX;
/// The rank of a router that is not reached.
const FAR: u64 = u64::MAX;
/// A tree is computed anew if more pairs of neighbours changed than this many for each router of the
/// graph, because an update would then cost as much.
const MOST_MENDED: usize = 1;
/// A tree is updated if at most this many pairs of neighbours changed, however small the graph is.
const ALWAYS_MENDED: usize = 64;

/// The cheapest paths from one router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    source: u32,
    version: u64,
    /// For each router, the cost of its path and, in the lower bits, the number of links, so that a
    /// path always ranks above its own parts.
    ranks: Vec<u64>,
    /// For each router, the one before it on its path.
    over: Vec<u32>,
}

/// The rank of a cost and a number of links.
fn rank(cost: u64, links: u64) -> u64 {
    (cost << 32) | links
}

/// Routers whose neighbours are still to be looked at, the nearest first.
type Front = BinaryHeap<Reverse<(u64, u32)>>;

impl Tree {
    /// Computes a tree; with a target, only as far as needed for the path to it.
    pub fn grow(graph: &Graph, source: u32, target: Option<u32>) -> Self {
        let size = graph.size();
        let mut tree = Self {
            source,
            version: graph.version(),
            ranks: vec![FAR; size],
            over: vec![NOBODY; size],
        };
        if let Some(rank) = tree.ranks.get_mut(source as usize) {
            *rank = 0;
            tree.spread(graph, Front::from([Reverse((0, source))]), target);
        }
        tree
    }

    /// The router at which the paths begin.
    pub(super) fn source(&self) -> u32 {
        self.source
    }

    /// The version of the graph that the tree belongs to.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Bytes of a tree over a graph of this size.
    pub fn bytes(size: usize) -> usize {
        size * (size_of::<u64>() + size_of::<u32>()) + size_of::<Self>()
    }

    /// The cost of the path to a router; none if there is no path.
    pub fn cost(&self, to: u32) -> Option<u32> {
        let rank = self.ranks.get(to as usize).copied().filter(|rank| *rank != FAR)?;
        u32::try_from(rank >> 32).ok()
    }

    /// The path to a router. The graph must have the tree's version.
    pub fn path(&self, graph: &Graph, to: u32) -> Option<Path> {
        let cost = self.cost(to)?;
        let (mut nodes, mut links) = (vec![graph.id(to)?.clone()], Vec::new());
        let mut at = to;
        while at != self.source {
            let before = self.over.get(at as usize).copied()?;
            links.push(graph.link(before, at)?.to_owned());
            nodes.push(graph.id(before)?.clone());
            at = before;
        }
        nodes.reverse();
        links.reverse();
        Some(Path { nodes, links, cost })
    }

    /// The largest number of changed pairs with which a tree is updated.
    pub(super) fn most_mended(graph: &Graph) -> usize {
        ALWAYS_MENDED.max(graph.size() * MOST_MENDED)
    }

    /// Updates the tree to a later version; `changed` has all pairs of neighbours that changed.
    pub fn mend(&mut self, graph: &Graph, changed: &[(u32, u32)]) {
        if changed.len() > Self::most_mended(graph) {
            *self = Self::grow(graph, self.source, None);
            return;
        }
        self.version = graph.version();
        self.ranks.resize(graph.size(), FAR);
        self.over.resize(graph.size(), NOBODY);
        let mut front = Front::new();
        let fallen = self.fallen(graph, changed);
        for router in &fallen {
            self.ranks[*router as usize] = FAR;
            self.over[*router as usize] = NOBODY;
        }
        // New paths begin at routers that kept their path.
        let mut ways = Vec::new();
        for router in &fallen {
            // Links lead both ways: paths to a router come from its neighbours.
            let standing = graph.edges(*router).iter().filter(|edge| self.rank(edge.to) != FAR);
            for edge in standing {
                let cost = graph.coming_back(edge, *router);
                let rank = self.ranked(graph, edge.to, cost);
                ways.extend(rank.map(|rank| (edge.to, *router, rank)));
            }
        }
        for (one, other) in changed {
            for (from, to) in [(*one, *other), (*other, *one)] {
                // A path has a higher rank at each router than at the one before.
                if self.rank(from) < self.rank(to) {
                    let cost = graph.edge(from, to).and_then(|edge| graph.entering(edge));
                    let rank = self.ranked(graph, from, cost);
                    ways.extend(rank.map(|rank| (from, to, rank)));
                }
            }
        }
        for (from, to, rank) in ways {
            self.take(graph, from, to, rank, &mut front);
        }
        self.spread(graph, front, None);
    }

    fn rank(&self, router: u32) -> u64 {
        self.ranks.get(router as usize).copied().unwrap_or(FAR)
    }

    /// The rank of a router that is entered from a neighbour at a cost; none if it cannot be
    /// entered.
    fn ranked(&self, graph: &Graph, from: u32, cost: Option<u64>) -> Option<u64> {
        let own = self.rank(from);
        (own != FAR && graph.carries(from, self.source)).then_some(())?;
        self.next(own, cost?)
    }

    /// A rank plus one link of a cost.
    fn next(&self, own: u64, cost: u64) -> Option<u64> {
        let cost = (own >> 32) + cost;
        (cost < UNREACHED).then(|| rank(cost, (own & u64::from(u32::MAX)) + 1))
    }

    /// Routers whose path is gone or has become worse, and all routers behind them.
    fn fallen(&self, graph: &Graph, changed: &[(u32, u32)]) -> Vec<u32> {
        let is_cut = |from: u32, to: u32| {
            let now = || {
                let cost = graph.edge(from, to).and_then(|edge| graph.entering(edge));
                self.ranked(graph, from, cost)
            };
            self.over.get(to as usize) == Some(&from)
                && now().is_none_or(|now| now > self.ranks[to as usize])
        };
        let both = changed.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]);
        let mut fallen: Vec<u32> =
            both.filter(|(from, to)| is_cut(*from, *to)).map(|(_, to)| to).collect();
        if fallen.is_empty() {
            return fallen;
        }
        #[derive(Clone, Copy, PartialEq)]
        enum Fate {
            Open,
            Stands,
            Falls,
        }
        let mut fates = vec![Fate::Open; self.over.len()];
        fates[self.source as usize] = Fate::Stands;
        fallen.iter().for_each(|root| fates[*root as usize] = Fate::Falls);
        fallen.clear();
        let mut way = Vec::new();
        for router in 0..self.over.len() {
            let mut at = router;
            while fates[at] == Fate::Open {
                way.push(at);
                match self.over[at] {
                    NOBODY => fates[at] = Fate::Stands,
                    before => at = before as usize,
                }
            }
            let fate = fates[at];
            way.drain(..).for_each(|at| fates[at] = fate);
            if fate == Fate::Falls {
                fallen.extend(u32::try_from(router));
            }
        }
        fallen
    }

    /// Uses the path to a router over a neighbour, if it is better than the known one.
    fn take(&mut self, graph: &Graph, from: u32, to: u32, now: u64, front: &mut Front) {
        let known = self.ranks[to as usize];
        if now < known {
            self.ranks[to as usize] = now;
            self.over[to as usize] = from;
            front.push(Reverse((now, to)));
        } else if now == known && graph.is_lower(from, self.over[to as usize]) {
            self.over[to as usize] = from;
        }
    }

    /// Continues from routers with a new path.
    fn spread(&mut self, graph: &Graph, mut front: Front, target: Option<u32>) {
        while let Some(Reverse((own, router))) = front.pop() {
            if target == Some(router) {
                return;
            }
            if own > self.ranks[router as usize] || !graph.carries(router, self.source) {
                continue;
            }
            for edge in graph.edges(router) {
                if let Some(cost) = graph.entering(edge)
                    && let Some(now) = self.next(own, cost)
                {
                    self.take(graph, router, edge.to, now, &mut front);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use weft_model::Id;

    use super::*;

    const ROUTERS: usize = 9;

    fn id(n: usize) -> Id {
        Id::new(&format!("r{n}"))
    }

    /// A change of a network in the test.
    #[derive(Debug, Clone)]
    enum Change {
        Router(usize, Option<(u16, bool)>),
        Link(usize, usize, Option<u64>),
    }

    fn change() -> impl Strategy<Value = Change> {
        let router =
            (0..ROUTERS, prop::option::weighted(0.8, (0u16..30, prop::bool::weighted(0.2))));
        let cost = prop_oneof![8 => 0u64..40, 1 => Just(UNREACHED - 20), 1 => Just(u64::MAX)];
        let link = (0..ROUTERS, 0..ROUTERS, prop::option::weighted(0.8, cost));
        prop_oneof![
            1 => router.prop_map(|(at, now)| Change::Router(at, now)),
            4 => link.prop_map(|(from, to, now)| Change::Link(from, to, now)),
        ]
    }

    /// The network as simple tables.
    #[derive(Default)]
    struct Plain {
        routers: [Option<(u16, bool)>; ROUTERS],
        links: [[Option<u64>; ROUTERS]; ROUTERS],
    }

    impl Plain {
        /// Applies a change to the tables and to the graph.
        fn change(&mut self, graph: &mut Graph, change: &Change, changed: &mut Vec<(u32, u32)>) {
            match *change {
                Change::Router(at, now) => {
                    self.routers[at] = now;
                    graph.set_router(&id(at), now, changed);
                    for to in 0..ROUTERS {
                        self.set(graph, at, to, changed);
                    }
                }
                Change::Link(from, to, _) if from == to => {}
                Change::Link(from, to, now) => {
                    self.links[from][to] = now;
                    self.links[to][from] = now;
                    self.set(graph, from, to, changed);
                }
            }
        }

        fn set(&self, graph: &mut Graph, from: usize, to: usize, changed: &mut Vec<(u32, u32)>) {
            let link: Arc<str> = format!("l{}-{}", from.min(to), from.max(to)).into();
            let link = self.links[from][to].map(|cost| (cost, link));
            graph.set_link(&id(from), &id(to), link, changed);
        }

        /// Least costs from a router to all others, by relaxing every link as often as there are
        /// routers.
        fn costs(&self, min: u64, source: usize) -> [Option<u64>; ROUTERS] {
            let mut costs = [None; ROUTERS];
            costs[source] = self.routers[source].map(|_| 0);
            for _ in 0..ROUTERS {
                for from in 0..ROUTERS {
                    for to in 0..ROUTERS {
                        let (Some(own), Some((_, no_traversal))) =
                            (costs[from], self.routers[from])
                        else {
                            continue;
                        };
                        let (Some(link), Some((cost, _))) =
                            (self.links[from][to], self.routers[to])
                        else {
                            continue;
                        };
                        if from != source && no_traversal || link >= UNREACHED {
                            continue;
                        }
                        let now = own + link + u64::from(cost).max(min);
                        if now < UNREACHED && costs[to].is_none_or(|known| now < known) {
                            costs[to] = Some(now);
                        }
                    }
                }
            }
            costs
        }

        /// Whether a path exists and has its stated cost.
        fn is_path(&self, min: u64, path: &Path) -> bool {
            let at: Vec<usize> =
                path.nodes.iter().map(|id| id.as_str()[1..].parse().unwrap()).collect();
            let mut cost = 0;
            for pair in at.windows(2) {
                let (Some(link), Some((own, _))) =
                    (self.links[pair[0]][pair[1]], self.routers[pair[1]])
                else {
                    return false;
                };
                cost += link + u64::from(own).max(min);
            }
            let inner = at.get(1..at.len().max(2) - 1).unwrap_or_default();
            let carries = |at: &usize| self.routers[*at].is_some_and(|(_, no)| !no);
            path.links.len() + 1 == at.len()
                && inner.iter().all(carries)
                && cost == u64::from(path.cost)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// After any changes, updated trees equal new ones, their costs equal those of plain
        /// relaxation, and their paths exist.
        #[test]
        fn trees_say_what_plain_relaxation_says(
            min in 0u16..3,
            start in prop::collection::vec((0u16..30, prop::bool::weighted(0.2)), ROUTERS),
            batches in prop::collection::vec(prop::collection::vec(change(), 1..6), 1..14),
        ) {
            let (mut plain, mut graph) = (Plain::default(), Graph::new(min));
            let none = &mut Vec::new();
            for (at, router) in start.into_iter().enumerate() {
                plain.change(&mut graph, &Change::Router(at, Some(router)), none);
            }
            let mut trees: Vec<Tree> =
                (0..ROUTERS).map(|at| Tree::grow(&graph, at as u32, None)).collect();
            for (version, batch) in (1..).zip(batches) {
                let mut changed = Vec::new();
                for change in &batch {
                    plain.change(&mut graph, change, &mut changed);
                }
                graph.set_version(version);
                for (at, tree) in trees.iter_mut().enumerate() {
                    tree.mend(&graph, &changed);
                    let Some(source) = graph.number(&id(at)) else {
                        // The tree of a disconnected router is not asked for; it is computed when
                        // the router connects.
                        *tree = Tree::grow(&graph, at as u32, None);
                        continue;
                    };
                    prop_assert_eq!(&*tree, &Tree::grow(&graph, source, None));
                    for (to, cost) in plain.costs(u64::from(min), at).into_iter().enumerate() {
                        let number = graph.number(&id(to));
                        let found = number.and_then(|number| tree.cost(number));
                        prop_assert_eq!(found.map(u64::from), cost, "{} to {}", at, to);
                        let path = number.and_then(|number| tree.path(&graph, number));
                        prop_assert_eq!(path.is_some(), cost.is_some());
                        let is_path = path.as_ref().is_none_or(|it| plain.is_path(u64::from(min), it));
                        prop_assert!(is_path, "{:?}", path);
                        prop_assert_eq!(path, number.and_then(|_| graph.path(&id(at), &id(to))));
                    }
                }
            }
        }
    }
}
