//! Upper bounds of the work of a list, in units of a [`Meter`](crate::Meter), known before the list is made. They
//! decide whether a list is short; a meter counts what is really done.
//!
//! The bounds hold for texts below 256 bytes. The units of a longer text are known when it is read.

use std::ops::Bound;

use super::access::{Access, Ask, Lookup};
use super::ast::{Literal, Op};
use super::candidates::{is_usable, text};
use super::plan::{Check, Condition, Leaf, Members, Path, Quantifier};
use super::schema::Index;
use super::units::{FIND, units_of_rank, units_of_ranks};
use crate::meter::of_set;
use crate::table::Ranking;
use crate::{Id, Table};

/// Values of one test whose entities are counted before a list begins. Of more values it is assumed that all
/// entities have them.
const COUNTED: usize = 64;

impl Condition {
    /// Most units of the test of one record. Without a bound if it looks at the elements of a set, or at entities
    /// at the other end of a link: these may be any number.
    pub(super) fn most_units(&self) -> u64 {
        match self {
            Self::Constant(_) => 1,
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().fold(1, |sum, part| sum.saturating_add(part.most_units()))
            }
            Self::Not(inner) => inner.most_units().saturating_add(1),
            Self::Value(Path { hops, leaf, .. }, check) => {
                let is_own = hops.is_empty() && !matches!(leaf, Leaf::Set(_));
                if is_own { 1 + check.units_of_short() } else { u64::MAX }
            }
            Self::Elements(..) | Self::Count(..) | Self::Empty(Members { .. }) => u64::MAX,
        }
    }
}

/// Bounds of the candidates that indexes give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Most candidates.
    pub(super) found: u64,
    /// True if the candidates are exactly the matches for certain.
    pub(super) exact: bool,
    /// Most units of finding them.
    pub(super) work: u64,
    /// Units of [`Access::at_most`].
    asking: u64,
}

impl Bounds {
    const fn new(found: u64, exact: bool) -> Self {
        Self { found, exact, work: 0, asking: 1 }
    }
}

impl Access<'_> {
    /// Bounds of the candidates, by a short look at the indexes.
    pub(super) fn bounds(&self, table: &Table) -> Bounds {
        let all = table.len() as u64;
        let set = |entries: u64| of_set(entries, table.highest());
        match self {
            Self::Scan => Bounds::new(all, false),
            Self::Always => Bounds::new(all, true),
            Self::Never => Bounds::new(0, true),
            Self::Lookup(lookup) => lookup.bounds(table),
            Self::All { parts, .. } => parts.iter().fold(Bounds::new(all, false), |sum, part| {
                let part = part.bounds(table);
                let work = part.work.saturating_add(part.asking) + set(part.found) + set(all);
                Bounds {
                    found: sum.found.min(part.found),
                    // A part may be left out and tested.
                    exact: false,
                    work: sum.work.saturating_add(work),
                    asking: sum.asking.saturating_add(part.asking),
                }
            }),
            Self::Any(parts) => parts.iter().fold(Bounds::new(0, true), |sum, part| {
                let part = part.bounds(table);
                let work = part.work.saturating_add(set(part.found) + set(all));
                Bounds {
                    found: sum.found.saturating_add(part.found).min(all),
                    exact: sum.exact && part.exact,
                    work: sum.work.saturating_add(work),
                    asking: sum.asking.saturating_add(part.asking),
                }
            }),
            Self::Except(part) => {
                let part = part.bounds(table);
                let work = part.work.saturating_add(set(part.found) + set(all));
                // What is not in the part may be everything.
                Bounds { found: all, exact: part.exact, work, asking: part.asking + 1 }
            }
        }
    }

    /// Most candidates, by a longer look at the indexes: the ranks between the bounds of ranges.
    pub(super) fn at_most(&self, table: &Table) -> u64 {
        let all = table.len() as u64;
        match self {
            Self::Never => 0,
            Self::Scan | Self::Always | Self::Except(_) => all,
            Self::Lookup(lookup) => lookup.at_most(table),
            Self::All { parts, .. } => {
                parts.iter().map(|part| part.at_most(table)).min().unwrap_or(all)
            }
            Self::Any(parts) => {
                let each = parts.iter().map(|part| part.at_most(table));
                each.fold(0, u64::saturating_add).min(all)
            }
        }
    }

    /// Units of [`Access::at_most`].
    pub(super) fn units_of_asking(&self, table: &Table) -> u64 {
        match self {
            Self::Scan | Self::Always | Self::Never => 1,
            Self::Lookup(lookup) => lookup.units_of_asking(table),
            Self::All { parts, .. } | Self::Any(parts) => {
                let each = parts.iter().map(|part| part.units_of_asking(table));
                each.fold(1, u64::saturating_add)
            }
            Self::Except(part) => part.units_of_asking(table) + 1,
        }
    }
}

impl Lookup<'_> {
    fn bounds(&self, table: &Table) -> Bounds {
        let (all, found) = (table.len() as u64, self.found(table));
        let set = |entries: u64| of_set(entries, table.highest());
        let (exact, work) = match &self.ask {
            Ask::Equal(values) => {
                let one = match self.index {
                    Index::Created => units_of_rank(table) * 2 + units_of_ranks(all, table),
                    _ => 0,
                };
                let work = (values.len() as u64).saturating_mul(FIND + one + 2 * set(found));
                (self.answers(table), work)
            }
            Ask::Range(..) => {
                (self.answers(table), units_of_rank(table) * 2 + units_of_ranks(all, table))
            }
            Ask::Elements(quantifier, check) => {
                let work = match (quantifier, check) {
                    (Quantifier::AnyOf, Check::Compare(Op::Equal, _)) => FIND + set(found),
                    (Quantifier::AnyOf, Check::In(values)) => {
                        (values.0.len() as u64).saturating_mul(FIND + 2 * set(all))
                    }
                    _ => of_attributes(table, check.units_of_short()),
                };
                (has_all_elements(table), work + 3 * set(all))
            }
            Ask::Empty => (has_all_elements(table), of_attributes(table, 0) + 3 * set(all)),
        };
        Bounds { found, exact, work, asking: self.units_of_asking(table) }
    }

    /// Whether the index gives an answer. Without one every entity is a candidate.
    fn answers(&self, table: &Table) -> bool {
        let is_text = |value: &Literal| text(value).is_some();
        match self.index {
            Index::Id | Index::Unique(_) | Index::Link(_) => self.asks_only(is_text),
            Index::Name => table.is_complete(Ranking::Name) && self.asks_only(is_text),
            Index::Created => {
                let is_time = |value: &Literal| matches!(value, Literal::Time(_));
                is_usable(table, Ranking::Created) && self.asks_only(is_time)
            }
            Index::None | Index::Attributes => false,
        }
    }

    /// Whether all values that the index is asked for are of a form.
    fn asks_only(&self, has_form: impl Fn(&Literal) -> bool) -> bool {
        match &self.ask {
            Ask::Equal(values) => values.iter().all(has_form),
            Ask::Range(low, high) => [low, high].into_iter().all(|bound| match bound {
                Bound::Included(value) | Bound::Excluded(value) => has_form(value),
                Bound::Unbounded => true,
            }),
            Ask::Elements(..) | Ask::Empty => false,
        }
    }

    /// Most entities that the index gives, by a short look.
    fn found(&self, table: &Table) -> u64 {
        let all = table.len() as u64;
        match &self.ask {
            Ask::Equal(values) if self.answers(table) => match self.index {
                Index::Link(link) if values.len() <= COUNTED => {
                    let texts = values.iter().filter_map(text);
                    let each = texts.map(|id| table.count_referrers(link.into(), &Id::new(id)));
                    each.sum::<u64>().min(all)
                }
                Index::Link(_) | Index::Created => all,
                _ => all.min(values.len() as u64),
            },
            Ask::Elements(Quantifier::AnyOf, Check::Compare(Op::Equal, Literal::Text(value))) => {
                let bearers = table.bearers(value).map_or(0, |bearers| bearers.len());
                all.min(bearers + all.saturating_sub(table.eligible().len()))
            }
            _ => all,
        }
    }

    fn at_most(&self, table: &Table) -> u64 {
        match &self.ask {
            Ask::Range(low, high) => {
                let ranks = self.ranks(*low, *high, table);
                ranks.map_or(table.len() as u64, |(_, ranks)| ranks.len() as u64)
            }
            _ => self.found(table),
        }
    }

    fn units_of_asking(&self, table: &Table) -> u64 {
        match &self.ask {
            Ask::Equal(values) => 1 + values.len() as u64 * FIND,
            Ask::Range(..) => 2 * units_of_rank(table),
            Ask::Elements(..) | Ask::Empty => FIND,
        }
    }
}

/// Whether the index of attributes has every entity.
pub(super) fn has_all_elements(table: &Table) -> bool {
    table.eligible().len() == table.len() as u64
}

/// Most units of a check of every attribute, and of the union of the bearers of those that pass.
fn of_attributes(table: &Table, check: u64) -> u64 {
    let set = of_set(table.len() as u64, table.highest());
    (table.count_attributes() as u64).saturating_mul(1 + check + 2 * set)
}
