//! The exchange of two ends that have not met: each shows the controller's statement and signs with the key that the
//! statement names.

use std::fmt;

use aws_lc_rs::{
    kem::{Ciphertext, DecapsulationKey, EncapsulationKey, ML_KEM_768},
    signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey},
};
use bytes::Bytes;

use super::messages::{Full, Kind, unsigned};
use super::{Agreed, DIALER, End, Facts, HOST, ProofError, Proved, Stated, hash, print};
use crate::ConnectionKeys;

/// The dialer in a full exchange, until the host has proved itself.
pub struct Dialer<'a> {
    facts: Facts<'a>,
    keys: &'a ConnectionKeys,
    said: Bytes,
    secret: DecapsulationKey,
}

impl fmt::Debug for Dialer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl<'a> Dialer<'a> {
    /// A dialer, and its sealed message.
    ///
    /// # Errors
    /// [`ProofError::Library`].
    pub fn new(
        facts: Facts<'a>,
        end: End<'a>,
        keys: &'a ConnectionKeys,
    ) -> Result<(Self, Bytes), ProofError> {
        let secret = DecapsulationKey::generate(&ML_KEM_768)?;
        let sent = secret.encapsulation_key()?.key_bytes()?;
        let said = unsigned(Kind::Dialer, facts.circuit, end, sent.as_ref());
        let signature = end.key.sign(&[DIALER, &facts.hash(), &[], said.signed()])?;
        let said = said.with(signature.as_ref());
        Ok((Self { facts, keys, said: said.clone(), secret }, said))
    }

    /// Takes the sealed message of the host. `accepts` checks the controller's statement about a host.
    ///
    /// # Errors
    /// The host has not proved itself: the connection has to be closed.
    pub fn take<P>(
        self,
        message: &[u8],
        accepts: impl FnOnce(&str) -> Result<Stated<P>, String>,
    ) -> Result<Proved<P>, ProofError> {
        let full = Full::read(Kind::Host, message)?;
        let stated = full.check(&self.facts, HOST, &hash(&[&self.said]), accepts)?;
        let secret = self.secret.decapsulate(Ciphertext::from(full.sent))?;
        let agreed = Agreed::new(self.keys, true, secret.as_ref(), [&self.said, message])?;
        agreed.proved(agreed.memory(stated.peer)?)
    }
}

/// The host in a full exchange, until the dialer has proved itself.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a> {
    /// The connection.
    pub facts: Facts<'a>,
    /// The host.
    pub end: End<'a>,
    /// The keys of the agreement.
    pub keys: &'a ConnectionKeys,
}

impl Host<'_> {
    /// Takes the sealed message of the dialer. `accepts` checks the controller's statement about a dialer. The dialer is
    /// to be sent the message that is returned, under the keys of the agreement.
    ///
    /// # Errors
    /// The dialer has not proved itself: the connection has to be closed.
    pub fn take<P>(
        &self,
        message: &[u8],
        accepts: impl FnOnce(&str) -> Result<Stated<P>, String>,
    ) -> Result<(Proved<P>, Bytes), ProofError> {
        let facts = &self.facts;
        let full = Full::read(Kind::Dialer, message)?;
        let stated = full.check(facts, DIALER, &[], accepts)?;
        let theirs = EncapsulationKey::new(&ML_KEM_768, full.sent)
            .map_err(|_| ProofError::Form("its ML-KEM key is none"))?;
        let (sent, secret) = theirs.encapsulate()?;
        let said = unsigned(Kind::Host, facts.circuit, self.end, sent.as_ref());
        let heard = hash(&[message]);
        let signature = self.end.key.sign(&[HOST, &facts.hash(), &heard, said.signed()])?;
        let said = said.with(signature.as_ref());
        let agreed = Agreed::new(self.keys, false, secret.as_ref(), [message, &said])?;
        Ok((agreed.proved(agreed.memory(stated.peer)?)?, said))
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
        let stated = accepts(self.statement).map_err(ProofError::Statement)?;
        if stated.print != print(self.key) {
            return Err(ProofError::Key);
        }
        let signed = hash(&[role, &facts.hash(), heard, self.signed]);
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key)
            .verify(&signed, self.signature)
            .map_err(|_| ProofError::Forged)?;
        same_circuit(self.circuit, facts.circuit)?;
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
