//! End-to-end encryption of a circuit that ends at this router: the dialer sends a key, and a host
//! that encrypts answers with its own (docs/protocol/data-plane.md 11).

use std::sync::Arc;

use bytes::Bytes;
use weft_e2e::ending::{self, Announced, HostKey};
use weft_e2e::ends::{Exchange, Statement};
use weft_e2e::{ConnectionKeys, KeyPair, PublicKey};
use weft_wire::edge::header;

use super::ends::{Purpose, TunnelEnds};
use super::socket::{Crypto, Proof, Seals, Side};
use crate::seam::{PeerData, RouteError, RouteErrorCode};

const PUBLIC_KEY: u32 = header::PUBLIC_KEY.cast_unsigned();
const MARKER: u32 = header::CONNECTION_MARKER.cast_unsigned();

/// This end, with the controller's statement about it.
pub(crate) struct Shown {
    pub(crate) ends: Arc<TunnelEnds>,
    pub(crate) own: Arc<Statement>,
    pub(crate) purpose: Purpose,
}

impl Shown {
    /// This end, if it has a key and the controller states whose it is.
    pub(crate) async fn of(ends: Option<&Arc<TunnelEnds>>, purpose: Purpose) -> Option<Self> {
        let ends = Arc::clone(ends?);
        let own = ends.statement(&purpose).await?;
        Some(Self { ends, own, purpose })
    }
}

/// The host's side of a connection whose dialer sent a key.
pub(crate) struct HostHandshake {
    session: ConnectionKeys,
    own: PublicKey,
    dialer: PublicKey,
    /// What a dialer that proves itself announces.
    proves: Option<Announced>,
    /// True if the dialer seals the end of its direction, and asks the host to do the same.
    seals_end: bool,
}

/// The connection that a host proves itself for.
pub(crate) struct HostedConnection<'a> {
    /// The id of the circuit.
    pub(crate) circuit: &'a str,
    /// The id of the dialer, as the controller says.
    pub(crate) claimed: Option<&'a str>,
    /// True if the service demands a proof.
    pub(crate) demands: bool,
    /// True for a stream: datagrams have no end that could be sealed.
    pub(crate) is_stream: bool,
}

/// The host's side, if the dialer sent a key. The host has a new key pair for each connection.
pub(crate) fn answer(dialer: &PeerData) -> Result<Option<HostHandshake>, RouteError> {
    let Some(key) = dialer.get(&PUBLIC_KEY) else { return Ok(None) };
    let refused = |error: weft_e2e::Error| RouteError {
        code: RouteErrorCode::Generic,
        text: error.to_string(),
    };
    let key = PublicKey::try_from(&key[..]).map_err(refused)?;
    let pair = KeyPair::generate(&mut rand::rng()).map_err(refused)?;
    let session = pair.server_session(&key).map_err(refused)?;
    let marker = dialer.get(&MARKER).map(|marker| &marker[..]).unwrap_or_default();
    let (seals_end, proves) = (ending::dialer_seals(marker), ending::dialer_proves(marker));
    Ok(Some(HostHandshake { session, own: pair.public_key(), dialer: key, proves, seals_end }))
}

impl HostHandshake {
    /// What a dialer that proves itself announces.
    pub(crate) fn dialer_proves(&self) -> Option<Announced> {
        self.proves
    }

    /// The encryption of a connection whose ends prove themselves first, and the headers for the dialer that announced this.
    /// A dialer that does not know of that, as a router on the path has removed the host's announcement, is refused if the
    /// service demands a proof. Otherwise the connection is as of [`HostHandshake::ready`].
    pub(crate) fn proving(
        self,
        (shown, dialer): (Shown, Announced),
        HostedConnection { circuit, claimed, demands, is_stream }: HostedConnection<'_>,
    ) -> (Crypto, PeerData) {
        let Shown { ends, own, purpose } = shown;
        let (public, fresh) = ((self.dialer, self.own), rand::random());
        let (service, keys) = (purpose.service.as_str(), &self.session);
        let exchange =
            Exchange { ends: ends.own(), own: &own, service, circuit, public, fresh, keys };
        let (greeting, caller) = exchange.greet(dialer, claimed);
        let told = HostKey { key: self.own, seals_end: true, proves: Some(greeting) }.to_bytes();
        let side = Side::Host { caller: Box::new(caller), demands };
        let proof = Proof { ends, own, purpose, public, fresh, side };
        let seals = Seals { own_end: self.seals_end && is_stream, peers_end: false };
        let crypto = Crypto::new(self.session, seals).proving(proof);
        (crypto, PeerData::from([(PUBLIC_KEY, told)]))
    }

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
    /// This end, if it proves itself, and the instance that it dials.
    shown: Option<(Shown, String)>,
}

impl Offer {
    /// Makes keys for a stream, or for datagrams, which have no end that could be sealed.
    pub(crate) fn new(is_stream: bool) -> Result<Self, weft_e2e::Error> {
        Ok(Self { pair: KeyPair::generate(&mut rand::rng())?, is_stream, shown: None })
    }

    /// The offer of an end that proves itself to the host of an instance, which may be empty.
    pub(crate) fn proving(self, shown: Option<Shown>, instance: &str) -> Self {
        Self { shown: shown.map(|shown| (shown, instance.to_owned())), ..self }
    }

    /// The headers for the host.
    pub(crate) fn peer_data(&self) -> PeerData {
        let key = Bytes::copy_from_slice(self.pair.public_key().as_bytes());
        let mut data = PeerData::from([(PUBLIC_KEY, key)]);
        let hint = self.shown.as_ref().map(|(shown, _)| shown.ends.own().dialer_hint(&shown.own));
        if self.is_stream || hint.is_some() {
            let name = format!("{:08x}", rand::random::<u32>());
            let marker = ending::marker(&name, hint.as_ref());
            data.insert(MARKER, marker.into());
        }
        data
    }

    /// The encryption of the connection, if the host answered with a key of its own. If the host proves itself, so do
    /// both ends before any data.
    pub(crate) fn accepted(self, host: &PeerData) -> Result<Option<Crypto>, String> {
        let Some(key) = host.get(&PUBLIC_KEY) else { return Ok(None) };
        let in_words = |error: weft_e2e::Error| error.to_string();
        let host = HostKey::read(key).map_err(in_words)?;
        let session = self.pair.client_session(&host.key).map_err(in_words)?;
        let public = (self.pair.public_key(), host.key);
        match (host.proves, self.shown) {
            (Some(host), Some((Shown { ends, own, purpose }, instance))) => {
                let (fresh, side) = (host.fresh, Side::Dialer { host, instance });
                let proof = Proof { ends, own, purpose, public, fresh, side };
                Ok(Some(Crypto::new(session, Seals::default()).proving(proof)))
            }
            (Some(_), None) => Err("the host answers with a proof that was not offered".to_owned()),
            (None, _) => {
                let seals_end = host.seals_end && self.is_stream;
                let seals = Seals { own_end: seals_end, peers_end: seals_end };
                Ok(Some(Crypto::new(session, seals)))
            }
        }
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
