//! End-to-end encryption of a circuit that ends at this router: the dialer sends a key, and a host
//! that encrypts answers with its own (docs/protocol/data-plane.md 11).

use bytes::Bytes;
use weft_e2e::ending::{self, HostKey};
use weft_e2e::{ConnectionKeys, KeyPair, PublicKey};
use weft_wire::edge::header;

use super::socket::{Crypto, Seals};
use crate::seam::{PeerData, RouteError, RouteErrorCode};

const PUBLIC_KEY: u32 = header::PUBLIC_KEY.cast_unsigned();
const MARKER: u32 = header::CONNECTION_MARKER.cast_unsigned();

/// The host's side of a connection whose dialer sent a key.
pub(crate) struct Answer {
    session: ConnectionKeys,
    own: PublicKey,
    /// True if the dialer seals the end of its direction, and asks the host to do the same.
    seals_end: bool,
}

/// The host's side, if the dialer sent a key. The host has a new key pair for each connection.
pub(crate) fn answer(dialer: &PeerData) -> Result<Option<Answer>, RouteError> {
    let Some(key) = dialer.get(&PUBLIC_KEY) else { return Ok(None) };
    let refused = |error: weft_e2e::Error| RouteError {
        code: RouteErrorCode::Generic,
        text: error.to_string(),
    };
    let key = PublicKey::try_from(&key[..]).map_err(refused)?;
    let pair = KeyPair::generate(&mut rand::rng()).map_err(refused)?;
    let session = pair.server_session(&key).map_err(refused)?;
    let seals_end = dialer.get(&MARKER).is_some_and(|marker| ending::dialer_seals(marker));
    Ok(Some(Answer { session, own: pair.public_key(), seals_end }))
}

impl Answer {
    /// The encryption of the connection, and the headers for the dialer. Datagrams have no end that
    /// could be sealed.
    pub(crate) fn ready(self, is_stream: bool) -> (Crypto, PeerData) {
        let seals_end = self.seals_end && is_stream;
        let told = match seals_end {
            true => HostKey { key: self.own, seals_end, proves: None }.to_bytes(),
            false => Bytes::copy_from_slice(self.own.as_bytes()),
        };
        // The dialer's first data shows whether it understood the host's answer.
        let seals = Seals { own_end: seals_end, peers_end: false };
        (Crypto::new(self.session, seals), PeerData::from([(PUBLIC_KEY, told)]))
    }
}

/// The dialer's side: a key pair whose public key is sent with the dial.
pub(crate) struct Offer {
    pair: KeyPair,
    is_stream: bool,
}

impl Offer {
    /// Makes keys for a stream, or for datagrams, which have no end that could be sealed.
    pub(crate) fn new(is_stream: bool) -> Result<Self, weft_e2e::Error> {
        Ok(Self { pair: KeyPair::generate(&mut rand::rng())?, is_stream })
    }

    /// The headers for the host.
    pub(crate) fn peer_data(&self) -> PeerData {
        let key = Bytes::copy_from_slice(self.pair.public_key().as_bytes());
        let mut data = PeerData::from([(PUBLIC_KEY, key)]);
        if self.is_stream {
            let marker = ending::marker(&format!("{:08x}", rand::random::<u32>()), None);
            data.insert(MARKER, marker.into());
        }
        data
    }

    /// The encryption of the connection, if the host answered with a key of its own.
    pub(crate) fn accepted(&self, host: &PeerData) -> Result<Option<Crypto>, weft_e2e::Error> {
        let Some(key) = host.get(&PUBLIC_KEY) else { return Ok(None) };
        let host = HostKey::read(key)?;
        let seals_end = host.seals_end && self.is_stream;
        let seals = Seals { own_end: seals_end, peers_end: seals_end };
        Ok(Some(Crypto::new(self.pair.client_session(&host.key)?, seals)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_seal_the_end_of_a_stream_and_of_no_datagrams() {
        for (dials_stream, hosts_stream) in [(true, true), (true, false), (false, true)] {
            let offer = Offer::new(dials_stream).unwrap();
            let answer = answer(&offer.peer_data()).unwrap().unwrap();
            let (host, told) = answer.ready(hosts_stream);
            let dialer = offer.accepted(&told).unwrap().unwrap();
            let both = dials_stream && hosts_stream;
            assert_eq!(host.seals(), Seals { own_end: both, peers_end: false });
            assert_eq!(dialer.seals(), Seals { own_end: both, peers_end: both });
        }
    }

    #[test]
    fn peers_that_seal_no_end_are_answered_as_ever() {
        let pair = KeyPair::generate(&mut rand::rng()).unwrap();
        let key = Bytes::copy_from_slice(pair.public_key().as_bytes());
        let dialer = PeerData::from([(PUBLIC_KEY, key.clone()), (MARKER, "abcd".into())]);
        let (host, told) = answer(&dialer).unwrap().unwrap().ready(true);
        assert_eq!((host.seals(), told[&PUBLIC_KEY].len()), (Seals::default(), 32));
        let accepted = Offer::new(true).unwrap().accepted(&PeerData::from([(PUBLIC_KEY, key)]));
        assert_eq!(accepted.unwrap().unwrap().seals(), Seals::default());
    }
}
