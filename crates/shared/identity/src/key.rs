//! Private keys: generation, PEM, signatures.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{self, EcdsaKeyPair, Ed25519KeyPair};
use rustls::SignatureScheme;
use rustls::sign::SigningKey;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::error::{Error, Result};
use crate::public::{KeyAlgorithm, PublicKey, Signature};
use crate::{file, pem};

/// A private key: P-256, P-384, P-521, RSA or Ed25519.
///
/// Clones are cheap; `Debug` never shows the secret.
#[derive(Clone)]
pub struct PrivateKey {
    inner: Arc<Inner>,
}

struct Inner {
    der: PrivateKeyDer<'static>,
    tls: Arc<dyn SigningKey>,
    token: TokenKey,
    public: PublicKey,
}

/// A private key for signatures in the form of tokens (fixed length for ECDSA).
enum TokenKey {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl PrivateKey {
    /// Makes a new key. weft makes P-256 keys unless told otherwise.
    ///
    /// # Errors
    /// When the system gives no random numbers, or for an RSA size other than 2048, 3072, 4096 and
    /// 8192 bits.
    pub fn generate(algorithm: KeyAlgorithm) -> Result<Self> {
        let der = match algorithm {
            KeyAlgorithm::EcP256 => new_ecdsa(&signature::ECDSA_P256_SHA256_ASN1_SIGNING)?,
            KeyAlgorithm::EcP384 => new_ecdsa(&signature::ECDSA_P384_SHA384_ASN1_SIGNING)?,
            KeyAlgorithm::EcP521 => new_ecdsa(&signature::ECDSA_P521_SHA512_ASN1_SIGNING)?,
            KeyAlgorithm::Rsa { bits } => new_rsa(bits)?,
            KeyAlgorithm::Ed25519 => {
                let pair = Ed25519KeyPair::generate().map_err(unspecified)?;
                pair.to_pkcs8v1().map_err(unspecified)?.as_ref().to_vec()
            }
        };
        Self::from_der(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der)))
    }

    /// Reads a key in PKCS#8, SEC1 or PKCS#1 form.
    ///
    /// # Errors
    /// When the bytes are none of these, or the kind of key is not supported.
    pub fn from_der(der: PrivateKeyDer<'static>) -> Result<Self> {
        let tls = rustls::crypto::aws_lc_rs::sign::any_supported_type(&der)
            .map_err(|error| Error::Key(error.to_string()))?;
        let spki = tls.public_key().ok_or_else(|| Error::Key("no public half".into()))?;
        let public = PublicKey::from_spki(&spki)?;
        let token = TokenKey::read(&der, public.algorithm())?;
        Ok(Self { inner: Arc::new(Inner { der, tls, token, public }) })
    }

    /// Reads the first private key of a PEM text; other blocks are skipped.
    ///
    /// # Errors
    /// When the text has no key, or the key is encrypted or of a kind that is not supported.
    pub fn from_pem(text: &[u8]) -> Result<Self> {
        Self::from_der(pem::first_key(text).ok_or(Error::NoKey)?)
    }

    /// The key as PEM, in the form in which it was read; new keys are PKCS#8.
    #[must_use]
    pub fn to_pem(&self) -> String {
        match &self.inner.der {
            PrivateKeyDer::Pkcs1(der) => pem::encode("RSA PRIVATE KEY", der.secret_pkcs1_der()),
            PrivateKeyDer::Sec1(der) => pem::encode("EC PRIVATE KEY", der.secret_sec1_der()),
            other => pem::encode("PRIVATE KEY", other.secret_der()),
        }
    }

    /// Writes the key as PEM to a file, which is replaced as a whole and readable by its owner
    /// only.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        file::write_private(path, self.to_pem().as_bytes())
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.inner.public
    }

    /// The kind of key.
    #[must_use]
    pub fn algorithm(&self) -> KeyAlgorithm {
        self.inner.public.algorithm()
    }

    /// The key for TLS handshakes of rustls.
    #[must_use]
    pub fn tls(&self) -> Arc<dyn SigningKey> {
        Arc::clone(&self.inner.tls)
    }

    /// Signs a certificate or request in the form of X.509, with the usual hash of the kind of key:
    /// SHA-256 for P-256 and RSA, SHA-384 and SHA-512 for the larger curves.
    pub(crate) fn sign_x509(&self, message: &[u8]) -> Result<(Signature, Vec<u8>)> {
        let (scheme, signature) = match self.algorithm() {
            KeyAlgorithm::EcP256 => {
                (SignatureScheme::ECDSA_NISTP256_SHA256, Signature::EcdsaSha256)
            }
            KeyAlgorithm::EcP384 => {
                (SignatureScheme::ECDSA_NISTP384_SHA384, Signature::EcdsaSha384)
            }
            KeyAlgorithm::EcP521 => {
                (SignatureScheme::ECDSA_NISTP521_SHA512, Signature::EcdsaSha512)
            }
            KeyAlgorithm::Rsa { .. } => {
                (SignatureScheme::RSA_PKCS1_SHA256, Signature::RsaPkcs1Sha256)
            }
            KeyAlgorithm::Ed25519 => (SignatureScheme::ED25519, Signature::Ed25519),
        };
        let signer = self
            .inner
            .tls
            .choose_scheme(&[scheme])
            .ok_or_else(|| Error::Key(format!("cannot sign with {scheme:?}")))?;
        let bytes = signer.sign(message).map_err(|error| Error::Key(error.to_string()))?;
        Ok((signature, bytes))
    }

    /// Signs a token in the form of JWS: fixed-length r and s for ECDSA, PKCS#1 v1.5 with SHA-256
    /// for RSA.
    pub(crate) fn sign_token(&self, message: &[u8]) -> Result<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.inner.token {
            TokenKey::Ecdsa(pair) => {
                Ok(pair.sign(&random, message).map_err(unspecified)?.as_ref().to_vec())
            }
            TokenKey::Rsa(pair) => {
                let mut out = vec![0; pair.public_modulus_len()];
                pair.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut out)
                    .map_err(unspecified)?;
                Ok(out)
            }
            TokenKey::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

impl TokenKey {
    fn read(der: &PrivateKeyDer<'_>, algorithm: KeyAlgorithm) -> Result<Self> {
        let bytes = der.secret_der();
        let rejected = |error: aws_lc_rs::error::KeyRejected| Error::Key(error.to_string());
        let ecdsa = |alg| EcdsaKeyPair::from_private_key_der(alg, bytes).map(Self::Ecdsa);
        match algorithm {
            KeyAlgorithm::EcP256 => ecdsa(&signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            KeyAlgorithm::EcP384 => ecdsa(&signature::ECDSA_P384_SHA384_FIXED_SIGNING),
            KeyAlgorithm::EcP521 => ecdsa(&signature::ECDSA_P521_SHA512_FIXED_SIGNING),
            KeyAlgorithm::Rsa { .. } => match der {
                PrivateKeyDer::Pkcs1(_) => RsaKeyPair::from_der(bytes),
                _ => RsaKeyPair::from_pkcs8(bytes),
            }
            .map(Self::Rsa),
            KeyAlgorithm::Ed25519 => {
                Ed25519KeyPair::from_pkcs8_maybe_unchecked(bytes).map(Self::Ed25519)
            }
        }
        .map_err(rejected)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

fn new_ecdsa(algorithm: &'static signature::EcdsaSigningAlgorithm) -> Result<Vec<u8>> {
    let pair = EcdsaKeyPair::generate(algorithm).map_err(unspecified)?;
    Ok(pair.to_pkcs8v1().map_err(unspecified)?.as_ref().to_vec())
}

fn new_rsa(bits: usize) -> Result<Vec<u8>> {
    let size = match bits {
        2048 => KeySize::Rsa2048,
        3072 => KeySize::Rsa3072,
        4096 => KeySize::Rsa4096,
        8192 => KeySize::Rsa8192,
        _ => {
            return Err(Error::Key(format!(
                "RSA keys are made with 2048, 3072, 4096 or 8192 bits, not {bits}"
            )));
        }
    };
    let pair = RsaKeyPair::generate(size).map_err(unspecified)?;
    let der: Pkcs8V1Der<'_> = pair.as_der().map_err(unspecified)?;
    Ok(der.as_ref().to_vec())
}

fn unspecified(_: aws_lc_rs::error::Unspecified) -> Error {
    Error::Key("the cryptographic library refused it".into())
}
