//! Circuits for SDKs: requests and answers that consist of headers
//! (docs/protocol/edge-control-plane.md 13).

use std::fmt;

use super::{content_type, header};
use crate::error::WireError;
use crate::headers::{PeerData, StringMap};
use crate::message::Message;

/// Asks for a circuit for the service of a session (docs/protocol/edge-control-plane.md 13.2).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct CreateCircuitV2 {
    /// Token of the service session.
    pub session_token: String,
    /// Token of the API session.
    pub api_session_token: String,
    /// Fingerprints of the certificates of the SDK.
    pub fingerprints: Vec<String>,
    /// The instance to dial; empty for a terminator without one.
    pub terminator_instance_id: String,
    /// Headers for the terminating side.
    pub peer_data: PeerData,
}

impl CreateCircuitV2 {
    /// Reads the message. A session token is required; the rest may be absent.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::CREATE_CIRCUIT_V2_REQUEST)?;
        Ok(Self {
            session_token: required(message, header::SESSION_TOKEN)?,
            api_session_token: optional(message, header::API_SESSION_TOKEN),
            fingerprints: message
                .headers
                .get_string_list(header::FINGERPRINTS)?
                .unwrap_or_default(),
            terminator_instance_id: optional(message, header::TERMINATOR_INSTANCE_ID),
            peer_data: message.headers.get_u32_map(header::PEER_DATA)?.unwrap_or_default(),
        })
    }

    /// The message; an error if it is larger than peers accept.
    pub fn to_message(&self) -> Result<Message, WireError> {
        let mut message = Message::new(content_type::CREATE_CIRCUIT_V2_REQUEST, "");
        let headers = &mut message.headers;
        headers.set_str(header::SESSION_TOKEN, &self.session_token);
        headers.set_str(header::API_SESSION_TOKEN, &self.api_session_token);
        headers.set_string_list(header::FINGERPRINTS, &self.fingerprints)?;
        headers.set_str(header::TERMINATOR_INSTANCE_ID, &self.terminator_instance_id);
        headers.set_u32_map(header::PEER_DATA, &self.peer_data)?;
        Ok(message)
    }
}

impl fmt::Debug for CreateCircuitV2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateCircuitV2")
            .field("terminator_instance_id", &self.terminator_instance_id)
            .finish_non_exhaustive()
    }
}

/// Asks for a circuit without a service session (docs/protocol/edge-control-plane.md 13.3). The
/// token of the API session determines the dialer; the identity id only has to agree with it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct CreateCircuitV3 {
    /// The dialer's identity.
    pub identity_id: String,
    /// The service to dial.
    pub service_id: String,
    /// The id for the circuit. If it is empty the controller chooses one, but 2.0 controllers drop
    /// such a request.
    pub circuit_id: String,
    /// Token of the API session.
    pub api_session_token: String,
    /// Fingerprints of the certificates of the SDK.
    pub fingerprints: Vec<String>,
    /// The instance to dial; empty for a terminator without one.
    pub terminator_instance_id: String,
    /// Headers for the terminating side.
    pub peer_data: PeerData,
}

impl CreateCircuitV3 {
    /// Reads the message. Identity and service are required; the rest may be absent.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::CREATE_CIRCUIT_V3_REQUEST)?;
        Ok(Self {
            identity_id: required(message, header::IDENTITY_ID)?,
            service_id: required(message, header::SERVICE_ID)?,
            circuit_id: optional(message, header::CIRCUIT_ID),
            api_session_token: optional(message, header::API_SESSION_TOKEN),
            fingerprints: message
                .headers
                .get_string_list(header::FINGERPRINTS)?
                .unwrap_or_default(),
            terminator_instance_id: optional(message, header::TERMINATOR_INSTANCE_ID),
            peer_data: message.headers.get_u32_map(header::PEER_DATA)?.unwrap_or_default(),
        })
    }

    /// The message; an error if it is larger than peers accept.
    pub fn to_message(&self) -> Result<Message, WireError> {
        let mut message = Message::new(content_type::CREATE_CIRCUIT_V3_REQUEST, "");
        let headers = &mut message.headers;
        headers.set_str(header::IDENTITY_ID, &self.identity_id);
        headers.set_str(header::SERVICE_ID, &self.service_id);
        headers.set_str(header::CIRCUIT_ID, &self.circuit_id);
        headers.set_str(header::API_SESSION_TOKEN, &self.api_session_token);
        headers.set_string_list(header::FINGERPRINTS, &self.fingerprints)?;
        headers.set_str(header::TERMINATOR_INSTANCE_ID, &self.terminator_instance_id);
        headers.set_u32_map(header::PEER_DATA, &self.peer_data)?;
        Ok(message)
    }
}

impl fmt::Debug for CreateCircuitV3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateCircuitV3")
            .field("identity_id", &self.identity_id)
            .field("service_id", &self.service_id)
            .field("circuit_id", &self.circuit_id)
            .field("terminator_instance_id", &self.terminator_instance_id)
            .finish_non_exhaustive()
    }
}

/// The form of the request that an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitForm {
    /// [`CreateCircuitV2`].
    V2,
    /// [`CreateCircuitV3`].
    V3,
}

impl CircuitForm {
    /// Content type of the answer.
    pub fn response(self) -> i32 {
        match self {
            Self::V2 => content_type::CREATE_CIRCUIT_V2_RESPONSE,
            Self::V3 => content_type::CREATE_CIRCUIT_V3_RESPONSE,
        }
    }
}

/// The circuit that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreatedCircuit {
    /// Id of the circuit.
    pub circuit_id: String,
    /// Address of the initiating end within the circuit.
    pub address: String,
    /// Headers from the terminating side.
    pub peer_data: PeerData,
    /// Tags of the circuit.
    pub tags: StringMap,
}

impl CreatedCircuit {
    /// Reads the answer to either request.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        if message.content_type != CircuitForm::V3.response() {
            message.expect(CircuitForm::V2.response())?;
        }
        Ok(Self {
            circuit_id: required(message, header::CREATED_CIRCUIT_ID)?,
            address: required(message, header::ADDRESS)?,
            peer_data: message.headers.get_u32_map(header::PEER_DATA)?.unwrap_or_default(),
            tags: message.headers.get_string_map(header::TAGS)?.unwrap_or_default(),
        })
    }

    /// The message, to be made a reply; an error if it is larger than peers accept.
    pub fn to_message(&self, form: CircuitForm) -> Result<Message, WireError> {
        let mut message = Message::new(form.response(), "");
        let headers = &mut message.headers;
        headers.set_str(header::CREATED_CIRCUIT_ID, &self.circuit_id);
        headers.set_str(header::ADDRESS, &self.address);
        headers.set_u32_map(header::PEER_DATA, &self.peer_data)?;
        headers.set_string_map(header::TAGS, &self.tags)?;
        Ok(message)
    }
}

/// A string that must be present and not empty.
fn required(message: &Message, key: i32) -> Result<String, WireError> {
    let value = message.required_str(key)?;
    if value.is_empty() { Err(message.missing(key)) } else { Ok(value.to_owned()) }
}

fn optional(message: &Message, key: i32) -> String {
    message.headers.get_str(key).unwrap_or_default().to_owned()
}
