//! The part of a plan that the indexes of a table can answer.
//!
//! An [`Access`] is made of the plan alone and describes a superset of the matches. A table turns
//! it into a set of candidates, and tells whether these are exactly the matches, so that no entity
//! has to be read. Without a usable index every entity is a candidate.

use std::ops::Bound;
use std::slice;

use super::ast::{Literal, Op};
use super::plan::{Check, Condition, Leaf, Members, Path, Plan, Quantifier};
use super::schema::Index;

/// A question to one index.
#[derive(Debug, Clone, Copy)]
pub struct Lookup<'p> {
    pub(super) index: Index,
    /// Name of the symbol in the filter.
    pub(super) name: &'p str,
    pub(super) ask: Ask<'p>,
}

/// The question.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask<'p> {
    /// Entities whose value is one of these.
    Equal(&'p [Literal]),
    /// Entities whose value is between the bounds.
    Range(Bound<&'p Literal>, Bound<&'p Literal>),
    /// Entities of which some element, or every element, passes.
    Elements(Quantifier, &'p Check),
    /// Entities without elements.
    Empty,
}

/// Source of the candidates.
#[derive(Debug, Clone)]
pub enum Access<'p> {
    /// Every entity: no index helps.
    Scan,
    /// Every entity matches.
    Always,
    /// No entity matches.
    Never,
    /// The answer of one index.
    Lookup(Lookup<'p>),
    /// Entities in all parts; leaving a part out only adds candidates.
    All {
        /// The parts.
        parts: Vec<Access<'p>>,
        /// True if these are all parts of the condition.
        whole: bool,
    },
    /// Entities in any part; no part may be left out.
    Any(Vec<Access<'p>>),
    /// Entities that are not in this set.
    Except(Box<Access<'p>>),
}

impl Plan {
    /// The indexes that narrow the candidates.
    pub fn access(&self) -> Access<'_> {
        self.condition.access()
    }
}

impl Access<'_> {
    /// True if the access describes exactly the matches, provided that every index answers.
    pub(super) fn is_exact(&self) -> bool {
        match self {
            Self::Scan => false,
            Self::Always | Self::Never | Self::Lookup(_) => true,
            Self::All { parts, whole } => *whole && parts.iter().all(Self::is_exact),
            Self::Any(parts) => parts.iter().all(Self::is_exact),
            Self::Except(part) => part.is_exact(),
        }
    }
}

impl Condition {
    pub(super) fn access(&self) -> Access<'_> {
        match self {
            Self::Constant(true) => Access::Always,
            Self::Constant(false) => Access::Never,
            Self::All(parts) => all(parts.iter().map(Self::access)),
            Self::Any(parts) => any(parts.iter().map(Self::access)),
            Self::Not(inner) => except(inner.access()),
            Self::Value(path, check) => of_value(path, check),
            Self::Elements(path, quantifier, check) => of_elements(path, *quantifier, check),
            Self::Empty(members) => of_empty(members),
            Self::Count(..) => Access::Scan,
        }
    }
}

fn all<'p>(each: impl Iterator<Item = Access<'p>>) -> Access<'p> {
    let (mut parts, mut whole) = (Vec::new(), true);
    for part in each {
        match part {
            Access::Never => return Access::Never,
            Access::Always => {}
            Access::Scan => whole = false,
            part => parts.push(part),
        }
    }
    match (parts.len(), whole) {
        (0, true) => Access::Always,
        (0, false) => Access::Scan,
        (1, true) => parts.pop().unwrap_or(Access::Scan),
        _ => Access::All { parts, whole },
    }
}

fn any<'p>(each: impl Iterator<Item = Access<'p>>) -> Access<'p> {
    let (mut parts, mut scan) = (Vec::new(), false);
    for part in each {
        match part {
            Access::Always => return Access::Always,
            Access::Never => {}
            Access::Scan => scan = true,
            part => parts.push(part),
        }
    }
    match parts.len() {
        _ if scan => Access::Scan,
        0 => Access::Never,
        1 => parts.pop().unwrap_or(Access::Scan),
        _ => Access::Any(parts),
    }
}

fn except(inner: Access<'_>) -> Access<'_> {
    match inner {
        Access::Always => Access::Never,
        Access::Never => Access::Always,
        Access::Except(inner) => *inner,
        // An access that is not exact gives a superset of the matches. Entities outside of it are
        // not all that match the negation, so every entity is tested.
        inner if inner.is_exact() => Access::Except(Box::new(inner)),
        _ => Access::Scan,
    }
}

fn of_value<'p>(path: &'p Path, check: &'p Check) -> Access<'p> {
    let (Leaf::One(_), true) = (&path.leaf, path.hops.is_empty()) else { return Access::Scan };
    let ranges = match path.index {
        Index::Id | Index::Name | Index::Created => true,
        Index::Unique(_) | Index::Link(_) => false,
        Index::None | Index::Attributes => return Access::Scan,
    };
    let lookup = |ask| Access::Lookup(Lookup { index: path.index, name: &path.name, ask });
    let equal = |literal| lookup(Ask::Equal(slice::from_ref(literal)));
    let range = |low, high| if ranges { lookup(Ask::Range(low, high)) } else { Access::Scan };
    match check {
        Check::In(values) => lookup(Ask::Equal(&values.0)),
        Check::Between(low, high) => range(Bound::Included(low), Bound::Excluded(high)),
        Check::Compare(op, literal) => match op {
            Op::Equal => equal(literal),
            // A null is not equal either, and no index holds nulls.
            Op::NotEqual => except(equal(literal)),
            Op::Less => range(Bound::Unbounded, Bound::Excluded(literal)),
            Op::LessOrEqual => range(Bound::Unbounded, Bound::Included(literal)),
            Op::Greater => range(Bound::Excluded(literal), Bound::Unbounded),
            Op::GreaterOrEqual => range(Bound::Included(literal), Bound::Unbounded),
        },
        _ => Access::Scan,
    }
}

fn of_elements<'p>(path: &'p Path, quantifier: Quantifier, check: &'p Check) -> Access<'p> {
    let (Leaf::Set(_), true) = (&path.leaf, path.hops.is_empty()) else { return Access::Scan };
    let lookup = |ask| Access::Lookup(Lookup { index: path.index, name: &path.name, ask });
    match (path.index, quantifier, check) {
        // The index lists all elements.
        (Index::Attributes, ..) => lookup(Ask::Elements(quantifier, check)),
        (Index::Link(_), Quantifier::AnyOf, Check::Compare(Op::Equal, literal)) => {
            lookup(Ask::Equal(slice::from_ref(literal)))
        }
        (Index::Link(_), Quantifier::AnyOf, Check::In(values)) => lookup(Ask::Equal(&values.0)),
        _ => Access::Scan,
    }
}

fn of_empty(members: &Members) -> Access<'_> {
    let Members { path, sub_query: None } = members else { return Access::Scan };
    let direct = path.hops.is_empty() && matches!(path.leaf, Leaf::Set(_));
    if !direct || path.index != Index::Attributes {
        return Access::Scan;
    }
    Access::Lookup(Lookup { index: path.index, name: &path.name, ask: Ask::Empty })
}
