//! The connected routers and the usable links between them (docs/protocol/control-plane.md 10).
//! Pure: routers, links and costs come in, paths come out.
//!
//! Routers have small consecutive numbers, so that trees over the graph are arrays. A clone shares
//! everything that it does not change: the next version of a large graph costs as much as its
//! changes.

use std::cmp::Ordering;
use std::sync::Arc;

use imbl::{HashMap, Vector};
use weft_model::Id;

use super::path::Path;
use super::tree::Tree;

/// The cost of a router that is not reached; a path with this cost counts as none.
pub(crate) const UNREACHED: u64 = i32::MAX as u64;

/// The facts about a router that paths depend on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Node {
    /// The cost of entering it.
    cost: u32,
    /// Whether it carries only circuits that begin or end at it.
    no_traversal: bool,
    /// Whether it is connected.
    is_there: bool,
}

/// The cheapest link to a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The neighbour.
    pub to: u32,
    cost: u32,
}

/// The neighbours of a router, with costs and links apart. Searches read all edges and few links.
#[derive(Debug, Clone, Default)]
struct Neighbours {
    /// Sorted by neighbour.
    edges: Vec<Edge>,
    /// The link to each of them.
    links: Vec<Arc<str>>,
}

impl Neighbours {
    fn place(&self, to: u32) -> Result<usize, usize> {
        self.edges.binary_search_by_key(&to, |edge| edge.to)
    }
}

/// The connected routers and the usable links between them.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    numbers: HashMap<Id, u32>,
    ids: Vector<Id>,
    nodes: Arc<Vec<Node>>,
    /// For each router, the beginning of its id. It is enough to compare most ids.
    beginnings: Arc<Vec<u64>>,
    /// The neighbours of each router. Every link is entered in both directions, with the same cost.
    neighbours: Vector<Arc<Neighbours>>,
    connected: usize,
    min_router_cost: u32,
    version: u64,
}

impl Graph {
    /// An empty graph with a least cost of entering a router.
    pub fn new(min_router_cost: u16) -> Self {
        Self { min_router_cost: u32::from(min_router_cost), ..Self::default() }
    }

    /// Adds a connected router, or changes it.
    pub fn add_router(&mut self, router: &Id, cost: u16, no_traversal: bool) {
        let number = self.number_for(router);
        let cost = u32::from(cost).max(self.min_router_cost);
        self.set_node(number, Node { cost, no_traversal, is_there: true });
    }

    /// Adds a usable link in both directions. Of several links between two routers the cheapest
    /// counts; of equal ones, the last one added.
    pub fn add_link(&mut self, link: &str, from: &Id, to: &Id, cost: u64) {
        let (from, to) = (self.number_for(from), self.number_for(to));
        if self.edge(from, to).is_none_or(|known| u64::from(known.cost) >= cost) {
            self.set_edge(from, to, Some((cost, link.into())));
        }
    }

    /// Whether a router is connected.
    pub fn has(&self, router: &Id) -> bool {
        self.number(router).is_some()
    }

    /// Number of connected routers.
    pub fn connected(&self) -> usize {
        self.connected
    }

    /// The cheapest path; none if there is no path. Of equal paths the one over fewer routers is
    /// taken, then the one over lower ids.
    pub fn path(&self, from: &Id, to: &Id) -> Option<Path> {
        let (source, target) = (self.number(from)?, self.number(to)?);
        Tree::grow(self, source, Some(target)).path(self, target)
    }

    /// The graph in which no path leads through these routers.
    pub(super) fn around(&self, avoided: &[u32]) -> Self {
        let mut graph = self.clone();
        for number in avoided {
            let node = self.node(*number);
            if node.is_there {
                graph.set_node(*number, Node { no_traversal: true, ..node });
            }
        }
        graph
    }

    /// The cost of entering the routers of a path, except the first one. `other` gives the cost of a router
    /// that is not connected; none if that router, and therefore the path, cannot be used.
    pub fn cost_of(&self, nodes: &[Id], other: impl Fn(&Id) -> Option<u16>) -> Option<u64> {
        let costs = nodes.iter().map(|router| match self.number(router) {
            Some(number) => Some(u64::from(self.node(number).cost)),
            None => other(router).map(|cost| u64::from(u32::from(cost).max(self.min_router_cost))),
        });
        costs.enumerate().map(|(at, cost)| cost.map(|cost| if at == 0 { 0 } else { cost })).sum()
    }

    /// A number that grows with every change that readers see.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn set_version(&mut self, version: u64) {
        self.version = version;
    }

    /// The number of a connected router.
    pub fn number(&self, router: &Id) -> Option<u32> {
        self.numbers.get(router).copied().filter(|number| self.node(*number).is_there)
    }

    /// Number of routers with a number, connected or not.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// The router with a number.
    pub fn id(&self, number: u32) -> Option<&Id> {
        self.ids.get(number as usize)
    }

    /// The neighbours of a router.
    pub fn edges(&self, number: u32) -> &[Edge] {
        self.neighbours.get(number as usize).map_or(&[], |it| it.edges.as_slice())
    }

    /// The cost of entering a router over an edge to it; none if it cannot be entered.
    pub fn entering(&self, edge: &Edge) -> Option<u64> {
        let node = self.node(edge.to);
        node.is_there.then(|| u64::from(edge.cost) + u64::from(node.cost))
    }

    /// The cost of entering a router from the neighbour at the other end of its edge; none if it
    /// cannot be entered.
    pub(super) fn coming_back(&self, edge: &Edge, number: u32) -> Option<u64> {
        self.entering(&Edge { to: number, cost: edge.cost })
    }

    /// Whether the id of one router is lower than that of another.
    pub(super) fn is_lower(&self, one: u32, other: u32) -> bool {
        let beginnings = [one, other].map(|it| self.beginnings.get(it as usize));
        match beginnings[0].cmp(&beginnings[1]) {
            Ordering::Equal => self.id(one) < self.id(other),
            order => order.is_lt(),
        }
    }

    /// Whether paths from `source` may lead through a router.
    pub fn carries(&self, number: u32, source: u32) -> bool {
        let node = self.node(number);
        node.is_there && (number == source || !node.no_traversal)
    }

    pub(crate) fn edge(&self, from: u32, to: u32) -> Option<&Edge> {
        let neighbours = self.neighbours.get(from as usize)?;
        neighbours.edges.get(neighbours.place(to).ok()?)
    }

    /// The id of the link between two neighbours.
    pub fn link(&self, from: u32, to: u32) -> Option<&str> {
        self.known_link(from, to).map(|link| &**link)
    }

    fn known_link(&self, from: u32, to: u32) -> Option<&Arc<str>> {
        let neighbours = self.neighbours.get(from as usize)?;
        neighbours.links.get(neighbours.place(to).ok()?)
    }

    fn node(&self, number: u32) -> Node {
        self.nodes.get(number as usize).copied().unwrap_or_default()
    }

    fn number_for(&mut self, router: &Id) -> u32 {
        if let Some(known) = self.numbers.get(router) {
            return *known;
        }
        let number = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.numbers.insert(router.clone(), number);
        self.ids.push_back(router.clone());
        self.neighbours.push_back(Arc::default());
        Arc::make_mut(&mut self.beginnings).push(beginning(router));
        Arc::make_mut(&mut self.nodes).push(Node::default());
        number
    }

    fn set_node(&mut self, number: u32, node: Node) {
        let before = self.node(number);
        if before != node {
            self.connected += usize::from(node.is_there);
            self.connected -= usize::from(before.is_there);
            Arc::make_mut(&mut self.nodes)[number as usize] = node;
        }
    }

    /// Sets the facts about a router; none means that it is not connected any more. Pairs of
    /// neighbours whose paths may change are added to `changed`. The edges of a router that is not
    /// connected are removed; [`Graph::set_link`] adds them again.
    pub(super) fn set_router(
        &mut self,
        router: &Id,
        now: Option<(u16, bool)>,
        changed: &mut Vec<(u32, u32)>,
    ) {
        let before = self.numbers.get(router).map(|number| (*number, self.node(*number)));
        match now {
            Some((cost, no_traversal)) => self.add_router(router, cost, no_traversal),
            None => {
                let Some((number, _)) = before.filter(|(_, node)| node.is_there) else { return };
                self.set_node(number, Node::default());
            }
        }
        let Some((number, before)) = before else { return };
        if before == self.node(number) {
            return;
        }
        let peers: Vec<u32> = self.edges(number).iter().map(|edge| edge.to).collect();
        changed.extend(peers.iter().map(|peer| (number, *peer)));
        if now.is_none() {
            peers.iter().for_each(|peer| self.set_edge(number, *peer, None));
        }
    }

    /// Sets the link that counts between two routers, with its cost; none removes it. Does nothing
    /// if one of them is not connected.
    pub(super) fn set_link(
        &mut self,
        one: &Id,
        other: &Id,
        link: Option<(u64, Arc<str>)>,
        changed: &mut Vec<(u32, u32)>,
    ) {
        let (Some(one), Some(other)) = (self.number(one), self.number(other)) else { return };
        let before = self.edge(one, other).zip(self.known_link(one, other));
        let before = before.map(|(edge, link)| (u64::from(edge.cost), link));
        let now = link.as_ref().map(|(cost, link)| (*cost, link));
        if before == now {
            return;
        }
        changed.push((one, other));
        self.set_edge(one, other, link);
    }

    fn set_edge(&mut self, one: u32, other: u32, link: Option<(u64, Arc<str>)>) {
        // A link whose cost is too large to be part of a path counts as none.
        let link = link.and_then(|(cost, link)| Some((u32::try_from(cost).ok()?, link)));
        let link = link.filter(|(cost, _)| u64::from(*cost) < UNREACHED);
        for (from, to) in [(one, other), (other, one)] {
            let Some(neighbours) = self.neighbours.get_mut(from as usize) else { continue };
            let Neighbours { edges, links } = Arc::make_mut(neighbours);
            let place = edges.binary_search_by_key(&to, |edge| edge.to);
            match (place, &link) {
                (Ok(at), Some((cost, link))) => {
                    edges[at].cost = *cost;
                    links[at] = Arc::clone(link);
                }
                (Err(at), Some((cost, link))) => {
                    edges.insert(at, Edge { to, cost: *cost });
                    links.insert(at, Arc::clone(link));
                }
                (Ok(at), None) => {
                    edges.remove(at);
                    links.remove(at);
                }
                (Err(_), None) => {}
            }
        }
    }
}

/// The first bytes of an id, which sort like ids; if they are equal, the whole ids have to be
/// compared.
fn beginning(id: &Id) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(id.as_str().bytes()).for_each(|(to, from)| *to = from);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: usize) -> Id {
        Id::new(&format!("r{n}"))
    }

    fn graph(min: u16, routers: &[(u16, bool)], links: &[(usize, usize, u64)]) -> Graph {
        let mut graph = Graph::new(min);
        for (at, (cost, no_traversal)) in routers.iter().enumerate() {
            graph.add_router(&id(at), *cost, *no_traversal);
        }
        for (at, (from, to, cost)) in links.iter().enumerate() {
            graph.add_link(&format!("l{at}"), &id(*from), &id(*to), *cost);
        }
        graph
    }

    fn path_around(graph: &Graph, from: usize, to: usize, avoided: &[usize]) -> Option<Path> {
        let avoided: Vec<u32> = avoided.iter().filter_map(|it| graph.number(&id(*it))).collect();
        graph.around(&avoided).path(&id(from), &id(to))
    }

    fn over(path: Option<Path>) -> (Vec<usize>, u32) {
        let path = path.unwrap();
        (path.nodes.iter().map(|id| id.as_str()[1..].parse().unwrap()).collect(), path.cost)
    }

    /// The example of docs/protocol/control-plane.md 10.
    const LINKS: [(usize, usize, u64); 4] = [(0, 1, 23), (0, 2, 36), (1, 3, 50), (2, 3, 64)];

    #[test]
    fn the_cheapest_way_is_taken() {
        let costs = [(1, false), (2, false), (3, false), (4, false)];
        let path = graph(0, &costs, &LINKS).path(&id(0), &id(3));
        assert_eq!(path.as_ref().unwrap().links, ["l0", "l2"]);
        assert_eq!(over(path), (vec![0, 1, 3], 79));
    }

    #[test]
    fn routers_that_carry_nothing_for_others_are_gone_around() {
        let costs = [(1, false), (2, true), (3, false), (4, true)];
        let graph = graph(0, &costs, &LINKS);
        assert_eq!(over(graph.path(&id(0), &id(3))).0, [0, 2, 3]);
        assert_eq!(over(graph.path(&id(0), &id(1))).0, [0, 1]);
        assert_eq!(over(graph.path(&id(1), &id(2))).0, [1, 0, 2]);
        assert_eq!(path_around(&graph, 0, 3, &[2]), None);
    }

    #[test]
    fn who_is_gone_is_gone_around_like_others() {
        let mut graph = graph(0, &[(1, false); 4], &LINKS);
        graph.set_router(&id(1), None, &mut Vec::new());
        for avoided in [&[1][..], &[7], &[1, 7]] {
            assert_eq!(over(path_around(&graph, 0, 3, avoided)).0, [0, 2, 3]);
        }
        assert_eq!(path_around(&graph, 0, 3, &[1, 2]), None);
    }

    #[test]
    fn entering_a_router_costs_at_least_the_minimum() {
        let links = [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1)];
        let of = |cost| [(0, false), (cost, false), (200, false), (20, false)];
        assert_eq!(over(graph(10, &of(7), &links).path(&id(0), &id(3))), (vec![0, 1, 3], 32));
        assert_eq!(over(graph(10, &of(300), &links).path(&id(0), &id(3))), (vec![0, 2, 3], 222));
        let around = path_around(&graph(10, &of(7), &links), 0, 3, &[1]);
        assert_eq!(over(around), (vec![0, 2, 3], 222));
    }

    #[test]
    fn one_router_is_a_path_and_strangers_have_none() {
        let graph = graph(10, &[(0, false), (0, false)], &[]);
        assert_eq!(graph.path(&id(0), &id(0)), Some(Path::of_one(id(0))));
        assert_eq!(graph.path(&id(0), &id(1)), None);
        assert_eq!(graph.path(&id(0), &id(7)), None);
    }

    #[test]
    fn of_equal_links_the_last_counts() {
        let mut graph = graph(0, &[(0, false), (0, false)], &[(0, 1, 5), (0, 1, 5), (0, 1, 6)]);
        assert_eq!(graph.path(&id(0), &id(1)).unwrap().links, ["l1"]);
        graph.add_link("huge", &id(0), &id(2), u64::from(u32::MAX));
        graph.add_router(&id(2), 0, false);
        assert_eq!(graph.path(&id(0), &id(2)), None);
    }

    /// Paths over routers and links without cost have an end, too.
    #[test]
    fn ways_that_cost_nothing_end() {
        let free = [(0, false); 4];
        let links = [(0, 2, 0), (2, 1, 0), (1, 0, 0), (1, 3, 0), (2, 3, 0)];
        assert_eq!(over(graph(0, &free, &links).path(&id(0), &id(3))), (vec![0, 1, 3], 0));
    }

    #[test]
    fn a_clone_does_not_see_what_comes_later() {
        let before = graph(0, &[(0, false); 3], &[(0, 1, 5), (1, 2, 5)]);
        let (mut after, mut changed) = (before.clone(), Vec::new());
        after.set_router(&id(1), None, &mut changed);
        assert_eq!(changed, [(1, 0), (1, 2)]);
        assert_eq!(after.path(&id(0), &id(2)), None);
        assert!(!after.has(&id(1)) && after.connected() == 2);
        assert_eq!(over(before.path(&id(0), &id(2))).0, [0, 1, 2]);
        after.set_link(&id(0), &id(1), Some((1, "l".into())), &mut changed);
        assert_eq!((changed.len(), after.edges(0).len()), (2, 0), "it is not connected");
        after.set_router(&id(1), Some((0, false)), &mut changed);
        after.set_link(&id(0), &id(1), Some((1, "l".into())), &mut changed);
        assert_eq!(over(after.path(&id(0), &id(1))).0, [0, 1]);
    }
}
