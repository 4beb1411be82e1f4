//! Paths through a network: searches, costs, and choices. Pure: reports of routers and times come
//! in, and nothing is sent.
//!
//! ```text
//!  reports of routers ──> Links ──> Pending ──> Topology: Graph, a Tree for each dialing router ──> Path
//!  terminators, with their Costs and the costs of the paths to them ──> select::choose ──> terminator
//!  lost links, cheaper paths ──> queue, window ──> the next circuit to move
//! ```
//!
//! - [`links`]: the links between routers; [`pending`]: changes since the last version of the
//!   graph; [`topology`]: the current graph, shared by all, and the trees over it;
//! - [`graph`], [`tree`], [`trees`], [`path`]: connected routers, and the cheapest paths; `detours`:
//!   those around avoided routers;
//! - [`costs`]: dynamic costs of terminators; [`select`]: the choice of a terminator;
//! - [`queue`]: the order of moves of circuits; [`window`]: the number of routes that a router may
//!   leave unanswered;
//! - [`explain`]: explains the choice of terminator and path.
//!
//! ```
//! use weft_model::Id;
//! use weft_paths::graph::Graph;
//!
//! let [a, b, c] = ["a", "b", "c"].map(Id::new);
//! let mut graph = Graph::new(0);
//! for router in [&a, &b, &c] {
//!     graph.add_router(router, 0, false);
//! }
//! graph.add_link("direct", &a, &c, 50);
//! graph.add_link("first", &a, &b, 10);
//! graph.add_link("second", &b, &c, 10);
//! let path = graph.path(&a, &c).expect("the routers are connected");
//! assert_eq!((path.links, path.cost), (vec!["first".to_owned(), "second".to_owned()], 20));
//! ```

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
