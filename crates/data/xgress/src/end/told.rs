//! The messages of an end to its application.

use bytes::Bytes;
use weft_wire::payload::PayloadHeaders;

/// Why an end is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitCloseReason {
    /// Both directions ended, or this end was closed and all its data was acknowledged.
    Finished,
    /// The peer closed the circuit.
    PeerClosed,
    /// The peer gave the circuit up before its direction had ended: data may be missing. Only weft's ends say so.
    PeerGaveUp,
    /// The circuit's first payload did not come in time.
    NotStarted,
    /// The peer did not acknowledge the last payloads in time.
    Unacknowledged,
    /// The route was taken down.
    Unrouted,
    /// This side gave up.
    Aborted,
    /// The peer violated the protocol.
    Protocol,
    /// The circuit has carried the most payloads that sequence numbers allow.
    Exhausted,
}

impl CircuitCloseReason {
    /// True if the circuit ended as its applications meant it. After any other end, data that the peer's application
    /// wrote may be missing, unless the peer's direction had ended before.
    #[must_use]
    pub fn is_orderly(self) -> bool {
        matches!(self, Self::Finished | Self::PeerClosed)
    }
}

/// A delivery to the application, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Data. Flags and trace id of an SDK are in the headers.
    Data {
        /// Payload headers, without that for the end of the direction.
        headers: PayloadHeaders,
        /// The data, as the peer's application wrote it.
        data: Bytes,
    },
    /// The peer sends no more: half-close the application's side. Delivered at most once.
    Fin {
        /// Other headers of the payload that ended the direction.
        headers: PayloadHeaders,
    },
    /// The circuit is closed. The last delivery.
    Closed(CircuitCloseReason),
}

/// Why a write was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// This direction has ended.
    #[error("the circuit takes no more data in this direction")]
    Ended,
}
