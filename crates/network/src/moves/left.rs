//! Routers that a circuit has left.

use std::sync::Arc;
use std::time::Instant;

use weft_model::Id;

/// Routers that a circuit has left, and when.
#[derive(Debug)]
pub(crate) struct Left {
    pub(super) at: Instant,
    pub(super) circuit: Arc<str>,
    pub(super) routers: Vec<Id>,
}
