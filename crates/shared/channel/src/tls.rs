//! TLS below the frames of a channel.
//!
//! ```text
//!              handshake (rustls)             after it
//!  TCP or  -> shake: hello .. finished -> Records: one copy, or none, between message and socket (TLS 1.3)
//!  WebSocket                           -> Library: rustls for every record (TLS 1.2)
//! ```
//!
//! rustls makes the handshake, checks certificates, derives keys and keeps session tickets. The records of TLS 1.3
//! (RFC 8446, section 5) are then sealed and opened here, with the ciphers of aws-lc: rustls copies every byte of a
//! payload twice when it arrives, and allocates memory for each record in both directions. [`records`] opens a record
//! in the buffer into which the socket was read, and seals it straight from the message into the buffer that the socket
//! is written from.

mod fault;
mod keys;
mod library;
mod outgoing;
mod records;
mod secured;
mod session;
mod shake;
mod unbuffered;

pub(crate) use fault::{Fault, refusal_in_words};
pub(crate) use outgoing::Outgoing;
pub(crate) use records::Opened;
pub(crate) use secured::Secured;
pub(crate) use session::Session;
pub(crate) use shake::{accept, connect};

#[cfg(test)]
mod tests;
