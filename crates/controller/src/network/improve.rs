//! Now and then the dearest circuits that have a much cheaper path are moved to it (`network.smart`;
//! protocol: control-plane 14). Only a few at a time, and none that was moved just now: what one move
//! does to latencies shows before the next.

use std::cmp::Reverse;
use std::sync::Arc;

use super::Network;
use super::circuits::Circuit;
use super::moves::Why;

/// Circuits looked at before others get their turn.
const TURN: usize = 500;

/// How many circuits are moved in one look (protocol: control-plane 14).
fn ceiling(circuits: usize, fraction: f64, cap: u32) -> usize {
    let share = (circuits as f64 * fraction) as usize;
    share.max(1).min(cap as usize)
}

impl Network {
    /// Has the dearest circuits moved that gain enough; how many.
    pub(crate) async fn improve(&self) -> usize {
        let options = &self.0.options;
        let all = self.0.circuits.matching(|it| it.is_whole && !it.path.links.is_empty());
        let ceiling = ceiling(
            self.0.circuits.len(),
            options.smart_reroute_fraction,
            options.smart_reroute_cap,
        );
        let delta = u64::from(options.smart_min_cost_delta);
        let mut by_cost: Vec<(Reverse<u64>, Arc<Circuit>)> = Vec::new();
        for (at, circuit) in all.into_iter().enumerate() {
            if at % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            // A broken path is no matter of cost.
            let cost = self.cost_of(&circuit.path).filter(|cost| *cost >= delta);
            by_cost.extend(cost.map(|cost| (Reverse(cost), circuit)));
        }
        by_cost.sort_by(|(one, circuit), (other, next)| {
            one.cmp(other).then_with(|| circuit.id.cmp(&next.id))
        });
        let mut moved = 0;
        for (at, (Reverse(cost), circuit)) in by_cost.into_iter().enumerate() {
            if moved >= ceiling {
                break;
            }
            if at % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            let (Some(first), Some(last)) = (circuit.path.first(), circuit.path.last()) else {
                continue;
            };
            let is_fresh = circuit.moving.since_last().is_some_and(|it| it < options.cycle);
            let best = self.ways(first).cost(last).map(u64::from);
            if !is_fresh
                && best.is_some_and(|best| cost.saturating_sub(best) >= delta && best < cost)
            {
                self.move_or_end(circuit, Why::Cost);
                moved += 1;
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::ceiling;

    #[test]
    fn a_share_is_moved_but_at_least_one_and_no_more_than_the_cap() {
        assert_eq!(ceiling(0, 0.02, 4), 1);
        assert_eq!(ceiling(49, 0.02, 4), 1);
        assert_eq!(ceiling(100, 0.02, 4), 2);
        assert_eq!(ceiling(100_000, 0.02, 4), 4);
        assert_eq!(ceiling(100_000, 0.02, 0), 0);
    }
}
