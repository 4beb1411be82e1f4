//! Channels over DTLS: one message in a datagram, which may be lost, repeated or overtaken
//! (docs/protocol/channel.md 13).
//!
//! ```text
//! socket -> reader -> Inbox of a peer -> DtlsPeer -> framing -> the task of the connection
//!             └ strangers: cookie, then a place at the door, then a handshake
//! ```
//!
//! A listening socket is shared by its peers; a dialer has a socket for each connection. Lost
//! datagrams are not repeated here: the ends of circuits repeat payloads.

mod connect;
mod framing;
mod hello_stream;
mod inbox;
mod listener;
mod options;
mod pace;
mod peer;
mod pump;
mod socket;

pub(crate) use connect::dial;
pub use framing::MAX_MESSAGE;
pub use listener::{DatagramListen, DatagramRegistration, listen_datagrams};
pub use options::{DatagramDial, DatagramOptions};
pub(crate) use pump::DatagramPump;
