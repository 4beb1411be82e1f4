//! The mesh with everything that paths could use, and searches for paths in it.
//!
//! The [`Graph`](crate::graph::Graph) of dials has only what a dial needs: the cheapest link
//! between two routers, and no links that are down. The second best path, and the obstacles on a
//! path, need the other links too. Both find the same cheapest paths; a test compares them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use hashbrown::{HashMap, HashSet};
use weft_model::Id;

use super::super::path::Path;

/// The cost of a router that is not reached; a path with this cost counts as none.
const UNREACHED: u64 = i32::MAX as u64;

/// A connected router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshRouter {
    /// Its id.
    pub id: Id,
    /// The cost in its entity.
    pub cost: u16,
    /// Whether paths may only begin and end at it.
    pub no_traversal: bool,
}

/// A link, whether paths may use it or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshLink {
    /// Its id.
    pub id: String,
    /// The router that dialed it.
    pub source: Id,
    /// The router at the other end.
    pub destination: Id,
    /// The part of its cost that does not depend on latency.
    pub static_cost: i32,
    /// The latency measured by the dialing side, in nanoseconds.
    pub source_latency: u64,
    /// The latency measured by the other side, in nanoseconds.
    pub destination_latency: u64,
    /// Its cost.
    pub cost: u64,
    /// Whether an operator has taken it out of use.
    pub down: bool,
}

/// A path from one router to another, as links in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshRoute {
    /// Its cost: links, and routers that are entered.
    pub cost: u64,
    /// Indexes of its links.
    links: Vec<usize>,
    /// Indexes of its routers, one more than links.
    routers: Vec<usize>,
}

/// One step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'m> {
    /// The link.
    pub link: &'m MeshLink,
    /// The router that is entered.
    pub router: &'m MeshRouter,
    /// The cost of entering the router.
    pub router_cost: u32,
}

/// An obstacle on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle<'m> {
    /// An operator has taken the link out of use.
    Down(&'m MeshLink),
    /// The router carries no traffic of others.
    Closed(&'m MeshRouter),
}

/// The rest of a budget of work, in links that may be looked at.
#[derive(Debug)]
pub struct WorkBudget {
    left: usize,
    is_cut: bool,
}

impl WorkBudget {
    /// A budget of this many links.
    pub fn new(links: usize) -> Self {
        Self { left: links, is_cut: false }
    }

    /// Whether a search was left out because the budget was used up.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Takes `links` from the budget; false if there are not as many.
    fn take(&mut self, links: usize) -> bool {
        self.is_cut |= links > self.left;
        self.left = self.left.saturating_sub(links);
        !self.is_cut
    }
}

/// The cheapest paths from one router to all others that can be reached.
#[derive(Debug)]
pub struct Tree<'m> {
    mesh: &'m Mesh,
    from: usize,
    /// For each router, the cost to reach it and the last link.
    reached: Vec<Option<(u64, usize)>>,
}

/// The links and routers that a search may use.
#[derive(Debug, Default)]
struct SearchScope {
    /// Whether links that are down, and routers that carry no traffic of others, are used as well.
    everything: bool,
    /// Links that are not used.
    without_links: HashSet<usize>,
    /// Routers that are not used.
    without_routers: HashSet<usize>,
}

/// The connected routers and the links between them.
#[derive(Debug, Default)]
pub struct Mesh {
    min_router_cost: u16,
    /// The routers, ordered by id.
    routers: Vec<MeshRouter>,
    places: HashMap<Id, usize>,
    links: Vec<MeshLink>,
    /// For each router, its neighbours and the links to them.
    edges: Vec<Vec<(usize, usize)>>,
}

impl Mesh {
    /// A mesh with a least cost of entering a router. Links are in the order of their reports, the
    /// last one last; links to routers that are not connected are left out.
    pub fn new(min_router_cost: u16, mut routers: Vec<MeshRouter>, links: Vec<MeshLink>) -> Self {
        routers.sort_unstable_by(|one, other| one.id.cmp(&other.id));
        let places: HashMap<Id, usize> =
            routers.iter().enumerate().map(|(at, router)| (router.id.clone(), at)).collect();
        let mut mesh = Self {
            min_router_cost,
            edges: vec![Vec::new(); routers.len()],
            routers,
            places,
            ..Self::default()
        };
        for link in links {
            let ends = (mesh.places.get(&link.source), mesh.places.get(&link.destination));
            let (Some(one), Some(other)) = ends else { continue };
            let at = mesh.links.len();
            mesh.edges[*one].push((*other, at));
            mesh.edges[*other].push((*one, at));
            mesh.links.push(link);
        }
        mesh
    }

    /// Whether a router is connected.
    pub fn has(&self, router: &Id) -> bool {
        self.places.contains_key(router)
    }

    /// The cheapest paths from a router; none if it is not connected. With `everything`, also over
    /// links that are down and routers that carry no traffic of others.
    pub fn tree(&self, from: &Id, everything: bool) -> Option<Tree<'_>> {
        let from = *self.places.get(from)?;
        let rules = SearchScope { everything, ..SearchScope::default() };
        let reached = self.search(from, None, &rules, &mut WorkBudget::new(usize::MAX))?;
        Some(Tree { mesh: self, from, reached })
    }

    /// A path in the form of circuits.
    pub fn path(&self, route: &MeshRoute) -> Path {
        Path {
            nodes: route.routers.iter().map(|at| self.routers[*at].id.clone()).collect(),
            links: route.links.iter().map(|at| self.links[*at].id.clone()).collect(),
            cost: u32::try_from(route.cost).unwrap_or(u32::MAX),
        }
    }

    /// The steps of a path; none if it stays on its router.
    pub fn steps<'m>(&'m self, route: &'m MeshRoute) -> impl Iterator<Item = Step<'m>> {
        let entered = route.routers.iter().skip(1);
        route.links.iter().zip(entered).map(|(link, router)| Step {
            link: &self.links[*link],
            router: &self.routers[*router],
            router_cost: self.entering(*router),
        })
    }

    /// Up to `count` paths other than `first`, the cheapest path, that use no router twice; the
    /// cheapest of them first.
    pub fn others(&self, first: &MeshRoute, count: usize, work: &mut WorkBudget) -> Vec<MeshRoute> {
        let (Some(from), Some(to)) = (first.routers.first(), first.routers.last()) else {
            return Vec::new();
        };
        let (from, to) = (*from, *to);
        let mut found = vec![first.clone()];
        // Ordered by cost and then by links, so that the same mesh always gives the same
        // explanation.
        let mut next: BTreeSet<(u64, Vec<usize>)> = BTreeSet::new();
        while found.len() <= count {
            let Some(last) = found.last() else { break };
            // Yen's algorithm: each further path leaves a path that was found at some router. Those
            // that leave earlier ones are in `next` already.
            for at in 0..last.links.len() {
                let (root, spur) = (&last.links[..at], last.routers[at]);
                let alike = found.iter().filter(|route| route.links.get(..at) == Some(root));
                let rules = SearchScope {
                    without_links: alike.filter_map(|route| route.links.get(at).copied()).collect(),
                    without_routers: last.routers[..at].iter().copied().collect(),
                    ..SearchScope::default()
                };
                let Some(reached) = self.search(spur, Some(to), &rules, work) else { break };
                let Some(rest) = self.walk_back(&reached, spur, to) else { continue };
                let links: Vec<usize> = root.iter().copied().chain(rest).collect();
                let taken = self.along(from, links);
                next.insert((taken.cost, taken.links));
            }
            let Some((_, links)) = next.pop_first() else { break };
            found.push(self.along(from, links));
        }
        found.split_off(1)
    }

    /// The obstacles on a path.
    pub fn obstacles(&self, route: &MeshRoute) -> Vec<Obstacle<'_>> {
        let over = route.links.iter().map(|link| &self.links[*link]).filter(|link| link.down);
        let inner = route.routers.get(1..route.routers.len().saturating_sub(1)).unwrap_or_default();
        let through = inner.iter().map(|at| &self.routers[*at]).filter(|it| it.no_traversal);
        over.map(Obstacle::Down).chain(through.map(Obstacle::Closed)).collect()
    }

    fn entering(&self, router: usize) -> u32 {
        self.routers[router].cost.max(self.min_router_cost).into()
    }

    /// The path over these links.
    fn along(&self, from: usize, links: Vec<usize>) -> MeshRoute {
        let (mut cost, mut at) = (0, from);
        let mut routers = vec![from];
        for link in &links {
            let link = &self.links[*link];
            let other = link.source == self.routers[at].id;
            let other = if other { &link.destination } else { &link.source };
            at = self.places.get(other).copied().unwrap_or(at);
            cost = link.cost.saturating_add(cost).saturating_add(self.entering(at).into());
            routers.push(at);
        }
        MeshRoute { cost, links, routers }
    }

    /// The cost to reach each router by the rules, or up to `to` if it is given; none if the budget
    /// is used up. Of equal paths the one with fewer links is taken, and then, at each router, the
    /// one over the lowest id, as for dials.
    fn search(
        &self,
        from: usize,
        to: Option<usize>,
        rules: &SearchScope,
        work: &mut WorkBudget,
    ) -> Option<Vec<Option<(u64, usize)>>> {
        let mut reached: Vec<Option<(u64, usize)>> = vec![None; self.routers.len()];
        // For each router, the cost and the number of links of its path, and the router before it.
        let mut ranks = vec![((u64::MAX, usize::MAX), usize::MAX); self.routers.len()];
        let mut settled = vec![false; self.routers.len()];
        let mut next = BinaryHeap::from([Reverse(((0_u64, 0_usize), from))]);
        while let Some(Reverse(((cost, length), router))) = next.pop() {
            if to == Some(router) {
                break;
            }
            let is_end = self.routers[router].no_traversal && router != from && !rules.everything;
            if std::mem::replace(&mut settled[router], true) || is_end {
                continue;
            }
            if !work.take(self.edges[router].len()) {
                return None;
            }
            for (neighbour, link) in &self.edges[router] {
                let edge = &self.links[*link];
                let is_banned = (edge.down && !rules.everything)
                    || settled[*neighbour]
                    || rules.without_links.contains(link)
                    || rules.without_routers.contains(neighbour);
                let cost =
                    cost.saturating_add(edge.cost).saturating_add(self.entering(*neighbour).into());
                if is_banned || cost >= UNREACHED {
                    continue;
                }
                let (rank, known) = ((cost, length + 1), &mut ranks[*neighbour]);
                // Of equal links between two routers, the one that was reported last is taken.
                if (rank, router) <= *known {
                    if rank < known.0 {
                        next.push(Reverse((rank, *neighbour)));
                    }
                    *known = (rank, router);
                    reached[*neighbour] = Some((cost, *link));
                }
            }
        }
        Some(reached)
    }

    /// The links that lead to a router, in order.
    fn walk_back(
        &self,
        reached: &[Option<(u64, usize)>],
        from: usize,
        to: usize,
    ) -> Option<Vec<usize>> {
        let (mut links, mut at) = (Vec::new(), to);
        while at != from {
            let (_, link) = reached[at]?;
            let ends = &self.links[link];
            let before =
                if ends.source == self.routers[at].id { &ends.destination } else { &ends.source };
            links.push(link);
            at = *self.places.get(before)?;
        }
        links.reverse();
        Some(links)
    }
}

impl Tree<'_> {
    /// The cheapest path to a router; none if it cannot be reached.
    pub fn route(&self, to: &Id) -> Option<MeshRoute> {
        let to = *self.mesh.places.get(to)?;
        let links = self.mesh.walk_back(&self.reached, self.from, to)?;
        Some(self.mesh.along(self.from, links))
    }
}
