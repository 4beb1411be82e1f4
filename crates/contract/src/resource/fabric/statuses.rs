//! Statuses that several operations of the API answer with.

/// Of lists.
pub(super) const LIST: &[u16] = &[200, 401, 429];
/// Of reads.
pub(super) const DETAIL: &[u16] = &[200, 401, 404, 429];
/// Of lists of what belongs to an entity.
pub(super) const NESTED: &[u16] = &[200, 400, 401, 429];
/// Of deletes.
pub(super) const DELETE: &[u16] = &[200, 400, 401, 409, 429, 503];
