//! Data of a connection whose flow control is at the router (docs/protocol/sdk.md 10).

use bytes::Bytes;

use super::{content_type, header};
use crate::error::WireError;
use crate::hello;
use crate::message::Message;

/// Flags of [`Data`]. All bits are passed from end to end unchanged.
pub mod data_flags {
    /// The sender has ended its direction.
    pub const FIN: u32 = 1;
    /// The sender understands [`MULTIPART_MSG`].
    pub const MULTIPART: u32 = 4;
    /// The connection is a stream: data may be joined and split.
    pub const STREAM: u32 = 8;
    /// The data consists of messages, each after its length (u16).
    pub const MULTIPART_MSG: u32 = 16;
}

/// Data of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Data {
    /// The connection id.
    pub conn_id: u32,
    /// See [`data_flags`].
    pub flags: u32,
    /// A name for the message, for tracing.
    pub uuid: Option<Bytes>,
    /// The data.
    pub data: Bytes,
}

impl Data {
    /// Reads the message; the data is not copied.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::DATA)?;
        Ok(Self {
            conn_id: message.required_u32(header::CONN_ID)?,
            flags: message.headers.get_u32(header::FLAGS).unwrap_or(0),
            uuid: message.headers.get_bytes(hello::header::REFLECTED),
            data: message.body.clone(),
        })
    }

    /// The message; the data is not copied.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::DATA, self.data.clone());
        let headers = &mut message.headers;
        headers.set_u32(header::CONN_ID, self.conn_id);
        if self.flags != 0 {
            headers.set_u32(header::FLAGS, self.flags);
        }
        if let Some(uuid) = &self.uuid {
            headers.set(hello::header::REFLECTED, uuid);
        }
        message
    }

    /// True if the sender has ended its direction.
    pub fn is_fin(&self) -> bool {
        self.flags & data_flags::FIN != 0
    }
}
