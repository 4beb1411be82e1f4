//! The exchange of two ends that have met before, by MACs under the secret that both remember. The host's comes with its
//! answer to the dial, and the dialer's before its first data, so that nobody waits for a proof.

use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac};
use bytes::Bytes;

use super::{Agreed, DIALER, Facts, HOST, MAC, Memory, Met, ProofError, Proved, SECRET, hash};
use crate::ConnectionKeys;

/// A connection of two ends that have met before, whose routers have told both of them the circuit.
#[derive(Debug)]
pub struct Brief<'a, P> {
    /// The connection.
    pub facts: Facts<'a>,
    /// The keys of the agreement.
    pub keys: &'a ConnectionKeys,
    /// What this end remembers of the other.
    pub memory: Memory<P>,
}

impl<P> Brief<'_, P> {
    /// The host's proof.
    #[must_use]
    pub fn greets(&self) -> Met {
        Met { name: self.memory.name, mac: self.host(&self.facts.hash()) }
    }

    /// Takes the proof of the host, at the dialer. The host is to be sent the message that is returned, as it is, and
    /// before all else.
    ///
    /// # Errors
    /// The host has not proved itself: the connection has to be closed.
    pub fn dials(self, met: &Met) -> Result<(Proved<P>, Bytes), ProofError> {
        let facts = self.facts.hash();
        verify_slices_are_equal(&self.host(&facts), &met.mac).map_err(|_| ProofError::Forged)?;
        let said = self.dialer(&facts, &met.mac);
        Ok((self.proved(true, met, &said)?, Bytes::copy_from_slice(&said)))
    }

    /// Takes the proof of the dialer, at the host that has sent its own.
    ///
    /// # Errors
    /// The dialer has not proved itself: the connection has to be closed.
    pub fn hosts(self, met: &Met, said: &[u8]) -> Result<Proved<P>, ProofError> {
        let own = self.dialer(&self.facts.hash(), &met.mac);
        verify_slices_are_equal(&own, said).map_err(|_| ProofError::Forged)?;
        self.proved(false, met, &own)
    }

    fn proved(self, is_dialer: bool, met: &Met, said: &[u8]) -> Result<Proved<P>, ProofError> {
        let secret = &self.memory.secret[..];
        let agreed = Agreed::new(self.keys, is_dialer, secret, [&met.mac, said])?;
        agreed.proved(self.memory, true)
    }

    fn host(&self, facts: &[u8; 32]) -> [u8; MAC] {
        mac(&self.memory.secret, &[HOST, facts, self.facts.circuit.as_bytes()])
    }

    fn dialer(&self, facts: &[u8; 32], heard: &[u8; MAC]) -> [u8; MAC] {
        mac(&self.memory.secret, &[DIALER, facts, self.facts.circuit.as_bytes(), heard])
    }
}

/// HMAC-SHA-256 over the hash of parts.
fn mac(secret: &[u8; SECRET], parts: &[&[u8]]) -> [u8; MAC] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), &hash(parts));
    let mut bytes = [0; MAC];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}
