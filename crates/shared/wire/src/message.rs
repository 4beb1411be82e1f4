//! A message of a channel, not parsed any further.

use bytes::Bytes;

use crate::error::WireError;
use crate::headers::Headers;

/// Bytes of every frame besides headers and body.
pub const HEAD_LEN: usize = 20;

/// Content types of the channel itself (docs/protocol/channel.md 6.2).
pub mod content_type {
    /// First message of a connection.
    pub const HELLO: i32 = 0;
    /// Asks for a [`RESULT`]; unused by current peers.
    pub const PING: i32 = 1;
    /// Success or failure with a text, see [`Outcome`](crate::Outcome).
    pub const RESULT: i32 = 2;
    /// Latency probe, answered with a [`RESULT`].
    pub const LATENCY: i32 = 3;
    /// Answer of an older probe form; ignored.
    pub const LATENCY_RESPONSE: i32 = 4;
    /// Carrier of heartbeat headers when nothing else is sent.
    pub const HEARTBEAT: i32 = 5;
    /// Marks unframed datagrams; never framed.
    pub const RAW: i32 = 6;
    /// Probe that reconnecting 1.x routers write on the old socket; ignored.
    pub const RECONNECT_PING: i32 = -33;
}

/// Header keys reserved for the channel itself (docs/protocol/channel.md 6.1).
pub mod header {
    /// Id of the connection or group; string.
    pub const CONNECTION_ID: i32 = 0;
    /// Sequence number of the request that a message answers; i32.
    pub const REPLY_FOR: i32 = 1;
    /// True if a [`Result`](super::content_type::RESULT) is a success; bool.
    pub const RESULT_SUCCESS: i32 = 2;
    /// Version of the sender; see [`VersionInfo`](crate::VersionInfo).
    pub const HELLO_VERSION: i32 = 4;
    /// Heartbeat: the sender's clock; u64.
    pub const HEARTBEAT: i32 = 5;
    /// Heartbeat given back; u64.
    pub const HEARTBEAT_RESPONSE: i32 = 6;
    /// Type of the underlay; string.
    pub const TYPE: i32 = 7;
    /// Identity token of the listener; string.
    pub const ID: i32 = 8;
    /// True if the connection belongs to a group; bool.
    pub const IS_GROUPED: i32 = 9;
    /// Secret of the group; bytes.
    pub const GROUP_SECRET: i32 = 10;
    /// True if the connection is the first of its group; bool.
    pub const IS_FIRST: i32 = 11;
    /// The class of a refused hello; u32, see [`RejectClass`](crate::hello::RejectClass).
    pub const REJECT_CLASS: i32 = 13;
    /// Opaque value that a reply copies from its request.
    pub const REFLECTED: i32 = 128;
}

/// A message: type, sequence, headers and body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// The content type.
    pub content_type: i32,
    /// The sequence number on its channel, set when the message is written; any value before that.
    pub sequence: i32,
    /// The headers.
    pub headers: Headers,
    /// The body.
    pub body: Bytes,
}

impl Message {
    /// A message without headers.
    pub fn new(content_type: i32, body: impl Into<Bytes>) -> Self {
        Self { content_type, sequence: 0, headers: Headers::new(), body: body.into() }
    }

    /// Makes this message the reply to `request`: names its sequence number and copies header 128
    /// (docs/protocol/channel.md 8.3).
    pub fn in_reply_to(mut self, request: &Message) -> Self {
        self.headers.set_i32(header::REPLY_FOR, request.sequence);
        if let Some(reflected) = request.headers.get(header::REFLECTED) {
            self.headers.set(header::REFLECTED, reflected);
        }
        self
    }

    /// The sequence number that this message replies to; `None` if it is not a reply. A header of
    /// the wrong length and the value -1 mean no reply (docs/protocol/channel.md 8.2).
    pub fn reply_for(&self) -> Option<i32> {
        self.headers.get_i32(header::REPLY_FOR).filter(|sequence| *sequence != -1)
    }

    /// Length of the message's frame, without headers that the connection adds.
    pub fn wire_len(&self) -> usize {
        HEAD_LEN + self.headers.wire_len() + self.body.len()
    }

    /// The body as a text for people.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as UTF-8, or an error that names the content type.
    pub fn body_str(&self) -> Result<&str, WireError> {
        self.body_str_from(0)
    }

    /// The body from byte `start` on as UTF-8; a shorter body is empty.
    pub(crate) fn body_str_from(&self, start: usize) -> Result<&str, WireError> {
        let bytes = self.body.get(start..).unwrap_or_default();
        std::str::from_utf8(bytes).map_err(|_| self.body_problem("not UTF-8"))
    }

    /// The error for a body that does not follow its encoding.
    pub(crate) fn body_problem(&self, problem: impl Into<String>) -> WireError {
        WireError::Body { content_type: self.content_type, problem: problem.into() }
    }

    /// Fails unless the message has this content type.
    pub fn expect(&self, expected: i32) -> Result<(), WireError> {
        if self.content_type == expected {
            return Ok(());
        }
        Err(WireError::ContentType { expected, found: self.content_type })
    }

    /// The error for a required header that is absent or malformed.
    pub fn missing(&self, key: i32) -> WireError {
        WireError::MissingHeader { content_type: self.content_type, key }
    }

    /// A string header that must be there.
    pub fn required_str(&self, key: i32) -> Result<&str, WireError> {
        self.headers.get_str(key).ok_or_else(|| self.missing(key))
    }

    /// A 32 bit header that must be there.
    pub fn required_u32(&self, key: i32) -> Result<u32, WireError> {
        self.headers.get_u32(key).ok_or_else(|| self.missing(key))
    }
}
