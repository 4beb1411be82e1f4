//! The cheapest way from one router to another (protocol: control-plane 10). Pure: what is
//! connected and what it costs comes in, a path comes out.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hashbrown::HashMap;
use weft_model::Id;

/// What one that is not reached costs; nothing that costs as much is a way.
const UNREACHED: u64 = i32::MAX as u64;

/// The routers of a circuit in order, with the links between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path {
    /// The routers: at least one.
    pub nodes: Vec<Id>,
    /// The links: one less than routers.
    pub links: Vec<String>,
    /// What it costs.
    pub cost: u32,
}

impl Path {
    /// The path that stays on one router.
    pub fn of_one(router: Id) -> Self {
        Self { nodes: vec![router], links: Vec::new(), cost: 0 }
    }

    /// The router where it begins.
    pub fn first(&self) -> Option<&Id> {
        self.nodes.first()
    }

    /// The router where it ends.
    pub fn last(&self) -> Option<&Id> {
        self.nodes.last()
    }

    /// Whether it goes over a router.
    pub fn has_node(&self, router: &str) -> bool {
        self.nodes.iter().any(|node| node.as_str() == router)
    }

    /// Whether it goes over a link.
    pub fn has_link(&self, link: &str) -> bool {
        self.links.iter().any(|own| own == link)
    }
}

/// A router that is connected.
#[derive(Debug, Clone, Copy)]
struct Node {
    cost: u32,
    no_traversal: bool,
}

/// The cheapest link to a neighbour.
#[derive(Debug, Clone)]
struct Edge {
    link: String,
    cost: u64,
}

/// The connected routers and the usable links between them.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<Id, Node>,
    edges: HashMap<Id, HashMap<Id, Edge>>,
    min_router_cost: u32,
}

impl Graph {
    /// A graph in which entering a router costs at least this much.
    pub fn new(min_router_cost: u16) -> Self {
        Self { min_router_cost: u32::from(min_router_cost), ..Self::default() }
    }

    /// Adds a connected router.
    pub fn add_router(&mut self, router: &Id, cost: u16, no_traversal: bool) {
        let cost = u32::from(cost).max(self.min_router_cost);
        self.nodes.insert(router.clone(), Node { cost, no_traversal });
    }

    /// Adds a usable link, both ways. Of several between two routers the cheapest counts, of equal
    /// ones the last added.
    pub fn add_link(&mut self, link: &str, from: &Id, to: &Id, cost: u64) {
        for (one, other) in [(from, to), (to, from)] {
            let known = self.edges.entry(one.clone()).or_default();
            if known.get(other).is_none_or(|edge| edge.cost >= cost) {
                known.insert(other.clone(), Edge { link: link.to_owned(), cost });
            }
        }
    }

    /// Whether a router is connected.
    pub fn has(&self, router: &Id) -> bool {
        self.nodes.contains_key(router)
    }

    /// The cheapest path; none if there is no way. Of equal ones that over the lower ids.
    pub fn path(&self, from: &Id, to: &Id) -> Option<Path> {
        if !self.has(from) || !self.has(to) {
            return None;
        }
        if from == to {
            return Some(Path::of_one(from.clone()));
        }
        let mut reached: HashMap<&Id, (u64, &Id)> = HashMap::from([(from, (0, from))]);
        let mut next = BinaryHeap::from([Reverse((0_u64, from))]);
        while let Some(Reverse((cost, router))) = next.pop() {
            if router == to {
                return self.walk_back(&reached, from, to, cost);
            }
            if reached.get(router).is_some_and(|(best, _)| *best < cost) {
                continue;
            }
            for (neighbour, edge) in self.edges.get(router).into_iter().flatten() {
                let Some((neighbour, node)) = self.nodes.get_key_value(neighbour) else { continue };
                if node.no_traversal && neighbour != to {
                    continue;
                }
                let cost = cost + edge.cost + u64::from(node.cost);
                if cost >= UNREACHED {
                    continue;
                }
                let known = reached.get(neighbour);
                if known.is_none_or(|(best, over)| (cost, router) < (*best, *over)) {
                    reached.insert(neighbour, (cost, router));
                    next.push(Reverse((cost, neighbour)));
                }
            }
        }
        None
    }

    fn walk_back(
        &self,
        reached: &HashMap<&Id, (u64, &Id)>,
        from: &Id,
        to: &Id,
        cost: u64,
    ) -> Option<Path> {
        let (mut nodes, mut links) = (vec![to.clone()], Vec::new());
        let mut at = to;
        while at != from {
            let (_, before) = reached.get(at)?;
            links.push(self.edges.get(*before)?.get(at)?.link.clone());
            nodes.push((*before).clone());
            at = before;
        }
        nodes.reverse();
        links.reverse();
        Some(Path { nodes, links, cost: u32::try_from(cost).unwrap_or(u32::MAX) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    fn over(path: Option<Path>) -> (Vec<usize>, u32) {
        let path = path.unwrap();
        (path.nodes.iter().map(|id| id.as_str()[1..].parse().unwrap()).collect(), path.cost)
    }

    /// control-plane 10.
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
    }

    #[test]
    fn entering_a_router_costs_at_least_the_minimum() {
        let links = [(0, 1, 1), (0, 2, 1), (1, 3, 1), (2, 3, 1)];
        let of = |cost| [(0, false), (cost, false), (200, false), (20, false)];
        assert_eq!(over(graph(10, &of(7), &links).path(&id(0), &id(3))), (vec![0, 1, 3], 32));
        assert_eq!(over(graph(10, &of(300), &links).path(&id(0), &id(3))), (vec![0, 2, 3], 222));
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

    proptest! {
        /// No single detour over one link is cheaper, and the cost is that of its parts.
        #[test]
        fn a_path_is_consistent(
            links in prop::collection::vec((0usize..6, 0usize..6, 0u64..200), 0..20),
            costs in prop::collection::vec(0u16..50, 6),
        ) {
            let routers: Vec<_> = costs.iter().map(|cost| (*cost, false)).collect();
            let graph = graph(10, &routers, &links);
            if let Some(path) = graph.path(&id(0), &id(5)) {
                prop_assert_eq!(path.nodes.len(), path.links.len() + 1);
                let cheapest = |a: &Id, b: &Id| graph.edges[a][b].cost;
                let sum: u64 = path.nodes.windows(2)
                    .map(|pair| cheapest(&pair[0], &pair[1]) + u64::from(graph.nodes[&pair[1]].cost))
                    .sum();
                prop_assert_eq!(sum, u64::from(path.cost));
                if let Some(direct) = graph.edges.get(&id(0)).and_then(|own| own.get(&id(5))) {
                    prop_assert!(sum <= direct.cost + u64::from(graph.nodes[&id(5)].cost));
                }
            }
        }
    }
}
