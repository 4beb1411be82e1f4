//! The first exchange of every connection: the dialer's hello and the listener's answer.
//!
//! The dialer sends a [`Hello`] (content type 0, its identity token as body), the listener answers
//! with a [`HelloResult`]; there is no third message (docs/protocol/channel.md 7). A connection may
//! be one of several that form one channel. Its hello then says so, and the answer to the first one
//! carries the id and the secret that later ones have to send.

use bytes::Bytes;

use crate::error::WireError;
use crate::headers::Headers;
pub use crate::message::header;
use crate::message::{Message, content_type};

/// Underlay types of grouped connections (docs/protocol/channel.md 7.2).
pub mod underlay {
    /// Control channel: all messages without a connection of their own.
    pub const CTRL_DEFAULT: &str = "ctrl.default";
    /// Control channel: circuits and routes.
    pub const CTRL_HIGH: &str = "ctrl.high";
    /// Control channel: inspection and traces.
    pub const CTRL_LOW: &str = "ctrl.low";
    /// Link: payloads and everything else.
    pub const LINK_DEFAULT: &str = "link.default";
    /// Link: acks.
    pub const LINK_ACK: &str = "link.ack";
    /// SDK: data.
    pub const EDGE_DEFAULT: &str = "edge.default";
    /// SDK: requests.
    pub const EDGE_CONTROL: &str = "edge.control";
}

/// ALPN names (docs/protocol/channel.md 3.1).
pub mod alpn {
    /// Router to controller, controller to router, controller to controller.
    pub const CTRL: &str = "ziti-ctrl";
    /// Router to router.
    pub const LINK: &str = "ziti-link";
    /// SDK to edge router. Go SDKs offer no ALPN at all.
    pub const EDGE: &str = "ziti-edge";
}

/// Sequence number of hellos and their answers; not taken from the channel's counter.
pub const HELLO_SEQUENCE: i32 = -1;

/// The first message, from the dialer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hello {
    /// Identity token: the dialer's name for itself. It proves nothing.
    pub token: String,
    /// Other values, by the keys of the kind of connection.
    pub headers: Headers,
    /// Sequence number of the hello; the answer names it.
    pub sequence: i32,
}

impl Hello {
    /// A hello without headers.
    pub fn new(token: impl Into<String>) -> Self {
        Self { token: token.into(), headers: Headers::new(), sequence: HELLO_SEQUENCE }
    }

    /// Makes this the first connection of a group. Links give the connection id, and so does a
    /// dialer that opens a lost group again, then together with its old secret.
    pub fn grouped_first(
        mut self,
        underlay: &str,
        connection_id: Option<&str>,
        secret: Option<&[u8]>,
    ) -> Self {
        self.headers.set_bool(header::IS_GROUPED, true).set_str(header::TYPE, underlay);
        self.headers.set_bool(header::IS_FIRST, true);
        if let Some(id) = connection_id {
            self.headers.set_str(header::CONNECTION_ID, id);
        }
        if let Some(secret) = secret {
            self.headers.set(header::GROUP_SECRET, secret);
        }
        self
    }

    /// Makes this a further connection of an open group.
    pub fn grouped_later(mut self, underlay: &str, connection_id: &str, secret: &[u8]) -> Self {
        self.headers.set_bool(header::IS_GROUPED, true).set_str(header::TYPE, underlay);
        self.headers.set_str(header::CONNECTION_ID, connection_id);
        self.headers.set(header::GROUP_SECRET, secret);
        self
    }

    /// The hello as a message.
    pub fn to_message(&self) -> Message {
        Message {
            content_type: content_type::HELLO,
            sequence: self.sequence,
            headers: self.headers.clone(),
            body: Bytes::from(self.token.clone()),
        }
    }

    /// Reads a hello. Its sender may cut the token anywhere, so that bytes that are not UTF-8 are
    /// replaced.
    pub fn from_message(message: Message) -> Result<Self, WireError> {
        message.expect(content_type::HELLO)?;
        Ok(Self { token: message.text(), headers: message.headers, sequence: message.sequence })
    }

    /// True if the connection belongs to a group. Only then do keys 10 and 11 have the meanings of
    /// their names.
    pub fn is_grouped(&self) -> bool {
        self.headers.get_bool(header::IS_GROUPED) == Some(true)
    }

    /// True if this is the first connection of a group, by its hello.
    pub fn is_first(&self) -> bool {
        self.is_grouped() && self.headers.get_bool(header::IS_FIRST) == Some(true)
    }

    /// Group id of a grouped connection, if given and not empty.
    pub fn connection_id(&self) -> Option<&str> {
        let id = self.headers.get_str(header::CONNECTION_ID)?;
        (self.is_grouped() && !id.is_empty()).then_some(id)
    }

    /// Group secret of a grouped connection, if given and not empty.
    pub fn group_secret(&self) -> Option<&[u8]> {
        let secret = self.headers.get(header::GROUP_SECRET)?;
        (self.is_grouped() && !secret.is_empty()).then_some(secret)
    }

    /// Underlay type, if given.
    pub fn underlay_type(&self) -> Option<&str> {
        self.headers.get_str(header::TYPE)
    }
}

/// The class of a refusal, for dialers that use it (docs/protocol/channel.md 7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RejectClass {
    /// Without a class.
    #[default]
    Unspecified,
    /// Try again later.
    Busy,
    /// The dialer may not connect.
    NotPermitted,
}

impl RejectClass {
    /// The number on the wire.
    pub fn number(self) -> u32 {
        match self {
            Self::Unspecified => 0,
            Self::Busy => 1,
            Self::NotPermitted => 2,
        }
    }

    /// The class with this number; unknown numbers are unspecified.
    pub fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Busy,
            2 => Self::NotPermitted,
            _ => Self::Unspecified,
        }
    }
}

/// The listener's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelloResult {
    /// True if the connection is accepted.
    pub success: bool,
    /// Reason of a refusal.
    pub text: String,
    /// Other values: connection id, identity of the listener, group, and those of the kind of
    /// connection.
    pub headers: Headers,
}

impl HelloResult {
    /// Accepts `hello`; the caller adds the headers of its kind of connection.
    pub fn accept(hello: &Hello, connection_id: &str, listener_id: &str) -> Self {
        let mut headers = Headers::new();
        headers.set_i32(header::REPLY_FOR, hello.sequence);
        headers.set_bool(header::RESULT_SUCCESS, true);
        headers.set_str(header::CONNECTION_ID, connection_id);
        headers.set_str(header::ID, listener_id);
        if let Some(kind) = hello.headers.get(header::TYPE) {
            headers.set(header::TYPE, kind);
        }
        Self { success: true, text: String::new(), headers }
    }

    /// Confirms that the connection is part of a group with this secret.
    pub fn grouped(mut self, secret: &[u8]) -> Self {
        self.headers.set_bool(header::IS_GROUPED, true).set(header::GROUP_SECRET, secret);
        self
    }

    /// Refuses `hello`.
    pub fn refuse(hello: &Hello, class: RejectClass, text: impl Into<String>) -> Self {
        let mut headers = Headers::new();
        headers.set_i32(header::REPLY_FOR, hello.sequence);
        headers.set_bool(header::RESULT_SUCCESS, false);
        if class != RejectClass::Unspecified {
            headers.set_u32(header::REJECT_CLASS, class.number());
        }
        Self { success: false, text: text.into(), headers }
    }

    /// The answer as a message.
    pub fn to_message(&self) -> Message {
        Message {
            content_type: content_type::RESULT,
            sequence: HELLO_SEQUENCE,
            headers: self.headers.clone(),
            body: Bytes::from(self.text.clone()),
        }
    }

    /// Reads the answer to a hello with this sequence number. An answer that names another request
    /// is refused; one that names none is accepted, because old peers leave it out.
    pub fn from_message(message: Message, sequence: i32) -> Result<Self, WireError> {
        message.expect(content_type::RESULT)?;
        let named = message.headers.get_i32(header::REPLY_FOR).unwrap_or(sequence);
        if named != sequence {
            let problem = "the hello result answers another message";
            return Err(WireError::HeaderValue { key: header::REPLY_FOR, problem });
        }
        Ok(Self {
            success: message.headers.get_bool(header::RESULT_SUCCESS) == Some(true),
            text: message.text(),
            headers: message.headers,
        })
    }

    /// Id of the connection or group.
    pub fn connection_id(&self) -> Option<&str> {
        self.headers.get_str(header::CONNECTION_ID)
    }

    /// The listener's name for itself.
    pub fn listener_id(&self) -> Option<&str> {
        self.headers.get_str(header::ID).filter(|id| !id.is_empty())
    }

    /// Secret of the group, if the listener supports groups.
    pub fn group_secret(&self) -> Option<&[u8]> {
        let grouped = self.headers.get_bool(header::IS_GROUPED) == Some(true);
        let secret = self.headers.get(header::GROUP_SECRET)?;
        (grouped && !secret.is_empty()).then_some(secret)
    }

    /// Class of a refusal.
    pub fn reject_class(&self) -> RejectClass {
        RejectClass::from_number(self.headers.get_u32(header::REJECT_CLASS).unwrap_or(0))
    }
}

/// The answer to a peer with another version of frames (docs/protocol/channel.md 6.3).
pub mod negotiation {
    /// The first bytes of the answer.
    pub const MAGIC: [u8; 4] = [0x03, 0x06, 0x09, 0x0a];
    /// The answer that a listener writes before it closes: versions 1 and 2 are supported.
    pub const RESPONSE: [u8; 16] = [3, 6, 9, 10, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0];
    /// The version of this crate.
    pub const VERSION: u32 = 2;
    /// Most versions a peer may list.
    const MAX_VERSIONS: usize = 64;

    /// Reads the answer from the front of `bytes`: the versions that the peer supports, `None`
    /// while more bytes are needed, an error if this is no such answer.
    pub fn decode(bytes: &[u8]) -> Result<Option<Vec<u32>>, crate::WireError> {
        let malformed = |problem: &str| crate::WireError::Body {
            content_type: super::content_type::HELLO,
            problem: format!("version response: {problem}"),
        };
        let seen = bytes.len().min(MAGIC.len());
        if bytes[..seen] != MAGIC[..seen] {
            return Err(malformed("wrong magic"));
        }
        let mut words = bytes[seen..].chunks_exact(4).map(|word| match word {
            &[a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
            _ => 0,
        });
        let Some(count) = words.next() else { return Ok(None) };
        if count as usize > MAX_VERSIONS {
            return Err(malformed("more than 64 versions"));
        }
        let versions: Vec<u32> = words.take(count as usize).collect();
        Ok((versions.len() == count as usize).then_some(versions))
    }
}

#[cfg(test)]
mod tests;
