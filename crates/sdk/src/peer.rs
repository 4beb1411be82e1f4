//! The other end of a connection, if it has proved itself.

use tokio::time::Instant;

/// An end of a connection that has proved itself: the controller says whose key it showed, and no router on the path can
/// take its place. Ends of weft prove themselves where the service requires encryption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The id of the identity.
    pub identity: String,
    /// The name of the identity.
    pub name: String,
    /// The id of its service session.
    pub(crate) session: String,
    /// The id of the service that the session is for.
    pub(crate) service: String,
    /// The end of the controller's statement.
    pub(crate) good_until: Instant,
}
