//! Bytes that each circuit carried, by interval.
//!
//! A circuit has cells that only grow. From time to time the growth is added to the interval of
//! that moment; an interval is reported once it is old enough.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Most circuits in one interval; the bytes of further circuits are counted as left out.
pub const MAX_CIRCUITS: usize = 200_000;

/// The side of a router at which bytes of a circuit are counted, and their direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageDirection {
    /// From the dialer.
    IngressRx,
    /// To the dialer.
    IngressTx,
    /// From the host.
    EgressRx,
    /// To the host.
    EgressTx,
    /// From another router.
    FabricRx,
    /// To another router.
    FabricTx,
}

/// Names of the values of [`UsageDirection`], in their order.
pub const USAGE_DIRECTIONS: [&str; 6] =
    ["ingress.rx", "ingress.tx", "egress.rx", "egress.tx", "fabric.rx", "fabric.tx"];

/// Bytes in the order of [`USAGE_DIRECTIONS`].
pub type Bytes = [u64; USAGE_DIRECTIONS.len()];

/// Bytes of a circuit so far.
#[derive(Debug, Default)]
pub struct Cells {
    carried: [AtomicU64; USAGE_DIRECTIONS.len()],
    /// The bytes that [`Cells::take`] has returned so far. Only that function writes these.
    told: [AtomicU64; USAGE_DIRECTIONS.len()],
}

impl Cells {
    /// Adds `bytes`.
    pub fn add(&self, direction: UsageDirection, bytes: usize) {
        if let Some(cell) = self.carried.get(direction as usize) {
            cell.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Adds `bytes`, cheaper than [`Cells::add`]: the caller holds a lock that all callers of this
    /// function hold.
    pub fn add_locked(&self, direction: UsageDirection, bytes: usize) {
        if let Some(cell) = self.carried.get(direction as usize) {
            let now = cell.load(Ordering::Relaxed).wrapping_add(bytes as u64);
            cell.store(now, Ordering::Relaxed);
        }
    }

    /// Bytes since the last call; `None` if there were none. Only one caller at a time.
    pub fn take(&self) -> Option<Bytes> {
        let mut bytes = Bytes::default();
        for ((bytes, carried), told) in bytes.iter_mut().zip(&self.carried).zip(&self.told) {
            let now = carried.load(Ordering::Relaxed);
            *bytes = now.wrapping_sub(told.swap(now, Ordering::Relaxed));
        }
        bytes.iter().any(|bytes| *bytes > 0).then_some(bytes)
    }
}

/// Tags of a circuit: dialer, host and service.
pub type Tags = Arc<BTreeMap<String, String>>;

/// Bytes of circuits in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Start in seconds since the epoch; a multiple of `length`.
    pub start: u64,
    /// Length in seconds.
    pub length: u64,
    /// Bytes and tags by circuit id.
    pub circuits: HashMap<Arc<str>, (Bytes, Tags)>,
}

/// Intervals that were not reported yet.
#[derive(Debug)]
pub struct Ledger {
    length: u64,
    intervals: BTreeMap<u64, Interval>,
    left_out: u64,
}

impl Ledger {
    /// An empty ledger. An interval is at least 1 s long.
    #[must_use]
    pub fn new(length: Duration) -> Self {
        Self { length: length.as_secs().max(1), intervals: BTreeMap::new(), left_out: 0 }
    }

    /// Start of the interval that holds `at`, both in seconds since the epoch.
    #[must_use]
    pub fn start_of(&self, at: u64) -> u64 {
        at - at % self.length
    }

    /// Length of an interval in seconds.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Adds bytes of a circuit to the interval that holds `at`.
    pub fn note(&mut self, at: u64, circuit: &Arc<str>, tags: &Tags, bytes: Bytes) {
        let (start, length) = (self.start_of(at), self.length);
        let new = || Interval { start, length, circuits: HashMap::new() };
        let interval = self.intervals.entry(start).or_insert_with(new);
        if interval.circuits.len() >= MAX_CIRCUITS && !interval.circuits.contains_key(circuit) {
            self.left_out += 1;
            return;
        }
        let entry = interval
            .circuits
            .entry(Arc::clone(circuit))
            .or_insert_with(|| (Bytes::default(), Arc::clone(tags)));
        for (all, more) in entry.0.iter_mut().zip(bytes) {
            *all = all.wrapping_add(more);
        }
    }

    /// Removes and returns, oldest first, the intervals that are over and began at least `age` ago.
    pub fn due(&mut self, now: u64, age: Duration) -> Vec<Interval> {
        let age = age.as_secs().max(self.length);
        let mut due = Vec::new();
        while let Some((start, _)) = self.intervals.first_key_value()
            && start.saturating_add(age) <= now
            && let Some((_, interval)) = self.intervals.pop_first()
        {
            due.push(interval);
        }
        due
    }

    /// Number of calls of [`Ledger::note`] whose circuit found no room in its interval.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_tell_what_came_since() {
        let cells = Cells::default();
        assert_eq!(cells.take(), None);
        cells.add(UsageDirection::IngressRx, 5);
        cells.add_locked(UsageDirection::IngressRx, 2);
        cells.add(UsageDirection::FabricTx, 1);
        assert_eq!(cells.take(), Some([7, 0, 0, 0, 0, 1]));
        assert_eq!(cells.take(), None);
        cells.add(UsageDirection::EgressTx, 9);
        assert_eq!(cells.take(), Some([0, 0, 0, 9, 0, 0]));
    }

    #[test]
    fn intervals_are_told_when_they_are_old_enough() {
        let mut ledger = Ledger::new(Duration::from_secs(60));
        let (one, tags) = (Arc::from("c1"), Tags::default());
        ledger.note(125, &one, &tags, [1, 0, 0, 0, 0, 0]);
        ledger.note(179, &one, &tags, [1, 0, 0, 0, 0, 4]);
        ledger.note(181, &one, &tags, [5, 0, 0, 0, 0, 0]);
        let age = Duration::from_secs(80);
        assert!(ledger.due(199, age).is_empty());
        let due = ledger.due(200, age);
        assert_eq!(due.len(), 1);
        assert_eq!((due[0].start, due[0].length), (120, 60));
        assert_eq!(due[0].circuits[&one].0, [2, 0, 0, 0, 0, 4]);
        // An interval is reported only once it is over.
        assert!(ledger.due(239, Duration::ZERO).is_empty());
        assert_eq!(ledger.due(240, Duration::ZERO)[0].start, 180);
    }

    #[test]
    fn circuits_of_an_interval_are_bounded() {
        let mut ledger = Ledger::new(Duration::from_secs(60));
        for at in 0..MAX_CIRCUITS + 2 {
            ledger.note(0, &at.to_string().into(), &Tags::default(), [1; 6]);
        }
        ledger.note(0, &"0".into(), &Tags::default(), [1; 6]);
        assert_eq!(ledger.left_out(), 2);
        let due = ledger.due(100, Duration::ZERO);
        assert_eq!(due[0].circuits.len(), MAX_CIRCUITS);
        assert_eq!(due[0].circuits[&Arc::from("0")].0, [2; 6]);
    }
}
