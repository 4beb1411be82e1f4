//! Circuit data on links and SDK connections: payloads, acks, control messages and close.
//!
//! A router between two ends uses only a [`PayloadView`] of a message: one walk over the headers, without an
//! allocation. The message is passed on as it came, without the [`NOT_FORWARDED`] headers. Ends parse
//! it as [`Payload`] or [`Ack`] (docs/protocol/data-plane.md 1, 7 and 9; docs/protocol/sdk.md 13).

mod ack;
mod compact;
mod control;
mod varint;

pub use ack::{Ack, MAX_ACK_SEQUENCES, sequences};
use bytes::Bytes;
pub use compact::{is_frame, read_compact, write_compact};
pub use control::{CircuitControl, ControlKind, hop_type};
pub use varint::{read_varint, write_varint};

use crate::edge::data_flags;
use crate::error::WireError;
use crate::message::{self, Message};

/// Content types of circuit data.
pub mod content_type {
    /// Data of a circuit, see [`Payload`](super::Payload).
    pub const PAYLOAD: i32 = 1100;
    /// Ack, see [`Ack`](super::Ack).
    pub const ACK: i32 = 1101;
    /// Route tracing, see [`CircuitControl`](super::CircuitControl).
    pub const CONTROL: i32 = 1102;
    /// An SDK ends a circuit; the body is the circuit id.
    pub const CLOSE: i32 = 1103;
}

/// Header keys of circuit data.
pub mod header {
    /// First of the 256 keys of payload headers.
    pub const PAYLOAD_HEADER: i32 = 2000;
    /// Circuit id; string.
    pub const CIRCUIT_ID: i32 = 2256;
    /// Sequence number of a payload; u64 of which 32 bits count.
    pub const SEQUENCE: i32 = 2257;
    /// Flags; u32, absent is 0.
    pub const FLAGS: i32 = 2258;
    /// Receive buffer size of an ack; u32, absent is the largest.
    pub const RECV_BUFFER_SIZE: i32 = 2259;
    /// Send time stamp; u16, absent is 0.
    pub const RTT: i32 = 2260;
    /// A whole payload as bytes; never sent, and ignored when received.
    pub const RAW: i32 = 2261;
    /// Hop count of a control message; u32.
    pub const HOP_COUNT: i32 = 20;
    /// Kind of hop that answered; string.
    pub const HOP_TYPE: i32 = 21;
    /// Id of the hop that answered; string.
    pub const HOP_ID: i32 = 22;
    /// Time stamp of a control message; u64.
    pub const TIMESTAMP: i32 = 23;
    /// A value that is returned to the sender of the request; u32.
    pub const USER_VALUE: i32 = 24;
    /// The error; string.
    pub const ERROR: i32 = 25;
}

/// Keys of payload headers, relative to [`header::PAYLOAD_HEADER`].
pub mod payload_header {
    /// Trace id of the message; 16 bytes.
    pub const UUID: u8 = 0;
    /// Capabilities of the sending end; see [`Payload::capabilities`](super::Payload::capabilities).
    pub const CAPABILITIES: u8 = 1;
    /// Flags of an SDK data message; 4 bytes, see [`data_flags`](crate::edge::data_flags).
    pub const EDGE_FLAGS: u8 = 0x10;
}

/// Headers of one connection that must not be passed on. The sequence number of a request, for
/// instance, would be taken for that of a request of the next router.
pub const NOT_FORWARDED: [i32; 4] = [
    message::header::REPLY_FOR,
    message::header::HEARTBEAT,
    message::header::HEARTBEAT_RESPONSE,
    header::RAW,
];

/// Most bytes in the id of a circuit.
pub const MAX_CIRCUIT_ID: usize = 128;

/// Most bytes of headers of a control message. Those of a traced route take some 150 bytes, with the
/// longest errors some 300.
pub const MAX_CONTROL_HEADERS: usize = 1024;

/// Capability bit of an end: it understands [`Flags::EOF`].
pub const CAPABILITY_EOF: u32 = 0x100;

/// Flags of payloads and acks. Unknown bits are kept (docs/protocol/data-plane.md 7.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u32);

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// The circuit has ended.
    pub const CIRCUIT_END: Self = Self(1);
    /// The sender is the terminating end.
    pub const ORIGINATOR: Self = Self(2);
    /// First payload of the initiating end.
    pub const CIRCUIT_START: Self = Self(4);
    /// Part of a chunked payload.
    pub const CHUNK: Self = Self(8);
    /// The payload was sent before.
    pub const RETRANSMIT: Self = Self(16);
    /// The end has ended its direction.
    pub const EOF: Self = Self(32);
    /// The end can no longer deliver data.
    pub const WRITE_FAILED: Self = Self(64);

    /// True if all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those of `other`.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These flags without those of `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl std::ops::BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

/// The parts of a payload, ack or control message that a forwarding router needs, read in one walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadView<'a> {
    /// The circuit.
    pub circuit_id: &'a str,
    /// Sequence number of a payload; 0 in other messages.
    pub sequence: i32,
    /// Flags.
    pub flags: Flags,
    /// True if headers are present that must not be passed on.
    pub strip: bool,
}

impl<'a> PayloadView<'a> {
    /// Reads a message of type 1100, 1101 or 1102. The circuit id is required, and so is the sequence
    /// number of a payload: a message without them is to be dropped.
    pub fn of(message: &'a Message) -> Result<Self, WireError> {
        if message.content_type == content_type::CONTROL {
            return circuit_of_control(message).map(|circuit_id| Self {
                circuit_id,
                sequence: 0,
                flags: Flags::NONE,
                strip: NOT_FORWARDED.iter().any(|key| message.headers.contains(*key)),
            });
        }
        let (mut circuit_id, mut sequence, mut flags, mut strip) = (None, None, Flags::NONE, false);
        for (key, value) in &message.headers {
            match key {
                header::CIRCUIT_ID => circuit_id = std::str::from_utf8(value).ok(),
                header::SEQUENCE => {
                    sequence = value.try_into().ok().map(|v| u64::from_le_bytes(v) as i32);
                }
                header::FLAGS => {
                    flags = Flags(value.try_into().map(u32::from_le_bytes).unwrap_or(0));
                }
                key if NOT_FORWARDED.contains(&key) => strip = true,
                _ => {}
            }
        }
        let circuit_id = circuit_id.ok_or_else(|| message.missing(header::CIRCUIT_ID))?;
        if circuit_id.len() > MAX_CIRCUIT_ID {
            return Err(message.body_problem("the id of its circuit is longer than 128 bytes"));
        }
        if sequence.is_none() && message.content_type == content_type::PAYLOAD {
            return Err(message.missing(header::SEQUENCE));
        }
        Ok(Self { circuit_id, sequence: sequence.unwrap_or(0), flags, strip })
    }
}

/// The circuit id of a control message, without reading the rest.
fn circuit_of_control(message: &Message) -> Result<&str, WireError> {
    check_control_len(message)?;
    let body = message.body_str_from(1)?;
    match body.len() {
        0 => Err(message.body_problem("shorter than two bytes")),
        1..=MAX_CIRCUIT_ID => Ok(body),
        _ => Err(message.body_problem("the id of its circuit is longer than 128 bytes")),
    }
}

/// Fails if the headers of a control message are too long.
pub(crate) fn check_control_len(message: &Message) -> Result<(), WireError> {
    if message.headers.wire_len() > MAX_CONTROL_HEADERS {
        return Err(message.body_problem("its headers are longer than 1024 bytes"));
    }
    Ok(())
}

/// Headers of a payload by their key 0..=255, in wire order.
pub type PayloadHeaders = Vec<(u8, Bytes)>;

/// A payload at an end of its circuit. The owner of the end knows the circuit, so that the id of
/// the circuit is not kept with every payload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// Place in its direction, from 0.
    pub sequence: i32,
    /// Flags.
    pub flags: Flags,
    /// Stamp that the ack returns; 0 is none.
    pub stamp: u16,
    /// Payload headers.
    pub headers: PayloadHeaders,
    /// The data.
    pub data: Bytes,
}

impl Payload {
    /// Reads a payload; the data is not copied.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::PAYLOAD)?;
        let view = PayloadView::of(message)?;
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

    /// The payload as a message of this circuit; the data is not copied.
    #[must_use]
    pub fn into_message(self, circuit_id: &str) -> Message {
        let mut message = Message::new(content_type::PAYLOAD, self.data);
        let headers = &mut message.headers;
        headers.set_str(header::CIRCUIT_ID, circuit_id);
        if self.flags != Flags::NONE {
            headers.set_u32(header::FLAGS, self.flags.0);
        }
        headers.set_u64(header::SEQUENCE, u64::from(self.sequence.cast_unsigned()));
        if self.stamp != 0 {
            headers.set_u16(header::RTT, self.stamp);
        }
        for (key, value) in &self.headers {
            headers.set(header::PAYLOAD_HEADER + i32::from(*key), value);
        }
        message
    }

    /// The value of a payload header.
    pub fn header(&self, key: u8) -> Option<&Bytes> {
        header_value(&self.headers, key)
    }

    /// The capabilities that the sending end announces (big-endian, unlike all other numbers); `None`
    /// if it announces none (docs/protocol/data-plane.md 7.3).
    pub fn capabilities(&self) -> Option<u32> {
        let value = self.header(payload_header::CAPABILITIES)?;
        value.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// The payload header that announces capabilities.
    pub fn capability_header(capabilities: u32) -> (u8, Bytes) {
        (payload_header::CAPABILITIES, Bytes::copy_from_slice(&capabilities.to_be_bytes()))
    }

    /// Flags of the SDK data message in this payload; 0 without any.
    pub fn edge_flags(&self) -> u32 {
        edge_flags(&self.headers)
    }

    /// True if the payload has the flag by which an SDK says that this is its last data
    /// (`data_flags::FIN`).
    #[must_use]
    pub fn is_fin(&self) -> bool {
        self.edge_flags() & data_flags::FIN != 0
    }

    /// The payload header that carries the flags of an SDK data message.
    pub fn edge_flags_header(flags: u32) -> (u8, Bytes) {
        (payload_header::EDGE_FLAGS, Bytes::copy_from_slice(&flags.to_le_bytes()))
    }
}

/// Flags of the SDK data message that a payload with these headers carries; 0 if none.
#[must_use]
pub fn edge_flags(headers: &[(u8, Bytes)]) -> u32 {
    let value = header_value(headers, payload_header::EDGE_FLAGS);
    value.and_then(|value| value.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The value of one of these payload headers; the last one counts.
#[must_use]
pub fn header_value(headers: &[(u8, Bytes)], key: u8) -> Option<&Bytes> {
    headers.iter().rev().find(|(k, _)| *k == key).map(|(_, value)| value)
}

/// The message with which an SDK ends a circuit.
pub fn close(circuit_id: &str) -> Message {
    Message::new(content_type::CLOSE, circuit_id.to_owned())
}

#[cfg(test)]
mod tests;
