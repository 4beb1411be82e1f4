//! DTLS 1.2 between routers, without sockets and clocks of its own (RFC 6347, RFC 5246).
//!
//! One profile, the one that links need: both sides present certificates, the keys of a connection are
//! ephemeral (X25519, P-256 or P-384), records are sealed with AES-GCM, and the extended master secret
//! (RFC 7627) is required. There is no resumption, no renegotiation, and no other version. Every
//! primitive is that of aws-lc-rs, every certificate and its signature is judged by webpki; this crate
//! has the messages and their order.
//!
//! ```text
//! datagram of a stranger -> Cookies::check: a cookie, or nothing; no memory before the address is proved
//!                             -> Connection::server (one that returned its cookie)
//! Connection::client -> input, due, datagrams -> established -> seal, take_data
//! ```
//!
//! A [`Connection`] holds a bounded amount: 64 KiB of messages that are not complete, the messages
//! of the handshake up to 128 KiB, and the datagrams to be sent. A datagram that cannot be decoded
//! or authenticated is dropped without an answer.

mod assembly;
mod client;
mod connection;
mod cookie;

mod error;
mod flight;
mod messages;
mod reader;
mod record;
mod replay;
mod secrets;
mod server;
mod shared;
mod suite;

pub use connection::Connection;
pub use cookie::{Cookies, FirstHello, Verdict};
pub use error::Error;
pub use record::{OVERHEAD, looks_like_record};
pub use shared::{Judge, Settings};

#[cfg(test)]
mod tests;
