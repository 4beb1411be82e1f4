//! A new access token on an open connection (docs/protocol/sdk.md 11.1).

use bytes::Bytes;

use super::content_type;
use super::error::StructuredError;
use crate::error::WireError;
use crate::message::Message;

/// An SDK sends a new access token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateToken {
    /// The token.
    pub token: Bytes,
}

impl UpdateToken {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::UPDATE_TOKEN)?;
        Ok(Self { token: message.body.clone() })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        Message::new(content_type::UPDATE_TOKEN, self.token.clone())
    }
}

/// The router accepts the token.
pub fn update_token_success() -> Message {
    Message::new(content_type::UPDATE_TOKEN_SUCCESS, Bytes::new())
}

/// The router refuses the token; it closes the connection after this.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UpdateTokenFailure {
    /// The error.
    pub error: StructuredError,
}

impl UpdateTokenFailure {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::UPDATE_TOKEN_FAILURE)?;
        let error = StructuredError::take(&message.headers).unwrap_or_else(|| StructuredError {
            message: message.text(),
            ..StructuredError::default()
        });
        Ok(Self { error })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let text = self.error.message.clone();
        let mut message = Message::new(content_type::UPDATE_TOKEN_FAILURE, text);
        self.error.put(&mut message.headers);
        message
    }
}
