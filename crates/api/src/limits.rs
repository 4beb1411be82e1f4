//! Limits of the server.

use std::time::Duration;

use weft_channel::ListenerLimits;
use weft_contract::resource::change::MAX_TIME;

/// What peers may take up. The defaults suit a network of some ten thousand clients.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections of a bind point.
    pub connections: usize,
    /// Connections from one address (one /64 network of IPv6).
    pub connections_per_source: usize,
    /// Connections that have not sent a whole request head yet; as many more wait in a line.
    pub pending: usize,
    /// The same from one address; more are closed.
    pub pending_per_source: usize,
    /// How long such a connection keeps its place, and a request whose body does not come, when
    /// others want it.
    pub grace: Duration,
    /// Time for the first whole request head.
    pub first_request: Duration,
    /// Time for the TLS handshake.
    pub handshake_timeout: Duration,
    /// Requests that are worked on; more are answered 429.
    pub requests: usize,
    /// The same from one address.
    pub requests_per_source: usize,
    /// Files that are sent; more are answered 429.
    pub files: usize,
    /// The same to one address.
    pub files_per_source: usize,
    /// Time that a client has to take a file; for a large one it has more. Then it is cut.
    pub file_time: Duration,
    /// Bytes of request bodies that are held; more are answered 429.
    pub body_bytes: usize,
    /// The same from one address: a document of the largest size and some more.
    pub body_bytes_per_source: usize,
    /// Time for an operation; then the answer is 503, and what was begun goes on
    /// (docs/protocol/management-api.md 1).
    pub handler_timeout: Duration,
    /// The same for operations on whole networks.
    pub document_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 8192,
            connections_per_source: 1024,
            pending: 1024,
            pending_per_source: 256,
            grace: Duration::from_secs(2),
            first_request: Duration::from_secs(10),
            handshake_timeout: Duration::from_secs(5),
            requests: 1024,
            requests_per_source: 256,
            files: 1024,
            files_per_source: 256,
            // Others may be on the same connection.
            file_time: Duration::from_secs(60),
            body_bytes: 64 * 1024 * 1024,
            body_bytes_per_source: 20 * 1024 * 1024,
            handler_timeout: Duration::from_secs(10),
            document_timeout: MAX_TIME,
        }
    }
}

impl Limits {
    /// The part that the listening socket holds.
    pub(crate) fn listener(&self) -> ListenerLimits {
        ListenerLimits {
            pending: self.pending,
            pending_per_source: self.pending_per_source,
            grace: self.grace,
            handshake_timeout: self.handshake_timeout,
            connections: self.connections,
        }
    }
}
