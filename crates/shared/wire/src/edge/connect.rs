//! Dialing, and the answers to dialing and binding (docs/protocol/sdk.md 7, 10.3).

use bytes::Bytes;

use super::error::{ErrorCode, StructuredError};
use super::{content_type, header};
use crate::error::WireError;
use crate::headers::{Headers, PeerData};
use crate::message::Message;

/// Headers of a [`Connect`] that travel on to the host as peer data.
const PEER_HEADERS: [i32; 4] =
    [header::PUBLIC_KEY, header::CALLER_ID, header::APP_DATA, header::CONNECTION_MARKER];

/// An SDK dials a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connect {
    /// The connection id; `None` is an error that must be answered.
    pub conn_id: Option<u32>,
    /// The token of the service session, or the id of the service.
    pub token: Bytes,
    /// Public key of the dialer.
    pub public_key: Option<Bytes>,
    /// The instance of the service; empty for any.
    pub instance: String,
    /// The dialer's name for itself.
    pub caller_id: Option<Bytes>,
    /// Data for the host.
    pub app_data: Option<Bytes>,
    /// A short name for logs.
    pub marker: Option<Bytes>,
    /// The token by which the dial reaches the same host as before.
    pub stickiness: Option<Bytes>,
    /// True if the SDK asks for flow control of its own.
    pub use_xgress: bool,
    /// True if the answer should say whether the router chooses connection ids.
    pub router_conn_ids: bool,
}

impl Connect {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::CONNECT)?;
        let headers = &message.headers;
        Ok(Self {
            conn_id: headers.get_u32(header::CONN_ID),
            token: message.body.clone(),
            public_key: headers.get_bytes(header::PUBLIC_KEY),
            instance: text(headers, header::TERMINATOR_IDENTITY),
            caller_id: headers.get_bytes(header::CALLER_ID),
            app_data: headers.get_bytes(header::APP_DATA),
            marker: headers.get_bytes(header::CONNECTION_MARKER),
            stickiness: headers.get_bytes(header::STICKINESS_TOKEN),
            use_xgress: headers.get_bool(header::USE_XGRESS_TO_SDK) == Some(true),
            router_conn_ids: headers.get_bool(header::ROUTER_PROVIDED_CONN_ID) == Some(true),
        })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::CONNECT, self.token.clone());
        let headers = &mut message.headers;
        if let Some(id) = self.conn_id {
            headers.set_u32(header::CONN_ID, id);
        }
        if !self.instance.is_empty() {
            headers.set_str(header::TERMINATOR_IDENTITY, &self.instance);
        }
        put(headers, header::PUBLIC_KEY, self.public_key.as_ref());
        put(headers, header::CALLER_ID, self.caller_id.as_ref());
        put(headers, header::APP_DATA, self.app_data.as_ref());
        put(headers, header::CONNECTION_MARKER, self.marker.as_ref());
        put(headers, header::STICKINESS_TOKEN, self.stickiness.as_ref());
        if self.use_xgress {
            headers.set_bool(header::USE_XGRESS_TO_SDK, true);
        }
        if self.router_conn_ids {
            headers.set_bool(header::ROUTER_PROVIDED_CONN_ID, true);
        }
        message
    }

    /// The headers for the host, under their own keys. The stickiness token is for the controller
    /// and is left out.
    pub fn peer_data(&self) -> PeerData {
        let values = [&self.public_key, &self.caller_id, &self.app_data, &self.marker];
        let entries = PEER_HEADERS.iter().zip(values);
        entries.filter_map(|(key, value)| Some((key.cast_unsigned(), value.clone()?))).collect()
    }
}

/// The answer that gives an SDK flow control of its own on a circuit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct XgressGrant {
    /// The controller that owns the circuit.
    pub controller: String,
    /// Address of the SDK's end.
    pub address: String,
}

impl XgressGrant {
    pub(super) fn put(&self, headers: &mut Headers) {
        headers.set_bool(header::USE_XGRESS_TO_SDK, true);
        headers.set_str(header::XGRESS_CTRL_ID, &self.controller);
        headers.set_str(header::XGRESS_ADDRESS, &self.address);
    }

    pub(super) fn take(headers: &Headers) -> Option<Self> {
        (headers.get_bool(header::USE_XGRESS_TO_SDK) == Some(true)).then(|| Self {
            controller: text(headers, header::XGRESS_CTRL_ID),
            address: text(headers, header::XGRESS_ADDRESS),
        })
    }
}

/// A dial or bind was accepted. Made a reply with [`Message::in_reply_to`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateConnected {
    /// The connection id.
    pub conn_id: u32,
    /// The circuit of a dial.
    pub circuit_id: Option<String>,
    /// Public key of the host.
    pub public_key: Option<Bytes>,
    /// The token by which a later dial reaches the same host.
    pub stickiness: Option<Bytes>,
    /// True if the router chooses connection ids.
    pub router_conn_ids: bool,
    /// Present if flow control of its own was asked for and is given.
    pub xgress: Option<XgressGrant>,
    /// Other peer data of the host, under its own keys.
    pub peer_data: PeerData,
}

impl StateConnected {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::STATE_CONNECTED)?;
        let headers = &message.headers;
        Ok(Self {
            conn_id: message.required_u32(header::CONN_ID)?,
            circuit_id: headers.get_str(header::CIRCUIT_ID).map(str::to_owned),
            public_key: headers.get_bytes(header::PUBLIC_KEY),
            stickiness: headers.get_bytes(header::STICKINESS_TOKEN),
            router_conn_ids: headers.get_bool(header::ROUTER_PROVIDED_CONN_ID) == Some(true),
            xgress: XgressGrant::take(headers),
            peer_data: PeerData::new(),
        })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::STATE_CONNECTED, Bytes::new());
        let headers = &mut message.headers;
        for (key, value) in &self.peer_data {
            if let Ok(key) = i32::try_from(*key) {
                headers.set(key, value);
            }
        }
        headers.set_u32(header::CONN_ID, self.conn_id);
        if let Some(id) = &self.circuit_id {
            headers.set_str(header::CIRCUIT_ID, id);
        }
        put(headers, header::PUBLIC_KEY, self.public_key.as_ref());
        put(headers, header::STICKINESS_TOKEN, self.stickiness.as_ref());
        if self.router_conn_ids {
            headers.set_bool(header::ROUTER_PROVIDED_CONN_ID, true);
        }
        if let Some(grant) = &self.xgress {
            grant.put(headers);
        }
        message
    }
}

/// A connection is closed, or a dial or bind was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateClosed {
    /// The connection id.
    pub conn_id: u32,
    /// The reason. It must not be empty in an answer to a dial: C SDKs read that as "log in again".
    pub reason: String,
    /// The error with its numbers.
    pub error: Option<StructuredError>,
    /// The circuit, if there was one.
    pub circuit_id: Option<String>,
}

impl StateClosed {
    /// A plain close.
    pub fn new(conn_id: u32, reason: impl Into<String>) -> Self {
        Self { conn_id, reason: reason.into(), ..Self::default() }
    }

    /// The close of a connection whose data may be incomplete: an error tells it from the close that an
    /// application asked for.
    pub fn gave_up(conn_id: u32, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        let error = StructuredError {
            message: reason.clone(),
            code: ErrorCode::INTERNAL,
            ..StructuredError::default()
        };
        Self { conn_id, reason, error: Some(error), circuit_id: None }
    }

    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::STATE_CLOSED)?;
        Ok(Self {
            conn_id: message.required_u32(header::CONN_ID)?,
            reason: message.text(),
            error: StructuredError::take(&message.headers),
            circuit_id: message.headers.get_str(header::CIRCUIT_ID).map(str::to_owned),
        })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::STATE_CLOSED, self.reason.clone());
        let headers = &mut message.headers;
        headers.set_u32(header::CONN_ID, self.conn_id);
        if let Some(error) = &self.error {
            error.put(headers);
        }
        if let Some(id) = &self.circuit_id {
            headers.set_str(header::CIRCUIT_ID, id);
        }
        message
    }
}

pub(super) fn text(headers: &Headers, key: i32) -> String {
    headers.get_text(key).map(|text| text.into_owned()).unwrap_or_default()
}

pub(super) fn put(headers: &mut Headers, key: i32, value: Option<&Bytes>) {
    if let Some(value) = value {
        headers.set(key, value);
    }
}
