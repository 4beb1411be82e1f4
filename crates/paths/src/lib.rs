//! Paths through a network: searches, costs, and choices. Pure: reports of routers and times come
//! in, and nothing is sent.
//!
//! - [`links`]: the links between routers; [`pending`]: changes since the last version of the
//!   graph; [`topology`]: the current graph, shared by all, and the trees over it;
//! - [`graph`], [`tree`], [`trees`], [`path`]: connected routers, and the cheapest paths; `detours`:
//!   those around avoided routers;
//! - [`costs`]: dynamic costs of terminators; [`select`]: the choice of a terminator;
//! - [`queue`]: the order of moves of circuits; [`window`]: the number of routes that a router may
//!   leave unanswered;
//! - [`explain`]: explains the choice of terminator and path.

pub mod costs;
mod detours;
pub mod explain;
pub mod graph;
pub mod links;
pub mod path;
pub mod pending;
pub mod queue;
pub mod select;
pub mod topology;
pub mod tree;
pub mod trees;
pub mod window;
