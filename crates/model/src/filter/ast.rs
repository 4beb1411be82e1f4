//! The tree that filter text stands for, before any name has a meaning.
//!
//! Positions are carried for error messages only: two trees are equal when they say the same,
//! wherever it stood in the text.

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
    /// Where it starts.
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

/// How two values are compared.
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
    /// A left side and a check on it.
    Test(Test),
    /// `isEmpty(...)`.
    Empty(SetExpr),
    /// `not ...`.
    Not(Box<Expr>),
    /// All of two or more.
    And(Vec<Expr>),
    /// Any of two or more.
    Or(Vec<Expr>),
}

/// One operation: `left check`.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    /// What is looked at.
    pub left: Operand,
    /// What must hold.
    pub check: Check,
    /// Where the right side starts.
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

/// What is asked about the left side.
#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    /// Comparison with one value.
    Compare(Op, Literal),
    /// `= null`, or `!= null` when negated.
    Null {
        /// `!=`.
        negated: bool,
    },
    /// `in [...]`: equal to one of them. Never empty, all of one kind.
    In {
        /// `not in`.
        negated: bool,
        /// The list.
        values: Vec<Literal>,
    },
    /// `between low and high`: `low <= value < high`.
    Between {
        /// `not between`.
        negated: bool,
        /// The first value inside.
        low: Literal,
        /// The first value beyond.
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

/// Which way a sort field runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Smallest first, null before all; what is meant when nothing is said.
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
    /// A number as written; what it means is decided by [`super::PageRules`].
    Count(i64),
}

/// The fields of a sort parameter, with the text they came from.
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
    /// The condition; none means everything.
    pub condition: Option<Expr>,
    /// At most [`super::MAX_SORT_FIELDS`].
    pub sort: Vec<SortField>,
    /// `skip n` as written.
    pub skip: Option<i64>,
    /// `limit n` or `limit none`.
    pub limit: Option<LimitClause>,
    /// The text, for messages; empty in a sub-query, which stands in its parent's text.
    pub source: Box<str>,
}

/// The same meaning; the texts may differ.
impl PartialEq for Query {
    fn eq(&self, other: &Self) -> bool {
        self.condition == other.condition
            && self.sort == other.sort
            && self.skip == other.skip
            && self.limit == other.limit
    }
}
