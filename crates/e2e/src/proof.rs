//! Authenticated ends: proofs of who is at the other end of a sealed connection (docs/protocol/sdk.md 14.6).
//!
//! The agreement on keys ([`KeyPair`](crate::KeyPair)) keeps out who only listens. A router on the path that answers
//! both ends itself has the keys of both. Ends of weft therefore prove themselves to each other, before any byte of the
//! application, by the first sealed messages:
//!
//! ```text
//!  dialer                                            host
//!    statement, ML-KEM key, signature ───────────────>      (full)
//!    <─────────────── statement, ML-KEM ciphertext, signature
//!
//!    name of the memory, MAC ────────────────────────>      (brief: both have met before)
//!    <──────────────────────────────────────────── MAC
//!    <──────────────────────────────────────── unknown      (then full)
//! ```
//!
//! A statement is the controller's word, signed by it: identity, session, service, role and the print of the end's
//! [`EndKey`]. Each signature covers the role, the service, the circuit, both keys of the agreement, and all that was
//! said before. Afterwards both directions begin anew under keys that also depend on the ML-KEM secret, so that a
//! recording is safe from a quantum computer; a brief exchange takes that secret from the full one before it.
//!
//! This module is without I/O. The caller checks statements, and keeps the [`Memory`] that a full exchange leaves, for no
//! longer than the statements of both ends are good.

mod messages;
#[cfg(test)]
mod tests;

use std::fmt;

use aws_lc_rs::{
    constant_time::verify_slices_are_equal,
    digest, hkdf, hmac,
    kem::{Ciphertext, DecapsulationKey, EncapsulationKey, ML_KEM_768},
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
        UnparsedPublicKey,
    },
};
use bytes::Bytes;
use zeroize::Zeroizing;

use self::messages::{Full, Message};
use crate::{ConnectionKeys, Header, Opener, PublicKey, Sealer, SessionKey};

/// What the marker of a dialer that proves itself has before [`ENDING`](crate::ending::ENDING).
pub const ABILITY: &str = "+auth";
/// The bit in the 33rd byte of the public key of a host that proves itself.
pub const FLAG: u8 = 2;
/// Bytes of an end's public key: an uncompressed point of P-256.
pub const END_KEY: usize = 65;
/// Longest statement, in bytes.
pub const MAX_STATEMENT: usize = 4096;
/// Longest message of a proof, in bytes.
pub const MAX_PROOF: usize = 8192;

const SECRET: usize = 32;
const NAME: usize = 16;
const DIALER: &[u8] = b"weft end proof 1: dialer";
const HOST: &[u8] = b"weft end proof 1: host";

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

    fn sign(&self, parts: &[&[u8]]) -> Result<Vec<u8>, ProofError> {
        let signed = self.0.sign(&SystemRandom::new(), &hash(parts))?;
        Ok(signed.as_ref().to_vec())
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
pub struct End<'a> {
    /// Its key.
    pub key: &'a EndKey,
    /// The controller's statement about it.
    pub statement: &'a str,
}

/// What both ends know of their connection.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The id of the service.
    pub service: &'a str,
    /// The id of the circuit; empty if the router did not tell it.
    pub circuit: &'a str,
    /// The dialer's key of the agreement.
    pub dialer: PublicKey,
    /// The host's key of the agreement.
    pub host: PublicKey,
}

impl Facts<'_> {
    fn hash(&self) -> [u8; 32] {
        let keys = [self.dialer.as_bytes(), self.host.as_bytes()];
        hash(&[self.service.as_bytes(), keys[0], keys[1]])
    }
}

/// What a statement, which was accepted, says of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stated<P> {
    /// The print of the end's key.
    pub print: [u8; 32],
    /// The end, in the words of the caller.
    pub peer: P,
}

/// What is left of a full exchange: it proves the same ends to each other once more.
#[derive(Clone)]
pub struct Memory<P> {
    /// The name under which both ends keep it.
    pub name: [u8; NAME],
    /// The other end.
    pub peer: P,
    secret: Zeroizing<[u8; SECRET]>,
}

impl<P: fmt::Debug> fmt::Debug for Memory<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// A peer that has proved itself.
#[derive(Debug)]
pub struct Proved<P> {
    /// What a later connection between these ends is proved by.
    pub memory: Memory<P>,
    /// True if the ends had met before.
    pub again: bool,
    /// Seals all that follows.
    pub sealer: Sealer,
    /// Opens all that follows.
    pub opener: Opener,
}

/// The dialer, until the host has proved itself.
#[derive(Debug)]
pub struct Dialer<'a, P> {
    facts: Facts<'a>,
    end: End<'a>,
    keys: &'a ConnectionKeys,
    said: Bytes,
    waits: Waits<P>,
}

enum Waits<P> {
    Full(Box<DecapsulationKey>),
    Brief(Memory<P>),
}

impl<P> fmt::Debug for Waits<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full",
            Self::Brief(_) => "Brief",
        })
    }
}

/// The dialer after a message of the host.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum AtDialer<'a, P> {
    /// The host has proved itself.
    Proved(Proved<P>),
    /// The host has forgotten that both have met: it is to be sent the message.
    Again(Dialer<'a, P>, Bytes),
}

impl<'a, P: Clone> Dialer<'a, P> {
    /// A dialer, and its first sealed message. With a memory the exchange is brief.
    ///
    /// # Errors
    /// [`ProofError::Library`].
    pub fn new(
        facts: Facts<'a>,
        end: End<'a>,
        keys: &'a ConnectionKeys,
        memory: Option<Memory<P>>,
    ) -> Result<(Self, Bytes), ProofError> {
        let Some(memory) = memory else { return Self::full(facts, end, keys) };
        let name = memory.name;
        let mac = mac(&memory.secret, &[DIALER, &facts.hash(), facts.circuit.as_bytes()]);
        let circuit = facts.circuit.to_owned();
        let said = Message::BriefDialer { circuit, name, mac }.to_bytes();
        Ok((Self { facts, end, keys, said: said.clone(), waits: Waits::Brief(memory) }, said))
    }

    fn full(
        facts: Facts<'a>,
        end: End<'a>,
        keys: &'a ConnectionKeys,
    ) -> Result<(Self, Bytes), ProofError> {
        let secret = DecapsulationKey::generate(&ML_KEM_768)?;
        let sent = secret.encapsulation_key()?.key_bytes()?;
        let full = Full::unsigned(facts.circuit, end, sent.as_ref());
        let signature = end.key.sign(&[DIALER, &facts.hash(), &[], &full.signed()])?;
        let said = Message::FullDialer(full.with(signature)).to_bytes();
        let waits = Waits::Full(Box::new(secret));
        Ok((Self { facts, end, keys, said: said.clone(), waits }, said))
    }

    /// Takes a sealed message of the host. `accepts` checks the controller's statement about a host.
    ///
    /// # Errors
    /// The host has not proved itself: the connection has to be closed.
    pub fn take(
        self,
        message: &[u8],
        accepts: impl FnOnce(&str) -> Result<Stated<P>, String>,
    ) -> Result<AtDialer<'a, P>, ProofError> {
        let (facts, heard) = (self.facts, Message::read(message)?);
        match (self.waits, heard) {
            (Waits::Brief(_), Message::Unknown) => {
                let (dialer, said) = Self::full(facts, self.end, self.keys)?;
                Ok(AtDialer::Again(dialer, said))
            }
            (Waits::Brief(memory), Message::BriefHost { mac: theirs }) => {
                let own = mac(&memory.secret, &[HOST, &facts.hash(), &hash(&[&self.said])]);
                verify_slices_are_equal(&own, &theirs).map_err(|_| ProofError::Forged)?;
                let secret = memory.secret.clone();
                let agreed = Agreed::new(self.keys, true, &secret[..], [&self.said, message])?;
                Ok(AtDialer::Proved(agreed.proved(memory, true)?))
            }
            (Waits::Full(own), Message::FullHost(full)) => {
                let said = hash(&[&self.said]);
                let stated = full.check(&facts, HOST, &said, accepts)?;
                let secret = own.decapsulate(Ciphertext::from(&full.sent[..]))?;
                let agreed = Agreed::new(self.keys, true, secret.as_ref(), [&self.said, message])?;
                let memory = agreed.memory(stated.peer)?;
                Ok(AtDialer::Proved(agreed.proved(memory, false)?))
            }
            _ => Err(ProofError::Form("it does not answer what was said")),
        }
    }
}

/// The host, until the dialer has proved itself.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    /// The connection.
    pub facts: Facts<'a>,
    /// The host.
    pub end: End<'a>,
    /// The keys of the agreement.
    pub keys: &'a ConnectionKeys,
}

/// The host after a message of the dialer; in both cases the dialer is to be sent the message, under the keys of the
/// agreement.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum AtHost<P> {
    /// The dialer has proved itself.
    Proved(Proved<P>, Bytes),
    /// The dialer relies on a memory that is gone. Its next message is to be taken.
    Again(Bytes),
}

impl Host<'_> {
    /// Takes a sealed message of the dialer. `accepts` checks the controller's statement about a dialer, and `recalls`
    /// finds the memory of this name.
    ///
    /// # Errors
    /// The dialer has not proved itself: the connection has to be closed.
    pub fn take<P>(
        &self,
        message: &[u8],
        accepts: impl FnOnce(&str) -> Result<Stated<P>, String>,
        recalls: impl FnOnce(&[u8; NAME]) -> Option<Memory<P>>,
    ) -> Result<AtHost<P>, ProofError> {
        let facts = &self.facts;
        match Message::read(message)? {
            Message::BriefDialer { circuit, name, mac: theirs } => {
                let Some(memory) = recalls(&name) else {
                    return Ok(AtHost::Again(Message::Unknown.to_bytes()));
                };
                let own = mac(&memory.secret, &[DIALER, &facts.hash(), circuit.as_bytes()]);
                verify_slices_are_equal(&own, &theirs).map_err(|_| ProofError::Forged)?;
                same_circuit(&circuit, facts.circuit)?;
                let own = mac(&memory.secret, &[HOST, &facts.hash(), &hash(&[message])]);
                let said = Message::BriefHost { mac: own }.to_bytes();
                let secret = memory.secret.clone();
                let agreed = Agreed::new(self.keys, false, &secret[..], [message, &said])?;
                Ok(AtHost::Proved(agreed.proved(memory, true)?, said))
            }
            Message::FullDialer(full) => {
                let stated = full.check(facts, DIALER, &[], accepts)?;
                let theirs = EncapsulationKey::new(&ML_KEM_768, &full.sent)
                    .map_err(|_| ProofError::Form("its ML-KEM key is none"))?;
                let (sent, secret) = theirs.encapsulate()?;
                let own = Full::unsigned(facts.circuit, self.end, sent.as_ref());
                let heard = hash(&[message]);
                let signed = own.signed();
                let signature = self.end.key.sign(&[HOST, &facts.hash(), &heard, &signed])?;
                let said = Message::FullHost(own.with(signature)).to_bytes();
                let agreed = Agreed::new(self.keys, false, secret.as_ref(), [message, &said])?;
                let memory = agreed.memory(stated.peer)?;
                Ok(AtHost::Proved(agreed.proved(memory, false)?, said))
            }
            _ => Err(ProofError::Form("it is not a dialer's")),
        }
    }
}

impl Full<'_> {
    /// Checks the statement, the key and the signature of a peer with this role, which had heard this.
    fn check<P>(
        &self,
        facts: &Facts<'_>,
        role: &[u8],
        heard: &[u8],
        accepts: impl FnOnce(&str) -> Result<Stated<P>, String>,
    ) -> Result<Stated<P>, ProofError> {
        let stated = accepts(&self.statement).map_err(ProofError::Statement)?;
        if stated.print != print(&self.key) {
            return Err(ProofError::Key);
        }
        let signed = hash(&[role, &facts.hash(), heard, &self.signed()]);
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.key)
            .verify(&signed, &self.signature)
            .map_err(|_| ProofError::Forged)?;
        same_circuit(&self.circuit, facts.circuit)?;
        Ok(stated)
    }
}

/// Checks that both ends know the same circuit, if both know one: old routers do not tell it.
fn same_circuit(theirs: &str, own: &str) -> Result<(), ProofError> {
    match theirs == own || theirs.is_empty() || own.is_empty() {
        true => Ok(()),
        false => Err(ProofError::Circuit),
    }
}

/// The secrets that follow from an exchange.
struct Agreed {
    prk: hkdf::Prk,
    is_dialer: bool,
}

impl Agreed {
    /// From the keys of the agreement, the secret of ML-KEM or of a memory, and both messages.
    fn new(
        keys: &ConnectionKeys,
        is_dialer: bool,
        secret: &[u8],
        said: [&[u8]; 2],
    ) -> Result<Self, ProofError> {
        let (to_host, to_dialer) =
            if is_dialer { (&keys.tx, &keys.rx) } else { (&keys.rx, &keys.tx) };
        let parts = [&to_host.as_bytes()[..], to_dialer.as_bytes(), secret];
        let all = Zeroizing::new(parts.concat());
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &hash(&said));
        Ok(Self { prk: salt.extract(&all), is_dialer })
    }

    fn expand<const N: usize>(&self, label: &[u8]) -> Result<Zeroizing<[u8; N]>, ProofError> {
        struct Length(usize);
        impl hkdf::KeyType for Length {
            fn len(&self) -> usize {
                self.0
            }
        }
        let mut bytes = Zeroizing::new([0; N]);
        self.prk.expand(&[label], Length(N))?.fill(&mut *bytes)?;
        Ok(bytes)
    }

    /// What both ends remember.
    fn memory<P>(&self, peer: P) -> Result<Memory<P>, ProofError> {
        let (name, secret) = (self.expand(b"memory name")?, self.expand(b"memory secret")?);
        Ok(Memory { name: *name, peer, secret })
    }

    fn proved<P>(&self, memory: Memory<P>, again: bool) -> Result<Proved<P>, ProofError> {
        let stream = |label: &[u8]| {
            let both = self.expand::<{ 32 + Header::LEN }>(label)?;
            let (key, header) = both.split_at(32);
            let key: [u8; 32] = key.try_into().map_err(|_| ProofError::Library)?;
            let header = Header::try_from(header).map_err(|_| ProofError::Library)?;
            Ok::<_, ProofError>((SessionKey::from(key), header))
        };
        let (own, other): (&[u8], &[u8]) = match self.is_dialer {
            true => (b"to the host", b"to the dialer"),
            false => (b"to the dialer", b"to the host"),
        };
        let ((tx, tx_header), (rx, rx_header)) = (stream(own)?, stream(other)?);
        Ok(Proved {
            memory,
            again,
            sealer: Sealer::with_header(&tx, &tx_header),
            opener: Opener::new(&rx, &rx_header),
        })
    }
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

/// HMAC-SHA-256 over the hash of parts.
fn mac(secret: &[u8; SECRET], parts: &[&[u8]]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), &hash(parts));
    let mut bytes = [0; 32];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}
