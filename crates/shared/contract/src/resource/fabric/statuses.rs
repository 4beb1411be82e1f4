//! Statuses that several operations of the API answer with.

/// Statuses of lists.
pub(super) const LIST: &[u16] = &[200, 401, 429];
/// Statuses of reads.
pub(super) const DETAIL: &[u16] = &[200, 401, 404, 429];
/// Statuses of lists below an entity.
pub(super) const NESTED: &[u16] = &[200, 400, 401, 429];
/// Statuses of deletes.
pub(super) const DELETE: &[u16] = &[200, 400, 401, 409, 429, 503];
