//! The deliveries of an end, as messages for an SDK without flow control of its own.

use bytes::Bytes;
use weft_wire::Message;
use weft_wire::edge::{Data, StateClosed, data_flags};
use weft_wire::payload::{self, payload_header};
use weft_xgress::{CircuitCloseReason, Delivery};

/// The message of a delivery.
pub(super) fn of_delivery(conn_id: u32, delivery: Delivery) -> Message {
    match delivery {
        Delivery::Data { headers, data } => data_message(conn_id, &headers, data, 0),
        Delivery::Fin { headers } => data_message(conn_id, &headers, Bytes::new(), data_flags::FIN),
        Delivery::Closed(reason) if reason.is_orderly() => {
            StateClosed::new(conn_id, close_text(reason)).to_message()
        }
        Delivery::Closed(reason) => StateClosed::gave_up(conn_id, close_text(reason)).to_message(),
    }
}

/// A data message with the flags and the trace id that travelled in payload headers.
fn data_message(conn_id: u32, headers: &[(u8, Bytes)], data: Bytes, more_flags: u32) -> Message {
    let uuid = payload::header_value(headers, payload_header::UUID).cloned();
    let flags = payload::edge_flags(headers) | more_flags;
    Data { conn_id, flags, uuid, data }.to_message()
}

/// The text of the close that an SDK is sent when a circuit is over; never empty
/// (docs/protocol/sdk.md 6).
fn close_text(reason: CircuitCloseReason) -> &'static str {
    match reason {
        CircuitCloseReason::Finished | CircuitCloseReason::PeerClosed => "close called",
        CircuitCloseReason::PeerGaveUp => "the peer gave the circuit up",
        CircuitCloseReason::NotStarted => "the circuit was not started in time",
        CircuitCloseReason::Unacknowledged => "the peer stopped acknowledging",
        CircuitCloseReason::Unrouted => "xgress unrouted",
        CircuitCloseReason::Aborted => "the circuit was aborted",
        CircuitCloseReason::Protocol => "the peer broke the protocol",
        CircuitCloseReason::Exhausted => "the circuit carried as many payloads as it can count",
    }
}
