//! What can be wrong with bytes from a peer.

/// Why bytes could not be turned into a message, or a message into its typed form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The frame itself is broken; the connection it came on must be closed.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A message of another content type was expected.
    #[error("expected a message of content type {expected}, got {found}")]
    ContentType {
        /// The content type the caller decodes.
        expected: i32,
        /// The content type the message has.
        found: i32,
    },
    /// A header the message cannot do without is absent or has the wrong length.
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
        /// What is wrong with the value.
        problem: &'static str,
    },
    /// The body does not follow its encoding.
    #[error("content type {content_type}: malformed body: {problem}")]
    Body {
        /// Content type of the message.
        content_type: i32,
        /// What is wrong with the body.
        problem: String,
    },
    /// A value that this side wants to send is over a limit that peers enforce.
    #[error("{what} is over the limit of {limit} that peers accept")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl WireError {
    /// True if what the peer sent does not follow its encoding. Nothing that it goes on to say can
    /// be relied on then: the connection must be closed. What is well formed and yet cannot be
    /// used, because a header is missing say, concerns that message only.
    #[must_use]
    pub fn is_malformed(&self) -> bool {
        matches!(self, Self::Frame(_) | Self::Body { .. })
    }
}

/// Why a connection no longer yields frames. There is no way to find the next frame after one of
/// these: the connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The first four bytes are not the frame magic.
    #[error("protocol error: frame starts with {found:02x?} instead of 03 06 09 0c")]
    Magic {
        /// What was read instead.
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
        /// Where the entry starts inside the header section.
        offset: usize,
        /// Length of the header section.
        length: usize,
    },
}
