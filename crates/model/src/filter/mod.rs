//! The filter language of the list operations, with sorting and paging.
//!
//! What flows through here, from text to rows:
//!
//! ```text
//! text --parse--> Query --bind to a Schema--> Plan --matches(Record)--> rows --Order, Page--> list
//!                 (names, positions)          (symbol ids only)
//! ```
//!
//! - [`Query`] is the text as a tree. It knows nothing of any kind of entity; printing it gives
//!   text that parses to the same tree.
//! - [`bind`] resolves the names of a query against a [`Schema`]. Every mistake of the author ends
//!   there or in the parser, as a [`FilterError`] that points at the character.
//! - [`Plan`] holds ids and typed values, cheapest test first. It cannot fail. It shows which of
//!   its tests an index can answer ([`Plan::access`]) and explains itself ([`Plan::explain`]).
//! - [`Selection::search`] lists the entities of a [`crate::Table`] by its indexes, and says in a
//!   [`Trace`] how; [`Selection::run`] lists records of any other origin by looking at each.
//! - [`Record`] is what a plan looks at; [`Table`] makes both `Schema` and `Record` out of a
//!   constant table of columns.
//! - [`Selection`] is the whole of a list request: filter, `sort`, `limit` and `offset` together.
//!
//! Nothing here does I/O or reads a clock. The limits below hold before work is spent.
//! (protocol: management-api 2.2, 2.5)

mod access;
mod ast;
mod bind;
mod candidates;
mod error;
mod eval;
mod explain;
mod lexer;
mod order;
mod page;
mod parser;
mod plan;
mod print;
mod schema;
mod search;
mod select;
mod table;
mod value;

#[cfg(test)]
mod tests;

pub use access::{Access, Lookup};
pub use ast::{
    Check, Direction, Expr, LimitClause, Literal, Name, Op, Operand, Position, Query, SetExpr,
    Sort, SortField, Test,
};
pub use bind::{Audience, bind, bind_sort};
pub use error::{Code, FilterError, Reason};
pub use order::{Order, SortKey};
pub use page::{Page, PageError, PageRules, parse_param};
pub use parser::{parse, parse_sort};
pub use plan::Plan;
pub use schema::{Index, Record, Schema, Shape, Symbol, SymbolId, Visibility};
pub use search::{Source, Trace};
pub use select::{ListQuery, Listed, Selection};
pub use table::{Column, Get, Link, RecordVisitor, Row, Table, ValueVisitor};
pub use value::{Type, Value};

/// Longest filter or sort text that is looked at, in bytes.
///
/// Clients send filters in the request target, so longer ones do not occur; server-built lists of
/// ids stay far below.
pub const MAX_TEXT: usize = 64 * 1024;

/// How deep parentheses, `not`, changes between `and` and `or`, and sub-queries may nest.
pub const MAX_DEPTH: usize = 64;

/// How many tests one filter may hold. The elements of a list count as one test.
pub const MAX_TESTS: usize = 4096;

/// How deep sub-queries may nest: each level multiplies the work per record.
pub const MAX_SUB_QUERIES: usize = 3;

/// How many links one dotted name may follow.
pub const MAX_HOPS: usize = 4;

/// How many sort fields count; further ones are dropped (protocol: management-api 2.2).
pub const MAX_SORT_FIELDS: usize = 5;
