//! YAML: a tree in which every node has its location, for configuration files and for whoever brings rules of their own.
//!
//! Text becomes events (the parser library), events become [`Node`]s (`tree`), plain scalars become
//! values by the rules of YAML 1.1 (`scalar`), and variables in strings are replaced (`environment`;
//! docs/protocol/config.md 1.1, 1.2).

mod environment;
mod scalar;
mod tabs;
mod tree;

pub use environment::{Environment, ProcessEnvironment};
pub(crate) use environment::{expand, expand_text};
pub(crate) use tabs::spaces_after_colons;
pub(crate) use tree::parse;
pub use tree::{MapEntry, Node, Rules, SourceLocation, SyntaxError, Twice, YamlTree, YamlValue};
