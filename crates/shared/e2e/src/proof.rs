//! Authenticated ends: proofs of who is at the other end of a sealed connection (docs/protocol/sdk.md 14.6).
//!
//! The agreement on keys ([`KeyPair`](crate::KeyPair)) keeps out who only listens. A router on the path that answers
//! both ends itself has the keys of both. Ends of weft therefore prove themselves to each other, before any byte of the
//! application:
//!
//! ```text
//!  dialer                                            host
//!    hint ───────────────────────────────────────────>      (with the dial)
//!    <── hint, fresh bytes, statement, ML-KEM key, signature    (with the answer: full)
//!    statement, ML-KEM ciphertext, signature ────────>      (and at once the application's data)
//!
//!    hint ───────────────────────────────────────────>      (brief: both have met before)
//!    <── hint, fresh bytes, name of the memory, MAC
//!    MAC ────────────────────────────────────────────>      (and at once the application's data)
//!
//!    hint ───────────────────────────────────────────>      (the dialer has forgotten the host, or is an older one)
//!    <──────────────────────────── hint, fresh bytes
//!    statement, ML-KEM key, signature ───────────────>
//!    <─────────────── statement, ML-KEM ciphertext, signature
//! ```
//!
//! A statement is the controller's word, signed by it: identity, session, service, role and the print of the end's
//! [`EndKey`]. Each signature and MAC covers the role, the service, the circuit, both keys of the agreement and the fresh
//! bytes, and a signature all that was said before: nothing that was recorded proves anything once more. Afterwards both directions
//! begin anew under keys that also depend on the ML-KEM secret, so that a recording is safe from a quantum computer; a
//! brief exchange takes that secret from the full one before it.
//!
//! This module is without I/O. The caller checks statements, and keeps the [`PeerMemory`] that a full exchange leaves, for no
//! longer than the statements of both ends are good.

mod brief;
mod full;
mod messages;
#[cfg(test)]
mod tests;

use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, Signature,
};
use aws_lc_rs::{digest, hkdf};
use bytes::Bytes;
use zeroize::Zeroizing;

pub use self::brief::Brief;
pub use self::full::{First, Second};
pub(crate) use self::messages::stated;
use crate::{ConnectionKeys, Header, Opener, PublicKey, Sealer, SessionKey};

/// What the marker of a dialer that proves itself has before its hint and [`ENDING`](crate::ending::ENDING).
pub const ABILITY: &str = "+auth";
/// What the marker has before [`ABILITY`] if the dialer hears a host that speaks first.
pub const HEARS: &str = "+first";
/// The bit in the 33rd byte of the public key of a host that proves itself.
pub const FLAG: u8 = 2;
/// The bit beside it of a host that speaks first.
pub const FIRST: u8 = 4;
/// Bytes of an end's public key: an uncompressed point of P-256.
pub const END_KEY: usize = 65;
/// Longest statement, in bytes.
pub const MAX_STATEMENT: usize = 4096;
/// Longest message of a proof, in bytes.
pub const MAX_PROOF: usize = 8192;

/// Bytes of a [`Hint`].
pub const HINT: usize = 16;
/// Bytes that a host makes anew for each connection.
pub const FRESH: usize = 16;
/// Bytes of a MAC.
pub const MAC: usize = 32;

/// Random bytes by which an end recognizes one that it has met. They prove nothing.
pub type Hint = [u8; HINT];

/// Bytes of a stream's key and its header.
const STREAM: usize = 32 + Header::LEN;
const SECRET: usize = 32;
const NAME: usize = 16;

/// Why a proof was not accepted, or could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The message has another form.
    #[error("the peer's proof has another form: {0}")]
    Form(&'static str),
    /// The statement was not accepted.
    #[error("the controller's statement about the peer is not accepted: {0}")]
    Statement(String),
    /// The peer shows another key than the one that its statement names.
    #[error("the peer's key is not the one that the controller names")]
    Key,
    /// The signature or the authenticator is wrong: somebody on the path is in between, or changed what was said.
    #[error("the peer's proof is wrong: somebody on the path is in between")]
    Forged,
    /// Both ends know different circuits.
    #[error("the peer is at the end of another circuit")]
    Circuit,
    /// The cryptographic library failed.
    #[error("the cryptographic library failed")]
    Library,
}

impl From<aws_lc_rs::error::Unspecified> for ProofError {
    fn from(_: aws_lc_rs::error::Unspecified) -> Self {
        Self::Library
    }
}

/// The key that proves an end, of P-256. It never leaves the program that made it.
pub struct EndKey(EcdsaKeyPair);

impl EndKey {
    /// A new random key.
    ///
    /// # Errors
    /// [`ProofError::Library`] without memory.
    pub fn generate() -> Result<Self, ProofError> {
        EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)
            .map(Self)
            .map_err(|_| ProofError::Library)
    }

    /// The public key, which the controller is told: [`END_KEY`] bytes.
    #[must_use]
    pub fn public(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    fn sign(&self, parts: &[&[u8]]) -> Result<Signature, ProofError> {
        Ok(self.0.sign(&SystemRandom::new(), &hash(parts))?)
    }
}

impl fmt::Debug for EndKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndKey(..)")
    }
}

/// The print of an end's public key, as statements name it: its SHA-256.
#[must_use]
pub fn print(key: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, key).as_ref());
    bytes
}

/// An end with all that proves it.
#[derive(Debug, Clone, Copy)]
pub struct ProvingEnd<'a> {
    /// Its key.
    pub key: &'a EndKey,
    /// The controller's statement about it.
    pub statement: &'a str,
}

/// What both ends know of their connection.
#[derive(Debug, Clone, Copy)]
pub struct ExchangeFacts<'a> {
    /// The id of the service.
    pub service: &'a str,
    /// The id of the circuit; empty if the router did not tell it.
    pub circuit: &'a str,
    /// The dialer's key of the agreement.
    pub dialer: PublicKey,
    /// The host's key of the agreement.
    pub host: PublicKey,
    /// The host's fresh bytes.
    pub fresh: [u8; FRESH],
}

impl ExchangeFacts<'_> {
    fn hash(&self) -> [u8; 32] {
        let keys = [self.dialer.as_bytes(), self.host.as_bytes()];
        hash(&[self.service.as_bytes(), keys[0], keys[1], &self.fresh])
    }
}

/// What a host that proves itself says with its answer to a dial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// The bytes by which the dialer recognizes the host.
    pub hint: Hint,
    /// The host's fresh bytes.
    pub fresh: [u8; FRESH],
    /// Its proof, if it speaks first.
    pub proof: Opening,
}

/// The proof of a host in its answer to a dial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// None: the dialer speaks first.
    None,
    /// The brief one of a host that has met the dialer before.
    Met(Met),
    /// The full one, sealed.
    Full(Bytes),
}

/// The proof of a host that has met the dialer before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    /// The name of the memory.
    pub name: [u8; NAME],
    /// The MAC.
    pub mac: [u8; MAC],
}

/// What a statement, which was accepted, says of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedStatement<P> {
    /// The print of the end's key.
    pub print: [u8; 32],
    /// The end, in the words of the caller.
    pub peer: P,
}

/// What is left of a full exchange: it proves the same ends to each other once more.
#[derive(Clone)]
pub struct PeerMemory<P> {
    /// The name under which both ends keep it.
    pub name: [u8; NAME],
    /// The other end.
    pub peer: P,
    secret: Zeroizing<[u8; SECRET]>,
}

impl<P: fmt::Debug> fmt::Debug for PeerMemory<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// A peer that has proved itself.
#[derive(Debug)]
pub struct Proved<P> {
    /// What a later connection between these ends is proved by.
    pub memory: PeerMemory<P>,
    /// True if the ends had met before.
    pub again: bool,
    /// Seals all that follows.
    pub sealer: Sealer,
    /// Opens all that follows.
    pub opener: Opener,
}

/// The secrets that follow from a full exchange.
struct Agreed {
    prk: hkdf::Prk,
    is_dialer: bool,
}

impl Agreed {
    /// From the keys of the agreement, the secret of ML-KEM, and both messages, the first one first.
    fn new(
        keys: &ConnectionKeys,
        is_dialer: bool,
        secret: &[u8],
        said: [&[u8]; 2],
    ) -> Result<Self, ProofError> {
        let all = behind_keys(keys, is_dialer, secret);
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &hash(&said));
        Ok(Self { prk: salt.extract(&all), is_dialer })
    }

    fn expand<const N: usize>(&self, label: &[u8]) -> Result<Zeroizing<[u8; N]>, ProofError> {
        expand(&self.prk, label)
    }

    /// What both ends remember.
    fn memory<P>(&self, peer: P) -> Result<PeerMemory<P>, ProofError> {
        let (name, secret) = (self.expand(b"memory name")?, self.expand(b"memory secret")?);
        Ok(PeerMemory { name: *name, peer, secret })
    }

    fn proved<P>(&self, memory: PeerMemory<P>) -> Result<Proved<P>, ProofError> {
        let to_host = self.expand::<STREAM>(b"to the host")?;
        let to_dialer = self.expand::<STREAM>(b"to the dialer")?;
        let (sealer, opener) = streams(self.is_dialer, &to_host, &to_dialer);
        Ok(Proved { memory, again: false, sealer, opener })
    }
}

/// Both keys of the agreement, the one towards the host first, and the bytes that follow.
fn behind_keys(keys: &ConnectionKeys, is_dialer: bool, rest: &[u8]) -> Zeroizing<Vec<u8>> {
    let (to_host, to_dialer) = if is_dialer { (&keys.tx, &keys.rx) } else { (&keys.rx, &keys.tx) };
    Zeroizing::new([&to_host.as_bytes()[..], to_dialer.as_bytes(), rest].concat())
}

fn expand<const N: usize>(prk: &hkdf::Prk, label: &[u8]) -> Result<Zeroizing<[u8; N]>, ProofError> {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut bytes = Zeroizing::new([0; N]);
    prk.expand(&[label], Length(N))?.fill(&mut *bytes)?;
    Ok(bytes)
}

/// Both streams of an end, from their keys and headers.
fn streams(is_dialer: bool, to_host: &[u8; STREAM], to_dialer: &[u8; STREAM]) -> (Sealer, Opener) {
    let read = |bytes: &[u8; STREAM]| {
        let (mut key, mut header) = ([0; 32], [0; Header::LEN]);
        let (first, rest) = bytes.split_at(32);
        key.copy_from_slice(first);
        header.copy_from_slice(rest);
        (SessionKey::from(key), Header::from(header))
    };
    let (own, other) = if is_dialer { (to_host, to_dialer) } else { (to_dialer, to_host) };
    let ((tx, tx_header), (rx, rx_header)) = (read(own), read(other));
    (Sealer::with_header(&tx, &tx_header), Opener::new(&rx, &rx_header))
}

/// SHA-256 over parts, each behind its length.
fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut bytes = [0; 32];
    bytes.copy_from_slice(context.finish().as_ref());
    bytes
}
