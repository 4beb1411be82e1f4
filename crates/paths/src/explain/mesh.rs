//! The mesh at one moment, with everything that paths could use, and the ways through it.
//!
//! The [`Graph`](crate::graph::Graph) of dials keeps only what a dial needs: the cheapest link
//! between two routers, and no link that is down. Whoever asks for the second best way, or for what
//! stands in the way, needs the rest too. Both find the same cheapest paths; a test compares them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use hashbrown::{HashMap, HashSet};
use weft_model::Id;

use super::super::path::Path;

/// What one that is not reached costs; nothing that costs as much is a way.
const UNREACHED: u64 = i32::MAX as u64;

/// A router that is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeshRouter {
    /// Its id.
    pub id: Id,
    /// What its entity says.
    pub cost: u16,
    /// Whether paths may only begin and end here.
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
    /// Part of its cost that does not depend on measurements.
    pub static_cost: i32,
    /// What the dialing side measured, in nanoseconds.
    pub source_latency: u64,
    /// What the other side measured, in nanoseconds.
    pub destination_latency: u64,
    /// What it costs to go over it.
    pub cost: u64,
    /// Taken out of use by an operator.
    pub down: bool,
}

/// A way from one router to another: the links that it takes, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// What it costs: links, and routers that are entered.
    pub cost: u64,
    /// Places of its links.
    links: Vec<usize>,
    /// Places of its routers, one more.
    routers: Vec<usize>,
}

/// One step of a way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step<'m> {
    /// The link.
    pub link: &'m MeshLink,
    /// The router that is entered.
    pub router: &'m MeshRouter,
    /// What entering it costs.
    pub router_cost: u32,
}

/// What keeps a way from being taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle<'m> {
    /// An operator has taken the link out of use.
    Down(&'m MeshLink),
    /// The router carries nothing for others.
    Closed(&'m MeshRouter),
}

/// How much may still be looked at, in links.
#[derive(Debug)]
pub struct Work {
    left: usize,
    is_cut: bool,
}

impl Work {
    /// As many looks at links.
    pub fn new(links: usize) -> Self {
        Self { left: links, is_cut: false }
    }

    /// Whether something was not looked for because it would have taken too long.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether `links` more may be looked at.
    fn take(&mut self, links: usize) -> bool {
        self.is_cut |= links > self.left;
        self.left = self.left.saturating_sub(links);
        !self.is_cut
    }
}

/// The cheapest ways from one router to all that can be reached.
#[derive(Debug)]
pub struct Tree<'m> {
    mesh: &'m Mesh,
    from: usize,
    /// For each router what it costs to get there, and the last link.
    reached: Vec<Option<(u64, usize)>>,
}

/// What a search may use.
#[derive(Debug, Default)]
struct Rules {
    /// Also links that are down and routers that carry nothing for others.
    everything: bool,
    /// Not these links.
    without_links: HashSet<usize>,
    /// Not these routers.
    without_routers: HashSet<usize>,
}

/// The connected routers and the links between them.
#[derive(Debug, Default)]
pub struct Mesh {
    min_router_cost: u16,
    /// By id.
    routers: Vec<MeshRouter>,
    places: HashMap<Id, usize>,
    links: Vec<MeshLink>,
    /// For each router its neighbours, and the links to them.
    edges: Vec<Vec<(usize, usize)>>,
}

impl Mesh {
    /// A mesh in which entering a router costs at least this much. Links come as they were reported,
    /// the last one last; those with an end that is not connected are left out.
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

    /// The cheapest ways from a router; none if it is not connected. With `everything` also over links
    /// that are down and routers that carry nothing for others.
    pub fn tree(&self, from: &Id, everything: bool) -> Option<Tree<'_>> {
        let from = *self.places.get(from)?;
        let rules = Rules { everything, ..Rules::default() };
        let reached = self.search(from, None, &rules, &mut Work::new(usize::MAX))?;
        Some(Tree { mesh: self, from, reached })
    }

    /// A way as circuits have it.
    pub fn path(&self, way: &Way) -> Path {
        Path {
            nodes: way.routers.iter().map(|at| self.routers[*at].id.clone()).collect(),
            links: way.links.iter().map(|at| self.links[*at].id.clone()).collect(),
            cost: u32::try_from(way.cost).unwrap_or(u32::MAX),
        }
    }

    /// The steps of a way: none if it stays on its router.
    pub fn steps<'m>(&'m self, way: &'m Way) -> impl Iterator<Item = Step<'m>> {
        let entered = way.routers.iter().skip(1);
        way.links.iter().zip(entered).map(|(link, router)| Step {
            link: &self.links[*link],
            router: &self.routers[*router],
            router_cost: self.entering(*router),
        })
    }

    /// Up to `count` ways that cost more than `first`, which is the cheapest, or as much: the
    /// cheapest of them first, none over a router twice.
    pub fn others(&self, first: &Way, count: usize, work: &mut Work) -> Vec<Way> {
        let (Some(from), Some(to)) = (first.routers.first(), first.routers.last()) else {
            return Vec::new();
        };
        let (from, to) = (*from, *to);
        let mut found = vec![first.clone()];
        // By cost, and then by what they take, so that the same mesh is always explained alike.
        let mut next: BTreeSet<(u64, Vec<usize>)> = BTreeSet::new();
        while found.len() <= count {
            let Some(last) = found.last() else { break };
            // Every other way leaves this one, or one before it, at some router.
            for at in 0..last.links.len() {
                let (root, spur) = (&last.links[..at], last.routers[at]);
                let alike = found.iter().filter(|way| way.links.get(..at) == Some(root));
                let rules = Rules {
                    without_links: alike.filter_map(|way| way.links.get(at).copied()).collect(),
                    without_routers: last.routers[..at].iter().copied().collect(),
                    ..Rules::default()
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

    /// What keeps a way from being taken.
    pub fn obstacles(&self, way: &Way) -> Vec<Obstacle<'_>> {
        let over = way.links.iter().map(|link| &self.links[*link]).filter(|link| link.down);
        let inner = way.routers.get(1..way.routers.len().saturating_sub(1)).unwrap_or_default();
        let through = inner.iter().map(|at| &self.routers[*at]).filter(|it| it.no_traversal);
        over.map(Obstacle::Down).chain(through.map(Obstacle::Closed)).collect()
    }

    fn entering(&self, router: usize) -> u32 {
        self.routers[router].cost.max(self.min_router_cost).into()
    }

    /// The way that takes these links.
    fn along(&self, from: usize, links: Vec<usize>) -> Way {
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
        Way { cost, links, routers }
    }

    /// What it costs by the rules to get to each router, up to `to` if there is one; none if it would
    /// have taken too long. Of equal ways that over fewer links, and then, at each router, that over the
    /// lowest id, as dials take it.
    fn search(
        &self,
        from: usize,
        to: Option<usize>,
        rules: &Rules,
        work: &mut Work,
    ) -> Option<Vec<Option<(u64, usize)>>> {
        let mut reached: Vec<Option<(u64, usize)>> = vec![None; self.routers.len()];
        // What the way to each costs, then how many links it has; and the router before it.
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
                // Of equal links between two routers the last counts.
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
    /// The cheapest way to a router; none if it cannot be reached.
    pub fn way(&self, to: &Id) -> Option<Way> {
        let to = *self.mesh.places.get(to)?;
        let links = self.mesh.walk_back(&self.reached, self.from, to)?;
        Some(self.mesh.along(self.from, links))
    }
}
