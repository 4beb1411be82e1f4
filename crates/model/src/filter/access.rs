//! Which part of a plan the indexes of a table can answer.
//!
//! An [`Access`] is made from the plan alone and names a superset of the matches. Asked of a table
//! it becomes a set of candidates, and tells whether these are the matches themselves: then no
//! entity has to be looked at. Without a usable index every entity is a candidate.

use std::ops::Bound;
use std::slice;

use super::ast::{Literal, Op};
use super::plan::{Check, Condition, Leaf, Members, Path, Plan, Quantifier};
use super::schema::Index;

/// A question that one index answers.
#[derive(Debug, Clone, Copy)]
pub struct Lookup<'p> {
    pub(super) index: Index,
    /// The symbol as written.
    pub(super) name: &'p str,
    pub(super) ask: Ask<'p>,
}

/// What is asked of an index.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask<'p> {
    /// Entities whose value is one of these.
    Equal(&'p [Literal]),
    /// Entities whose value lies between the bounds.
    Range(Bound<&'p Literal>, Bound<&'p Literal>),
    /// Entities some, or every, element of which passes.
    Elements(Quantifier, &'p Check),
    /// Entities without an element.
    Empty,
}

/// Where the candidates come from.
#[derive(Debug, Clone)]
pub enum Access<'p> {
    /// No index helps.
    Scan,
    /// Everything matches.
    Always,
    /// Nothing can match.
    Never,
    /// One index.
    Lookup(Lookup<'p>),
    /// What is in all of these; a part may be left out.
    All {
        /// The parts.
        parts: Vec<Access<'p>>,
        /// Whether these are all parts of the condition.
        whole: bool,
    },
    /// What is in any of these; no part may be left out.
    Any(Vec<Access<'p>>),
    /// What is not in this.
    Except(Box<Access<'p>>),
}

impl Plan {
    /// The indexes that narrow the candidates.
    pub fn access(&self) -> Access<'_> {
        self.condition.access()
    }
}

impl Access<'_> {
    /// Whether it names the matches themselves, if every index answers.
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
        // What is not in a superset says nothing.
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
        Check::In { negated: false, values } => lookup(Ask::Equal(&values.0)),
        Check::Between { negated: false, low, high } => {
            range(Bound::Included(low), Bound::Excluded(high))
        }
        Check::Compare(op, literal) => match op {
            Op::Equal => equal(literal),
            // A null is not equal either, and no index holds it.
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
        // Its elements can be looked through.
        (Index::Attributes, ..) => lookup(Ask::Elements(quantifier, check)),
        (Index::Link(_), Quantifier::AnyOf, Check::Compare(Op::Equal, literal)) => {
            lookup(Ask::Equal(slice::from_ref(literal)))
        }
        (Index::Link(_), Quantifier::AnyOf, Check::In { negated: false, values }) => {
            lookup(Ask::Equal(&values.0))
        }
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
