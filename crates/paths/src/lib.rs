//! Paths through a network: how circuits could go, what that costs, and which way they take. Pure: what
//! routers say and the time come in, and nothing is sent.
//!
//! - [`links`]: the links between routers; [`pending`]: what changed since the last version of the
//!   graph; [`topology`]: the graph of this moment, shared by all, and the trees over it;
//! - [`graph`], [`tree`], [`trees`], [`path`]: what is connected, and the cheapest ways;
//! - [`costs`]: experience with terminators; [`select`]: the terminator to dial;
//! - [`queue`]: which circuit moves next; [`window`]: how many routes a router may leave unanswered;
//! - [`explain`]: why a dial goes where it goes.

pub mod costs;
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
