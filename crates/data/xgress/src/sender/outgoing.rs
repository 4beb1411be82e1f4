//! Data of the application, and the payloads that carry it.

use bytes::Bytes;
use weft_wire::payload::{Flags, Payload, PayloadHeaders};

use crate::payload_cost;

/// A payload that was not sent yet.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) flags: Flags,
    pub(crate) headers: PayloadHeaders,
    pub(crate) data: Bytes,
}

impl Outgoing {
    /// The bytes of the payload with bookkeeping.
    pub(super) fn cost(&self) -> u64 {
        payload_cost(&self.headers, &self.data)
    }

    /// The payload with this sequence number.
    pub(super) fn payload(&self, sequence: i32, flags: Flags, stamp: u16) -> Payload {
        Payload {
            sequence,
            flags: self.flags | flags,
            stamp,
            headers: self.headers.clone(),
            data: self.data.clone(),
        }
    }
}

/// An empty copy of the first payload, which asks for an ack. The first payload itself has left the
/// buffer of every receiver for its application's queue (docs/protocol/data-plane.md 7.6), so that
/// the copy cannot take its place.
pub(super) fn knock_of(role: Flags, stamp: u16) -> Payload {
    Payload {
        sequence: 0,
        flags: role | Flags::RETRANSMIT,
        stamp,
        headers: PayloadHeaders::new(),
        data: Bytes::new(),
    }
}
