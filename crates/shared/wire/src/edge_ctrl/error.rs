//! The answer to a request that failed.

use super::{ErrorCode, RetryHint, content_type, header};
use crate::error::WireError;
use crate::message::Message;

/// A request failed (docs/protocol/edge-control-plane.md 18.1). The answer to the confirmation of
/// new certificates has the same content type, but is an
/// [`ExtendVerifyResult`](super::ExtendVerifyResult).
#[derive(Debug, Clone, PartialEq, Eq, Default, thiserror::Error)]
#[error("{text} (code {})", .code.0)]
pub struct EdgeError {
    /// The code.
    pub code: ErrorCode,
    /// The next step of the client; controllers before 2.1 leave it out.
    pub retry_hint: RetryHint,
    /// A text for people; may be empty.
    pub text: String,
    /// The circuit, if one was made.
    pub circuit_id: Option<String>,
    /// True if the controller refused for want of a connected router: another controller may have one. Controllers of
    /// weft say so; false is not sent.
    pub elsewhere: bool,
}

impl EdgeError {
    /// An error without a circuit.
    pub fn new(code: ErrorCode, retry_hint: RetryHint, text: impl Into<String>) -> Self {
        Self { code, retry_hint, text: text.into(), ..Self::default() }
    }

    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::ERROR)?;
        let headers = &message.headers;
        Ok(Self {
            code: ErrorCode(headers.get_u32(header::ERROR_CODE).unwrap_or(0)),
            retry_hint: RetryHint(headers.get_u32(header::RETRY_HINT).unwrap_or(0)),
            text: message.text(),
            circuit_id: headers.get_str(header::ERROR_CIRCUIT_ID).map(str::to_owned),
            elsewhere: headers.get_bool(header::ELSEWHERE).unwrap_or_default(),
        })
    }

    /// The message, to be made a reply.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::ERROR, self.text.clone());
        let headers = &mut message.headers;
        headers.set_u32(header::ERROR_CODE, self.code.0);
        headers.set_u32(header::RETRY_HINT, self.retry_hint.0);
        if let Some(circuit_id) = &self.circuit_id {
            headers.set_str(header::ERROR_CIRCUIT_ID, circuit_id);
        }
        if self.elsewhere {
            headers.set_bool(header::ELSEWHERE, true);
        }
        message
    }
}
