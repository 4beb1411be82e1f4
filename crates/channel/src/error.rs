//! What can go wrong with a channel, and why one ended.

use std::sync::Arc;
use weft_wire::hello::RejectClass;
use weft_wire::{FrameError, WireError};

/// Why a connection or a channel ended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CloseReason {
    /// This side closed it.
    #[error("closed by this side: {0}")]
    Local(Arc<str>),
    /// The peer closed its connection.
    #[error("closed by the peer")]
    Peer,
    /// The peer sent something that is no frame, or one over the limits.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// TLS failed.
    #[error("TLS failed: {0}")]
    Tls(Arc<str>),
    /// The socket failed.
    #[error("connection failed: {0}")]
    Io(Arc<str>),
    /// The peer did not answer heartbeats in time.
    #[error("the peer did not answer heartbeats in time")]
    Unresponsive,
    /// The peer took nothing for longer than the write timeout.
    #[error("the peer took no data for longer than the write timeout")]
    WriteTimeout,
    /// The peer did not send the rest of a large message, and the memory for such was needed.
    #[error("a message that was not whole had to make room for others")]
    FrameMemory,
    /// A group lost a connection that it cannot do without.
    #[error("too few connections left: {0}")]
    TooFew(Arc<str>),
}

impl CloseReason {
    /// This side closed it, for this reason.
    pub fn local(reason: impl Into<Arc<str>>) -> Self {
        Self::Local(reason.into())
    }

    pub(crate) fn io(error: &std::io::Error) -> Self {
        Self::Io(error.to_string().into())
    }

    pub(crate) fn tls(error: &rustls::Error) -> Self {
        Self::Tls(error.to_string().into())
    }

    /// True if the peer is to blame and an operator should hear of it.
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
    /// The connection that had taken the message ended before it was known to be written.
    #[error("the connection ended before the message was known to be written")]
    Lost,
    /// The message is over the limits of frames.
    #[error("message of {length} bytes is over the limit of {limit}")]
    TooLarge {
        /// Length of the headers or the body.
        length: usize,
        /// The limit in force.
        limit: usize,
    },
}

/// Why a request got no reply.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RequestError {
    /// It was not sent.
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
        /// What is wrong with it.
        problem: String,
    },
    /// No TCP connection.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The address.
        address: String,
        /// The last error.
        source: std::io::Error,
    },
    /// No TLS.
    #[error("TLS with {address} failed: {source}")]
    Tls {
        /// The address.
        address: String,
        /// The error.
        source: std::io::Error,
    },
    /// The connection broke during the hello; listeners refuse that way.
    #[error("connection to {address} closed during the hello: {source}")]
    Hello {
        /// The address.
        address: String,
        /// The error.
        source: std::io::Error,
    },
    /// The peer answered something else than a hello result.
    #[error("{address} answered the hello with something else: {source}")]
    Protocol {
        /// The address.
        address: String,
        /// What was wrong.
        source: WireError,
    },
    /// The peer speaks other versions of the frame.
    #[error("{address}: server did not support requested channel version")]
    Version {
        /// The address.
        address: String,
    },
    /// The peer refused, and said why.
    #[error("{address} refused the connection: {text}")]
    Refused {
        /// The address.
        address: String,
        /// What it said.
        text: String,
        /// The class it gave.
        class: RejectClass,
    },
    /// It took too long.
    #[error("no connection to {address} in {seconds} s")]
    Timeout {
        /// The address.
        address: String,
        /// The limit.
        seconds: f32,
    },
}
