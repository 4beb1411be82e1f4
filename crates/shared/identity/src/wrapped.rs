//! Secrets that one program wraps for another one, which has published a key for that: HPKE (RFC 9180) in base mode, with
//! X25519, HKDF-SHA256 and AES-256-GCM.

use rustls::crypto::aws_lc_rs::hpke::DH_KEM_X25519_HKDF_SHA256_AES_256 as SUITE;
use rustls::crypto::hpke::{EncapsulatedSecret, Hpke as _, HpkePrivateKey, HpkePublicKey};

use crate::error::{Error, Result};

/// Bytes of a public key, of a private key, and of what precedes a wrapped secret.
const KEY: usize = 32;

/// A key pair for which others wrap secrets.
pub struct WrapKey {
    private: HpkePrivateKey,
    public: [u8; KEY],
}

impl std::fmt::Debug for WrapKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WrapKey")
    }
}

impl WrapKey {
    /// A new key pair.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn random() -> Result<Self> {
        let (public, private) = SUITE.generate_key_pair().map_err(unusable)?;
        let public = public.0.try_into().map_err(|_| unusable("its length"))?;
        Ok(Self { private, public })
    }

    /// The pair as bytes, to be kept secret.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [&self.public[..], self.private.secret_bytes()].concat()
    }

    /// The pair of such bytes; `None` for others.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (public, private) = bytes.split_first_chunk()?;
        let is_whole = private.len() == KEY;
        is_whole.then(|| Self { public: *public, private: private.to_vec().into() })
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> &[u8; KEY] {
        &self.public
    }

    /// A secret that was wrapped for this key and this subject; `None` for any other bytes.
    #[must_use]
    pub fn unwrap(&self, of: &str, wrapped: &[u8]) -> Option<Vec<u8>> {
        let (encapsulated, sealed) = wrapped.split_first_chunk::<KEY>()?;
        let encapsulated = EncapsulatedSecret(encapsulated.to_vec());
        SUITE.open(&encapsulated, of.as_bytes(), &[], sealed, &self.private).ok()
    }
}

/// Wraps a secret of the subject `of` for whoever has the private half of a key ([`WrapKey::public`]).
///
/// # Errors
/// When the bytes are no public key.
pub fn wrap(public: &[u8], of: &str, secret: &[u8]) -> Result<Vec<u8>> {
    let public = HpkePublicKey(public.to_vec());
    let (encapsulated, sealed) =
        SUITE.seal(of.as_bytes(), &[], secret, &public).map_err(unusable)?;
    Ok([encapsulated.0, sealed].concat())
}

fn unusable(reason: impl std::fmt::Display) -> Error {
    Error::Key(format!("a secret could not be wrapped: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_private_key_unwraps_and_only_for_the_same_subject() {
        let key = WrapKey::random().unwrap();
        let wrapped = wrap(key.public(), "key 2 for a", b"secret").unwrap();
        assert_ne!(wrapped, wrap(key.public(), "key 2 for a", b"secret").unwrap());
        let kept = WrapKey::from_bytes(&key.to_bytes()).unwrap();
        assert_eq!(kept.public(), key.public());
        assert_eq!(kept.unwrap("key 2 for a", &wrapped).as_deref(), Some(&b"secret"[..]));
        assert_eq!(kept.unwrap("key 2 for b", &wrapped), None);
        assert_eq!(WrapKey::random().unwrap().unwrap("key 2 for a", &wrapped), None);
        for at in 0..wrapped.len() {
            assert_eq!(key.unwrap("key 2 for a", &wrapped[..at]), None, "{at}");
            let mut other = wrapped.clone();
            other[at] ^= 1;
            assert_eq!(key.unwrap("key 2 for a", &other), None, "{at}");
        }
        assert!(WrapKey::from_bytes(&key.to_bytes()[1..]).is_none());
        // Zeros are no point whose secret anybody may use.
        for public in [&[][..], &[1; 31], &[0; 32]] {
            assert!(wrap(public, "", b"secret").is_err(), "{public:?}");
        }
    }
}
