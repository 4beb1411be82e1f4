//! The order of a list: sort keys, then id (protocol: management-api 2.2).

use std::cmp::Ordering;

use super::schema::{Record, SymbolId};

/// One sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// The symbol, of one value.
    pub symbol: SymbolId,
    /// Largest first, null last.
    pub descending: bool,
    /// As written, for explanations.
    pub name: Box<str>,
}

/// A total order of the records of a kind. Without keys it is the order of ids.
///
/// Null comes before every value (after, when descending), texts compare bytewise, false comes
/// before true, and equal records follow each other by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    keys: Vec<SortKey>,
}

impl Order {
    pub(super) fn push(&mut self, key: SortKey) {
        self.keys.push(key);
    }

    /// The keys, without the closing id.
    pub fn keys(&self) -> &[SortKey] {
        &self.keys
    }

    /// Whether this is the plain order of ids, which a source ordered by id needs no work for.
    pub fn is_by_id(&self) -> bool {
        self.keys.first().is_none_or(|key| &*key.name == "id" && !key.descending)
    }

    /// How two records stand to each other.
    pub fn compare(&self, a: &dyn Record, b: &dyn Record) -> Ordering {
        self.keys
            .iter()
            .map(|key| {
                let order = a.value(key.symbol).sort_order(&b.value(key.symbol));
                if key.descending { order.reverse() } else { order }
            })
            .find(|order| order.is_ne())
            .unwrap_or_else(|| a.id().cmp(b.id()))
    }

    /// Puts the records of `start..end` of the sorted list in place and drops the others; the
    /// records beyond are not sorted.
    pub fn window<R: Record>(&self, records: &mut Vec<R>, start: usize, end: usize) {
        let end = end.min(records.len());
        if start >= end {
            records.clear();
            return;
        }
        let mut by_order = |a: &R, b: &R| self.compare(a, b);
        if end < records.len() {
            records.select_nth_unstable_by(end - 1, &mut by_order);
            records.truncate(end);
        }
        if start > 0 {
            records.select_nth_unstable_by(start, &mut by_order);
            records.drain(..start);
        }
        records.sort_unstable_by(by_order);
    }
}
