//! Why a dial goes where it goes: the terminators of a service as one router sees them, which of
//! them is chosen, over which path, and what is against the others. Pure: the mesh at one moment
//! and what terminators cost comes in, the explanation comes out.
//!
//! What is chosen is decided by the code that dials, [`choose`].

pub mod mesh;

use std::sync::Arc;

use weft_model::Id;
use weft_model::entity::{Precedence, Terminator, TerminatorStrategy};

use super::costs::Parts;
use super::select::{Candidate, choose};

pub use mesh::{Mesh, MeshLink, MeshRouter, Obstacle, Step, Tree, Way, Work};

/// Other paths that are looked for per terminator.
const OTHER_PATHS: usize = 3;
/// Terminators whose other paths are looked for: those that come first.
const LOOKED_AROUND: usize = 16;

/// A terminator of the service.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The terminator.
    pub terminator: Arc<Terminator>,
    /// What experience with it costs.
    pub costs: Parts,
}

/// What is asked.
#[derive(Debug)]
pub struct Question<'a> {
    /// The mesh.
    pub mesh: &'a Mesh,
    /// The router where the circuit would begin.
    pub entry: &'a Id,
    /// How the service chooses.
    pub strategy: TerminatorStrategy,
    /// The instance that is asked for; empty is any without one.
    pub instance: &'a str,
    /// The terminators of the service.
    pub offers: &'a [Offer],
}

/// What becomes of a terminator when somebody dials.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// It is dialed.
    Chosen,
    /// Chance decides between it and others: how likely it is, from 0 to 1.
    Chance(f64),
    /// It costs so much more than the one that is dialed; 0 if only the order of ids decides.
    Dearer(u64),
    /// One of a better precedence is there.
    Precedence(Precedence),
    /// Its router cannot be reached from the entry.
    NoPath,
    /// Its router is not connected.
    Offline,
    /// It is another instance than the one that is asked for.
    OtherInstance,
}

impl Verdict {
    /// Those that can be dialed come first.
    fn rank(self) -> u8 {
        match self {
            Self::Chosen => 0,
            Self::Chance(_) => 1,
            Self::Dearer(_) => 2,
            Self::Precedence(_) => 3,
            Self::NoPath => 4,
            Self::Offline => 5,
            Self::OtherInstance => 6,
        }
    }
}

/// A terminator, explained.
#[derive(Debug, Clone)]
pub struct Explained<'m> {
    /// The terminator.
    pub terminator: Arc<Terminator>,
    /// What experience with it costs.
    pub costs: Parts,
    /// What of that counts: a service that chooses at random looks at none of it.
    pub dynamic_cost: u16,
    /// What becomes of it.
    pub verdict: Verdict,
    /// What it costs together with its path; none without a path.
    pub cost: Option<u64>,
    /// The path that a dial takes, and others, the cheapest first.
    pub ways: Vec<Way>,
    /// A cheaper path, or the only one, with what stands in its way.
    pub blocked: Option<(Way, Vec<Obstacle<'m>>)>,
}

/// Explains a dial, what is dialed first.
pub fn explain<'m>(question: &Question<'m>, work: &mut Work) -> Vec<Explained<'m>> {
    let mesh = question.mesh;
    let tree = mesh.tree(question.entry, false);
    let mut explained = Vec::with_capacity(question.offers.len());
    let mut candidates = Vec::new();
    for Offer { terminator, costs } in question.offers {
        let is_random = question.strategy == TerminatorStrategy::Random;
        let mut one = Explained {
            terminator: Arc::clone(terminator),
            costs: *costs,
            dynamic_cost: if is_random { 0 } else { costs.total },
            verdict: Verdict::NoPath,
            cost: None,
            ways: Vec::new(),
            blocked: None,
        };
        if *terminator.instance_id != *question.instance {
            one.verdict = Verdict::OtherInstance;
        } else if !mesh.has(&terminator.router_id) {
            one.verdict = Verdict::Offline;
        } else if let Some(way) = tree.as_ref().and_then(|tree| tree.way(&terminator.router_id)) {
            let own = u64::from(terminator.cost) + u64::from(one.dynamic_cost);
            one.cost = Some(own + way.cost);
            let (terminator, dynamic_cost) = (Arc::clone(terminator), one.dynamic_cost);
            let candidate = Candidate {
                terminator,
                path_cost: u32::try_from(way.cost).unwrap_or(u32::MAX),
                dynamic_cost,
                was_tried: false,
            };
            candidates.push((explained.len(), candidate));
            one.ways.push(way);
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

/// Says of those that can be reached, each with its place, what becomes of them.
fn judge(
    strategy: TerminatorStrategy,
    candidates: &[(usize, Candidate)],
    all: &mut [Explained<'_>],
) {
    let dialed: Vec<Candidate> = candidates.iter().map(|(_, one)| one.clone()).collect();
    // Any number will do: where chance decides, only the precedence of what it takes is looked at.
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

/// What counts of the cost of a terminator among those of its precedence.
fn within_band(one: &Candidate) -> u32 {
    let terminator = Arc::clone(&one.terminator);
    let bare = Candidate { terminator, path_cost: 0, dynamic_cost: 0, was_tried: false };
    let least = bare.biased().saturating_sub(one.terminator.cost.into());
    one.biased().saturating_sub(least)
}

/// Looks for other paths, and for what stands in the way of cheaper ones.
fn look_around<'m>(question: &Question<'m>, all: &mut [Explained<'m>], work: &mut Work) {
    let mesh = question.mesh;
    let Some(everything) = mesh.tree(question.entry, true) else { return };
    for one in all.iter_mut().take(LOOKED_AROUND) {
        if matches!(one.verdict, Verdict::Offline | Verdict::OtherInstance) {
            continue;
        }
        let least = one.ways.first().map_or(u64::MAX, |way| way.cost);
        let blocked = everything.way(&one.terminator.router_id);
        one.blocked = blocked.filter(|way| way.cost < least).map(|way| {
            let obstacles = mesh.obstacles(&way);
            (way, obstacles)
        });
        if let Some(best) = one.ways.first().cloned() {
            one.ways.extend(mesh.others(&best, OTHER_PATHS, work));
        }
    }
}

#[cfg(test)]
mod tests;
