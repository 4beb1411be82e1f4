//! End-to-end encryption of a circuit that ends at this router: whoever dials sends a key, and a host
//! that encrypts answers with its own (protocol: data-plane 11).

use bytes::Bytes;
use weft_e2e::{KeyPair, PublicKey};
use weft_wire::edge::header;

use super::socket::Crypto;
use crate::seam::{PeerData, RouteErrorCode, RouteFailure};

const PUBLIC_KEY: u32 = header::PUBLIC_KEY.cast_unsigned();

/// The host's side, if the dialer brought a key: encryption of the connection, and what the dialer
/// is told. A fresh pair each time.
pub(crate) fn answer(dialer: &PeerData) -> Result<Option<(Crypto, PeerData)>, RouteFailure> {
    let Some(key) = dialer.get(&PUBLIC_KEY) else { return Ok(None) };
    let refused = |error: weft_e2e::Error| RouteFailure {
        code: RouteErrorCode::Generic,
        message: error.to_string(),
    };
    let key = PublicKey::try_from(&key[..]).map_err(refused)?;
    let pair = KeyPair::generate(&mut rand::rng());
    let session = pair.server_session(&key).map_err(refused)?;
    let told = Bytes::copy_from_slice(pair.public_key().as_bytes());
    Ok(Some((Crypto::new(session), PeerData::from([(PUBLIC_KEY, told)]))))
}

/// The dialer's side: a pair whose public key goes with the dial.
pub(crate) struct Offer(KeyPair);

impl Offer {
    pub(crate) fn new() -> Self {
        Self(KeyPair::generate(&mut rand::rng()))
    }

    /// What the host is told.
    pub(crate) fn peer_data(&self) -> PeerData {
        let key = Bytes::copy_from_slice(self.0.public_key().as_bytes());
        PeerData::from([(PUBLIC_KEY, key)])
    }

    /// Encryption of the connection, if the host answered with a key of its own.
    pub(crate) fn accepted(&self, host: &PeerData) -> Result<Option<Crypto>, weft_e2e::Error> {
        let Some(key) = host.get(&PUBLIC_KEY) else { return Ok(None) };
        let key = PublicKey::try_from(&key[..])?;
        Ok(Some(Crypto::new(self.0.client_session(&key)?)))
    }
}
