//! The syntax tree of a filter, in which names have no meaning yet.
//!
//! Positions are for error messages only: a comparison of two trees ignores them.

use time::OffsetDateTime;

/// A byte offset into the text. All positions are equal to each other.
#[derive(Debug, Clone, Copy, Default)]
pub struct Position(pub usize);

impl PartialEq for Position {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A name as written, without quotes: `name`, `tags.site`, `service.name`.
#[derive(Debug, Clone, PartialEq)]
pub struct Name {
    /// The text, never empty.
    pub text: String,
    /// The position of the first character.
    pub at: Position,
}

/// A constant value.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// A text in double quotes.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number with a fraction or an exponent, or too large for [`Literal::Int`]. Finite.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// `datetime(...)`, kept in UTC.
    Time(OffsetDateTime),
}

/// Comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// `true` or `false`.
    Constant(bool),
    /// A bare boolean symbol.
    Symbol(Name),
    /// A test: a left side, and a check on its value.
    Test(Test),
    /// `isEmpty(...)`.
    Empty(SetExpr),
    /// `not ...`.
    Not(Box<Expr>),
    /// All of two or more conditions.
    And(Vec<Expr>),
    /// At least one of two or more conditions.
    Or(Vec<Expr>),
}

/// One operation: `left check`.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// The left side.
    pub left: Operand,
    /// The check on the left side.
    pub check: Check,
    /// Position of the right side.
    pub at: Position,
}

/// The left side of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// One value.
    Symbol(Name),
    /// Some element of a set.
    AnyOf(Name),
    /// Every element of a set.
    AllOf(Name),
    /// The size of a set.
    Count(SetExpr),
}

/// A set of values, or of linked entities.
#[derive(Debug, Clone, PartialEq)]
pub enum SetExpr {
    /// A set symbol.
    Symbol(Name),
    /// `from name where query`: the linked entities that match.
    From(Name, Box<Query>),
}

/// A check on the left side.
#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    /// Comparison with one value.
    Compare(Op, Literal),
    /// `= null`, or `!= null` when negated.
    Null {
        /// `!=`.
        negated: bool,
    },
    /// `in [...]`: equal to one of the values, which are of one type.
    In {
        /// `not in`.
        negated: bool,
        /// The values; at least one.
        values: Vec<Literal>,
    },
    /// `between low and high`: `low <= value < high`.
    Between {
        /// `not between`.
        negated: bool,
        /// The lower bound, which is in the range.
        low: Literal,
        /// The upper bound, which is not in the range.
        high: Literal,
    },
    /// `contains`, or `icontains` when case does not count.
    Contains {
        /// `not contains`.
        negated: bool,
        /// `icontains`.
        fold: bool,
        /// A text or a number.
        needle: Literal,
    },
}

impl Check {
    /// True for `not in` and `not between`, which negate the whole test: also the quantifier of its left side,
    /// and what a null is. `not contains` negates the check on each element.
    pub(super) fn negates_whole(&self) -> bool {
        matches!(self, Self::In { negated: true, .. } | Self::Between { negated: true, .. })
    }
}

/// Direction of a sort field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Smallest first, null before all; the default.
    #[default]
    Ascending,
    /// Largest first, null after all.
    Descending,
}

/// One field of `sort by`.
#[derive(Debug, Clone, PartialEq)]
pub struct SortField {
    /// The symbol.
    pub name: Name,
    /// The direction.
    pub direction: Direction,
}

/// `limit ...` inside a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitClause {
    /// `limit none`.
    None,
    /// A number as written; [`super::PageRules`] interprets it.
    Count(i64),
}

/// The fields of a sort parameter, with its text.
#[derive(Debug, Clone, Default)]
pub struct Sort {
    /// At most [`super::MAX_SORT_FIELDS`].
    pub fields: Vec<SortField>,
    /// The text, for messages.
    pub source: Box<str>,
}

/// A whole filter: condition, order and window.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The condition; `None` matches everything.
    pub condition: Option<Expr>,
    /// At most [`super::MAX_SORT_FIELDS`].
    pub sort: Vec<SortField>,
    /// `skip n` as written.
    pub skip: Option<i64>,
    /// `limit n` or `limit none`.
    pub limit: Option<LimitClause>,
    /// The text, for messages; empty in a sub-query, which is part of its parent's text.
    pub source: Box<str>,
}

/// True if both mean the same; the texts may differ.
impl PartialEq for Query {
    fn eq(&self, other: &Self) -> bool {
        self.condition == other.condition
            && self.sort == other.sort
            && self.skip == other.skip
            && self.limit == other.limit
    }
}
