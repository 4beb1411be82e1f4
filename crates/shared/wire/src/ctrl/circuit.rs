//! Answers about a circuit, which consist of headers.

use super::{content_type, header};
use crate::error::WireError;
use crate::headers::{Headers, PeerData};
use crate::message::Message;

/// Last header key that belongs to the channel; see [`is_peer_data`].
const LAST_CHANNEL_KEY: i32 = 128;

/// True if a header with this key is peer data in an answer about a circuit. Keys of the channel
/// and of the answers themselves are not, so that peer data cannot imitate them
/// (docs/protocol/control-plane.md 12.4).
pub fn is_peer_data(key: i32) -> bool {
    key > LAST_CHANNEL_KEY && !(header::CIRCUIT_ADDRESS..=header::ROUTE_ERROR_CODE).contains(&key)
}

fn read_peer_data(headers: &Headers) -> PeerData {
    let peer_data = headers.iter().filter(|(key, _)| is_peer_data(*key));
    peer_data.map(|(key, value)| (key.cast_unsigned(), value.to_vec().into())).collect()
}

/// Writes peer data as headers; keys that [`is_peer_data`] refuses are left out.
fn write_peer_data(headers: &mut Headers, peer_data: &PeerData) {
    for (key, value) in peer_data {
        if let Some(key) = i32::try_from(*key).ok().filter(|key| is_peer_data(*key)) {
            headers.set(key, value);
        }
    }
}

/// The circuit that a router asked for was made (docs/protocol/control-plane.md 12.5).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CircuitSuccess {
    /// Id of the circuit.
    pub circuit_id: String,
    /// Address of the initiating end within the circuit.
    pub address: String,
    /// Headers from the terminating side.
    pub peer_data: PeerData,
}

impl CircuitSuccess {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::CIRCUIT_SUCCESS)?;
        Ok(Self {
            circuit_id: message.body_str()?.to_owned(),
            address: message.required_str(header::CIRCUIT_ADDRESS)?.to_owned(),
            peer_data: read_peer_data(&message.headers),
        })
    }

    /// The message, to be made a reply.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::CIRCUIT_SUCCESS, self.circuit_id.clone());
        message.headers.set_str(header::CIRCUIT_ADDRESS, &self.address);
        write_peer_data(&mut message.headers, &self.peer_data);
        message
    }
}

/// The circuit was not made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CircuitFailed {
    /// The reason.
    pub error: String,
    /// True if the controller refused for want of a connected router: another controller may have one. Controllers of
    /// weft say so; false is not sent.
    pub elsewhere: bool,
}

impl CircuitFailed {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::CIRCUIT_FAILED)?;
        let elsewhere = message.headers.get_bool(header::ELSEWHERE).unwrap_or_default();
        Ok(Self { error: message.text(), elsewhere })
    }

    /// The message, to be made a reply.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::CIRCUIT_FAILED, self.error.clone());
        if self.elsewhere {
            message.headers.set_bool(header::ELSEWHERE, true);
        }
        message
    }
}

/// The result of a route. It is matched by circuit and attempt, not by sequence number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteResult {
    /// Id of the circuit.
    pub circuit_id: String,
    /// Number of the attempt.
    pub attempt: u32,
    /// Peer data of the terminating side, or the error.
    pub result: Result<PeerData, RouteError>,
}

impl RouteResult {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::ROUTE_RESULT)?;
        let headers = &message.headers;
        let result = if headers.contains(header::ROUTE_SUCCESS) {
            Ok(read_peer_data(headers))
        } else {
            let text = headers.get_text(header::ROUTE_ERROR).unwrap_or_default().into_owned();
            let code = headers.get_u8(header::ROUTE_ERROR_CODE).unwrap_or(0);
            Err(RouteError { code: RouteErrorCode::from_number(code), text })
        };
        Ok(Self {
            circuit_id: message.body_str()?.to_owned(),
            attempt: message.required_u32(header::ROUTE_ATTEMPT)?,
            result,
        })
    }

    /// The message, to be made a reply to the route.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::ROUTE_RESULT, self.circuit_id.clone());
        let headers = &mut message.headers;
        headers.set_u32(header::ROUTE_ATTEMPT, self.attempt);
        match &self.result {
            Ok(peer_data) => {
                headers.set_bool(header::ROUTE_SUCCESS, true);
                write_peer_data(headers, peer_data);
            }
            Err(error) => {
                headers.set_str(header::ROUTE_ERROR, &error.text);
                headers.set_u8(header::ROUTE_ERROR_CODE, error.code.number());
            }
        }
        message
    }
}

/// Why a router could not set up its part of a circuit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct RouteError {
    /// Kind of the failure.
    pub code: RouteErrorCode,
    /// Text for people.
    pub text: String,
}

/// Kind of a route failure (docs/protocol/control-plane.md 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, strum::FromRepr)]
#[repr(u8)]
pub enum RouteErrorCode {
    /// A cause without a code of its own.
    #[default]
    Generic = 0,
    /// The terminator does not exist on its router.
    InvalidTerminator = 1,
    /// The terminator can never be dialed as it is.
    MisconfiguredTerminator = 2,
    /// There was no answer in time.
    DialTimedOut = 3,
    /// No program listens at the destination.
    ConnectionRefused = 4,
    /// The hosting application refused.
    RejectedByApplication = 5,
    /// The name of the destination does not resolve.
    DnsResolutionFailed = 6,
    /// The port is not permitted.
    PortNotAllowed = 7,
    /// The link of the route does not exist.
    InvalidLinkDestination = 8,
    /// The router has no file descriptors or buffers left.
    ResourcesNotAvailable = 9,
}

impl RouteErrorCode {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The code with this number; unknown numbers are generic.
    pub fn from_number(number: u8) -> Self {
        Self::from_repr(number).unwrap_or_default()
    }
}
