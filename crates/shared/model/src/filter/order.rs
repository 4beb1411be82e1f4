//! The order of a list: sort keys, then id (docs/protocol/management-api.md 2.2).

use std::cmp::Ordering;

use super::schema::{Index, Record, SymbolId};
use super::units::long;
use super::value::Value;
use crate::meter::{Meter, Part};

/// Number of records that [`Order::pick`] collects at least before it drops those that are not on the
/// page. Fewer in tests, whose lists are short.
const SOME: usize = if cfg!(test) { 4 } else { 1024 };

/// Comparisons of one record in a sort of very many.
const LOG: u64 = 20;

/// One sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// The symbol, which has one value.
    pub symbol: SymbolId,
    /// True: largest first, null last.
    pub descending: bool,
    /// The index with this order.
    pub index: Index,
    /// Name as written, for explanations.
    pub name: Box<str>,
}

/// A total order of the records of a kind. Without keys it is the order of ids.
///
/// Null comes before every value (after, when descending), texts compare bytewise, false comes
/// before true, and equal records are ordered by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    keys: Vec<SortKey>,
}

impl Order {
    pub(super) fn push(&mut self, key: SortKey) {
        self.keys.push(key);
    }

    /// The keys, without the id at the end.
    pub fn keys(&self) -> &[SortKey] {
        &self.keys
    }

    /// True for the order of ids, in which a source ordered by id needs no sorting.
    pub fn is_by_id(&self) -> bool {
        self.keys.first().is_none_or(|key| &*key.name == "id" && !key.descending)
    }

    /// Order of two records.
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

    /// The records at `start..end` of the sorted list, in order, out of records in any order; fewer if the meter
    /// ends the work. At most twice `end` records, or 1024 if that is more, are held meanwhile.
    pub fn pick<R: Record>(
        &self,
        records: impl Iterator<Item = R>,
        start: usize,
        end: usize,
        meter: &Meter,
    ) -> Vec<R> {
        let most = Self::most_kept(end);
        let mut kept: Vec<R> = Vec::new();
        // The largest record that can be on the page, once surplus records were dropped.
        let mut last = None;
        for record in records {
            if !meter.spend(Part::Order, self.units_of(&record)) {
                return Vec::new();
            }
            let is_beyond = |last: &R| self.compare(&record, last).is_ge();
            if end == 0 || last.and_then(|at: usize| kept.get(at)).is_some_and(is_beyond) {
                continue;
            }
            kept.push(record);
            if kept.len() >= most {
                // A comparison or three of each record find the place of one.
                let units = 3 * kept.len() as u64 * self.units_of_comparison();
                if !meter.spend(Part::Order, units) {
                    return Vec::new();
                }
                let places = self.first_places(&as_records(&kept), end);
                take(&mut kept, places);
                last = Some(end - 1);
            }
        }
        // A sort cannot be ended: its comparisons are counted before it.
        let count = kept.len() as u64;
        if !meter.spend(Part::Order, count * Self::steps(count) * self.units_of_comparison()) {
            return Vec::new();
        }
        let places = self.places(&as_records(&kept), start, end);
        take(&mut kept, places);
        kept
    }

    /// The most records that are held while those up to `end` are picked.
    pub(super) fn most_kept(end: usize) -> usize {
        end.saturating_mul(2).max(SOME)
    }

    /// Most units of finding the records at `start..end` of the order, out of so many.
    pub(super) fn most_units(&self, records: u64, end: usize) -> u64 {
        let kept = records.min(Self::most_kept(end) as u64);
        let passing = records.saturating_mul(7);
        let sorted = kept.saturating_mul(Self::steps(kept));
        self.units_of_comparison().saturating_mul(passing.saturating_add(sorted))
    }

    /// Units of the comparison of two records with short values.
    pub(super) fn units_of_comparison(&self) -> u64 {
        1 + self.keys().len() as u64
    }

    /// Comparisons for each of so many records that are sorted.
    pub(super) fn steps(records: u64) -> u64 {
        7 + u64::from(records.checked_ilog2().unwrap_or_default())
    }

    /// Units of reading the keys of a record, and of what comparisons of long texts take longer.
    fn units_of(&self, record: &dyn Record) -> u64 {
        let keys = self.keys.iter().map(|key| 1 + LOG * long(&record.value(key.symbol)));
        1 + keys.sum::<u64>()
    }

    /// The places of the first `count` of the sorted records: that of the last of them last, the others in
    /// any order.
    fn first_places(&self, records: &[&dyn Record], count: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..records.len()).collect();
        if count > 0 && count < places.len() {
            let by_order = |a: &usize, b: &usize| self.compare(records[*a], records[*b]);
            places.select_nth_unstable_by(count - 1, by_order);
            places.truncate(count);
        }
        places
    }

    /// The places of the records at `start..end` of the sorted records, in order.
    fn places(&self, records: &[&dyn Record], start: usize, end: usize) -> Vec<usize> {
        let end = end.min(records.len());
        if start >= end {
            return Vec::new();
        }
        // The first key is read once per record, because reading and comparing it costs most.
        let firsts = records.iter().map(|record| First::of(self.keys.first(), *record));
        let mut keyed: Vec<(First<'_>, usize)> = firsts.zip(0..).collect();
        let mut by_order = |(a, at): &(First<'_>, usize), (b, other): &(First<'_>, usize)| {
            a.compare(b).then_with(|| self.compare(records[*at], records[*other]))
        };
        if end < keyed.len() {
            keyed.select_nth_unstable_by(end - 1, &mut by_order);
            keyed.truncate(end);
        }
        if start > 0 {
            keyed.select_nth_unstable_by(start, &mut by_order);
            keyed.drain(..start);
        }
        keyed.sort_unstable_by(by_order);
        keyed.into_iter().map(|(_, place)| place).collect()
    }
}

/// Records without their type: what sorts them is compiled once and not for each kind.
fn as_records<R: Record>(records: &[R]) -> Vec<&dyn Record> {
    records.iter().map(|record| record as &dyn Record).collect()
}

/// Keeps the records at these places, in the order of the places.
fn take<R>(records: &mut Vec<R>, places: Vec<usize>) {
    let mut taken: Vec<Option<R>> = records.drain(..).map(Some).collect();
    records.extend(places.into_iter().filter_map(|place| taken.get_mut(place)?.take()));
}

/// The value of a record's first key, quick to compare.
enum First<'r> {
    /// There is no sort key.
    None,
    Time(i128, bool),
    Other(Value<'r>, bool),
}

impl<'r> First<'r> {
    fn of(key: Option<&SortKey>, record: &'r dyn Record) -> Self {
        let Some(key) = key else { return Self::None };
        match record.value(key.symbol) {
            Value::Time(at) => Self::Time(at.unix_timestamp_nanos(), key.descending),
            other => Self::Other(other, key.descending),
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        let (order, descending) = match (self, other) {
            (Self::Time(a, descending), Self::Time(b, _)) => (a.cmp(b), *descending),
            (Self::Other(a, descending), Self::Other(b, _)) => (a.sort_order(b), *descending),
            // In a column of times everything else is null, which comes first.
            (Self::Time(_, descending), _) => (Ordering::Greater, *descending),
            (_, Self::Time(_, descending)) => (Ordering::Less, *descending),
            _ => return Ordering::Equal,
        };
        if descending { order.reverse() } else { order }
    }
}
