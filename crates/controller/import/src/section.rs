//! What becomes of the entities of one kind, in numbers.

use serde::Serialize;
use weft_model::Kind;

/// Counts of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Section {
    /// The kind.
    pub name: &'static str,
    /// Number of entities in the database.
    pub found: u64,
    /// Number of those that become entities of weft.
    pub taken: u64,
    /// Number of those that lose something; of the losses that are listed.
    pub lossy: u64,
    /// The kind of weft's entities; none if none was taken.
    #[serde(skip)]
    pub kind: Option<Kind>,
}
