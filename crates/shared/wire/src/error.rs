//! Errors of messages from a peer.

/// Why bytes could not be turned into a message, or a message into its typed form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The frame is broken; its connection must be closed.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message of another content type was expected.
    #[error("expected a message of content type {expected}, got {found}")]
    ContentType {
        /// The content type that the caller decodes.
        expected: i32,
        /// The content type of the message.
        found: i32,
    },
    /// A header that the message requires is absent or has the wrong length.
    #[error("content type {content_type}: header {key} is missing or malformed")]
    MissingHeader {
        /// Content type of the message.
        content_type: i32,
        /// Key of the header.
        key: i32,
    },
    /// A header is present but its value does not follow its encoding.
    #[error("header {key}: {problem}")]
    HeaderValue {
        /// Key of the header.
        key: i32,
        /// The mistake in the value.
        problem: &'static str,
    },
    /// The body does not follow its encoding.
    #[error("content type {content_type}: malformed body: {problem}")]
    Body {
        /// Content type of the message.
        content_type: i32,
        /// The mistake in the body.
        problem: String,
    },
    /// A value to be sent is over a limit that peers enforce.
    #[error("{what} is over the limit of {limit} that peers accept")]
    TooLarge {
        /// The value that is too large.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl WireError {
    /// True if the peer's message does not follow its encoding. Its connection must be closed,
    /// because no later message can be relied on. A well-formed message that cannot be used, for
    /// instance because of a missing header, is no reason to close it.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::Frame(_) | Self::Body { .. })
    }
}

/// Why a connection has no more frames. The next frame cannot be found after such an error, so that
/// the connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The first four bytes are not the frame magic.
    #[error("protocol error: frame starts with {found:02x?} instead of 03 06 09 0c")]
    Magic {
        /// The bytes that were read instead.
        found: [u8; 4],
    },
    /// The header section is announced larger than the limit.
    #[error("protocol error: {length} bytes of headers announced, the limit is {limit}")]
    HeadersTooLong {
        /// Announced length.
        length: u32,
        /// The limit in force.
        limit: u32,
    },
    /// The body is announced larger than the limit.
    #[error("protocol error: body of {length} bytes announced, the limit is {limit}")]
    BodyTooLong {
        /// Announced length.
        length: u32,
        /// The limit in force.
        limit: u32,
    },
    /// A header entry does not end inside the header section.
    #[error("protocol error: header entry at offset {offset} does not fit in {length} bytes")]
    HeaderEntry {
        /// The offset of the entry in the header section.
        offset: usize,
        /// Length of the header section.
        length: usize,
    },
}
