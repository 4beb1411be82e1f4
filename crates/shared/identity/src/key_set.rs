//! Sets of public keys by name, and their published form (JWKS).

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::certificate::Certificate;
use crate::error::{Error, Result};
use crate::public::{KeyAlgorithm, PublicKey, strip_zeros};
use crate::seen::SeenTokens;
use crate::token::{Expect, TokenError, algorithm_name};

/// Largest key set document that is read, in bytes.
pub const MAX_KEY_SET_BYTES: usize = 1024 * 1024;
/// Most keys that are taken from a document.
pub const MAX_KEYS: usize = 256;

/// Public keys by name (`kid`). Clones share the memory of verified tokens.
#[derive(Debug, Clone, Default)]
pub struct KeySet {
    keys: BTreeMap<String, PublicKey>,
    seen: Arc<SeenTokens>,
}

/// One key of a published set.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Jwk {
    #[serde(rename = "use", default, skip_serializing_if = "Option::is_none")]
    usage: Option<String>,
    #[serde(default)]
    kty: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    alg: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    crv: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    x: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    y: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    n: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    e: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    x5c: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Document {
    keys: Vec<Jwk>,
}

/// A set in which a key that cannot be read does not spoil the others.
#[derive(Deserialize)]
struct LooseDocument {
    keys: Vec<serde_json::Value>,
}

impl KeySet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key under a name.
    pub fn insert(&mut self, kid: impl Into<String>, key: PublicKey) {
        self.keys.insert(kid.into(), key);
    }

    /// Adds the key of a certificate under its fingerprint.
    ///
    /// # Errors
    /// When the key is of a kind that is not supported.
    pub fn insert_certificate(&mut self, certificate: &Certificate) -> Result<()> {
        self.insert(certificate.fingerprint(), certificate.public_key()?.clone());
        Ok(())
    }

    /// Removes a key.
    pub fn remove(&mut self, kid: &str) -> Option<PublicKey> {
        self.keys.remove(kid)
    }

    /// The key with this name.
    #[must_use]
    pub fn get(&self, kid: &str) -> Option<&PublicKey> {
        self.keys.get(kid)
    }

    /// Every name with its key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PublicKey)> {
        self.keys.iter().map(|(kid, key)| (kid.as_str(), key))
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// True if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Verifies a token with the key that its header names.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn verify<T: DeserializeOwned>(
        &self,
        token: &str,
        expect: &Expect<'_>,
    ) -> Result<T, TokenError> {
        self.seen.verify(token, |kid| self.get(kid).cloned(), expect)
    }

    /// Reads a published set. A certificate (`x5c`) takes precedence over key parameters, and says of which kind its key
    /// is. Keys without a name, for encryption, or of a kind that is not supported are left out (docs/protocol/auth.md
    /// 13.2).
    ///
    /// # Errors
    /// When the document is too large or not a key set.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let wrong = |reason: String| Error::Document { what: "key set", reason };
        if text.len() > MAX_KEY_SET_BYTES {
            return Err(wrong(format!("larger than {MAX_KEY_SET_BYTES} bytes")));
        }
        let document: LooseDocument =
            serde_json::from_slice(text).map_err(|error| wrong(error.to_string()))?;
        let mut set = Self::new();
        for value in document.keys.into_iter().take(MAX_KEYS) {
            let Ok(jwk) = serde_json::from_value::<Jwk>(value) else { continue };
            if jwk.usage.as_deref().is_some_and(|usage| usage != "sig") {
                continue;
            }
            if let (Some(kid), Ok(key)) = (jwk.kid.clone(), jwk.key())
                && !kid.is_empty()
            {
                set.insert(kid, key);
            }
        }
        Ok(set)
    }

    /// The set in its published form (docs/protocol/auth.md 15.7).
    ///
    /// # Errors
    /// When a key cannot be encoded.
    pub fn to_json(&self) -> Result<serde_json::Value> {
        let keys = self.iter().map(|(kid, key)| Jwk::of(kid, key)).collect::<Result<Vec<_>>>()?;
        serde_json::to_value(Document { keys })
            .map_err(|error| Error::Document { what: "key set", reason: error.to_string() })
    }
}

impl Jwk {
    fn of(kid: &str, key: &PublicKey) -> Result<Self> {
        let mut jwk = Self {
            usage: Some("sig".into()),
            kid: Some(kid.to_owned()),
            alg: Some(algorithm_name(key.algorithm()).to_owned()),
            ..Self::default()
        };
        let text = |bytes: &[u8]| Some(URL_SAFE_NO_PAD.encode(bytes));
        match key.algorithm() {
            KeyAlgorithm::Rsa { .. } => {
                let (_, spki) = SubjectPublicKeyInfo::from_der(key.spki())
                    .map_err(|error| Error::PublicKey(error.to_string()))?;
                let Ok(x509_parser::public_key::PublicKey::RSA(rsa)) = spki.parsed() else {
                    return Err(Error::PublicKey("malformed RSA key".into()));
                };
                jwk.kty = "RSA".into();
                jwk.n = text(strip_zeros(rsa.modulus));
                jwk.e = text(strip_zeros(rsa.exponent));
            }
            KeyAlgorithm::Ed25519 => {
                jwk.kty = "OKP".into();
                jwk.crv = Some("Ed25519".into());
                jwk.x = text(key.raw());
            }
            curve => {
                let name = match curve {
                    KeyAlgorithm::EcP256 => "P-256",
                    KeyAlgorithm::EcP384 => "P-384",
                    _ => "P-521",
                };
                // One byte for the form of the point, then both coordinates.
                let point = key.raw().get(1..).unwrap_or_default();
                let (x, y) = point.split_at(point.len() / 2);
                jwk.kty = "EC".into();
                jwk.crv = Some(name.into());
                jwk.x = text(x);
                jwk.y = text(y);
            }
        }
        Ok(jwk)
    }

    fn key(&self) -> Result<PublicKey> {
        let wrong = |reason: &str| Error::PublicKey(reason.to_owned());
        if let Some(first) = self.x5c.as_ref().and_then(|chain| chain.first()) {
            let der = STANDARD.decode(first).map_err(|_| wrong("x5c is not base64"))?;
            return Certificate::from_der(der)?.public_key().cloned();
        }
        let bytes = |part: &Option<String>| {
            let text = part.as_deref().ok_or_else(|| wrong("a parameter is missing"))?;
            URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong("a parameter is not base64url"))
        };
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => PublicKey::from_rsa(&bytes(&self.n)?, &bytes(&self.e)?),
            ("EC", Some("P-256")) => {
                PublicKey::from_ec(KeyAlgorithm::EcP256, &bytes(&self.x)?, &bytes(&self.y)?)
            }
            ("EC", Some("P-384")) => {
                PublicKey::from_ec(KeyAlgorithm::EcP384, &bytes(&self.x)?, &bytes(&self.y)?)
            }
            ("EC", Some("P-521")) => {
                PublicKey::from_ec(KeyAlgorithm::EcP521, &bytes(&self.x)?, &bytes(&self.y)?)
            }
            ("OKP", Some("Ed25519")) => PublicKey::from_ed25519(&bytes(&self.x)?),
            _ => Err(wrong("kind of key")),
        }
    }
}
