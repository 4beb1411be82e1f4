//! Control messages of a circuit: tracing its route.

use super::{circuit_of_control, content_type, header};
use crate::error::WireError;
use crate::message::Message;

/// The kind of a control message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlKind {
    /// Asks the hop at which the count reaches 0 to answer.
    Traceroute,
    /// The answer of that hop.
    TracerouteResponse,
    /// A kind that this crate does not know.
    Other(u8),
}

impl ControlKind {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Self::Traceroute => 1,
            Self::TracerouteResponse => 2,
            Self::Other(number) => number,
        }
    }

    /// The kind of a message, if it is a control message.
    pub fn of(message: &Message) -> Option<Self> {
        let is_control = message.content_type == content_type::CONTROL;
        message.body.first().filter(|_| is_control).map(|number| Self::from_number(*number))
    }

    fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Traceroute,
            2 => Self::TracerouteResponse,
            other => Self::Other(other),
        }
    }
}

/// Kinds of hops that answer requests for a traced route (docs/protocol/data-plane.md 9).
pub mod hop_type {
    /// A router that passes messages of the circuit on.
    pub const FORWARDER: &str = "forwarder";
    /// A router at the connection of an SDK without flow control of its own.
    pub const EDGE: &str = "xgress/edge";
    /// A router's tunneler, before an application or a program that dials.
    pub const TUNNEL: &str = "xgress/tunnel";
    /// A router before an application at an address, or before a client that names a service.
    pub const TRANSPORT: &str = "xgress/transport";
    /// A router before an application at an address, to which the dialer encrypts.
    pub const EDGE_TRANSPORT: &str = "xgress/edge_transport";
    /// A router before an application that takes datagrams.
    pub const TRANSPORT_UDP: &str = "xgress/transport_udp";
    /// A router's listener for one service.
    pub const PROXY: &str = "xgress/proxy";
    /// A router's listener for datagrams.
    pub const UDP: &str = "xgress/udp";
    /// An SDK written in Rust.
    pub const SDK: &str = "sdk/rust";
}

/// A control message (docs/protocol/data-plane.md 9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitControl {
    /// The kind of the message.
    pub kind: ControlKind,
    /// Id of the circuit.
    pub circuit_id: String,
    /// Hops that are left.
    pub hop_count: Option<u32>,
    /// Kind of hop that answered.
    pub hop_type: Option<String>,
    /// Id of the hop that answered.
    pub hop_id: Option<String>,
    /// The time of the request.
    pub timestamp: Option<u64>,
    /// A value that is returned to the sender of the request.
    pub user_value: Option<u32>,
    /// The error.
    pub error: Option<String>,
}

impl CircuitControl {
    /// A message of this kind for this circuit.
    pub fn new(kind: ControlKind, circuit_id: impl Into<String>) -> Self {
        Self {
            kind,
            circuit_id: circuit_id.into(),
            hop_count: None,
            hop_type: None,
            hop_id: None,
            timestamp: None,
            user_value: None,
            error: None,
        }
    }

    /// Counts a hop of a traced route. Returns how many are left.
    pub fn count_hop(&mut self) -> u32 {
        let left = self.hop_count.unwrap_or(0).saturating_sub(1);
        self.hop_count = Some(left);
        left
    }

    /// The answer of a hop, which has counted itself, to this request.
    #[must_use]
    pub fn answered_by(self, hop_type: &str, hop_id: &str) -> Self {
        Self {
            kind: ControlKind::TracerouteResponse,
            hop_type: Some(hop_type.to_owned()),
            hop_id: Some(hop_id.to_owned()),
            error: None,
            ..self
        }
    }

    /// Reads a control message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::CONTROL)?;
        let circuit_id = circuit_of_control(message)?.to_owned();
        let number = message.body.first().copied().unwrap_or(0);
        let text = |key| message.headers.get_str(key).map(str::to_owned);
        Ok(Self {
            kind: ControlKind::from_number(number),
            circuit_id,
            hop_count: message.headers.get_u32(header::HOP_COUNT),
            hop_type: text(header::HOP_TYPE),
            hop_id: text(header::HOP_ID),
            timestamp: message.headers.get_u64(header::TIMESTAMP),
            user_value: message.headers.get_u32(header::USER_VALUE),
            error: text(header::ERROR),
        })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut body = vec![self.kind.number()];
        body.extend_from_slice(self.circuit_id.as_bytes());
        let mut message = Message::new(content_type::CONTROL, body);
        let headers = &mut message.headers;
        if let Some(count) = self.hop_count {
            headers.set_u32(header::HOP_COUNT, count);
        }
        for (key, text) in [
            (header::HOP_TYPE, &self.hop_type),
            (header::HOP_ID, &self.hop_id),
            (header::ERROR, &self.error),
        ] {
            if let Some(text) = text {
                headers.set_str(key, text);
            }
        }
        if let Some(timestamp) = self.timestamp {
            headers.set_u64(header::TIMESTAMP, timestamp);
        }
        if let Some(value) = self.user_value {
            headers.set_u32(header::USER_VALUE, value);
        }
        message
    }
}
