//! Moves circuits to much cheaper paths, at intervals: of the circuits for which there is such a
//! path, those with the highest costs (`network.smart`; docs/protocol/control-plane.md 14). Only a
//! few circuits move at a time, and no circuit that moved recently, so that the effect on latencies
//! is measured before the next moves.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use weft_paths::queue::MoveReason;

use super::circuits::Circuit;
use crate::network::Network;

/// Most circuits that one round moves (docs/protocol/control-plane.md 14).
fn ceiling(circuits: usize, fraction: f64, cap: u32) -> usize {
    let share = (circuits as f64 * fraction) as usize;
    share.max(1).min(cap as usize)
}

/// With more waiting moves than this, none is started for its cost: the waiting moves will change
/// the costs.
const MANY: usize = 1_000;

/// Circuits by cost, the dearest first.
type CircuitsByCost = BTreeMap<(Reverse<u64>, String), Arc<Circuit>>;

impl Network {
    /// Starts the moves of the circuits with the highest costs that gain enough, and returns their
    /// number. Looks at all circuits, a part at a time.
    pub async fn improve(&self) -> usize {
        if self.waiting_moves() > MANY {
            return 0;
        }
        let options = &self.0.options;
        let ceiling = ceiling(
            self.0.circuits.len(),
            options.smart_reroute_fraction,
            options.smart_reroute_cap,
        );
        let mut dearest = BTreeMap::new();
        for router in self.0.circuits.routers() {
            let mut after: Option<String> = None;
            loop {
                let circuits = self.0.circuits.some_at(&router, after.as_deref());
                let Some(last) = circuits.last() else { break };
                after = Some(last.id.clone());
                let begins_here = |it: &&Arc<Circuit>| it.path.first() == Some(&router);
                for circuit in circuits.iter().filter(begins_here) {
                    self.judge(circuit, &mut dearest, ceiling);
                }
                tokio::task::yield_now().await;
            }
        }
        let moved = dearest.len();
        dearest.into_values().for_each(|circuit| self.move_or_end(&circuit, MoveReason::Cost));
        moved
    }

    /// Adds a circuit to the circuits with the highest costs, if it gains enough and is one of
    /// them.
    fn judge(&self, circuit: &Arc<Circuit>, dearest: &mut CircuitsByCost, ceiling: usize) {
        let delta = u64::from(self.0.options.smart_min_cost_delta);
        if !circuit.is_whole || circuit.path.links.is_empty() {
            return;
        }
        // A circuit with a broken path is moved at once, when the path breaks (`network::moves`).
        let Some(cost) = self.cost_of(&circuit.path).filter(|cost| *cost >= delta) else { return };
        let key = (Reverse(cost), circuit.id.clone());
        let is_full = dearest.len() >= ceiling;
        if is_full && dearest.last_key_value().is_none_or(|(last, _)| *last < key) {
            return;
        }
        let (Some(first), Some(last)) = (circuit.path.first(), circuit.path.last()) else { return };
        let is_fresh = circuit.moving.since_last().is_some_and(|it| it < self.0.options.cycle);
        let best = self.ways(first).cost(last).map(u64::from);
        let gains = best.is_some_and(|best| cost.saturating_sub(best) >= delta && best < cost);
        if gains && !is_fresh {
            dearest.insert(key, Arc::clone(circuit));
            if is_full {
                dearest.pop_last();
            }
        }
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
