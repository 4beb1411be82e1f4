//! Which part of a plan an index can answer.
//!
//! An [`Access`] names a superset of the matches; whoever holds the indexes makes the candidates
//! out of it ([`Plan::candidates`]) and lets [`Plan::matches`] decide over each. Without a usable
//! index the candidates are everything.

use std::ops::Bound;
use std::slice;

use roaring::RoaringBitmap;

use super::ast::{Literal, Op};
use super::plan::{Check, Condition, Leaf, Path, Plan, Quantifier};
use super::schema::{Index, SymbolId};

/// A question that one index answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Lookup<'p> {
    /// Entities whose value is one of these.
    Equal {
        /// The symbol.
        symbol: SymbolId,
        /// The values, without duplicates.
        values: &'p [Literal],
    },
    /// Entities whose value is not null and lies between the bounds.
    Range {
        /// The symbol.
        symbol: SymbolId,
        /// Lower bound.
        low: Bound<&'p Literal>,
        /// Upper bound.
        high: Bound<&'p Literal>,
    },
    /// Entities whose set holds one of these.
    Holds {
        /// The symbol.
        symbol: SymbolId,
        /// The elements, without duplicates.
        values: &'p [Literal],
    },
}

/// Where the candidates come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Access<'p> {
    /// No index helps.
    Everything,
    /// Nothing can match.
    Nothing,
    /// One index.
    Lookup(Lookup<'p>),
    /// What is in all of these; a part may be left out.
    Intersect(Vec<Access<'p>>),
    /// What is in any of these; no part may be left out.
    Union(Vec<Access<'p>>),
}

/// The indexes of a kind.
pub trait Indexes {
    /// The entities that answer the question, or more of them; none if no index can tell.
    fn lookup(&self, lookup: &Lookup<'_>) -> Option<RoaringBitmap>;
}

impl Plan {
    /// The indexes that narrow the candidates. Only symbols declared with an index occur.
    pub fn access(&self) -> Access<'_> {
        self.condition.access()
    }

    /// A superset of the matches, by ordinal; none when every entity is a candidate.
    pub fn candidates(&self, indexes: &dyn Indexes) -> Option<RoaringBitmap> {
        self.access().candidates(indexes)
    }
}

impl Access<'_> {
    fn candidates(&self, indexes: &dyn Indexes) -> Option<RoaringBitmap> {
        match self {
            Self::Everything => None,
            Self::Nothing => Some(RoaringBitmap::new()),
            Self::Lookup(lookup) => indexes.lookup(lookup),
            Self::Intersect(parts) => {
                let mut result: Option<RoaringBitmap> = None;
                for part in parts {
                    if result.as_ref().is_some_and(RoaringBitmap::is_empty) {
                        break;
                    }
                    let Some(found) = part.candidates(indexes) else { continue };
                    result = Some(match result {
                        Some(before) => before & found,
                        None => found,
                    });
                }
                result
            }
            Self::Union(parts) => parts.iter().try_fold(RoaringBitmap::new(), |before, part| {
                part.candidates(indexes).map(|found| before | found)
            }),
        }
    }
}

impl Condition {
    pub(super) fn access(&self) -> Access<'_> {
        match self {
            Self::Constant(true) => Access::Everything,
            Self::Constant(false) => Access::Nothing,
            Self::All(parts) => intersect(parts.iter().map(Self::access)),
            Self::Any(parts) => union(parts.iter().map(Self::access)),
            Self::Value(path, check) => {
                value_lookup(path, check).map_or(Access::Everything, Access::Lookup)
            }
            Self::Elements(path, Quantifier::AnyOf, check) => {
                element_lookup(path, check).map_or(Access::Everything, Access::Lookup)
            }
            Self::Not(_)
            | Self::Elements(_, Quantifier::AllOf, _)
            | Self::Count(..)
            | Self::Empty(_) => Access::Everything,
        }
    }
}

fn intersect<'p>(parts: impl Iterator<Item = Access<'p>>) -> Access<'p> {
    let mut kept: Vec<_> = parts.filter(|part| *part != Access::Everything).collect();
    if kept.contains(&Access::Nothing) {
        return Access::Nothing;
    }
    match kept.len() {
        0 => Access::Everything,
        1 => kept.pop().unwrap_or(Access::Everything),
        _ => Access::Intersect(kept),
    }
}

fn union<'p>(parts: impl Iterator<Item = Access<'p>>) -> Access<'p> {
    let mut kept: Vec<_> = parts.filter(|part| *part != Access::Nothing).collect();
    if kept.contains(&Access::Everything) {
        return Access::Everything;
    }
    match kept.len() {
        0 => Access::Nothing,
        1 => kept.pop().unwrap_or(Access::Nothing),
        _ => Access::Union(kept),
    }
}

fn value_lookup<'p>(path: &'p Path, check: &'p Check) -> Option<Lookup<'p>> {
    static TRUE: Literal = Literal::Bool(true);
    let (Leaf::One(symbol), true) = (&path.leaf, path.hops.is_empty()) else { return None };
    let symbol = *symbol;
    let ranges = path.index == Index::Ordered;
    if !ranges && path.index != Index::Equal {
        return None;
    }
    let range = |low, high| ranges.then_some(Lookup::Range { symbol, low, high });
    match check {
        Check::True => Some(Lookup::Equal { symbol, values: slice::from_ref(&TRUE) }),
        Check::In { negated: false, values } => Some(Lookup::Equal { symbol, values: &values.0 }),
        Check::Between { negated: false, low, high } => {
            range(Bound::Included(low), Bound::Excluded(high))
        }
        Check::Compare(op, literal) => match op {
            Op::Equal => Some(Lookup::Equal { symbol, values: slice::from_ref(literal) }),
            Op::NotEqual => None,
            Op::Less => range(Bound::Unbounded, Bound::Excluded(literal)),
            Op::LessOrEqual => range(Bound::Unbounded, Bound::Included(literal)),
            Op::Greater => range(Bound::Excluded(literal), Bound::Unbounded),
            Op::GreaterOrEqual => range(Bound::Included(literal), Bound::Unbounded),
        },
        _ => None,
    }
}

fn element_lookup<'p>(path: &'p Path, check: &'p Check) -> Option<Lookup<'p>> {
    let (Leaf::Set(symbol), true) = (&path.leaf, path.hops.is_empty()) else { return None };
    let symbol = *symbol;
    if path.index != Index::Holders {
        return None;
    }
    match check {
        Check::Compare(Op::Equal, literal) => {
            Some(Lookup::Holds { symbol, values: slice::from_ref(literal) })
        }
        Check::In { negated: false, values } => Some(Lookup::Holds { symbol, values: &values.0 }),
        _ => None,
    }
}
