//! Dynamic costs of terminators: circuits that they carry, and dials that failed
//! (docs/protocol/control-plane.md 11). They are kept in memory, by terminator.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::Id;

/// Cost added by a failed dial.
const FAILURE: u32 = 20;
/// Cost removed by a successful dial.
const SUCCESS: u32 = 2;
/// Cost of a circuit while it lasts.
const CIRCUIT: u32 = 2;
/// After each further time of this length without a failed dial, [`Costs::forgive`] removes twice as much
/// cost.
const CALM: Duration = Duration::from_secs(300);
/// The least cost that a call of [`Costs::forgive`] removes from a terminator.
const LEAST_CREDIT: u32 = 10;

/// Costs by terminator.
#[derive(Debug, Default)]
pub struct Costs(Mutex<HashMap<Id, TerminatorCost>>);

#[derive(Debug, Default)]
struct TerminatorCost {
    circuits: u32,
    failures: u32,
    failed_at: Option<Instant>,
}

/// The parts of a terminator's dynamic cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostParts {
    /// Number of its circuits.
    pub circuits: u32,
    /// Cost of its failed dials.
    pub failures: u32,
    /// The sum, as it counts.
    pub total: u16,
}

impl TerminatorCost {
    fn cost(&self) -> u16 {
        let cost = self.circuits.saturating_mul(CIRCUIT).saturating_add(self.failures);
        u16::try_from(cost).unwrap_or(u16::MAX)
    }
}

impl Costs {
    /// The dynamic cost of a terminator.
    pub fn of(&self, terminator: &Id) -> u16 {
        self.0.lock().get(terminator).map_or(0, TerminatorCost::cost)
    }

    /// The dynamic costs of terminators, in their order.
    pub fn of_each<'a>(&self, terminators: impl Iterator<Item = &'a Id>) -> Vec<u16> {
        let entries = self.0.lock();
        terminators.map(|it| entries.get(it).map_or(0, TerminatorCost::cost)).collect()
    }

    /// The parts of the dynamic cost of a terminator.
    pub fn parts(&self, terminator: &Id) -> CostParts {
        let entries = self.0.lock();
        entries.get(terminator).map_or_else(CostParts::default, |entry| CostParts {
            circuits: entry.circuits,
            failures: entry.failures,
            total: entry.cost(),
        })
    }

    /// Counts a failed dial.
    pub fn failed(&self, terminator: &Id, now: Instant) {
        let mut entries = self.0.lock();
        let entry = entries.entry(terminator.clone()).or_default();
        entry.failures = entry.failures.saturating_add(FAILURE);
        entry.failed_at = Some(now);
    }

    /// Counts a new circuit, which is also a successful dial.
    pub fn created(&self, terminator: &Id) {
        let mut entries = self.0.lock();
        let entry = entries.entry(terminator.clone()).or_default();
        entry.failures = entry.failures.saturating_sub(SUCCESS);
        entry.circuits = entry.circuits.saturating_add(1);
    }

    /// Counts the end of a circuit.
    pub fn removed(&self, terminator: &Id) {
        let mut entries = self.0.lock();
        if let Some(entry) = entries.get_mut(terminator) {
            entry.circuits = entry.circuits.saturating_sub(1);
            if entry.circuits == 0 && entry.failures == 0 {
                entries.remove(terminator);
            }
        }
    }

    /// Removes costs of failures, the more the longer ago the last failed dial of the terminator was. To be
    /// called every minute.
    pub fn forgive(&self, now: Instant) {
        self.0.lock().retain(|_, entry| {
            if entry.failures > 0 {
                let calm = entry.failed_at.map_or(Duration::ZERO, |at| now.duration_since(at));
                let doublings = u32::try_from(calm.as_secs() / CALM.as_secs()).unwrap_or(31);
                let credit = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX).max(LEAST_CREDIT);
                entry.failures = entry.failures.saturating_sub(credit);
            }
            entry.circuits > 0 || entry.failures > 0
        });
    }

    /// Removes a deleted terminator.
    pub fn forget(&self, terminator: &Id) {
        self.0.lock().remove(terminator);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_rise_and_fall() {
        let (costs, t) = (Costs::default(), Id::new("t"));
        let start = Instant::now();
        costs.failed(&t, start);
        costs.failed(&t, start);
        assert_eq!(costs.of(&t), 40);
        costs.created(&t);
        assert_eq!(costs.of(&t), 40);
        costs.removed(&t);
        costs.removed(&t);
        assert_eq!(costs.of(&t), 38);
        costs.forgive(start + Duration::from_secs(60));
        assert_eq!(costs.of(&t), 28);
        costs.forgive(start + CALM * 4);
        assert_eq!(costs.of(&t), 12);
        costs.forgive(start + CALM * 40);
        assert_eq!(costs.of(&t), 0);
        assert!(costs.0.lock().is_empty());
    }

    #[test]
    fn cost_is_bounded() {
        let (costs, t) = (Costs::default(), Id::new("t"));
        (0..40_000).for_each(|_| costs.created(&t));
        assert_eq!(costs.of(&t), u16::MAX);
        costs.forget(&t);
        assert_eq!(costs.of(&t), 0);
    }
}
