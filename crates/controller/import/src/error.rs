//! Why a database is not read as a network.

use weft_bolt::BoltError;
use weft_model::ApplyError;

/// Why a database is not read as a network.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read, or a page of it is damaged.
    #[error(transparent)]
    Database(#[from] BoltError),
    /// The database is not one of a controller.
    #[error("this is no database of a controller of OpenZiti: {0} is missing")]
    NoController(&'static str),
    /// The layout of the database is not known.
    #[error(
        "the database has the layout {found}; weft reads 41 (of OpenZiti 1.6), 44 (2.0) and 48 (2.1): \
         start the newest release of one of them once with it, which brings it to its layout, or use a \
         newer weft"
    )]
    Layout {
        /// The number of the layout.
        found: i64,
    },
    /// The model refuses what was read.
    #[error("the network that was read is not consistent: {0}")]
    Model(#[from] ApplyError),
}
