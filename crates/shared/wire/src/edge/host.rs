//! Hosting: bind, unbind, and the dials that reach a host (docs/protocol/sdk.md 8 and 9).

use bytes::Bytes;

use super::connect::{XgressGrant, put, text};
use super::{content_type, header};
use crate::ctrl::TerminatorPrecedence;
use crate::error::WireError;
use crate::headers::Headers;
use crate::message::Message;

/// The first two bytes: old C SDKs send four in a bind.
fn cost(headers: &Headers) -> Option<u16> {
    let value = headers.get(header::COST)?;
    value.first_chunk::<2>().map(|bytes| u16::from_le_bytes(*bytes))
}

/// Reads the first byte, because old C SDKs send four in a bind.
fn precedence(headers: &Headers) -> Option<TerminatorPrecedence> {
    let value = headers.get(header::PRECEDENCE)?;
    value.first().map(|byte| TerminatorPrecedence::from_number(*byte))
}

/// An SDK hosts a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bind {
    /// The connection id of the listener; without one the bind is ignored.
    pub conn_id: u32,
    /// The token of the service session.
    pub token: Bytes,
    /// Public key of the host.
    pub public_key: Option<Bytes>,
    /// Cost.
    pub cost: u16,
    /// Precedence.
    pub precedence: TerminatorPrecedence,
    /// The instance of the service; empty for none.
    pub instance: String,
    /// A secret that shows that hosts of one instance are the same; used only with an instance.
    pub instance_secret: Option<Bytes>,
    /// A name of the listener that stays the same over reconnects.
    pub listener_id: Option<Bytes>,
    /// True if the SDK answers inspections.
    pub supports_inspect: bool,
    /// True if the SDK wants a report when the bind is established.
    pub supports_bind_success: bool,
    /// True if the SDK asks for flow control of its own.
    pub use_xgress: bool,
    /// True if the router may choose connection ids.
    pub router_conn_ids: bool,
}

impl Bind {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::BIND)?;
        let headers = &message.headers;
        let flag = |key| headers.get_bool(key) == Some(true);
        let instance = text(headers, header::TERMINATOR_IDENTITY);
        let secret = headers.get_bytes(header::TERMINATOR_IDENTITY_SECRET);
        Ok(Self {
            conn_id: message.required_u32(header::CONN_ID)?,
            token: message.body.clone(),
            public_key: headers.get_bytes(header::PUBLIC_KEY),
            cost: cost(headers).unwrap_or(0),
            precedence: precedence(headers).unwrap_or_default(),
            instance_secret: secret.filter(|_| !instance.is_empty()),
            instance,
            listener_id: headers.get_bytes(header::LISTENER_ID).filter(|id| !id.is_empty()),
            supports_inspect: flag(header::SUPPORTS_INSPECT),
            supports_bind_success: flag(header::SUPPORTS_BIND_SUCCESS),
            use_xgress: flag(header::USE_XGRESS_TO_SDK),
            router_conn_ids: flag(header::ROUTER_PROVIDED_CONN_ID),
        })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::BIND, self.token.clone());
        let headers = &mut message.headers;
        headers.set_u32(header::CONN_ID, self.conn_id);
        put(headers, header::PUBLIC_KEY, self.public_key.as_ref());
        if self.cost > 0 {
            headers.set_u16(header::COST, self.cost);
        }
        if self.precedence != TerminatorPrecedence::Default {
            headers.set_u8(header::PRECEDENCE, self.precedence.number());
        }
        if !self.instance.is_empty() {
            headers.set_str(header::TERMINATOR_IDENTITY, &self.instance);
            put(headers, header::TERMINATOR_IDENTITY_SECRET, self.instance_secret.as_ref());
        }
        put(headers, header::LISTENER_ID, self.listener_id.as_ref());
        for (key, set) in [
            (header::SUPPORTS_INSPECT, self.supports_inspect),
            (header::SUPPORTS_BIND_SUCCESS, self.supports_bind_success),
            (header::USE_XGRESS_TO_SDK, self.use_xgress),
            (header::ROUTER_PROVIDED_CONN_ID, self.router_conn_ids),
        ] {
            if set {
                headers.set_bool(key, true);
            }
        }
        message
    }
}

/// An SDK stops hosting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unbind {
    /// The connection id of the listener.
    pub conn_id: u32,
    /// The token of the bind.
    pub token: Bytes,
    /// A name of the listener that stays the same over reconnects.
    pub listener_id: Option<Bytes>,
}

impl Unbind {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::UNBIND)?;
        Ok(Self {
            conn_id: message.required_u32(header::CONN_ID)?,
            token: message.body.clone(),
            listener_id: message.headers.get_bytes(header::LISTENER_ID),
        })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::UNBIND, self.token.clone());
        message.headers.set_u32(header::CONN_ID, self.conn_id);
        put(&mut message.headers, header::LISTENER_ID, self.listener_id.as_ref());
        message
    }
}

/// An SDK changes cost or precedence of hosting.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateBind {
    /// The connection id of the listener.
    pub conn_id: u32,
    /// The token of the bind.
    pub token: Bytes,
    /// The new cost.
    pub cost: Option<u16>,
    /// The new precedence.
    pub precedence: Option<TerminatorPrecedence>,
}

impl UpdateBind {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::UPDATE_BIND)?;
        Ok(Self {
            conn_id: message.required_u32(header::CONN_ID)?,
            token: message.body.clone(),
            cost: message.headers.get_u16(header::COST),
            precedence: precedence(&message.headers),
        })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::UPDATE_BIND, self.token.clone());
        message.headers.set_u32(header::CONN_ID, self.conn_id);
        if let Some(cost) = self.cost {
            message.headers.set_u16(header::COST, cost);
        }
        if let Some(precedence) = self.precedence {
            message.headers.set_u8(header::PRECEDENCE, precedence.number());
        }
        message
    }
}

/// An SDK's report of the health of an application that it hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealthEvent {
    /// The connection id of the listener.
    pub conn_id: u32,
    /// The token of the bind.
    pub token: Bytes,
    /// True if the check passed.
    pub passed: bool,
}

impl HealthEvent {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::HEALTH_EVENT)?;
        Ok(Self {
            conn_id: message.required_u32(header::CONN_ID)?,
            token: message.body.clone(),
            passed: message.headers.get_bool(header::HEALTH_STATUS) == Some(true),
        })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::HEALTH_EVENT, self.token.clone());
        message.headers.set_u32(header::CONN_ID, self.conn_id);
        message.headers.set_bool(header::HEALTH_STATUS, self.passed);
        message
    }
}

/// The terminator of a bind is established.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindSuccess {
    /// The connection id of the listener.
    pub conn_id: u32,
}

impl BindSuccess {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::BIND_SUCCESS)?;
        Ok(Self { conn_id: message.required_u32(header::CONN_ID)? })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::BIND_SUCCESS, Bytes::new());
        message.headers.set_u32(header::CONN_ID, self.conn_id);
        message
    }
}

/// A dial to a service that an SDK hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dial {
    /// The connection id of the listener.
    pub conn_id: u32,
    /// The token of the bind, byte for byte: Go hosts compare it.
    pub token: Bytes,
    /// The dialer's name for itself; always present, may be empty.
    pub caller_id: Bytes,
    /// Public key of the dialer.
    pub public_key: Option<Bytes>,
    /// A short name for logs.
    pub marker: Option<Bytes>,
    /// The circuit.
    pub circuit_id: String,
    /// Data from the dialer.
    pub app_data: Option<Bytes>,
    /// Identity id of the dialer.
    pub dialer_id: Option<Bytes>,
    /// Identity name of the dialer.
    pub dialer_name: Option<Bytes>,
    /// The id of the new connection, if the router chose it.
    pub new_conn_id: Option<u32>,
    /// Present if the host asked for flow control of its own.
    pub xgress: Option<XgressGrant>,
}

impl Dial {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::DIAL)?;
        let headers = &message.headers;
        Ok(Self {
            conn_id: message.required_u32(header::CONN_ID)?,
            token: message.body.clone(),
            caller_id: headers.get_bytes(header::CALLER_ID).unwrap_or_default(),
            public_key: headers.get_bytes(header::PUBLIC_KEY),
            marker: headers.get_bytes(header::CONNECTION_MARKER),
            circuit_id: text(headers, header::CIRCUIT_ID),
            app_data: headers.get_bytes(header::APP_DATA),
            dialer_id: headers.get_bytes(header::DIALER_IDENTITY_ID),
            dialer_name: headers.get_bytes(header::DIALER_IDENTITY_NAME),
            new_conn_id: headers.get_u32(header::ROUTER_PROVIDED_CONN_ID),
            xgress: XgressGrant::take(headers),
        })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::DIAL, self.token.clone());
        let headers = &mut message.headers;
        headers.set_u32(header::CONN_ID, self.conn_id);
        headers.set(header::CALLER_ID, &self.caller_id);
        headers.set_str(header::CIRCUIT_ID, &self.circuit_id);
        put(headers, header::PUBLIC_KEY, self.public_key.as_ref());
        put(headers, header::CONNECTION_MARKER, self.marker.as_ref());
        put(headers, header::APP_DATA, self.app_data.as_ref());
        put(headers, header::DIALER_IDENTITY_ID, self.dialer_id.as_ref());
        put(headers, header::DIALER_IDENTITY_NAME, self.dialer_name.as_ref());
        if let Some(id) = self.new_conn_id {
            headers.set_u32(header::ROUTER_PROVIDED_CONN_ID, id);
        }
        if let Some(grant) = &self.xgress {
            grant.put(headers);
        }
        message
    }
}

/// A host accepts a dial. Matched only by the sequence number that it replies to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DialSuccess {
    /// The connection id of the listener, or another number.
    pub conn_id: u32,
    /// The id of the new connection.
    pub new_conn_id: u32,
    /// The host's key for this connection, used in place of that of the bind.
    pub public_key: Option<Bytes>,
}

impl DialSuccess {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::DIAL_SUCCESS)?;
        let id = message.body.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
        Ok(Self {
            conn_id: message.headers.get_u32(header::CONN_ID).unwrap_or(0),
            new_conn_id: id.ok_or_else(|| message.body_problem("no connection id"))?,
            public_key: message.headers.get_bytes(header::PUBLIC_KEY),
        })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let body = Bytes::copy_from_slice(&self.new_conn_id.to_le_bytes());
        let mut message = Message::new(content_type::DIAL_SUCCESS, body);
        message.headers.set_u32(header::CONN_ID, self.conn_id);
        put(&mut message.headers, header::PUBLIC_KEY, self.public_key.as_ref());
        message
    }
}

/// A host refuses a dial. Matched only by the sequence number that it replies to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DialFailed {
    /// The connection id of the listener, or another number.
    pub conn_id: u32,
    /// The reason.
    pub reason: String,
}

impl DialFailed {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::DIAL_FAILED)?;
        let conn_id = message.headers.get_u32(header::CONN_ID).unwrap_or(0);
        Ok(Self { conn_id, reason: message.text() })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::DIAL_FAILED, self.reason.clone());
        message.headers.set_u32(header::CONN_ID, self.conn_id);
        message
    }
}

/// Asks an SDK if it knows a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnInspect {
    /// The connection id.
    pub conn_id: u32,
}

impl ConnInspect {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::CONN_INSPECT_REQUEST)?;
        Ok(Self { conn_id: message.required_u32(header::CONN_ID)? })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::CONN_INSPECT_REQUEST, Bytes::new());
        message.headers.set_u32(header::CONN_ID, self.conn_id);
        message
    }
}

/// The kind of a connection, by an SDK's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConnKind {
    /// The connection is unknown.
    #[default]
    Invalid,
    /// A connection that the SDK dialed.
    Dial,
    /// A listener.
    Bind,
    /// Another kind.
    Unknown,
}

/// The answer to a [`ConnInspect`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnInspectAnswer {
    /// The connection id, or another number.
    pub conn_id: u32,
    /// The kind of the connection.
    pub kind: ConnKind,
    /// A text for people.
    pub detail: String,
}

impl ConnInspectAnswer {
    /// Reads the message, also with another content type, because some SDKs use one.
    pub fn from_message(message: &Message) -> Self {
        let kind = match message.headers.get_u8(header::CONN_TYPE) {
            Some(1) => ConnKind::Dial,
            Some(2) => ConnKind::Bind,
            Some(3) => ConnKind::Unknown,
            _ => ConnKind::Invalid,
        };
        let conn_id = message.headers.get_u32(header::CONN_ID).unwrap_or(0);
        Self { conn_id, kind, detail: message.text() }
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::CONN_INSPECT_RESPONSE, self.detail.clone());
        message.headers.set_u32(header::CONN_ID, self.conn_id);
        let number = match self.kind {
            ConnKind::Invalid => 0,
            ConnKind::Dial => 1,
            ConnKind::Bind => 2,
            ConnKind::Unknown => 3,
        };
        message.headers.set_u8(header::CONN_TYPE, number);
        message
    }
}
