//! Public keys, and verification of signatures.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest;
use aws_lc_rs::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::oid_registry as oid;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::SubjectPublicKeyInfo;
use yasna::models::ObjectIdentifier;

use crate::error::{Error, Result};

/// OIDs of algorithms and curves, as numbers for the writer.
pub(crate) mod oids {
    pub(crate) const RSA_ENCRYPTION: &[u64] = &[1, 2, 840, 113_549, 1, 1, 1];
    pub(crate) const EC_PUBLIC_KEY: &[u64] = &[1, 2, 840, 10_045, 2, 1];
    pub(crate) const P256: &[u64] = &[1, 2, 840, 10_045, 3, 1, 7];
    pub(crate) const P384: &[u64] = &[1, 3, 132, 0, 34];
    pub(crate) const P521: &[u64] = &[1, 3, 132, 0, 35];
    pub(crate) const ED25519: &[u64] = &[1, 3, 101, 112];
}

/// Supported kinds of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyAlgorithm {
    /// ECDSA on NIST P-256.
    EcP256,
    /// ECDSA on NIST P-384.
    EcP384,
    /// ECDSA on NIST P-521.
    EcP521,
    /// RSA.
    Rsa {
        /// Length of the modulus in bits.
        bits: usize,
    },
    /// Ed25519.
    Ed25519,
}

/// Smallest RSA key that is accepted, in bits (docs/protocol/auth.md 2.4).
pub const MIN_RSA_BITS: usize = 2048;
/// Largest RSA key that is accepted, in bits.
pub const MAX_RSA_BITS: usize = 8192;

/// Algorithm of a signature: the kind of key, the hash and the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Signature {
    RsaPkcs1Sha256,
    RsaPkcs1Sha384,
    RsaPkcs1Sha512,
    RsaPssSha256,
    RsaPssSha384,
    RsaPssSha512,
    EcdsaSha256,
    EcdsaSha384,
    EcdsaSha512,
    /// ECDSA with fixed-length r and s, as in tokens; the curve determines the hash.
    EcdsaFixed,
    Ed25519,
}

impl Signature {
    /// The OID in certificates and requests; `None` for encodings that X.509 does not use.
    pub(crate) fn oid(self) -> Option<&'static [u64]> {
        Some(match self {
            Self::RsaPkcs1Sha256 => &[1, 2, 840, 113_549, 1, 1, 11],
            Self::RsaPkcs1Sha384 => &[1, 2, 840, 113_549, 1, 1, 12],
            Self::RsaPkcs1Sha512 => &[1, 2, 840, 113_549, 1, 1, 13],
            Self::EcdsaSha256 => &[1, 2, 840, 10_045, 4, 3, 2],
            Self::EcdsaSha384 => &[1, 2, 840, 10_045, 4, 3, 3],
            Self::EcdsaSha512 => &[1, 2, 840, 10_045, 4, 3, 4],
            Self::Ed25519 => oids::ED25519,
            _ => return None,
        })
    }

    /// True if the algorithm identifier has an explicit NULL, as RSA's do.
    pub(crate) fn has_null(self) -> bool {
        matches!(self, Self::RsaPkcs1Sha256 | Self::RsaPkcs1Sha384 | Self::RsaPkcs1Sha512)
    }

    /// The algorithm of an OID in a certificate or request.
    pub(crate) fn from_oid(id: &x509_parser::der_parser::Oid<'_>) -> Option<Self> {
        const ALL: [Signature; 7] = [
            Signature::RsaPkcs1Sha256,
            Signature::RsaPkcs1Sha384,
            Signature::RsaPkcs1Sha512,
            Signature::EcdsaSha256,
            Signature::EcdsaSha384,
            Signature::EcdsaSha512,
            Signature::Ed25519,
        ];
        let numbers: Vec<u64> = id.iter()?.take(16).collect();
        ALL.into_iter().find(|signature| signature.oid() == Some(numbers.as_slice()))
    }

    fn verifier(self, key: KeyAlgorithm) -> Option<&'static dyn VerificationAlgorithm> {
        use KeyAlgorithm::{EcP256, EcP384, EcP521, Ed25519, Rsa};
        Some(match (self, key) {
            (Self::RsaPkcs1Sha256, Rsa { .. }) => &signature::RSA_PKCS1_2048_8192_SHA256,
            (Self::RsaPkcs1Sha384, Rsa { .. }) => &signature::RSA_PKCS1_2048_8192_SHA384,
            (Self::RsaPkcs1Sha512, Rsa { .. }) => &signature::RSA_PKCS1_2048_8192_SHA512,
            (Self::RsaPssSha256, Rsa { .. }) => &signature::RSA_PSS_2048_8192_SHA256,
            (Self::RsaPssSha384, Rsa { .. }) => &signature::RSA_PSS_2048_8192_SHA384,
            (Self::RsaPssSha512, Rsa { .. }) => &signature::RSA_PSS_2048_8192_SHA512,
            (Self::EcdsaSha256, EcP256) => &signature::ECDSA_P256_SHA256_ASN1,
            (Self::EcdsaSha384, EcP256) => &signature::ECDSA_P256_SHA384_ASN1,
            (Self::EcdsaSha512, EcP256) => &signature::ECDSA_P256_SHA512_ASN1,
            (Self::EcdsaSha256, EcP384) => &signature::ECDSA_P384_SHA256_ASN1,
            (Self::EcdsaSha384, EcP384) => &signature::ECDSA_P384_SHA384_ASN1,
            (Self::EcdsaSha512, EcP384) => &signature::ECDSA_P384_SHA512_ASN1,
            (Self::EcdsaSha256, EcP521) => &signature::ECDSA_P521_SHA256_ASN1,
            (Self::EcdsaSha384, EcP521) => &signature::ECDSA_P521_SHA384_ASN1,
            (Self::EcdsaSha512, EcP521) => &signature::ECDSA_P521_SHA512_ASN1,
            (Self::EcdsaFixed, EcP256) => &signature::ECDSA_P256_SHA256_FIXED,
            (Self::EcdsaFixed, EcP384) => &signature::ECDSA_P384_SHA384_FIXED,
            (Self::EcdsaFixed, EcP521) => &signature::ECDSA_P521_SHA512_FIXED,
            (Self::Ed25519, Ed25519) => &signature::ED25519,
            _ => return None,
        })
    }
}

/// A public key of a supported kind.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PublicKey {
    algorithm: KeyAlgorithm,
    /// SubjectPublicKeyInfo in DER.
    spki: Arc<[u8]>,
    /// Contents of the bit string: a point, or an RSAPublicKey.
    raw: Arc<[u8]>,
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo in DER.
    ///
    /// # Errors
    /// When the key is malformed, of a kind that is not supported (P-224, DSA), or an RSA key outside
    /// [`MIN_RSA_BITS`]..=[`MAX_RSA_BITS`].
    pub fn from_spki(der: &[u8]) -> Result<Self> {
        let (rest, spki) = SubjectPublicKeyInfo::from_der(der)
            .map_err(|error| Error::PublicKey(error.to_string()))?;
        if !rest.is_empty() {
            return Err(Error::PublicKey("bytes after the key".into()));
        }
        let raw = spki.subject_public_key.data.as_ref();
        let algorithm = algorithm_of(&spki, raw)?;
        Ok(Self { algorithm, spki: der.into(), raw: raw.into() })
    }

    /// An RSA key from modulus and exponent, big endian.
    ///
    /// # Errors
    /// As [`PublicKey::from_spki`].
    pub fn from_rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self> {
        let modulus = strip_zeros(modulus);
        let exponent = strip_zeros(exponent);
        if exponent.is_empty() || exponent.len() > 8 || modulus.len() > MAX_RSA_BITS / 8 {
            return Err(Error::PublicKey("RSA modulus or exponent out of bounds".into()));
        }
        let key = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_bigint_bytes(modulus, true);
                writer.next().write_bigint_bytes(exponent, true);
            });
        });
        Self::from_spki(&write_spki(oids::RSA_ENCRYPTION, None, &key))
    }

    /// An elliptic curve key from the coordinates of its point, big endian.
    ///
    /// # Errors
    /// When the coordinates are longer than the curve's, or the algorithm is not one of the curves.
    pub fn from_ec(algorithm: KeyAlgorithm, x: &[u8], y: &[u8]) -> Result<Self> {
        let (curve, size) = match algorithm {
            KeyAlgorithm::EcP256 => (oids::P256, 32),
            KeyAlgorithm::EcP384 => (oids::P384, 48),
            KeyAlgorithm::EcP521 => (oids::P521, 66),
            _ => return Err(Error::PublicKey("not an elliptic curve".into())),
        };
        let mut point = vec![4];
        for coordinate in [strip_zeros(x), strip_zeros(y)] {
            let missing = usize::checked_sub(size, coordinate.len()).ok_or_else(|| {
                Error::PublicKey("coordinate is longer than the curve allows".into())
            })?;
            point.resize(point.len() + missing, 0);
            point.extend_from_slice(coordinate);
        }
        Self::from_spki(&write_spki(oids::EC_PUBLIC_KEY, Some(curve), &point))
    }

    /// An Ed25519 key from its 32 bytes.
    ///
    /// # Errors
    /// When there are not 32 bytes.
    pub fn from_ed25519(bytes: &[u8]) -> Result<Self> {
        Self::from_spki(&write_spki(oids::ED25519, None, bytes))
    }

    /// The kind of key.
    #[must_use]
    pub fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }

    /// The SubjectPublicKeyInfo in DER.
    #[must_use]
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// Contents of the bit string: an uncompressed point, an RSAPublicKey, or 32 bytes.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Whether both are one key, however its parameters are written.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.algorithm == other.algorithm && self.raw == other.raw
    }

    /// SHA-256 of the SubjectPublicKeyInfo in lowercase hex, the `publicKeyPrint` of an
    /// authenticator (docs/protocol/auth.md 2.2).
    #[must_use]
    pub fn print(&self) -> String {
        hex::encode(digest::digest(&digest::SHA256, &self.spki))
    }

    /// The key identifier of RFC 5280 4.2.1.2 in its common form: SHA-1 of the key's bytes.
    pub(crate) fn key_id(&self) -> Vec<u8> {
        digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &self.raw).as_ref().to_vec()
    }

    /// True if `bytes` is this key's signature over `message`.
    pub(crate) fn verify(&self, how: Signature, message: &[u8], bytes: &[u8]) -> bool {
        how.verifier(self.algorithm).is_some_and(|algorithm| {
            UnparsedPublicKey::new(algorithm, &self.raw[..]).verify(message, bytes).is_ok()
        })
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey")
            .field("algorithm", &self.algorithm)
            .field("print", &self.print())
            .finish()
    }
}

fn algorithm_of(spki: &SubjectPublicKeyInfo<'_>, raw: &[u8]) -> Result<KeyAlgorithm> {
    let id = &spki.algorithm.algorithm;
    if *id == oid::OID_PKCS1_RSAENCRYPTION {
        let bits = match spki.parsed() {
            Ok(x509_parser::public_key::PublicKey::RSA(key)) => 8 * strip_zeros(key.modulus).len(),
            _ => return Err(Error::PublicKey("malformed RSA key".into())),
        };
        if !(MIN_RSA_BITS..=MAX_RSA_BITS).contains(&bits) {
            return Err(Error::PublicKey(format!(
                "RSA key of {bits} bits, use {MIN_RSA_BITS} to {MAX_RSA_BITS}"
            )));
        }
        return Ok(KeyAlgorithm::Rsa { bits });
    }
    if *id == oid::OID_SIG_ED25519 {
        return match raw.len() {
            32 => Ok(KeyAlgorithm::Ed25519),
            _ => Err(Error::PublicKey("an Ed25519 key has 32 bytes".into())),
        };
    }
    if *id != oid::OID_KEY_TYPE_EC_PUBLIC_KEY {
        return Err(Error::PublicKey(format!("kind {id}")));
    }
    let curve = spki.algorithm.parameters.as_ref().and_then(|any| any.clone().oid().ok());
    let (algorithm, size) = match curve {
        Some(curve) if curve == oid::OID_EC_P256 => (KeyAlgorithm::EcP256, 32),
        Some(curve) if curve == oid::OID_NIST_EC_P384 => (KeyAlgorithm::EcP384, 48),
        Some(curve) if curve == oid::OID_NIST_EC_P521 => (KeyAlgorithm::EcP521, 66),
        Some(curve) => return Err(Error::PublicKey(format!("curve {curve}"))),
        None => return Err(Error::PublicKey("no named curve".into())),
    };
    if raw.len() != 2 * size + 1 || raw.first() != Some(&4) {
        return Err(Error::PublicKey("not an uncompressed point of its curve".into()));
    }
    Ok(algorithm)
}

fn write_spki(algorithm: &[u64], curve: Option<&[u64]>, key: &[u8]) -> Vec<u8> {
    yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_sequence(|writer| {
                writer.next().write_oid(&ObjectIdentifier::from_slice(algorithm));
                if let Some(curve) = curve {
                    writer.next().write_oid(&ObjectIdentifier::from_slice(curve));
                } else if algorithm == oids::RSA_ENCRYPTION {
                    writer.next().write_null();
                }
            });
            writer.next().write_bitvec_bytes(key, key.len() * 8);
        });
    })
}

/// A number without leading zeros.
pub(crate) fn strip_zeros(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    bytes.get(start..).unwrap_or_default()
}
