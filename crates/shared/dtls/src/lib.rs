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
//! of the handshake up to 128 KiB, and the datagrams to be sent. A record that cannot be decoded or
//! authenticated is dropped without an answer. A message that is malformed, or does not belong to the
//! state of the handshake, ends the handshake with an alert.
//!
//! ```
//! use std::{sync::Arc, time::Instant};
//! use rustls::{crypto::aws_lc_rs::default_provider, sign::CertifiedKey};
//! use weft_dtls::{Connection, Cookies, DtlsSettings, HelloVerdict};
//!
//! # let key = rcgen::KeyPair::generate()?;
//! # let certificate = rcgen::CertificateParams::new(vec!["r1".to_owned()])?.self_signed(&key)?;
//! # let der = rustls_pki_types::PrivateKeyDer::try_from(key.serialize_der())?;
//! # let signer = default_provider().key_provider.load_private_key(der)?;
//! # let certified = CertifiedKey::new(vec![certificate.der().clone()], signer);
//! let settings = DtlsSettings {
//!     certified: vec![Arc::new(certified)],
//!     judge: Arc::new(|_chain| Ok(())), // a router asks whether it trusts the chain
//!     provider: Arc::new(default_provider()),
//!     server_name: None,
//! };
//! let (now, from) = (Instant::now(), "192.0.2.1:4000".parse()?);
//! let mut cookies = Cookies::new(now)?;
//! let mut client = Connection::client(settings.clone(), now)?;
//! let mut server: Option<Connection> = None;
//! while !client.is_established() {
//!     while let Some(datagram) = client.datagram() {
//!         match &mut server {
//!             Some(server) => server.input(&datagram, now)?,
//!             None => match cookies.check(&datagram, from, now) {
//!                 HelloVerdict::Ignore => {}
//!                 HelloVerdict::Answer(with_cookie) => client.input(&with_cookie, now)?,
//!                 HelloVerdict::Begin(first) => {
//!                     server = Some(Connection::server(settings.clone(), first, now)?);
//!                 }
//!             },
//!         }
//!     }
//!     while let Some(datagram) = server.as_mut().and_then(Connection::datagram) {
//!         client.input(&datagram, now)?;
//!     }
//! }
//! let mut server = server.expect("the client is established");
//! server.input(&client.seal(b"hello")?, now)?;
//! assert_eq!(server.take_data().as_deref(), Some(&b"hello"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
pub use cookie::{Cookies, FirstHello, HelloVerdict};
pub use error::Error;
pub use record::OVERHEAD;
pub use shared::{DtlsSettings, Judge};

#[cfg(test)]
mod tests;
