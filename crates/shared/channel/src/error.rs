//! Errors of channels, and reasons for their end.

use std::sync::Arc;

use weft_wire::hello::RejectClass;
use weft_wire::{FrameError, WireError};

/// Why a connection or a channel ended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CloseReason {
    /// This side closed the channel.
    #[error("closed by this side: {0}")]
    Local(Arc<str>),
    /// The peer closed its connection.
    #[error("closed by the peer")]
    Peer,
    /// The peer sent bytes that are no frame, or a frame over the limits.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// TLS failed.
    #[error("TLS failed: {0}")]
    Tls(Arc<str>),
    /// The socket failed.
    #[error("connection failed: {0}")]
    Io(Arc<str>),
    /// Nothing came from the peer for longer than it may be silent.
    #[error("nothing came from the peer for longer than it may be silent")]
    Unresponsive,
    /// The peer accepted no bytes for longer than the write timeout.
    #[error("the peer took no data for longer than the write timeout")]
    WriteTimeout,
    /// The peer did not send the rest of a large message, and the memory for such messages was
    /// needed.
    #[error("a message that was not whole had to make room for others")]
    FrameMemory,
    /// A group lost a connection that it needs.
    #[error("too few connections left: {0}")]
    TooFew(Arc<str>),
}

impl CloseReason {
    /// The reason of a close by this side.
    pub fn local(reason: impl Into<Arc<str>>) -> Self {
        Self::Local(reason.into())
    }

    pub(crate) fn io(error: &std::io::Error) -> Self {
        Self::Io(error.to_string().into())
    }

    pub(crate) fn tls(error: &rustls::Error) -> Self {
        Self::Tls(error.to_string().into())
    }

    /// True if the peer caused the end and an operator should be told.
    pub fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Frame(_)
                | Self::Tls(_)
                | Self::Unresponsive
                | Self::WriteTimeout
                | Self::FrameMemory
        )
    }
}

/// Why a message was not sent.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SendError {
    /// The channel is closed.
    #[error("channel closed: {0}")]
    Closed(CloseReason),
    /// The lane is full.
    #[error("the send queue is full")]
    Full,
    /// There was no room before the deadline.
    #[error("no room in the send queue before the deadline")]
    Timeout,
    /// The connection that had taken the message closed before the message was known to be written.
    #[error("the connection ended before the message was known to be written")]
    Lost,
    /// The message is larger than frames may be.
    #[error("message of {length} bytes is over the limit of {limit}")]
    TooLarge {
        /// Length of the headers or the body, in bytes.
        length: usize,
        /// The limit, in bytes.
        limit: usize,
    },
}

/// Why a request got no reply.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RequestError {
    /// The request was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The reply did not arrive before the deadline.
    #[error("no reply before the deadline")]
    Timeout,
    /// The channel closed before the reply arrived.
    #[error("channel closed before the reply: {0}")]
    Closed(CloseReason),
    /// Too many requests wait for their replies.
    #[error("too many requests wait for replies on this channel")]
    TooMany,
}

/// Why a channel was not established.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The address cannot be dialed.
    #[error("{address} cannot be dialed: {problem}")]
    Address {
        /// The address.
        address: String,
        /// The mistake in it.
        problem: String,
    },
    /// The TCP connection failed.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: String,
        /// The last error.
        source: std::io::Error,
    },
    /// The TLS handshake failed.
    #[error("TLS with {address} failed: {source}")]
    Tls {
        /// The address.
        address: String,
        /// The error.
        source: std::io::Error,
    },
    /// The DTLS handshake failed.
    #[error("DTLS with {address} failed: {source}")]
    Dtls {
        /// The address.
        address: String,
        /// The error.
        source: std::io::Error,
    },
    /// The server is not the one that is meant.
    #[error("{address} is another server: {problem}")]
    Server {
        /// The address.
        address: String,
        /// The difference.
        problem: String,
    },
    /// The connection closed during the hello; listeners refuse in this way.
    #[error("connection to {address} closed during the hello: {source}")]
    Hello {
        /// The address.
        address: String,
        /// The error.
        source: std::io::Error,
    },
    /// The peer's answer is not a result of the hello.
    #[error("{address} answered the hello with another message: {source}")]
    Protocol {
        /// The address.
        address: String,
        /// The error of the answer.
        source: WireError,
    },
    /// The peer supports other versions of frames.
    #[error("{address}: server did not support requested channel version")]
    Version {
        /// The address.
        address: String,
    },
    /// The peer refused, with a reason.
    #[error("{address} refused the connection: {text}")]
    Refused {
        /// The address.
        address: String,
        /// The reason.
        text: String,
        /// The class of the refusal.
        class: RejectClass,
    },
    /// The dial took too long.
    #[error("no connection to {address} in {seconds} s")]
    Timeout {
        /// The address.
        address: String,
        /// The time limit, in seconds.
        seconds: f32,
    },
}
