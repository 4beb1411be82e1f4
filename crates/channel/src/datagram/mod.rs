//! Channels over DTLS: one message in a datagram, which may be lost, repeated or overtaken
//! (docs/protocol/channel.md 13).
//!
//! ```text
//! socket -> reader -> Inbox of a peer -> Flow (DTLS) -> framing -> the task of the connection
//!             └ strangers: cookie, then a place at the door, then a handshake
//! ```
//!
//! A listening socket is shared by its peers; a dialer has a socket for each connection. What is lost
//! is not repeated here: the ends of circuits do that.

mod dial;
mod flow;
mod framing;
mod inbox;
mod listener;
mod pace;
mod pump;
mod socket;

use std::num::NonZeroU64;

pub use framing::MAX_MESSAGE;
pub use listener::{DatagramListen, DatagramRegistration, listen_datagrams};

pub(crate) use dial::dial;
pub(crate) use pump::DatagramPump;

/// Options of connections over DTLS.
#[derive(Debug, Clone, Copy)]
pub struct DatagramOptions {
    /// Most bytes that a connection sends in a second; `None` is no limit.
    pub max_bytes_per_second: Option<NonZeroU64>,
    /// Bytes that the system keeps for sending. The system may give less.
    pub write_buffer: u32,
    /// Bytes that the system keeps of what has arrived. The system may give less.
    pub read_buffer: u32,
    /// True if payloads are sent in their compact form where they have one.
    pub compact: bool,
}

impl Default for DatagramOptions {
    fn default() -> Self {
        Self {
            max_bytes_per_second: None,
            write_buffer: 4 << 20,
            read_buffer: 4 << 20,
            compact: false,
        }
    }
}

/// What a dial over DTLS needs.
#[derive(Debug, Clone)]
pub struct DatagramDial {
    /// The certificates of this side and the judge of the listener's, for a listener of this name.
    pub settings: weft_dtls::Settings,
    /// Options of the connection.
    pub options: DatagramOptions,
}
