//! The head: the end of the log.

use std::collections::VecDeque;
use std::fmt;

use weft_model::{Revision, Timeline};

use crate::error::{CommitError, Damage};

/// The format of stored data that this program writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// Random number of one batch, by which the batch is found when its answer was lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BatchId(pub u128);

impl BatchId {
    /// A new random number.
    #[must_use]
    pub fn random() -> Self {
        Self(rand::random())
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Batches that were reported as not having happened, and therefore must never happen.
#[derive(Debug, Default)]
pub(crate) struct Barred(VecDeque<BatchId>);

impl Barred {
    /// Most batches kept, the newest. A caller settles a batch before it writes the next one, so
    /// that older ones cannot come any more.
    const MOST: usize = 1024;

    pub(crate) fn bar(&mut self, batch: BatchId) {
        if self.0.len() >= Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back(batch);
    }

    /// An error if the batch is barred.
    pub(crate) fn check(&self, batch: BatchId) -> Result<(), CommitError> {
        match self.0.contains(&batch) {
            true => Err(CommitError::Unavailable("the batch was given up before it came".into())),
            false => Ok(()),
        }
    }
}

/// The end of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The revision of the last change set.
    pub revision: Revision,
    /// The timeline of the store; a restore begins a new one.
    pub timeline: Timeline,
    /// The format of the stored data.
    pub format: u32,
    /// The last batch.
    pub batch: BatchId,
}

impl Head {
    /// The head of a new store.
    pub(crate) fn new(timeline: Timeline) -> Self {
        Self { revision: Revision(0), timeline, format: FORMAT, batch: BatchId::default() }
    }

    /// A new random timeline.
    pub(crate) fn new_timeline() -> Timeline {
        let id = weft_model::Id::uuid(rand::random());
        Timeline(id.as_str().into())
    }

    /// Encodes format, revision, batch and timeline, little endian.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.format.to_le_bytes().to_vec();
        bytes.extend(self.revision.0.to_le_bytes());
        bytes.extend(self.batch.0.to_le_bytes());
        bytes.extend(self.timeline.0.as_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Damage> {
        let damage = || Damage::new("head", "it cannot be read");
        let (format, rest) = bytes.split_first_chunk().ok_or_else(damage)?;
        let (revision, rest) = rest.split_first_chunk().ok_or_else(damage)?;
        let (batch, timeline) = rest.split_first_chunk().ok_or_else(damage)?;
        let timeline = std::str::from_utf8(timeline).map_err(|_| damage())?;
        Ok(Self {
            format: u32::from_le_bytes(*format),
            revision: Revision(u64::from_le_bytes(*revision)),
            batch: BatchId(u128::from_le_bytes(*batch)),
            timeline: Timeline(timeline.into()),
        })
    }
}
