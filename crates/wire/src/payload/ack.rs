//! Acks: the payloads that arrived, and the bytes that the receiver holds.

use super::{Flags, View, content_type, header};
use crate::error::WireError;
use crate::message::Message;

/// Most sequence numbers in one ack. Real acks carry one to a few hundred.
pub const MAX_ACK_SEQUENCES: usize = 65536;

/// An ack for an end of its circuit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ack {
    /// The circuit.
    pub circuit_id: String,
    /// Flags; only [`Flags::ORIGINATOR`] is used, for the sender of the ack.
    pub flags: Flags,
    /// Bytes that the receiver has buffered.
    pub recv_buffer_size: u32,
    /// Stamp of the acknowledged payload; 0 means none.
    pub rtt: u16,
    /// The sequence numbers of payloads that arrived; empty if the ack only reports the buffer.
    pub sequences: Vec<i32>,
}

impl Ack {
    /// Reads an ack.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::ACK)?;
        let view = View::of(message)?;
        Ok(Self {
            circuit_id: view.circuit_id.to_owned(),
            flags: view.flags,
            recv_buffer_size: message.headers.get_u32(header::RECV_BUFFER_SIZE).unwrap_or(u32::MAX),
            rtt: message.headers.get_u16(header::RTT).unwrap_or(0),
            sequences: sequences(message)?.collect(),
        })
    }

    /// The ack as a message.
    pub fn to_message(&self) -> Message {
        let body: Vec<u8> = self.sequences.iter().flat_map(|s| s.to_be_bytes()).collect();
        let mut message = Message::new(content_type::ACK, body);
        let headers = &mut message.headers;
        headers.set_u16(header::RTT, self.rtt);
        headers.set_str(header::CIRCUIT_ID, &self.circuit_id);
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
