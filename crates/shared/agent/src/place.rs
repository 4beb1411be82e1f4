//! Where the socket of an agent is.

use std::path::PathBuf;

/// Where the socket of an agent is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Where clients look for it.
    #[default]
    Usual,
    /// At this path.
    At(PathBuf),
}
