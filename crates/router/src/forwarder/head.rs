//! The headers of a message, as far as forwarding needs them.

use weft_wire::payload::{self, Flags, PayloadView};
use weft_wire::{Message, WireError};
use weft_xgress::Class;

/// The parts of a message's headers that forwarding needs, read once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// The class of the message; acks and control messages share one.
    pub(super) class: Class,
    /// The sequence number of a payload.
    pub(super) sequence: i32,
    /// True for a payload that ends the circuit.
    pub(super) ends: bool,
    /// True if the message has headers that are not passed on.
    pub(super) strip: bool,
}

impl Head {
    /// Reads a message of a circuit.
    pub(super) fn of(message: &Message) -> Result<Self, WireError> {
        Ok(Self::seen(message.content_type, &PayloadView::of(message)?))
    }

    /// Reads a message of a circuit whose headers were parsed already.
    pub(super) fn seen(content_type: i32, view: &PayloadView<'_>) -> Self {
        let is_payload = content_type == payload::content_type::PAYLOAD;
        let class = if is_payload { Class::Payload } else { Class::Ack };
        let ends = is_payload && view.flags.has(Flags::CIRCUIT_END);
        Self { class, sequence: view.sequence, ends, strip: view.strip }
    }
}
