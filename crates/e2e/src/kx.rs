//! Key pairs and key exchange: X25519 and BLAKE2b as in libsodium's `crypto_kx`
//! (docs/protocol/sdk.md 14.2).

use std::fmt;

use dryoc::classic::crypto_core::crypto_scalarmult_base;
use dryoc::classic::crypto_kx;
use rand::CryptoRng;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::Error;

/// The public half of a key pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The key's bytes, as they travel.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for PublicKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl TryFrom<&[u8]> for PublicKey {
    type Error = Error;

    fn try_from(bytes: &[u8]) -> Result<Self, Error> {
        bytes.try_into().map(Self).map_err(|_| Error::KeyLength(bytes.len()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicKey(")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// The key of one direction of one connection. Wiped when dropped, never printed.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct SessionKey([u8; 32]);

impl SessionKey {
    /// The key's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for SessionKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

/// The two keys of a connection, as one side names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionKeys {
    /// The key that opens messages of the peer.
    pub rx: SessionKey,
    /// The key that seals messages of this side.
    pub tx: SessionKey,
}

/// A dialer's or host's key pair. A dialer makes one per dial, a host one per listener.
#[derive(Clone)]
pub struct KeyPair {
    public: PublicKey,
    secret: Zeroizing<[u8; 32]>,
}

impl KeyPair {
    /// A new random pair.
    pub fn generate(rng: &mut impl CryptoRng) -> Self {
        let mut secret = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *secret);
        Self::from_secret(secret)
    }

    /// The pair that belongs to a seed, as libsodium derives it.
    #[cfg(test)]
    fn from_seed(seed: &[u8; 32]) -> Result<Self, Error> {
        let (_, secret) = crypto_kx::crypto_kx_seed_keypair(seed).map_err(|_| Error::Cipher)?;
        Ok(Self::from_secret(Zeroizing::new(secret)))
    }

    /// The public key, which is sent to the peer.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// The keys of a connection that this side dialed.
    pub fn client_session(&self, host: &PublicKey) -> Result<ConnectionKeys, Error> {
        let (mut rx, mut tx) = (SessionKey([0; 32]), SessionKey([0; 32]));
        crypto_kx::crypto_kx_client_session_keys(
            &mut rx.0,
            &mut tx.0,
            &self.public.0,
            &self.secret,
            &host.0,
        )
        .map_err(|_| Error::WeakKey)?;
        Ok(ConnectionKeys { rx, tx })
    }

    /// The keys of a connection that the peer dialed.
    pub fn server_session(&self, dialer: &PublicKey) -> Result<ConnectionKeys, Error> {
        let (mut rx, mut tx) = (SessionKey([0; 32]), SessionKey([0; 32]));
        crypto_kx::crypto_kx_server_session_keys(
            &mut rx.0,
            &mut tx.0,
            &self.public.0,
            &self.secret,
            &dialer.0,
        )
        .map_err(|_| Error::WeakKey)?;
        Ok(ConnectionKeys { rx, tx })
    }

    fn from_secret(secret: Zeroizing<[u8; 32]>) -> Self {
        let mut public = [0; 32];
        crypto_scalarmult_base(&mut public, &secret);
        Self { public: PublicKey(public), secret }
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded(first: u8) -> KeyPair {
        let seed: Vec<u8> = (first..first + 32).collect();
        KeyPair::from_seed(&seed.try_into().unwrap()).unwrap()
    }

    /// As in docs/protocol/sdk.md 17, vector E1.
    #[test]
    fn agrees_with_libsodium() {
        let (dialer, host) = (seeded(0x00), seeded(0x20));
        assert_eq!(
            hex::encode(dialer.public_key().as_bytes()),
            "0e0216223f147143d32615a91189c288c1728cba3cc5f9f621b1026e03d83129"
        );
        assert_eq!(
            hex::encode(host.public_key().as_bytes()),
            "99f4674ecc87c0b8e712f192b8f49e7442a9376b4875967ababa28471019a93e"
        );
        let ours = dialer.client_session(&host.public_key()).unwrap();
        let theirs = host.server_session(&dialer.public_key()).unwrap();
        assert_eq!(
            hex::encode(ours.rx.as_bytes()),
            "59f8af2a2061b2e35fd1cbfb708efd27a85c9924e6b83932e8a67c901a9998cb"
        );
        assert_eq!(
            hex::encode(ours.tx.as_bytes()),
            "17821f6861b0f9ac897981c01cca46b711a0afd09010d3694895333903865af2"
        );
        assert_eq!((ours.rx, ours.tx), (theirs.tx, theirs.rx));
    }

    #[test]
    fn refuses_keys_that_give_no_secret() {
        let own = KeyPair::generate(&mut rand::rng());
        let mut one = [0; 32];
        one[0] = 1;
        for weak in [[0; 32], one] {
            assert_eq!(own.client_session(&weak.into()), Err(Error::WeakKey));
            assert_eq!(own.server_session(&weak.into()), Err(Error::WeakKey));
        }
        assert_eq!(PublicKey::try_from(&[1u8; 31][..]), Err(Error::KeyLength(31)));
    }

    #[test]
    fn secrets_are_not_printed() {
        let own = KeyPair::generate(&mut rand::rng());
        let session = own.client_session(&seeded(0).public_key()).unwrap();
        let secret = hex::encode(*own.secret);
        let printed = format!("{own:?} {session:?}");
        assert!(!printed.contains(&secret[..8]));
        assert!(printed.contains("SessionKey(..)"));
    }
}
