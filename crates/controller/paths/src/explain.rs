//! Explains a dial: the terminators of a service as one router sees them, the chosen one with its
//! path, and why the others are not chosen. Pure: mesh and costs come in, the explanation comes
//! out.
//!
//! The choice is made by [`choose`], as for a real dial.

pub mod mesh;

use std::sync::Arc;

pub use mesh::{Mesh, MeshLink, MeshRoute, MeshRouter, Obstacle, Step, Tree, WorkBudget};
use weft_model::Id;
use weft_model::entity::{Precedence, Terminator, TerminatorStrategy};

use super::costs::CostParts;
use super::select::{Candidate, choose};

/// Other paths that are looked for, for each terminator.
const OTHER_PATHS: usize = 3;
/// Terminators whose other paths are looked for, in the order of the explanation.
const LOOKED_AROUND: usize = 16;

/// A terminator of the service.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The terminator.
    pub terminator: Arc<Terminator>,
    /// Its dynamic cost.
    pub costs: CostParts,
    /// Whether its host may host the service.
    pub is_founded: bool,
}

/// The dial to explain.
#[derive(Debug)]
pub struct Question<'a> {
    /// The mesh.
    pub mesh: &'a Mesh,
    /// The router where the circuit would begin.
    pub entry: &'a Id,
    /// The strategy of the service.
    pub strategy: TerminatorStrategy,
    /// The instance to dial; if empty, any terminator without an instance.
    pub instance: &'a str,
    /// The terminators of the service.
    pub offers: &'a [Offer],
}

/// The result for a terminator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// The terminator is dialed.
    Chosen,
    /// One of several terminators is dialed at random; the probability of this one, from 0 to 1.
    Chance(f64),
    /// The terminator costs this much more than the dialed one; 0 if only the order of ids decides.
    Dearer(u64),
    /// Another terminator has a better precedence.
    Precedence(Precedence),
    /// The terminator's router cannot be reached from the entry.
    NoPath,
    /// The terminator's router is not connected.
    Offline,
    /// The terminator's host may not host the service any more.
    Unfounded,
    /// The terminator has another instance than the dialed one.
    OtherInstance,
}

impl Verdict {
    /// The place of a verdict in the explanation: terminators that can be dialed come first.
    fn rank(self) -> u8 {
        match self {
            Self::Chosen => 0,
            Self::Chance(_) => 1,
            Self::Dearer(_) => 2,
            Self::Precedence(_) => 3,
            Self::NoPath => 4,
            Self::Offline => 5,
            Self::Unfounded => 6,
            Self::OtherInstance => 7,
        }
    }
}

/// A terminator with its explanation.
#[derive(Debug, Clone)]
pub struct Explained<'m> {
    /// The terminator.
    pub terminator: Arc<Terminator>,
    /// Its dynamic cost.
    pub costs: CostParts,
    /// The part of the dynamic cost that counts: none for a service that chooses at random.
    pub dynamic_cost: u16,
    /// The result.
    pub verdict: Verdict,
    /// Its cost with the cost of its path; none without a path.
    pub cost: Option<u64>,
    /// The path of a dial, and other paths, the cheapest first.
    pub routes: Vec<MeshRoute>,
    /// A path that would be cheaper, or the only one, with the obstacles on it.
    pub blocked: Option<(MeshRoute, Vec<Obstacle<'m>>)>,
}

/// Explains a dial; the dialed terminator comes first.
pub fn explain<'m>(question: &Question<'m>, work: &mut WorkBudget) -> Vec<Explained<'m>> {
    let mesh = question.mesh;
    let tree = mesh.tree(question.entry, false);
    let mut explained = Vec::with_capacity(question.offers.len());
    let mut candidates = Vec::new();
    for Offer { terminator, costs, is_founded } in question.offers {
        let is_random = question.strategy == TerminatorStrategy::Random;
        let mut one = Explained {
            terminator: Arc::clone(terminator),
            costs: *costs,
            dynamic_cost: if is_random { 0 } else { costs.total },
            verdict: Verdict::NoPath,
            cost: None,
            routes: Vec::new(),
            blocked: None,
        };
        if *terminator.instance_id != *question.instance {
            one.verdict = Verdict::OtherInstance;
        } else if !is_founded {
            one.verdict = Verdict::Unfounded;
        } else if !mesh.has(&terminator.router_id) {
            one.verdict = Verdict::Offline;
        } else if let Some(route) = tree.as_ref().and_then(|tree| tree.route(&terminator.router_id))
        {
            let own = u64::from(terminator.cost) + u64::from(one.dynamic_cost);
            one.cost = Some(own + route.cost);
            let (terminator, dynamic_cost) = (Arc::clone(terminator), one.dynamic_cost);
            let candidate = Candidate {
                terminator,
                path_cost: u32::try_from(route.cost).unwrap_or(u32::MAX),
                dynamic_cost,
                was_tried: false,
            };
            candidates.push((explained.len(), candidate));
            one.routes.push(route);
        }
        explained.push(one);
    }
    judge(question.strategy, &candidates, &mut explained);
    explained.sort_by_key(|one| {
        (one.verdict.rank(), one.cost.unwrap_or(u64::MAX), one.terminator.base.id.clone())
    });
    look_around(question, &mut explained, work);
    explained
}

/// Sets the verdicts of terminators that can be reached.
fn judge(
    strategy: TerminatorStrategy,
    candidates: &[(usize, Candidate)],
    all: &mut [Explained<'_>],
) {
    let dialed: Vec<Candidate> = candidates.iter().map(|(_, one)| one.clone()).collect();
    // The random number does not matter: of a random choice only the precedence is used.
    let Some(chosen) = choose(strategy, dialed, None, 0) else { return };
    let best = chosen.terminator.precedence;
    let is_related = |one: &Candidate| one.terminator.precedence == best;
    let related = candidates.iter().filter(|(_, one)| is_related(one));
    let (count, total) = related.fold((0.0, 0.0), |(count, total), (_, one)| {
        (count + 1.0, total + f64::from(within_band(one).max(1)))
    });
    for (at, one) in candidates {
        let verdict = match strategy {
            _ if !is_related(one) => Verdict::Precedence(best),
            TerminatorStrategy::Random if count > 1.0 => Verdict::Chance(1.0 / count),
            TerminatorStrategy::Weighted if count > 1.0 => {
                let part = f64::from(within_band(one).max(1)) / total;
                Verdict::Chance((1.0 - part) / (count - 1.0))
            }
            _ if one.terminator.base.id == chosen.terminator.base.id => Verdict::Chosen,
            _ => Verdict::Dearer(u64::from(one.biased().saturating_sub(chosen.biased()))),
        };
        if let Some(explained) = all.get_mut(*at) {
            explained.verdict = verdict;
        }
    }
}

/// The cost of a terminator compared with others of its precedence.
fn within_band(one: &Candidate) -> u32 {
    let terminator = Arc::clone(&one.terminator);
    let bare = Candidate { terminator, path_cost: 0, dynamic_cost: 0, was_tried: false };
    let least = bare.biased().saturating_sub(one.terminator.cost.into());
    one.biased().saturating_sub(least)
}

/// Looks for other paths, and for obstacles on cheaper ones.
fn look_around<'m>(question: &Question<'m>, all: &mut [Explained<'m>], work: &mut WorkBudget) {
    let mesh = question.mesh;
    let Some(everything) = mesh.tree(question.entry, true) else { return };
    for one in all.iter_mut().take(LOOKED_AROUND) {
        if matches!(one.verdict, Verdict::Offline | Verdict::Unfounded | Verdict::OtherInstance) {
            continue;
        }
        let least = one.routes.first().map_or(u64::MAX, |route| route.cost);
        let blocked = everything.route(&one.terminator.router_id);
        one.blocked = blocked.filter(|route| route.cost < least).map(|route| {
            let obstacles = mesh.obstacles(&route);
            (route, obstacles)
        });
        if let Some(best) = one.routes.first().cloned() {
            one.routes.extend(mesh.others(&best, OTHER_PATHS, work));
        }
    }
}

#[cfg(test)]
mod tests;
