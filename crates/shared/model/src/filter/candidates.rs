//! Candidates from the indexes of a table.

use std::ops::{Bound, Range};

use roaring::RoaringBitmap;
use time::OffsetDateTime;

use super::access::{Access, Ask, Lookup};
use super::ast::{Literal, Op};
use super::plan::{Check, Quantifier};
use super::schema::Index;
use super::units::{FIND, units_of_rank, units_of_ranks};
use super::value::Value;
use crate::meter::{Meter, Part, of_set};
use crate::table::Ranking;
use crate::{Id, Table, Timestamp};

/// The rank of a value in an index; or, if the second argument is true, the rank behind it.
type Rank<'a> = dyn Fn(&Literal, bool) -> Option<usize> + 'a;

/// Number of candidates below which no further index is asked. Smaller in tests, so that small
/// tables are searched like large ones.
const FEW: u64 = if cfg!(test) { 4 } else { 64 };
/// A range that is this many times longer than the set of candidates is not read: testing the
/// candidates costs less.
const LONGER: u64 = 4;
/// Range of the filters' calendar, the years -9999 to 9999, in milliseconds since 1970; times outside
/// are null.
const YEARS: Range<i64> = -377_705_116_800_000..253_402_300_800_000;

/// Entities that may match.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Candidates {
    /// Ordinals of the candidates; `None`: every entity.
    pub(super) set: Option<RoaringBitmap>,
    /// True if the candidates are exactly the matches.
    pub(super) exact: bool,
}

impl Candidates {
    const SCAN: Self = Self { set: None, exact: false };

    fn exactly(set: RoaringBitmap) -> Self {
        Self { set: Some(set), exact: true }
    }
}

impl Access<'_> {
    /// The candidates that the indexes give; any once the search has to end.
    pub(super) fn candidates(&self, table: &Table, meter: &Meter) -> Candidates {
        match self {
            Self::Scan => Candidates::SCAN,
            Self::Always => Candidates { set: None, exact: true },
            Self::Never => Candidates::exactly(RoaringBitmap::new()),
            Self::Lookup(lookup) => lookup.candidates(table, meter),
            Self::All { parts, whole } => in_all(parts, *whole, table, meter),
            Self::Any(parts) => in_any(parts, table, meter),
            Self::Except(part) => match part.candidates(table, meter) {
                Candidates { exact: false, .. } => Candidates::SCAN,
                Candidates { set: None, .. } => Candidates::exactly(RoaringBitmap::new()),
                Candidates { set: Some(set), .. } => {
                    combine(table, meter, [&**table.live(), &set]);
                    Candidates::exactly(&**table.live() - set)
                }
            },
        }
    }

    fn is_range(&self) -> bool {
        matches!(self, Self::Lookup(Lookup { ask: Ask::Range(..), .. }))
    }
}

/// Counts an operation on sets. False if the search has to end.
fn combine<const N: usize>(table: &Table, meter: &Meter, sets: [&RoaringBitmap; N]) -> bool {
    let units = sets.iter().map(|set| of_set(set.len(), table.highest()));
    meter.spend(Part::Index, units.sum())
}

fn in_all(parts: &[Access<'_>], whole: bool, table: &Table, meter: &Meter) -> Candidates {
    let mut asked = Vec::with_capacity(parts.len());
    for part in parts {
        if !meter.spend(Part::Index, part.units_of_asking(table)) {
            return Candidates::SCAN;
        }
        asked.push((part.at_most(table), part));
    }
    asked.sort_by_key(|(most, _)| *most);
    let mut result = Candidates { set: None, exact: whole };
    for (most, part) in asked {
        let left = result.set.as_ref().map_or(u64::MAX, RoaringBitmap::len);
        if left == 0 {
            return Candidates::exactly(RoaringBitmap::new());
        }
        if left <= FEW || (part.is_range() && most / LONGER > left) {
            result.exact = false;
            continue;
        }
        let found = part.candidates(table, meter);
        result.exact &= found.exact;
        result.set = match (result.set, found.set) {
            (Some(before), Some(found)) => {
                if !combine(table, meter, [&before, &found]) {
                    return Candidates::SCAN;
                }
                Some(before & found)
            }
            (before, found) => before.or(found),
        };
    }
    result
}

fn in_any(parts: &[Access<'_>], table: &Table, meter: &Meter) -> Candidates {
    let mut result = Candidates::exactly(RoaringBitmap::new());
    for part in parts {
        let found = part.candidates(table, meter);
        result.exact &= found.exact;
        result.set = match (result.set, found.set) {
            (Some(before), Some(found)) if combine(table, meter, [&before, &found]) => {
                Some(before | found)
            }
            _ => return Candidates { set: None, exact: false },
        };
    }
    result
}

impl Lookup<'_> {
    fn candidates(&self, table: &Table, meter: &Meter) -> Candidates {
        let found = match &self.ask {
            Ask::Equal(values) => self.equal(values, table, meter),
            Ask::Range(low, high) => self.between(*low, *high, table, meter),
            Ask::Elements(quantifier, check) => {
                return with_elements(elements(*quantifier, check, table, meter), table, meter);
            }
            Ask::Empty => {
                let bearers = bearers(table, meter, |_| true, |_| 0);
                return with_elements(&**table.live() - bearers, table, meter);
            }
        };
        found.map_or(Candidates::SCAN, Candidates::exactly)
    }

    fn between(
        &self,
        low: Bound<&Literal>,
        high: Bound<&Literal>,
        table: &Table,
        meter: &Meter,
    ) -> Option<RoaringBitmap> {
        if !meter.spend(Part::Index, 2 * units_of_rank(table)) {
            return None;
        }
        let (ranking, ranks) = self.ranks(low, high, table)?;
        let units = units_of_ranks(ranks.len() as u64, table);
        meter.spend(Part::Index, units).then(|| collect(table.ranks(ranking, ranks), table))
    }

    fn equal(&self, values: &[Literal], table: &Table, meter: &Meter) -> Option<RoaringBitmap> {
        if !meter.spend(Part::Index, values.len() as u64 * FIND) {
            return None;
        }
        let each = |find: &dyn Fn(&str) -> Option<u32>| {
            values.iter().map(|value| text(value).map(find)).collect::<Option<Vec<_>>>()
        };
        let found = match self.index {
            Index::Id => each(&|id| table.ordinal(&Id::new(id))),
            Index::Name if table.is_complete(Ranking::Name) => each(&|name| table.named(name)),
            Index::Unique(field) => each(&|value| table.holding_unique(field.into(), value)),
            Index::Link(link) => {
                let referrers = |id: &str| table.referrers(link.into(), &Id::new(id));
                let sets = values.iter().map(|value| text(value).map(referrers));
                return union(sets, table, meter);
            }
            Index::Created => {
                let one = |value: &Literal| {
                    let value = Bound::Included(value);
                    self.between(value, value, table, meter)
                };
                return union(values.iter().map(one), table, meter);
            }
            Index::Name | Index::None | Index::Attributes => None,
        };
        found.map(|found| found.into_iter().flatten().collect())
    }

    /// The ranks between the bounds, in the order of the index.
    pub(super) fn ranks(
        &self,
        low: Bound<&Literal>,
        high: Bound<&Literal>,
        table: &Table,
    ) -> Option<(Ranking, Range<usize>)> {
        let (ranking, rank): (_, &Rank<'_>) = match self.index {
            Index::Id => (Ranking::Id, &|value, behind| {
                let id = text(value)?;
                let equal = behind && table.ordinal(&Id::new(id)).is_some();
                Some(table.rank_of_id(id) + usize::from(equal))
            }),
            Index::Name => (Ranking::Name, &|value, behind| {
                let name = text(value)?;
                let equal = behind && table.named(name).is_some();
                Some(table.rank_of_name(name) + usize::from(equal))
            }),
            Index::Created => (Ranking::Created, &|value, behind| {
                let Literal::Time(at) = value else { return None };
                Some(table.rank_of_time(boundary(at, behind)))
            }),
            Index::None | Index::Unique(_) | Index::Link(_) | Index::Attributes => return None,
        };
        if !is_usable(table, ranking) {
            return None;
        }
        let start = match low {
            Bound::Unbounded => 0,
            Bound::Included(value) => rank(value, false)?,
            Bound::Excluded(value) => rank(value, true)?,
        };
        let end = match high {
            Bound::Unbounded => table.len(),
            Bound::Included(value) => rank(value, true)?,
            Bound::Excluded(value) => rank(value, false)?,
        };
        Some((ranking, start..end.max(start)))
    }
}

/// True if an order holds every entity at the place where a scan would sort it.
pub(super) fn is_usable(table: &Table, ranking: Ranking) -> bool {
    let in_calendar = |at: u32| {
        let entity = table.at(at);
        entity.is_none_or(|entity| YEARS.contains(&entity.base().created_at.0))
    };
    match ranking {
        Ranking::Id => true,
        Ranking::Name => table.is_complete(ranking),
        Ranking::Created => table.ends(ranking).into_iter().flatten().all(in_calendar),
    }
}

/// The text of a literal, if indexes hold it: they leave out empty texts.
pub(super) fn text(literal: &Literal) -> Option<&str> {
    match literal {
        Literal::Text(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// The first millisecond that is not before a time; with `behind`, the first that is after it.
fn boundary(at: &OffsetDateTime, behind: bool) -> Timestamp {
    const NANOS: i128 = 1_000_000;
    let nanos = at.unix_timestamp_nanos();
    let whole = nanos.rem_euclid(NANOS) == 0;
    let millis = nanos.div_euclid(NANOS) + i128::from(behind || !whole);
    Timestamp(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// A set of ordinals that come in any order.
fn collect(ordinals: impl Iterator<Item = (u64, u32)>, table: &Table) -> RoaringBitmap {
    let highest = table.live().max().unwrap_or_default();
    let mut bits = vec![0_u8; highest as usize / 8 + 1];
    for (_, ordinal) in ordinals {
        if let Some(byte) = bits.get_mut(ordinal as usize / 8) {
            *byte |= 1 << (ordinal % 8);
        }
    }
    RoaringBitmap::from_lsb0_bytes(0, &bits)
}

/// The union of sets; `None` if a set is missing, or if the search has to end.
fn union(
    mut sets: impl Iterator<Item = Option<RoaringBitmap>>,
    table: &Table,
    meter: &Meter,
) -> Option<RoaringBitmap> {
    sets.try_fold(RoaringBitmap::new(), |before, set| {
        let set = set?;
        combine(table, meter, [&before, &set]).then(|| before | set)
    })
}

/// The entities with an attribute that passes; not all of them if the search has to end. A question whether an
/// attribute passes takes `units`.
fn bearers(
    table: &Table,
    meter: &Meter,
    passes: impl Fn(&str) -> bool,
    units: impl Fn(&str) -> u64,
) -> RoaringBitmap {
    let mut all = RoaringBitmap::new();
    for (attribute, bearers) in table.attributes() {
        if !meter.spend(Part::Index, 1 + units(attribute)) {
            break;
        }
        if passes(attribute) {
            combine(table, meter, [&all, bearers]);
            all |= &**bearers;
        }
    }
    all
}

fn elements(quantifier: Quantifier, check: &Check, table: &Table, meter: &Meter) -> RoaringBitmap {
    let of = |value: &Literal| match value {
        Literal::Text(value) => {
            meter.spend(Part::Index, FIND);
            table.bearers(value).map(|bearers| &**bearers)
        }
        _ => None,
    };
    let units = |value: &str| check.units(&Value::text(value));
    match (quantifier, check) {
        (Quantifier::AnyOf, Check::Compare(Op::Equal, value)) => {
            let found = of(value).cloned().unwrap_or_default();
            combine(table, meter, [&found]);
            found
        }
        (Quantifier::AnyOf, Check::In(values)) => {
            let sets = values.0.iter().filter_map(of).map(|set| Some(set.clone()));
            union(sets, table, meter).unwrap_or_default()
        }
        (Quantifier::AnyOf, _) => {
            bearers(table, meter, |value| check.holds(&Value::text(value)), units)
        }
        (Quantifier::AllOf, _) => {
            let fails = |value: &str| !check.holds(&Value::text(value));
            &**table.live() - bearers(table, meter, fails, units)
        }
    }
}

/// Adds entities whose attributes are in no index, because policies cannot select them.
fn with_elements(found: RoaringBitmap, table: &Table, meter: &Meter) -> Candidates {
    if !combine(table, meter, [&**table.live(), &**table.eligible(), &found]) {
        return Candidates::SCAN;
    }
    let hidden = &**table.live() - &**table.eligible();
    let exact = hidden.is_empty();
    Candidates { set: Some(found | hidden), exact }
}
