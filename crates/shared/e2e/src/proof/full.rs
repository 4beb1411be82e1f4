//! The exchange of two ends that have not met: each shows the controller's statement and signs with the key that the
//! statement names. One of them speaks first and sends an ML-KEM key, the other answers with a ciphertext for it.

use std::fmt;

use aws_lc_rs::kem::{Ciphertext, DecapsulationKey, EncapsulationKey, ML_KEM_768};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use bytes::Bytes;

use super::messages::{Full, Kind, unsigned};
use super::{
    AcceptedStatement, Agreed, ExchangeFacts, ProofError, Proved, ProvingEnd, hash, print,
};
use crate::ConnectionKeys;

/// The end that has spoken first in a full exchange, until the other one has proved itself.
pub struct First {
    kind: Kind,
    said: Bytes,
    secret: DecapsulationKey,
}

impl fmt::Debug for First {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("First").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl First {
    /// A dialer that speaks first, and its message, which is to be sealed.
    ///
    /// # Errors
    /// [`ProofError::Library`].
    pub fn of_dialer(
        facts: &ExchangeFacts<'_>,
        end: ProvingEnd<'_>,
    ) -> Result<(Self, Bytes), ProofError> {
        Self::new(Kind::Dialer, facts, end)
    }

    /// A host that speaks first, with its answer to the dial, and its message, which is to be sealed.
    ///
    /// # Errors
    /// [`ProofError::Library`].
    pub fn of_host(
        facts: &ExchangeFacts<'_>,
        end: ProvingEnd<'_>,
    ) -> Result<(Self, Bytes), ProofError> {
        Self::new(Kind::FirstHost, facts, end)
    }

    fn new(
        kind: Kind,
        facts: &ExchangeFacts<'_>,
        end: ProvingEnd<'_>,
    ) -> Result<(Self, Bytes), ProofError> {
        let secret = DecapsulationKey::generate(&ML_KEM_768)?;
        let sent = secret.encapsulation_key()?.key_bytes()?;
        let said = signed(kind, facts, end, sent.as_ref(), &[])?;
        Ok((Self { kind, said: said.clone(), secret }, said))
    }

    /// Takes the answer of the other end, which was opened, with the same facts and the keys of the agreement. `accepts`
    /// checks the controller's statement about that end.
    ///
    /// # Errors
    /// The other end has not proved itself: the connection has to be closed.
    pub fn take<P>(
        self,
        facts: &ExchangeFacts<'_>,
        keys: &ConnectionKeys,
        message: &[u8],
        accepts: impl FnOnce(&str) -> Result<AcceptedStatement<P>, String>,
    ) -> Result<Proved<P>, ProofError> {
        let full = Full::read(self.kind.answer(), message)?;
        let stated = full.check(facts, &hash(&[&self.said]), accepts)?;
        let secret = self.secret.decapsulate(Ciphertext::from(full.sent))?;
        let said = [&self.said, message];
        let agreed = Agreed::new(keys, self.kind.is_dialer(), secret.as_ref(), said)?;
        agreed.proved(agreed.memory(stated.peer)?)
    }
}

/// The end that answers in a full exchange.
#[derive(Debug, Clone, Copy)]
pub struct Second<'a> {
    /// The connection.
    pub facts: ExchangeFacts<'a>,
    /// This end.
    pub end: ProvingEnd<'a>,
    /// The keys of the agreement.
    pub keys: &'a ConnectionKeys,
}

impl Second<'_> {
    /// Takes the message of a dialer that spoke first, at the host. `accepts` checks the controller's statement about a
    /// dialer. The dialer is to be sent the message that is returned, under the keys of the agreement.
    ///
    /// # Errors
    /// The dialer has not proved itself: the connection has to be closed.
    pub fn hears_dialer<P>(
        &self,
        message: &[u8],
        accepts: impl FnOnce(&str) -> Result<AcceptedStatement<P>, String>,
    ) -> Result<(Proved<P>, Bytes), ProofError> {
        self.take(Kind::Dialer, message, accepts)
    }

    /// Takes the message of a host that spoke first, at the dialer. `accepts` checks the controller's statement about a
    /// host. The host is to be sent the message that is returned, under the keys of the agreement and before all else.
    ///
    /// # Errors
    /// The host has not proved itself: the connection has to be closed.
    pub fn hears_host<P>(
        &self,
        message: &[u8],
        accepts: impl FnOnce(&str) -> Result<AcceptedStatement<P>, String>,
    ) -> Result<(Proved<P>, Bytes), ProofError> {
        self.take(Kind::FirstHost, message, accepts)
    }

    fn take<P>(
        &self,
        first: Kind,
        message: &[u8],
        accepts: impl FnOnce(&str) -> Result<AcceptedStatement<P>, String>,
    ) -> Result<(Proved<P>, Bytes), ProofError> {
        let (facts, kind) = (&self.facts, first.answer());
        let full = Full::read(first, message)?;
        let stated = full.check(facts, &[], accepts)?;
        let theirs = EncapsulationKey::new(&ML_KEM_768, full.sent)
            .map_err(|_| ProofError::Form("its ML-KEM key is none"))?;
        let (sent, secret) = theirs.encapsulate()?;
        let said = signed(kind, facts, self.end, sent.as_ref(), &hash(&[message]))?;
        let agreed = Agreed::new(self.keys, kind.is_dialer(), secret.as_ref(), [message, &said])?;
        Ok((agreed.proved(agreed.memory(stated.peer)?)?, said))
    }
}

/// The message of an end that has heard this.
fn signed(
    kind: Kind,
    facts: &ExchangeFacts<'_>,
    end: ProvingEnd<'_>,
    sent: &[u8],
    heard: &[u8],
) -> Result<Bytes, ProofError> {
    let said = unsigned(kind, facts.circuit, end, sent);
    let signature = end.key.sign(&[kind.label(), &facts.hash(), heard, said.signed()])?;
    Ok(said.with(signature.as_ref()))
}

impl Full<'_> {
    /// Checks the statement, the key and the signature of a peer, which had heard this.
    fn check<P>(
        &self,
        facts: &ExchangeFacts<'_>,
        heard: &[u8],
        accepts: impl FnOnce(&str) -> Result<AcceptedStatement<P>, String>,
    ) -> Result<AcceptedStatement<P>, ProofError> {
        let stated = accepts(self.statement).map_err(ProofError::Statement)?;
        if stated.print != print(self.key) {
            return Err(ProofError::Key);
        }
        let signed = hash(&[self.kind.label(), &facts.hash(), heard, self.signed]);
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
