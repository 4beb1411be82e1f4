//! Counters for the data path: counting is an addition without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::buckets::{Buckets, SIZES, TIMES, class};
use crate::slots::{Adds, PerThread};

/// A counter for events that are rarer than payloads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds 1.
    pub fn one(&self) {
        self.add(1);
    }

    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A counter for events with every payload, on several threads.
#[derive(Debug)]
pub struct Ticks(PerThread<AtomicU64>);

impl Default for Ticks {
    fn default() -> Self {
        Self(PerThread::new())
    }
}

impl Ticks {
    /// Adds 1.
    pub fn one(&self) {
        let (cell, adds) = self.0.mine();
        adds.to(cell, 1);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.all().map(|cell| cell.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// A histogram for events that are rarer than payloads.
#[derive(Debug)]
pub struct Histogram {
    classes: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// A histogram of times in nanoseconds.
    #[must_use]
    pub fn times() -> Self {
        Self::with(TIMES)
    }

    fn with(classes: usize) -> Self {
        let classes = std::iter::repeat_with(AtomicU64::default).take(classes).collect();
        Self { classes, sum: AtomicU64::default() }
    }

    /// Adds a value.
    pub fn add(&self, value: u64) {
        if let Some(cell) = self.classes.get(class(value, self.classes.len())) {
            cell.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// Adds a time.
    pub fn took(&self, time: Duration) {
        self.add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds the values of this histogram to `all`.
    pub fn add_to(&self, all: &mut Buckets) {
        for (class, cell) in self.classes.iter().enumerate() {
            all.add(class, cell.load(Ordering::Relaxed));
        }
        all.add_sum(self.sum.load(Ordering::Relaxed));
    }
}

/// A counter of messages and their bytes in one direction, for counting each message on several
/// threads.
#[derive(Debug)]
pub struct MessageCounter(PerThread<MessageCells>);

#[derive(Debug)]
struct MessageCells {
    bytes: AtomicU64,
    sizes: [AtomicU64; SIZES],
}

impl Default for MessageCells {
    fn default() -> Self {
        Self { bytes: AtomicU64::default(), sizes: [const { AtomicU64::new(0) }; SIZES] }
    }
}

impl MessageCells {
    fn message(&self, bytes: usize, adds: Adds) {
        adds.to(&self.bytes, bytes as u64);
        if let Some(size) = self.sizes.get(class(bytes as u64, SIZES)) {
            adds.to(size, 1);
        }
    }

    fn add_to(&self, seen: &mut MessageCounts) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        seen.bytes = seen.bytes.wrapping_add(bytes);
        seen.sizes.add_sum(bytes);
        for (class, size) in self.sizes.iter().enumerate() {
            seen.sizes.add(class, size.load(Ordering::Relaxed));
        }
        seen.messages = seen.sizes.count();
    }
}

/// A [`MessageCounter`] for little traffic: all threads count in one place, which takes less memory.
#[derive(Debug, Default)]
pub struct SmallMessageCounter(MessageCells);

impl SmallMessageCounter {
    /// Counts a message of this many bytes.
    pub fn message(&self, bytes: usize) {
        self.0.message(bytes, Adds::WithOthers);
    }

    /// The messages so far.
    #[must_use]
    pub fn seen(&self) -> MessageCounts {
        let mut seen = MessageCounts::default();
        self.0.add_to(&mut seen);
        seen
    }

    /// The bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }
}

impl Default for MessageCounter {
    fn default() -> Self {
        Self(PerThread::new())
    }
}

impl MessageCounter {
    /// Counts a message of this many bytes.
    pub fn message(&self, bytes: usize) {
        let (cells, adds) = self.0.mine();
        cells.message(bytes, adds);
    }

    /// The messages so far.
    #[must_use]
    pub fn seen(&self) -> MessageCounts {
        let mut seen = MessageCounts::default();
        self.0.all().for_each(|cells| cells.add_to(&mut seen));
        seen
    }

    /// The bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = self.0.all().map(|cells| cells.bytes.load(Ordering::Relaxed));
        bytes.fold(0, u64::wrapping_add)
    }
}

/// Messages counted in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Their bytes.
    pub bytes: u64,
    /// Their number.
    pub messages: u64,
    /// Their sizes.
    pub sizes: Buckets,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_counts_messages_bytes_and_sizes() {
        let (flow, small) = (MessageCounter::default(), SmallMessageCounter::default());
        for bytes in [0, 1000, 1000, 40 << 20] {
            flow.message(bytes);
            small.message(bytes);
        }
        let seen = flow.seen();
        assert_eq!((&seen, seen.bytes), (&small.seen(), small.bytes()));
        assert!(size_of_val(&small) < 1024);
        assert_eq!((seen.messages, seen.bytes), (4, 2000 + (40 << 20)));
        assert_eq!(seen.bytes, flow.bytes());
        assert_eq!(seen.sizes.sum(), seen.bytes);
    }

    #[test]
    fn a_histogram_keeps_count_and_sum() {
        let (histogram, mut all) = (Histogram::times(), Buckets::default());
        histogram.took(Duration::from_millis(3));
        histogram.took(Duration::from_millis(5));
        histogram.add_to(&mut all);
        assert_eq!((all.count(), all.sum()), (2, 8_000_000));
    }
}
