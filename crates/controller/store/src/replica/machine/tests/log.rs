//! The shared log of the simulation.

use std::collections::BTreeSet;

use weft_model::{Revision, Timeline};

use super::super::super::shared_log::{HeadVersion, LogDigest, LogHead};
use crate::{BatchId, Head};

/// A change set of the log: its batch.
pub(super) type Entry = BatchId;

/// A log with one head.
#[derive(Debug, Clone)]
pub(super) struct Log {
    pub(super) entries: Vec<Entry>,
    /// Change sets that are no longer kept.
    pub(super) shortened: usize,
    pub(super) head: LogHead,
}

/// A digest of a history.
pub(super) fn digest(entries: &[Entry]) -> LogDigest {
    let mut word = 1_u128;
    for entry in entries {
        word = (word ^ entry.0).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        word ^= word >> 61;
    }
    let mut digest = LogDigest::default();
    digest.0[..16].copy_from_slice(&word.to_be_bytes());
    digest
}

impl Log {
    pub(super) fn new(timeline: Timeline) -> Self {
        let head = Head::new(timeline);
        let head = LogHead { head, digest: digest(&[]), version: HeadVersion(1) };
        Self { entries: Vec::new(), shortened: 0, head }
    }

    pub(super) fn revision(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Appends a batch, if the head is this one.
    pub(super) fn append(
        &mut self,
        at: &LogHead,
        batch: BatchId,
        count: u64,
    ) -> Result<LogHead, LogHead> {
        if *at != self.head {
            return Err(self.head.clone());
        }
        (0..count).for_each(|_| self.entries.push(batch));
        self.head.head.revision = Revision(self.revision());
        self.head.head.batch = batch;
        self.head.digest = digest(&self.entries);
        self.head.version.0 += 1;
        Ok(self.head.clone())
    }

    pub(super) fn fence(&mut self) -> LogHead {
        self.head.version.0 += 1;
        self.head.clone()
    }

    /// The revision at which a batch ends.
    pub(super) fn find(&self, batch: BatchId) -> Option<u64> {
        let last = self.entries.iter().rposition(|entry| *entry == batch)?;
        Some(last as u64 + 1)
    }

    /// Whether the change sets of each batch follow each other.
    pub(super) fn is_whole(&self) -> bool {
        let mut seen = BTreeSet::new();
        let mut entries = self.entries.clone();
        entries.dedup();
        entries.iter().all(|batch| seen.insert(batch.0))
    }
}
