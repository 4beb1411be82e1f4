//! End-to-end encryption of the data between a socket and its circuit.

use bytes::Bytes;
use weft_e2e::ending::{IncomingDirection, Outgoing};
use weft_e2e::ends::HostedDialer;
use weft_e2e::{ConnectionKeys, Header, Opener, Sealer};

use super::proving::Proof;
use crate::forwarder::LocalEnd;

/// The encryption of both directions of a connection.
pub(crate) struct Crypto {
    pub(super) session: ConnectionKeys,
    pub(super) seals: Seals,
    /// What proves this end to the other one, before any data.
    proof: Option<Box<Proof>>,
}

/// The directions whose ends are sealed, so that no router on the path can cut a direction short
/// ([`weft_e2e::ending`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seals {
    /// The end of this side's direction.
    pub(crate) own_end: bool,
    /// The end of the peer's direction, as far as it is known before the peer sends anything.
    pub(crate) peers_end: bool,
}

impl Crypto {
    /// Encryption with these keys.
    pub(crate) fn new(session: ConnectionKeys, seals: Seals) -> Self {
        Self { session, seals, proof: None }
    }

    /// The encryption of a connection whose ends prove themselves to each other first.
    pub(crate) fn proving(self, proof: Proof) -> Self {
        Self { proof: Some(Box::new(proof)), ..self }
    }

    /// True if both ends prove themselves to each other first.
    pub(crate) fn proves(&self) -> bool {
        self.proof.is_some()
    }

    #[cfg(test)]
    pub(crate) fn seals(&self) -> Seals {
        self.seals
    }
}

/// The encryption of data that goes into the circuit.
pub(super) enum Sealing {
    Plain,
    /// The header of the encrypted stream is sent first.
    Begin(Crypto),
    On(Box<Outgoing>),
}

/// The decryption of data that comes out of the circuit.
pub(super) enum Opening {
    Plain,
    /// The first data is the stream's header.
    Begin(ConnectionKeys, IncomingDirection),
    On(Box<Opener>, IncomingDirection),
}

/// The encryption of each direction, once both ends have proved themselves if they do so, or the dialer's first payload
/// has shown that it does not know of that. `None` if the other end has not proved itself: the end is given up.
pub(super) async fn directions(
    end: &LocalEnd,
    crypto: Option<Crypto>,
) -> Option<(Sealing, Opening)> {
    let Some(mut crypto) = crypto else { return Some((Sealing::Plain, Opening::Plain)) };
    let Some(proof) = crypto.proof.take() else {
        let incoming = IncomingDirection::new(crypto.seals.peers_end);
        let opening = Opening::Begin(crypto.session.clone(), incoming);
        return Some((Sealing::Begin(crypto), opening));
    };
    match proof.prove(end, &crypto.session).await {
        Some(HostedDialer::Proved(proved)) => {
            let sealing = Sealing::On(Box::new(Outgoing::new(proved.sealer, true)));
            let opening = Opening::On(Box::new(proved.opener), IncomingDirection::new(true));
            Some((sealing, opening))
        }
        Some(HostedDialer::Unaware(header)) => {
            let opener = Opener::new(&crypto.session.rx, &header);
            let incoming = IncomingDirection::new(crypto.seals.peers_end);
            Some((Sealing::Begin(crypto), Opening::On(Box::new(opener), incoming)))
        }
        None => {
            end.abort();
            None
        }
    }
}

impl Sealing {
    /// Sends the header of the encrypted stream, unless it was sent before. False if the direction
    /// is over.
    pub(super) async fn begin(&mut self, end: &LocalEnd) -> bool {
        let Self::Begin(crypto) = self else { return true };
        let (sealer, header) = Sealer::new(&crypto.session.tx, &mut rand::rng());
        *self = Self::On(Box::new(Outgoing::new(sealer, crypto.seals.own_end)));
        end.writable().await && end.write(Bytes::copy_from_slice(header.as_bytes())).is_ok()
    }

    pub(super) fn apply(&mut self, data: &[u8]) -> Result<Bytes, weft_e2e::Error> {
        match self {
            Self::On(sealer) => sealer.seal(data),
            Self::Plain | Self::Begin(_) => Ok(Bytes::copy_from_slice(data)),
        }
    }

    /// Ends the direction, with a sealed end if the peer expects one.
    pub(super) async fn finish(&mut self, end: &LocalEnd) {
        let last = if let Self::On(sealer) = self { sealer.end() } else { None };
        if let Some(last) = last
            && (!end.writable().await || end.write(last).is_err())
        {
            return;
        }
        end.finish();
    }
}

impl Opening {
    /// The application's data of a payload; `None` for the header of the encrypted stream, and for its sealed end.
    pub(super) fn apply(&mut self, data: Bytes) -> Result<Option<Bytes>, weft_e2e::Error> {
        match self {
            Self::Plain => Ok(Some(data)),
            Self::Begin(session, ending) => {
                let header = Header::try_from(&data[..])?;
                *self = Self::On(Box::new(Opener::new(&session.rx, &header)), *ending);
                Ok(None)
            }
            Self::On(opener, ending) => {
                let opened = opener.open(&data)?;
                ending.note(&opened)?;
                // The sealed end has no data, also among datagrams, which may be empty.
                Ok((*ending != IncomingDirection::Ended).then_some(opened.plaintext))
            }
        }
    }

    /// True if the direction must not end now, because the sealed end that the peer promised has not come.
    pub(super) fn is_cut(&self) -> bool {
        match self {
            Self::Plain => false,
            Self::Begin(_, ending) | Self::On(_, ending) => ending.is_cut(),
        }
    }
}
