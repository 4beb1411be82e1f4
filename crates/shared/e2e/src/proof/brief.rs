//! The exchange of two ends that have met before, by MACs that follow from the secret that both remember. The host's comes
//! with its answer to the dial, and the dialer's before its first data, so that nobody waits for a proof.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hkdf;
use bytes::Bytes;
use zeroize::Zeroizing;

use super::{
    ExchangeFacts, MAC, Met, PeerMemory, ProofError, Proved, STREAM, behind_keys, expand, hash,
    streams,
};
use crate::ConnectionKeys;

const LABEL: &[u8] = b"weft end proof 2: met";

/// A connection of two ends that have met before, whose routers have told both of them the circuit.
pub struct Brief<P> {
    is_dialer: bool,
    memory: PeerMemory<P>,
    /// The MAC of the host and that of the dialer, then the streams towards the host and towards the dialer.
    secrets: Zeroizing<[u8; ALL]>,
}

const ALL: usize = 2 * MAC + 2 * STREAM;

impl<P: fmt::Debug> fmt::Debug for Brief<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Brief").field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl<P> Brief<P> {
    /// The connection of a dialer, from the keys of the agreement and what it remembers of the host.
    ///
    /// # Errors
    /// [`ProofError::Library`].
    pub fn of_dialer(
        facts: &ExchangeFacts<'_>,
        keys: &ConnectionKeys,
        memory: PeerMemory<P>,
    ) -> Result<Self, ProofError> {
        Self::new(facts, keys, true, memory)
    }

    /// The connection of a host, from the keys of the agreement and what it remembers of the dialer.
    ///
    /// # Errors
    /// [`ProofError::Library`].
    pub fn of_host(
        facts: &ExchangeFacts<'_>,
        keys: &ConnectionKeys,
        memory: PeerMemory<P>,
    ) -> Result<Self, ProofError> {
        Self::new(facts, keys, false, memory)
    }

    fn new(
        facts: &ExchangeFacts<'_>,
        keys: &ConnectionKeys,
        is_dialer: bool,
        memory: PeerMemory<P>,
    ) -> Result<Self, ProofError> {
        let facts = hash(&[LABEL, &facts.hash(), facts.circuit.as_bytes()]);
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, &memory.secret[..]);
        let prk = salt.extract(&behind_keys(keys, is_dialer, &facts));
        Ok(Self { is_dialer, memory, secrets: expand(&prk, LABEL)? })
    }

    /// The host's proof.
    #[must_use]
    pub fn greets(&self) -> Met {
        Met { name: self.memory.name, mac: self.part(0) }
    }

    /// Takes the proof of the host, at the dialer. The host is to be sent the message that is returned, as it is, and
    /// before all else.
    ///
    /// # Errors
    /// The host has not proved itself: the connection has to be closed.
    pub fn dials(self, met: &Met) -> Result<(Proved<P>, Bytes), ProofError> {
        let said = Bytes::copy_from_slice(&self.part::<MAC>(MAC));
        Ok((self.proved(0, &met.mac)?, said))
    }

    /// Takes the proof of the dialer, at the host that has sent its own.
    ///
    /// # Errors
    /// The dialer has not proved itself: the connection has to be closed.
    pub fn hosts(self, said: &[u8]) -> Result<Proved<P>, ProofError> {
        self.proved(MAC, said)
    }

    /// The other end has proved itself, if it has said the MAC at this place.
    fn proved(self, at: usize, said: &[u8]) -> Result<Proved<P>, ProofError> {
        let expected: [u8; MAC] = self.part(at);
        verify_slices_are_equal(&expected, said).map_err(|_| ProofError::Forged)?;
        let to_host = Zeroizing::new(self.part(2 * MAC));
        let to_dialer = Zeroizing::new(self.part(2 * MAC + STREAM));
        let (sealer, opener) = streams(self.is_dialer, &to_host, &to_dialer);
        Ok(Proved { memory: self.memory, again: true, sealer, opener })
    }

    /// The secrets from this place on.
    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut part = [0; N];
        part.iter_mut().zip(self.secrets.iter().skip(at)).for_each(|(byte, from)| *byte = *from);
        part
    }
}
