//! Messages between ends: payloads and acks without the id of their circuit.
//!
//! The owner of an end knows the circuit id, so that it is not stored in every payload.

use bytes::Bytes;
use weft_wire::payload::{self, Ack, Flags, Payload, View, header, payload_header};
use weft_wire::{Message, WireError};

/// Headers of a payload with their keys, in wire order.
pub type PayloadHeaders = Vec<(u8, Bytes)>;

/// A payload of a circuit, without the circuit's id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Segment {
    /// The sequence number in its direction, from 0.
    pub sequence: i32,
    /// Flags (docs/protocol/data-plane.md 7.2).
    pub flags: Flags,
    /// The stamp that the ack returns; 0 means none.
    pub stamp: u16,
    /// Payload headers by key.
    pub headers: PayloadHeaders,
    /// The data.
    pub data: Bytes,
}

/// The bit of the edge flags header that ends a direction (docs/protocol/data-plane.md 1).
const FIN: u32 = 1;

impl Segment {
    /// Reads a payload message (type 1100). The data is not copied.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(payload::content_type::PAYLOAD)?;
        let view = View::of(message)?;
        let headers = message.headers.iter().filter_map(|(key, value)| {
            let key = u8::try_from(key.checked_sub(header::PAYLOAD_HEADER)?).ok()?;
            Some((key, Bytes::copy_from_slice(value)))
        });
        Ok(Self {
            sequence: view.sequence,
            flags: view.flags,
            stamp: message.headers.get_u16(header::RTT).unwrap_or(0),
            headers: headers.collect(),
            data: message.body.clone(),
        })
    }

    /// The payload message of this circuit. The data is not copied.
    #[must_use]
    pub fn into_message(self, circuit_id: &str) -> Message {
        let payload = Payload {
            circuit_id: circuit_id.to_owned(),
            sequence: self.sequence,
            flags: self.flags,
            rtt: self.stamp,
            headers: self.headers,
            data: self.data,
        };
        payload.to_message()
    }

    /// The capabilities that the sender announces, if any.
    #[must_use]
    pub fn capabilities(&self) -> Option<u32> {
        let value = self.header(payload_header::CAPABILITIES)?;
        value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// True if the payload has an SDK's header for the end of its direction.
    #[must_use]
    pub fn is_fin(&self) -> bool {
        has_fin(&self.headers)
    }

    /// True if the payload has nothing for the application: no data, and no headers but
    /// capabilities.
    pub(crate) fn is_bare(&self) -> bool {
        self.data.is_empty()
            && self.headers.iter().all(|(key, _)| *key == payload_header::CAPABILITIES)
    }

    fn header(&self, key: u8) -> Option<&Bytes> {
        self.headers.iter().rev().find(|(k, _)| *k == key).map(|(_, value)| value)
    }
}

/// True if the headers have an SDK's flag for the end of a direction.
pub(crate) fn has_fin(headers: &[(u8, Bytes)]) -> bool {
    edge_flags(headers) & FIN != 0
}

/// An SDK's header for the end of a direction.
pub(crate) fn fin_header() -> (u8, Bytes) {
    Payload::edge_flags_header(FIN)
}

/// Removes the flag for the end of the direction from the headers; other flags stay.
pub(crate) fn without_fin(headers: PayloadHeaders) -> PayloadHeaders {
    let rest = edge_flags(&headers) & !FIN;
    let mut kept: Vec<_> =
        headers.into_iter().filter(|(key, _)| *key != payload_header::EDGE_FLAGS).collect();
    if rest != 0 {
        kept.push(Payload::edge_flags_header(rest));
    }
    kept
}

fn edge_flags(headers: &[(u8, Bytes)]) -> u32 {
    headers
        .iter()
        .rev()
        .find(|(key, _)| *key == payload_header::EDGE_FLAGS)
        .and_then(|(_, value)| value.first_chunk())
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// An ack, without the circuit's id. It has the sequence numbers of all payloads that the end took
/// since its last ack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AckList {
    /// Flags; only that of the originator is used, for the sender of the ack.
    pub flags: Flags,
    /// Bytes that the receiver has buffered; more while it wants less.
    pub recv_buffer_size: u32,
    /// The stamp of one of the acknowledged payloads; 0 means none.
    pub stamp: u16,
    /// The sequence numbers of payloads that arrived; empty if the ack only reports the buffer.
    pub sequences: Vec<i32>,
}

impl AckList {
    /// Reads an ack message (type 1101).
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(payload::content_type::ACK)?;
        let size = message.headers.get_u32(header::RECV_BUFFER_SIZE);
        Ok(Self {
            flags: View::of(message)?.flags,
            recv_buffer_size: size.unwrap_or(u32::MAX),
            stamp: message.headers.get_u16(header::RTT).unwrap_or(0),
            sequences: payload::sequences(message)?.collect(),
        })
    }

    /// The ack message of this circuit.
    #[must_use]
    pub fn into_message(self, circuit_id: &str) -> Message {
        let ack = Ack {
            circuit_id: circuit_id.to_owned(),
            flags: self.flags,
            recv_buffer_size: self.recv_buffer_size,
            rtt: self.stamp,
            sequences: self.sequences,
        };
        ack.to_message()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_and_acks_survive_the_wire() {
        let segment = Segment {
            sequence: 3,
            flags: Flags::ORIGINATOR | Flags::EOF,
            stamp: 0x1240,
            headers: vec![Payload::capability_header(0x100), fin_header()],
            data: Bytes::from_static(b"hello"),
        };
        let message = segment.clone().into_message("4Q9dXq1aB");
        assert_eq!(View::of(&message).unwrap().circuit_id, "4Q9dXq1aB");
        let read = Segment::from_message(&message).unwrap();
        assert_eq!(read, segment);
        assert_eq!((read.capabilities(), read.is_fin()), (Some(0x100), true));

        let ack = AckList { sequences: vec![0, 2, 1], recv_buffer_size: 5, ..AckList::default() };
        let message = ack.clone().into_message("4Q9dXq1aB");
        assert_eq!(AckList::from_message(&message).unwrap(), ack);
        assert!(Segment::from_message(&message).is_err());
    }

    #[test]
    fn other_edge_flags_outlive_the_fin() {
        let headers = vec![Payload::edge_flags_header(5), (0, Bytes::from_static(b"uuid"))];
        let kept = without_fin(headers);
        assert_eq!(edge_flags(&kept), 4);
        assert_eq!(kept.len(), 2);
        assert!(without_fin(vec![fin_header()]).is_empty());
    }
}
