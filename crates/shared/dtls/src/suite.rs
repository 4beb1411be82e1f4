//! Cipher suites, groups of key exchange, and signatures.

use aws_lc_rs::{aead, agreement, digest, hmac};
use rustls::crypto::CryptoProvider;
use rustls::{SignatureAlgorithm, SignatureScheme};
use rustls_pki_types::CertificateDer;

use crate::error::Error;

/// A cipher suite.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) id: u16,
    /// True for suites whose server signs with RSA; the others are for keys on elliptic curves.
    pub(crate) rsa: bool,
    pub(crate) aead: &'static aead::Algorithm,
    pub(crate) digest: &'static digest::Algorithm,
    pub(crate) hmac: hmac::Algorithm,
}

/// All suites, preferred first.
pub(crate) static SUITES: [Suite; 4] = [
    Suite {
        id: 0xc02b,
        rsa: false,
        aead: &aead::AES_128_GCM,
        digest: &digest::SHA256,
        hmac: hmac::HMAC_SHA256,
    },
    Suite {
        id: 0xc02f,
        rsa: true,
        aead: &aead::AES_128_GCM,
        digest: &digest::SHA256,
        hmac: hmac::HMAC_SHA256,
    },
    Suite {
        id: 0xc02c,
        rsa: false,
        aead: &aead::AES_256_GCM,
        digest: &digest::SHA384,
        hmac: hmac::HMAC_SHA384,
    },
    Suite {
        id: 0xc030,
        rsa: true,
        aead: &aead::AES_256_GCM,
        digest: &digest::SHA384,
        hmac: hmac::HMAC_SHA384,
    },
];

impl Suite {
    pub(crate) fn of(id: u16) -> Option<&'static Self> {
        SUITES.iter().find(|suite| suite.id == id)
    }

    /// True if a server with a key of this algorithm can use the suite.
    pub(crate) fn is_for(&self, key: SignatureAlgorithm) -> bool {
        self.rsa == (key == SignatureAlgorithm::RSA)
    }
}

/// Groups of key exchange, preferred first, by their number.
pub(crate) const GROUPS: [u16; 3] = [29, 23, 24];

fn group(id: u16) -> Result<&'static agreement::Algorithm, Error> {
    match id {
        29 => Ok(&agreement::X25519),
        23 => Ok(&agreement::ECDH_P256),
        24 => Ok(&agreement::ECDH_P384),
        _ => Err(Error::NothingInCommon("group of key exchange")),
    }
}

/// One side of a key exchange.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) group: u16,
    pub(crate) public: Vec<u8>,
    private: agreement::EphemeralPrivateKey,
}

impl Exchange {
    pub(crate) fn new(id: u16) -> Result<Self, Error> {
        let random = aws_lc_rs::rand::SystemRandom::new();
        let private = agreement::EphemeralPrivateKey::generate(group(id)?, &random)?;
        let public = private.compute_public_key()?.as_ref().to_vec();
        Ok(Self { group: id, public, private })
    }

    /// The shared secret.
    pub(crate) fn complete(self, peer: &[u8]) -> Result<Vec<u8>, Error> {
        let peer = agreement::UnparsedPublicKey::new(group(self.group)?, peer);
        let wrong = Error::Malformed("key exchange");
        agreement::agree_ephemeral(self.private, peer, wrong, |secret| Ok(secret.to_vec()))
    }
}

/// The signatures that this side takes, preferred first.
pub(crate) const SCHEMES: [SignatureScheme; 6] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
];

/// Checks that the key of the certificate `leaf` signed a message. `what` names the signature in the
/// error.
pub(crate) fn verify(
    provider: &CryptoProvider,
    leaf: &CertificateDer<'_>,
    scheme: u16,
    message: &[u8],
    signature: &[u8],
    what: &'static str,
) -> Result<(), Error> {
    let forged = || Error::Forged(what);
    let scheme =
        SCHEMES.into_iter().find(|known| u16::from(*known) == scheme).ok_or_else(forged)?;
    let known = provider.signature_verification_algorithms.mapping;
    let algorithms = known.iter().find(|(of, _)| *of == scheme).map(|(_, all)| *all);
    let leaf = webpki::EndEntityCert::try_from(leaf)
        .map_err(|problem| Error::Certificate(problem.to_string()))?;
    let mut algorithms = algorithms.unwrap_or_default().iter();
    let verified = algorithms.any(|one| leaf.verify_signature(*one, message, signature).is_ok());
    if verified { Ok(()) } else { Err(forged()) }
}
