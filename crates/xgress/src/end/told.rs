//! What an end tells its application.

use bytes::Bytes;
use weft_wire::payload::PayloadHeaders;

/// Why an end is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// Both directions ended, or this end was closed and all it had was acknowledged.
    Finished,
    /// The peer closed the circuit.
    PeerClosed,
    /// The circuit's first payload did not come in time.
    NotStarted,
    /// The peer did not acknowledge the rest in time.
    Unacknowledged,
    /// The route is gone.
    Unrouted,
    /// This side gave up.
    Aborted,
    /// The peer broke the rules of the protocol.
    Protocol,
    /// The circuit carried as many payloads as it can count.
    Exhausted,
}

/// What the application gets, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// Data. An SDK's flags and trace id travel in the headers.
    Data {
        /// Payload headers, without the end of direction.
        headers: PayloadHeaders,
        /// The data, as the peer's application wrote it.
        data: Bytes,
    },
    /// The peer sends no more: half-close the application's side. At most once.
    Fin {
        /// Other headers of the payload that said so.
        headers: PayloadHeaders,
    },
    /// The circuit is closed. The last that is ever delivered.
    Closed(CloseReason),
}

/// Why a write was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The circuit has not begun, or there is no room: again when [`End::can_write`](crate::End::can_write).
    #[error("the circuit takes no data yet")]
    Full,
    /// This direction has ended.
    #[error("the circuit takes no more data in this direction")]
    Ended,
}
