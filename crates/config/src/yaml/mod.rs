//! YAML of configuration files: a tree in which every node has its place.
//!
//! Text becomes events (the parser library), events become [`Node`]s (`tree`), plain scalars become
//! values by the rules of YAML 1.1 (`scalar`), and variables in strings are replaced (`environment`;
//! docs/protocol/config.md 1.1, 1.2).

mod environment;
mod scalar;
mod tabs;
mod tree;

pub(crate) use environment::expand;
pub use environment::{Environment, ProcessEnvironment};
pub use tabs::spaces_after_colons;
pub(crate) use tree::{Entry, Node, Place, Tree, Value, parse};
