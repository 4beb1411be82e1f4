//! Units of the parts of a list, in a [`Meter`](crate::Meter).

use super::value::Value;
use crate::Table;
use crate::meter::of_set;

/// Units of an entity that is shown on a page.
pub const ROW: u64 = 16;
/// Units of an entity that is read, and of the question whether the caller may see it.
pub(super) const LOOK: u64 = 2;
pub(super) const VISIBLE: u64 = 32;
/// Units of a search for one value in an index.
pub(super) const FIND: u64 = 8;
/// Bytes of a text that are compared or searched in the same time as a short one.
const LONG: u64 = 256;
/// Further units of a text that is not short; 0 for any other value.
pub(super) fn long(value: &Value<'_>) -> u64 {
    match value {
        Value::Text(text) => text.len() as u64 / LONG,
        _ => 0,
    }
}

/// Units of the search for the rank of a value.
pub(super) fn units_of_rank(table: &Table) -> u64 {
    FIND + table.len() as u64 / 1024
}

/// Units of the set of the entities at so many ranks.
pub(super) fn units_of_ranks(ranks: u64, table: &Table) -> u64 {
    ranks + u64::from(table.highest()) / 512 + of_set(ranks, table.highest())
}
