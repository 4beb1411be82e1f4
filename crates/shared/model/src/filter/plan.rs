//! A bound filter: symbol ids and typed values, which cannot fail.

use super::ast::{LimitClause, Literal, Op};
use super::order::Order;
use super::schema::{Index, SymbolId};
use super::units::long;
use super::value::Value;

/// The cost of a step to all elements of a set, and of one to all entities at the other end of a link: these may
/// be a whole table.
const SET: u32 = 10;
const LINK: u32 = 40_000;

/// A filter bound to a kind. Made by [`super::bind`].
#[derive(Debug, Clone)]
pub struct Plan {
    pub(super) kind: Box<str>,
    pub(super) condition: Condition,
    pub(super) order: Order,
    pub(super) skip: Option<i64>,
    pub(super) limit: Option<LimitClause>,
}

impl Plan {
    /// The order that the filter asks for, or else the default one.
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// `skip` of the filter.
    pub fn skip(&self) -> Option<i64> {
        self.skip
    }

    /// `limit` of the filter.
    pub fn limit(&self) -> Option<LimitClause> {
        self.limit
    }
}

/// A bound condition.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    Constant(bool),
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    /// A check on one value.
    Value(Path, Check),
    /// A check on some element or on every element of a set.
    Elements(Path, Quantifier, Check),
    /// A check on the size of a set.
    Count(Members, Check),
    /// The set has no members.
    Empty(Members),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantifier {
    AnyOf,
    AllOf,
}

/// The members of a set that count: all elements, or the linked records that match a sub-query.
#[derive(Debug, Clone)]
pub(super) struct Members {
    pub(super) path: Path,
    pub(super) sub_query: Option<Box<SubQuery>>,
}

/// A query on linked records. Its order does not matter; its window limits the count.
#[derive(Debug, Clone)]
pub(super) struct SubQuery {
    pub(super) kind: Box<str>,
    pub(super) condition: Condition,
    pub(super) skip: u64,
    pub(super) limit: Option<u64>,
}

/// The path from a record to a value: links to follow, then a symbol.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub(super) hops: Vec<SymbolId>,
    pub(super) leaf: Leaf,
    pub(super) index: Index,
    /// Whether the path leads over links between kinds, or ends in the set of a link.
    pub(super) is_wide: bool,
    /// Name as written, for explanations.
    pub(super) name: Box<str>,
}

#[derive(Debug, Clone)]
pub(super) enum Leaf {
    One(SymbolId),
    Set(SymbolId),
    Key(SymbolId, Box<str>),
}

/// A check on one value.
#[derive(Debug, Clone)]
pub(super) enum Check {
    Null,
    NotNull,
    True,
    Compare(Op, Literal),
    In(Values),
    Between(Literal, Literal),
    Contains {
        negated: bool,
        needle: String,
    },
    /// The needle is in upper case.
    ContainsFolded {
        negated: bool,
        needle: String,
    },
}

/// The values of a list, sorted for searching: of one type, integers before fractions.
#[derive(Debug, Clone)]
pub(super) struct Values(pub(super) Vec<Literal>);

impl Condition {
    /// All parts, without those that are always true, cheapest first.
    pub(super) fn all(parts: Vec<Self>) -> Self {
        Self::join(parts, true)
    }

    /// Any of the parts, without those that are never true, cheapest first.
    pub(super) fn any(parts: Vec<Self>) -> Self {
        Self::join(parts, false)
    }

    /// The negation.
    pub(super) fn negate(self) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(!value),
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    fn join(parts: Vec<Self>, conjunction: bool) -> Self {
        let mut kept = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Self::Constant(value) if value == conjunction => {}
                Self::Constant(value) => return Self::Constant(value),
                Self::All(inner) if conjunction => kept.extend(inner),
                Self::Any(inner) if !conjunction => kept.extend(inner),
                other => kept.push(other),
            }
        }
        kept.sort_by_cached_key(Self::cost);
        match (kept.len(), conjunction) {
            (0, _) => Self::Constant(conjunction),
            (1, _) => kept.pop().unwrap_or(Self::Constant(conjunction)),
            (_, true) => Self::All(kept),
            (_, false) => Self::Any(kept),
        }
    }

    /// Rough cost per record, by which tests are ordered.
    fn cost(&self) -> u32 {
        match self {
            Self::Constant(_) => 0,
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().fold(0, |sum, part| sum.saturating_add(part.cost()))
            }
            Self::Not(inner) => inner.cost(),
            Self::Value(path, check) => path.cost().saturating_mul(check.cost()),
            Self::Elements(path, _, check) => path.cost().saturating_mul(check.cost()),
            Self::Count(members, _) | Self::Empty(members) => {
                let inner = members
                    .sub_query
                    .as_ref()
                    .map_or(1, |sub| sub.condition.cost().saturating_add(20));
                members.path.cost().saturating_mul(inner)
            }
        }
    }
}

impl Path {
    fn cost(&self) -> u32 {
        let step = if self.is_wide { LINK } else { SET };
        let leaf = if matches!(self.leaf, Leaf::Set(_)) { step } else { 1 };
        self.hops.iter().fold(leaf, |cost, _| cost.saturating_mul(step))
    }
}

impl Check {
    /// Units of the check of a value.
    pub(super) fn units(&self, value: &Value<'_>) -> u64 {
        self.units_of_short() * (1 + long(value))
    }

    /// Units of the check of a short text, and of any other value.
    pub(super) fn units_of_short(&self) -> u64 {
        match self {
            Self::Null | Self::NotNull | Self::True | Self::Compare(..) | Self::Between(..) => 1,
            Self::In(values) => 1 + u64::from(values.0.len().checked_ilog2().unwrap_or_default()),
            Self::Contains { .. } => 4,
            Self::ContainsFolded { .. } => 8,
        }
    }

    fn cost(&self) -> u32 {
        match self {
            Self::Null | Self::NotNull | Self::True | Self::Compare(..) | Self::Between(..) => 1,
            Self::In(_) => 2,
            Self::Contains { .. } => 4,
            Self::ContainsFolded { .. } => 8,
        }
    }
}
