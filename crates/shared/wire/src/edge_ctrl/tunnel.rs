//! Messages for the router's own identity that have no protobuf body
//! (docs/protocol/edge-control-plane.md 15.3).

use super::{content_type, header};
use crate::error::WireError;
use crate::message::Message;

/// Removes a terminator of the router's own identity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemoveTunnelTerminator {
    /// Id of the terminator.
    pub terminator_id: String,
}

impl RemoveTunnelTerminator {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::REMOVE_TUNNEL_TERMINATOR_REQUEST)?;
        Ok(Self { terminator_id: message.body_str()?.to_owned() })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let body = self.terminator_id.clone();
        Message::new(content_type::REMOVE_TUNNEL_TERMINATOR_REQUEST, body)
    }
}

/// Result of a health check of the router's own identity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TunnelHealthEvent {
    /// Id of the terminator.
    pub terminator_id: String,
    /// True if the check passed.
    pub check_passed: bool,
}

impl TunnelHealthEvent {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::TUNNEL_HEALTH_EVENT)?;
        Ok(Self {
            terminator_id: message.required_str(header::TERMINATOR_ID)?.to_owned(),
            check_passed: message.headers.get_bool(header::CHECK_PASSED).unwrap_or(false),
        })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::TUNNEL_HEALTH_EVENT, "");
        message.headers.set_str(header::TERMINATOR_ID, &self.terminator_id);
        message.headers.set_bool(header::CHECK_PASSED, self.check_passed);
        message
    }
}
