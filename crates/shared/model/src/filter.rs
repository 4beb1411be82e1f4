//! The filter language of lists, with sorting and paging.
//!
//! ```text
//! text --parse--> Query --bind to a Schema--> Plan --matches(Record)--> rows --Order, Page--> list
//!                 (names, positions)          (symbol ids only)
//! ```
//!
//! - [`Query`] is the text as a tree. It knows no kind of entity; printing it gives text that
//!   parses to the same tree.
//! - [`bind`] resolves the names of a query against a [`Schema`]. Every mistake is found there or
//!   in the parser, as a [`FilterError`] that points at the character.
//! - [`Plan`] holds ids and typed values, cheapest test first. It cannot fail. It shows which of
//!   its tests an index can answer ([`Plan::access`]) and explains itself ([`Plan::explain`]).
//! - [`Selection::search`] lists the entities of a [`crate::Table`] by its indexes, and describes
//!   the search in a [`SearchTrace`]; [`Selection::run`] lists other records by looking at each.
//! - [`Record`] is an entity as a plan sees it; [`Symbols`] makes both `Schema` and `Record` of a
//!   constant table of columns.
//! - [`Selection`] is a whole list request: filter, `sort`, `limit` and `offset` together.
//!
//! - [`Selection::effort`] is an upper bound of the work of a list, known before it begins; a [`crate::Meter`]
//!   counts the work while it is done.
//!
//! Nothing here does I/O or reads a clock. The limits below hold before work is done
//! (docs/protocol/management-api.md 2.2, 2.5).

mod access;
mod ast;
mod bind;
mod candidates;
mod effort;
mod error;
mod eval;
mod explain;
mod lexer;
mod limits;
mod order;
mod page;
mod parser;
mod plan;
mod print;
mod schema;
mod search;
mod searched;
mod select;
mod symbols;
mod units;
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
pub use limits::{MAX_DEPTH, MAX_HOPS, MAX_SORT_FIELDS, MAX_SUB_QUERIES, MAX_TESTS, MAX_TEXT};
pub use order::{Order, SortKey};
pub use page::{Page, PageError, PageRules, parse_param};
pub use parser::{parse, parse_sort};
pub use plan::Plan;
pub use schema::{Index, Record, Schema, Shape, Symbol, SymbolId, Visibility};
pub use search::{SearchTrace, Source};
pub use searched::Searched;
pub use select::{ListQuery, Listed, Selection};
pub use symbols::{Column, Get, Link, RecordVisitor, Row, Symbols, ValueVisitor};
pub use units::ROW;
pub use value::{Type, Value};
