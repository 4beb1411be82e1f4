//! Limits of the web server on connections and requests, in all and for each source.

use std::time::Duration;

use weft_channel::ListenerLimits;
use weft_contract::resource::change::MAX_TIME;

/// Limits on the connections and requests of peers. The defaults suit a network with some 10000
/// clients.
#[derive(Debug, Clone)]
pub struct ApiLimits {
    /// Connections to one bind point.
    pub connections: usize,
    /// Connections from one source: one address of IPv4, one /64 network of IPv6.
    pub connections_per_source: usize,
    /// Connections that have not sent a whole request head yet; as many more wait in a queue.
    pub pending: usize,
    /// Limit of connections without a whole request head from one source; more are closed.
    pub pending_per_source: usize,
    /// How long a connection without a whole request head, or a request whose body does not arrive,
    /// keeps its place when others need the place.
    pub grace: Duration,
    /// Time limit for the first whole request head.
    pub first_request: Duration,
    /// Time limit for the TLS handshake.
    pub handshake_timeout: Duration,
    /// Requests in work; more are answered 429.
    pub requests: usize,
    /// Requests in work from one source.
    pub requests_per_source: usize,
    /// Files being sent; more are answered 429.
    pub files: usize,
    /// Files being sent to one source.
    pub files_per_source: usize,
    /// Time for a client to accept a file, besides the write timeout of the configuration and 1 s for
    /// each 16 KiB. After that the connection is closed.
    pub file_time: Duration,
    /// Bytes of request bodies in memory; more are answered 429.
    pub body_bytes: usize,
    /// Bytes of bodies from one source: at least those of the largest document (16 MiB).
    pub body_bytes_per_source: usize,
    /// Bytes of answers that are being sent; more are answered 429.
    pub answer_bytes: usize,
    /// Bytes of answers that are being sent to one source.
    pub answer_bytes_per_source: usize,
    /// Time limit for an operation. After that the answer is 503, and the operation goes on
    /// (docs/protocol/management-api.md 1).
    pub handler_timeout: Duration,
    /// Time limit for operations on whole networks.
    pub document_timeout: Duration,
}

impl Default for ApiLimits {
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
            // Other requests may share the connection.
            file_time: Duration::from_secs(60),
            body_bytes: 64 * 1024 * 1024,
            body_bytes_per_source: 20 * 1024 * 1024,
            answer_bytes: 512 * 1024 * 1024,
            answer_bytes_per_source: 128 * 1024 * 1024,
            handler_timeout: Duration::from_secs(10),
            document_timeout: MAX_TIME,
        }
    }
}

impl ApiLimits {
    /// The limits that the listening socket enforces.
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
