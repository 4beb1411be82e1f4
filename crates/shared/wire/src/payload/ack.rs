//! Acks: the payloads that arrived, and the bytes that the receiver holds.

use super::{Flags, PayloadView, content_type, header};
use crate::error::WireError;
use crate::message::Message;

/// Most sequence numbers in one ack. Real acks carry one to a few hundred.
pub const MAX_ACK_SEQUENCES: usize = 65536;

/// An ack at an end of its circuit. One ack of an end is for all payloads that the end received since its
/// last ack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ack {
    /// Flags; only [`Flags::ORIGINATOR`] is used, for the sender of the ack.
    pub flags: Flags,
    /// The unread bytes at the receiver. A receiver that wants less data gives a larger number.
    pub recv_buffer_size: u32,
    /// Stamp of one of the payloads that are acknowledged; 0 is none.
    pub stamp: u16,
    /// The sequence numbers of the payloads that arrived; empty in an ack that reports only another
    /// `recv_buffer_size`.
    pub sequences: Vec<i32>,
}

impl Ack {
    /// Reads an ack.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::ACK)?;
        Ok(Self {
            flags: PayloadView::of(message)?.flags,
            recv_buffer_size: message.headers.get_u32(header::RECV_BUFFER_SIZE).unwrap_or(u32::MAX),
            stamp: message.headers.get_u16(header::RTT).unwrap_or(0),
            sequences: sequences(message)?.collect(),
        })
    }

    /// The ack as a message of this circuit.
    #[must_use]
    pub fn into_message(self, circuit_id: &str) -> Message {
        let body: Vec<u8> = self.sequences.iter().flat_map(|s| s.to_be_bytes()).collect();
        let mut message = Message::new(content_type::ACK, body);
        let headers = &mut message.headers;
        headers.set_u16(header::RTT, self.stamp);
        headers.set_str(header::CIRCUIT_ID, circuit_id);
        if self.flags != Flags::NONE {
            headers.set_u32(header::FLAGS, self.flags.0);
        }
        headers.set_u32(header::RECV_BUFFER_SIZE, self.recv_buffer_size);
        message
    }
}

/// The sequence numbers of an ack, without an allocation: big-endian numbers in the body.
pub fn sequences(message: &Message) -> Result<impl Iterator<Item = i32> + '_, WireError> {
    let problem = |problem: &str| WireError::Body {
        content_type: message.content_type,
        problem: problem.to_owned(),
    };
    if !message.body.len().is_multiple_of(4) {
        return Err(problem("the list of sequences is not a multiple of four bytes"));
    }
    if message.body.len() / 4 > MAX_ACK_SEQUENCES {
        return Err(problem("more than 65536 sequences"));
    }
    Ok(message.body.chunks_exact(4).map(|word| match word {
        &[a, b, c, d] => i32::from_be_bytes([a, b, c, d]),
        _ => 0,
    }))
}
