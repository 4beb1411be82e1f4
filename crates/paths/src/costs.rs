//! What experience with a terminator costs it: circuits it carries, dials that failed
//! (docs/protocol/control-plane.md 11). In memory, by terminator.

use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use weft_model::Id;

/// What a failed dial costs.
const FAILURE: u32 = 20;
/// What a successful one gives back.
const SUCCESS: u32 = 2;
/// What a circuit costs while it lasts.
const CIRCUIT: u32 = 2;
/// Time without failure after which what is given back doubles.
const CALM: Duration = Duration::from_secs(300);
/// The least that is given back at a time.
const LEAST_CREDIT: u32 = 10;

/// Costs by terminator.
#[derive(Debug, Default)]
pub struct Costs(Mutex<HashMap<Id, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    circuits: u32,
    failures: u32,
    failed_at: Option<Instant>,
}

/// What the cost of a terminator is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// Circuits it carries.
    pub circuits: u32,
    /// What failed dials cost it.
    pub failures: u32,
    /// What it costs in all.
    pub total: u16,
}

impl Entry {
    fn cost(&self) -> u16 {
        let cost = self.circuits.saturating_mul(CIRCUIT).saturating_add(self.failures);
        u16::try_from(cost).unwrap_or(u16::MAX)
    }
}

impl Costs {
    /// What a terminator costs now.
    pub fn of(&self, terminator: &Id) -> u16 {
        self.0.lock().get(terminator).map_or(0, Entry::cost)
    }

    /// What terminators cost now, in their order.
    pub fn of_each<'a>(&self, terminators: impl Iterator<Item = &'a Id>) -> Vec<u16> {
        let entries = self.0.lock();
        terminators.map(|it| entries.get(it).map_or(0, Entry::cost)).collect()
    }

    /// What goes into it.
    pub fn parts(&self, terminator: &Id) -> Parts {
        let entries = self.0.lock();
        entries.get(terminator).map_or_else(Parts::default, |entry| Parts {
            circuits: entry.circuits,
            failures: entry.failures,
            total: entry.cost(),
        })
    }

    /// A dial failed.
    pub fn failed(&self, terminator: &Id, now: Instant) {
        let mut entries = self.0.lock();
        let entry = entries.entry(terminator.clone()).or_default();
        entry.failures = entry.failures.saturating_add(FAILURE);
        entry.failed_at = Some(now);
    }

    /// A circuit is up.
    pub fn created(&self, terminator: &Id) {
        let mut entries = self.0.lock();
        let entry = entries.entry(terminator.clone()).or_default();
        entry.failures = entry.failures.saturating_sub(SUCCESS);
        entry.circuits = entry.circuits.saturating_add(1);
    }

    /// A circuit ended.
    pub fn removed(&self, terminator: &Id) {
        let mut entries = self.0.lock();
        if let Some(entry) = entries.get_mut(terminator) {
            entry.circuits = entry.circuits.saturating_sub(1);
            if entry.circuits == 0 && entry.failures == 0 {
                entries.remove(terminator);
            }
        }
    }

    /// Forgives with time; to be called every minute.
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

    /// A terminator is gone.
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
