//! Chooses the terminator of a dial (docs/protocol/control-plane.md 11). Pure: candidates with
//! their costs and a random number come in, the choice comes out.

use std::sync::Arc;

use weft_model::entity::{Precedence, Terminator, TerminatorStrategy};

/// Largest cost of a path that makes a difference.
const MAX_PATH_COST: u32 = 1_048_576;

/// A terminator that can be reached.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// The terminator.
    pub terminator: Arc<Terminator>,
    /// The cost of the path to its router.
    pub path_cost: u32,
    /// Its dynamic cost, see [`Costs`](super::costs::Costs).
    pub dynamic_cost: u16,
    /// Whether the same dial has failed at it before.
    pub was_tried: bool,
}

impl Candidate {
    /// Its cost, within the band of its precedence.
    pub fn biased(&self) -> u32 {
        let (least, most) = band(self.terminator.precedence);
        let cost = u32::from(self.terminator.cost)
            + u32::from(self.dynamic_cost)
            + self.path_cost.min(MAX_PATH_COST);
        least.saturating_add(cost).min(most)
    }
}

/// The band of costs of a precedence.
fn band(precedence: Precedence) -> (u32, u32) {
    match precedence {
        Precedence::Required => (0, 1_073_741_822),
        Precedence::Default => (1_073_741_823, 2_147_483_645),
        Precedence::Failed => (2_147_483_646, 3_221_225_468),
    }
}

/// Chooses by the strategy of the service; none if there are no candidates. A candidate that was
/// tried is chosen only if its precedence has no other. `wanted` is the terminator that the client
/// used before, `random` any number.
pub fn choose(
    strategy: TerminatorStrategy,
    mut candidates: Vec<Candidate>,
    wanted: Option<&str>,
    random: u64,
) -> Option<Candidate> {
    let order = |a: &Candidate, b: &Candidate| {
        let by_cost = a.biased().cmp(&b.biased());
        by_cost.then_with(|| a.terminator.base.id.cmp(&b.terminator.base.id))
    };
    let precedence = candidates.iter().min_by(|a, b| order(a, b))?.terminator.precedence;
    candidates.retain(|one| one.terminator.precedence == precedence);
    if candidates.iter().any(|one| !one.was_tried) {
        candidates.retain(|one| !one.was_tried);
    }
    let is_wanted = |one: &Candidate| Some(one.terminator.base.id.as_str()) == wanted;
    let at = match strategy {
        TerminatorStrategy::Sticky if candidates.iter().any(is_wanted) => {
            candidates.iter().position(is_wanted)?
        }
        TerminatorStrategy::SmartRouting | TerminatorStrategy::Sticky => {
            let cheapest = candidates.iter().enumerate().min_by(|(_, a), (_, b)| order(a, b));
            cheapest.map(|(at, _)| at)?
        }
        TerminatorStrategy::Weighted => {
            candidates.sort_by(order);
            weighted(&candidates, random)
        }
        TerminatorStrategy::Random => {
            candidates.sort_by(order);
            (random % candidates.len() as u64) as usize
        }
    };
    Some(candidates.swap_remove(at))
}

/// Chooses cheaper candidates more often.
fn weighted(related: &[Candidate], random: u64) -> usize {
    if related.len() < 2 {
        return 0;
    }
    let own =
        |one: &Candidate| f64::from((one.biased() - band(one.terminator.precedence).0).max(1));
    let total: f64 = related.iter().map(own).sum();
    let weights: Vec<f64> = related.iter().map(|one| 1.0 - own(one) / total).collect();
    let sum: f64 = weights.iter().sum();
    let mut left = (random as f64 / u64::MAX as f64) * sum;
    for (at, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return at;
        }
    }
    related.len() - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_model::{Base, Id, Timestamp};

    use super::*;

    fn candidate(id: &str, precedence: Precedence, cost: u16, dynamic_cost: u16) -> Candidate {
        let terminator = Terminator {
            base: Base::new(Id::new(id), Timestamp(0)),
            precedence,
            cost,
            ..Terminator::default()
        };
        let terminator = Arc::new(terminator);
        Candidate { terminator, path_cost: 10, dynamic_cost, was_tried: false }
    }

    fn chosen(
        strategy: TerminatorStrategy,
        all: &[Candidate],
        wanted: &str,
        random: u64,
    ) -> String {
        let chosen = choose(strategy, all.to_vec(), Some(wanted), random).unwrap();
        chosen.terminator.base.id.to_string()
    }

    #[test]
    fn precedence_comes_before_cost() {
        use Precedence::{Default, Failed, Required};
        let all = [
            candidate("failed", Failed, 0, 0),
            candidate("default", Default, 0, 0),
            candidate("required", Required, u16::MAX, u16::MAX),
        ];
        let smart = TerminatorStrategy::SmartRouting;
        assert_eq!(chosen(smart, &all, "", 0), "required");
        assert_eq!(chosen(smart, &all[..2], "", 0), "default");
        assert_eq!(chosen(smart, &all[..1], "", 0), "failed");
        assert!(choose(smart, Vec::new(), None, 0).is_none());
        assert_eq!(candidate("t", Default, 3, 4).biased(), 1_073_741_823 + 17);
    }

    #[test]
    fn failures_move_the_choice() {
        let all =
            [candidate("a", Precedence::Default, 1, 20), candidate("b", Precedence::Default, 5, 0)];
        assert_eq!(chosen(TerminatorStrategy::SmartRouting, &all, "", 0), "b");
    }

    #[test]
    fn what_was_tried_comes_after_its_equals() {
        use Precedence::{Default, Required};
        let tried = |one: Candidate| Candidate { was_tried: true, ..one };
        let all = [tried(candidate("a", Required, 1, 0)), candidate("b", Required, 500, 0)];
        for strategy in [
            TerminatorStrategy::SmartRouting,
            TerminatorStrategy::Weighted,
            TerminatorStrategy::Random,
            TerminatorStrategy::Sticky,
        ] {
            assert_eq!(chosen(strategy, &all, "a", 2), "b");
        }
        let all = [tried(candidate("a", Required, 1, 0)), candidate("b", Default, 0, 0)];
        assert_eq!(chosen(TerminatorStrategy::SmartRouting, &all, "", 0), "a");
    }

    #[test]
    fn sticky_goes_back_while_it_can() {
        let all = [
            candidate("a", Precedence::Default, 1, 0),
            candidate("b", Precedence::Default, 5, 0),
            candidate("c", Precedence::Failed, 5, 0),
        ];
        let sticky = TerminatorStrategy::Sticky;
        assert_eq!(chosen(sticky, &all, "b", 0), "b");
        assert_eq!(chosen(sticky, &all, "c", 0), "a");
        assert_eq!(chosen(sticky, &all, "", 0), "a");
    }

    #[test]
    fn weights_favour_the_cheaper() {
        let all =
            [candidate("a", Precedence::Default, 0, 0), candidate("b", Precedence::Default, 80, 0)];
        let mut cheap = 0;
        for step in 0..100_u64 {
            let random = step * (u64::MAX / 100);
            if chosen(TerminatorStrategy::Weighted, &all, "", random) == "a" {
                cheap += 1;
            }
        }
        assert_eq!(cheap, 90);
    }

    proptest! {
        #[test]
        fn a_choice_is_of_the_best_precedence(
            costs in prop::collection::vec((0u8..3, any::<u16>(), any::<u16>()), 1..8),
            strategy in 0u8..4,
            random in any::<u64>(),
        ) {
            let kinds = [Precedence::Required, Precedence::Default, Precedence::Failed];
            let all: Vec<_> = costs.iter().enumerate().map(|(at, (kind, cost, dynamic))| {
                candidate(&format!("t{at}"), kinds[usize::from(*kind)], *cost, *dynamic)
            }).collect();
            let strategy = [
                TerminatorStrategy::SmartRouting, TerminatorStrategy::Weighted,
                TerminatorStrategy::Random, TerminatorStrategy::Sticky,
            ][usize::from(strategy)];
            let best = costs.iter().map(|(kind, ..)| *kind).min().unwrap();
            let choice = choose(strategy, all, None, random).unwrap();
            prop_assert_eq!(choice.terminator.precedence, kinds[usize::from(best)]);
        }
    }
}
