//! End-to-end encryption of application data (docs/protocol/sdk.md 14), as OpenZiti's SDKs do it.
//!
//! The dialer and the host each have a [`KeyPair`]; the public keys travel with the dial and the
//! bind. From both, [`KeyPair::client_session`] (dialer) and [`KeyPair::server_session`] (host)
//! derive one key per direction. Each direction is then a libsodium secretstream: first its 24-byte
//! [`Header`] as a payload of its own, then one sealed message per payload.
//!
//! ```text
//!  dialer: KeyPair ── public key, with the dial ──> host
//!  dialer <── public key, with the bind ── KeyPair: host
//!  data ──> Sealer (tx) ── Header, then sealed messages ──> Opener (rx) ──> data
//! ```
//!
//! ```
//! use weft_e2e::{KeyPair, Opener, Sealer, Tag};
//!
//! let mut rng = rand::rng();
//! let (dialer, host) = (KeyPair::generate(&mut rng)?, KeyPair::generate(&mut rng)?);
//! let dialer_session = dialer.client_session(&host.public_key())?;
//! let host_session = host.server_session(&dialer.public_key())?;
//!
//! let (mut sealer, header) = Sealer::new(&dialer_session.tx, &mut rng);
//! let mut opener = Opener::new(&host_session.rx, &header);
//! let sealed = sealer.seal(b"hello", Tag::Message)?;
//! assert_eq!(opener.open(&sealed)?.plaintext, &b"hello"[..]);
//! # Ok::<(), weft_e2e::Error>(())
//! ```
//!
//! Rules that callers keep:
//!
//! - An empty payload (a half-close) is neither sealed nor opened.
//! - The tag is [`Tag::Message`], the only one that the Go SDK knows, unless both ends seal their
//!   end ([`ending`]).
//! - A message that does not open ends the connection.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod cipher;
pub mod ending;
pub mod ends;
mod kx;
pub mod proof;
mod stream;

pub use kx::{ConnectionKeys, KeyPair, PublicKey, SessionKey};
pub use stream::{Header, Opened, Opener, Sealer, Tag};

/// Bytes that sealing adds to a message: the tag and the authenticator.
pub const OVERHEAD: usize = 17;

/// Longest message that is sealed or opened, in bytes. It is far above any payload, and so short
/// that block counters never wrap.
pub const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// Why sealing, opening or the agreement on keys failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A public key has another length than 32 bytes.
    #[error("a public key has 32 bytes, the peer's has {0}")]
    KeyLength(usize),
    /// A public key from which no shared secret follows: the peer is broken or malicious.
    #[error("the peer's public key is of low order and gives no secret")]
    WeakKey,
    /// The first payload of a direction has another length than a stream header.
    #[error("an encrypted stream starts with 24 bytes of header, the peer sent {0}")]
    HeaderLength(usize),
    /// A message longer than [`MAX_MESSAGE`].
    #[error("a message of {0} bytes is longer than the {MAX_MESSAGE} allowed")]
    TooLong(usize),
    /// A sealed message shorter than its overhead.
    #[error("a sealed message has at least {OVERHEAD} bytes, the peer sent {0}")]
    TooShort(usize),
    /// A message came after the sealed end of the stream.
    #[error("a message came after the sealed end of the stream")]
    BehindEnd,
    /// The authenticator does not match: another key, another order, or changed on the way.
    #[error("a sealed message failed authentication")]
    Forged,
    /// The cipher failed.
    #[error("the cipher failed")]
    Cipher,
}
