//! Key pairs and key exchange: X25519 and BLAKE2b as in libsodium's `crypto_kx`
//! (docs/protocol/sdk.md 14.2).

use std::fmt;

use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use blake2::{Blake2b512, Digest as _};
use rand::CryptoRng;
use zeroize::Zeroizing;

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
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey(Zeroizing<[u8; 32]>);

impl SessionKey {
    /// The key's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for SessionKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
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
pub struct KeyPair {
    public: PublicKey,
    secret: PrivateKey,
}

impl KeyPair {
    /// A new random pair.
    ///
    /// # Errors
    /// [`Error::Cipher`] if the library refuses the key, which happens only without memory.
    pub fn generate(rng: &mut impl CryptoRng) -> Result<Self, Error> {
        let mut secret = Zeroizing::new([0; 32]);
        rng.fill_bytes(&mut *secret);
        Self::from_secret(&secret)
    }

    /// The pair that belongs to a seed, as libsodium derives it.
    #[cfg(test)]
    fn from_seed(seed: &[u8; 32]) -> Result<Self, Error> {
        let secret = blake2::Blake2b::<chacha20::cipher::consts::U32>::digest(seed);
        Self::from_secret(&secret.into())
    }

    /// The public key, which is sent to the peer.
    #[must_use]
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// The keys of a connection that this side dialed.
    ///
    /// # Errors
    /// [`Error::WeakKey`] for a key of the peer that gives no secret.
    pub fn client_session(&self, host: &PublicKey) -> Result<ConnectionKeys, Error> {
        let [rx, tx] = self.session(host, &self.public, host)?;
        Ok(ConnectionKeys { rx, tx })
    }

    /// The keys of a connection that the peer dialed.
    ///
    /// # Errors
    /// [`Error::WeakKey`] for a key of the peer that gives no secret.
    pub fn server_session(&self, dialer: &PublicKey) -> Result<ConnectionKeys, Error> {
        let [tx, rx] = self.session(dialer, dialer, &self.public)?;
        Ok(ConnectionKeys { rx, tx })
    }

    /// The keys of both directions: towards the dialer, and towards the host.
    fn session(
        &self,
        peer: &PublicKey,
        dialer: &PublicKey,
        host: &PublicKey,
    ) -> Result<[SessionKey; 2], Error> {
        let peer = UnparsedPublicKey::new(&X25519, peer.0);
        agreement::agree(&self.secret, peer, Error::WeakKey, |shared| {
            let digest = Blake2b512::new().chain_update(shared).chain_update(dialer.0);
            let both: Zeroizing<[u8; 64]> =
                Zeroizing::new(digest.chain_update(host.0).finalize().into());
            let mut keys = [SessionKey::from([0; 32]), SessionKey::from([0; 32])];
            for (key, half) in keys.iter_mut().zip(both.chunks_exact(32)) {
                key.0.copy_from_slice(half);
            }
            Ok(keys)
        })
    }

    fn from_secret(secret: &[u8; 32]) -> Result<Self, Error> {
        let secret = PrivateKey::from_private_key(&X25519, secret).map_err(|_| Error::Cipher)?;
        let public = secret.compute_public_key().map_err(|_| Error::Cipher)?;
        let public = PublicKey::try_from(public.as_ref())?;
        Ok(Self { public, secret })
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
        let own = KeyPair::generate(&mut rand::rng()).unwrap();
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
        let secret = [0xa7; 32];
        let own = KeyPair::from_secret(&secret).unwrap();
        let session = own.client_session(&seeded(0).public_key()).unwrap();
        let printed = format!("{own:?} {session:?}");
        for secret in [&secret, session.rx.as_bytes(), session.tx.as_bytes()] {
            assert!(!printed.contains(&hex::encode(&secret[..4])), "{printed}");
        }
        assert!(printed.contains("SessionKey(..)"));
    }
}
