//! What one controller answers otherwise than the other.

use serde_json::Value;

/// Most differences that are kept and printed; further ones are counted.
const MAX_DIFFERENCES: usize = 100_000;

/// Something that one controller answers otherwise than the other.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(in crate::controller::import) struct Difference {
    /// The kind of the entity, in the singular.
    pub(in crate::controller::import) kind: String,
    pub(in crate::controller::import) id: String,
    /// The name of the entity; empty if it has none.
    pub(in crate::controller::import) name: String,
    /// The member, or what was asked about the entity; `entity` if it is missing on one side.
    pub(in crate::controller::import) member: String,
    pub(in crate::controller::import) original: Value,
    pub(in crate::controller::import) weft: Value,
    /// The subject in docs/differences.md, if the difference is meant.
    pub(in crate::controller::import) known: Option<String>,
}

/// Differences, and how many are not kept.
#[derive(Debug, Default, Clone, serde::Serialize, serde::Deserialize)]
pub(in crate::controller::import) struct Found {
    pub(in crate::controller::import) differences: Vec<Difference>,
    pub(in crate::controller::import) unlisted: u64,
}

impl Found {
    pub(in crate::controller::import) fn add(&mut self, difference: Difference) {
        if self.differences.len() < MAX_DIFFERENCES {
            self.differences.push(difference);
        } else {
            self.unlisted += 1;
        }
    }

    pub(in crate::controller::import) fn extend(&mut self, other: Self) {
        self.unlisted += other.unlisted;
        other.differences.into_iter().for_each(|difference| self.add(difference));
    }
}
