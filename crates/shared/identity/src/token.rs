//! Tokens: JSON Web Tokens signed by a controller, and verified against its published keys.
//!
//! The claims are types of the caller. This module checks the token itself: the form, the key that
//! the header names, that the algorithm fits that key (never `none`, never a shared secret), the
//! signature, and on request issuer, audience and the time limits (docs/protocol/auth.md 2.2, 13.4,
//! 19).
//!
//! ```
//! use std::time::SystemTime;
//! use serde_json::{Value, json};
//! use weft_identity::token::{Expect, TokenSigner};
//! use weft_identity::{KeyAlgorithm, KeySet, PrivateKey};
//!
//! let signer = TokenSigner::with_kid(PrivateKey::generate(KeyAlgorithm::EcP256)?, "key-1")?;
//! let token = signer.sign(&json!({ "sub": "laptop", "exp": 4_102_444_800_u64 }))?;
//!
//! let mut keys = KeySet::new();
//! keys.insert(signer.kid(), signer.public().clone());
//! let claims: Value = keys.verify(&token, &Expect::unexpired(SystemTime::now()))?;
//! assert_eq!(claims["sub"], "laptop");
//! # Ok::<(), weft_identity::Error>(())
//! ```

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};

use crate::certificate::Certificate;
use crate::error::Result;
pub use crate::error::{MAX_TOKEN_BYTES, TokenError};
use crate::identity::KeyedChain;
use crate::key::PrivateKey;
use crate::public::{KeyAlgorithm, PublicKey, Signature};

/// The header of a token.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JwtHeader {
    /// Algorithm.
    pub alg: String,
    /// Name of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// Type, `JWT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typ: Option<String>,
    /// Whether there are extensions that a reader must understand, in whatever form; weft understands none.
    #[serde(rename = "crit", default, skip_serializing, deserialize_with = "is_there")]
    is_critical: bool,
}

fn is_there<'de, D: Deserializer<'de>>(member: D) -> std::result::Result<bool, D::Error> {
    IgnoredAny::deserialize(member).map(|_| true)
}

impl JwtHeader {
    /// Refuses a token whose header names extensions that a reader must understand (RFC 7515, 4.1.11). It is still known
    /// whose token it says to be.
    ///
    /// # Errors
    /// When there are such extensions, whatever they are.
    pub fn check_extensions(&self) -> Result<(), TokenError> {
        match self.is_critical {
            false => Ok(()),
            true => Err(TokenError::Malformed("the header asks for an unknown extension")),
        }
    }
}

/// Signs tokens with one key.
#[derive(Debug, Clone)]
pub struct TokenSigner {
    key: PrivateKey,
    kid: String,
    /// The encoded header, which is the same for every token.
    header: String,
}

impl TokenSigner {
    /// A signer with the key of a certificate, named by the certificate's fingerprint.
    ///
    /// # Errors
    /// When tokens cannot be signed with this kind of key.
    pub fn new(chain: &KeyedChain) -> Result<Self> {
        Self::with_kid(chain.key().clone(), chain.leaf().fingerprint())
    }

    /// A signer with a named key.
    ///
    /// # Errors
    /// When tokens cannot be signed with this kind of key.
    pub fn with_kid(key: PrivateKey, kid: &str) -> Result<Self> {
        let header = JwtHeader {
            alg: algorithm_name(key.algorithm()).to_owned(),
            kid: Some(kid.to_owned()),
            typ: Some("JWT".to_owned()),
            is_critical: false,
        };
        let header = encode(&header)?;
        Ok(Self { key, kid: kid.to_owned(), header })
    }

    /// Name of the key.
    #[must_use]
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The public key, for verifying.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        self.key.public()
    }

    /// A signature over any bytes, in the form of tokens.
    ///
    /// # Errors
    /// When the key refuses to sign.
    pub fn sign_bytes(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        self.key.sign_token(bytes)
    }

    /// A token with these claims.
    ///
    /// # Errors
    /// When the claims cannot be written as JSON.
    pub fn sign(&self, claims: &impl Serialize) -> Result<String> {
        let mut token = format!("{}.{}", self.header, encode(claims)?);
        let signature = self.key.sign_token(token.as_bytes())?;
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        Ok(token)
    }
}

/// Expectations of a token, besides its signature.
#[derive(Debug, Clone, Copy)]
pub struct Expect<'a> {
    /// Time at which the token must be valid. There is no leeway, except in
    /// [`SeenTokens::verify_within`](crate::SeenTokens::verify_within).
    pub now: SystemTime,
    /// The issuer. `None`: any.
    pub issuer: Option<&'a str>,
    /// Audiences, one of which the token must have. Empty: any.
    pub audience: &'a [&'a str],
    /// True if the token must have an expiry.
    pub require_expiry: bool,
    /// Longest time from `now` to the expiry. `None`: any.
    pub longest: Option<Duration>,
}

impl Expect<'_> {
    /// Expects an expiry in the future, from any issuer for any audience.
    #[must_use]
    pub fn unexpired(now: SystemTime) -> Self {
        Self { now, issuer: None, audience: &[], require_expiry: true, longest: None }
    }
}

/// Header and claims of a token without verification, only for choosing the key to verify it with.
///
/// # Errors
/// When the text is not a token, or its claims have another form.
pub fn peek<T: DeserializeOwned>(token: &str) -> Result<(JwtHeader, T), TokenError> {
    let parts = Parts::of(token)?;
    let claims = parts.claims()?;
    Ok((parts.header, claims))
}

/// Verifies a token with the key that its header names, and returns its claims.
///
/// # Errors
/// The reason of the refusal.
pub fn verify<T: DeserializeOwned>(
    token: &str,
    key: impl Fn(&str) -> Option<PublicKey>,
    expect: &Expect<'_>,
) -> Result<T, TokenError> {
    let parts = Parts::of(token)?;
    let key = parts.named_key(key)?;
    parts.verify(&key, expect)
}

/// Verifies a token with one key, whatever key its header names, as enrollment does with the key of
/// the server it talks to (docs/protocol/auth.md 4.2).
///
/// # Errors
/// The reason of the refusal.
pub fn verify_with<T: DeserializeOwned>(
    token: &str,
    key: &PublicKey,
    expect: &Expect<'_>,
) -> Result<T, TokenError> {
    Parts::of(token)?.verify(key, expect)
}

/// [`verify_with`] with the key of a certificate.
///
/// # Errors
/// The reason of the refusal, or a key of an unsupported kind.
pub fn verify_with_certificate<T: DeserializeOwned>(
    token: &str,
    certificate: &Certificate,
    expect: &Expect<'_>,
) -> Result<T> {
    Ok(verify_with(token, certificate.public_key()?, expect)?)
}

/// Name of the algorithm for tokens signed with a key of this kind.
#[must_use]
pub fn algorithm_name(key: KeyAlgorithm) -> &'static str {
    match key {
        KeyAlgorithm::EcP256 => "ES256",
        KeyAlgorithm::EcP384 => "ES384",
        KeyAlgorithm::EcP521 => "ES512",
        KeyAlgorithm::Rsa { .. } => "RS256",
        KeyAlgorithm::Ed25519 => "EdDSA",
    }
}

/// A token in its parts.
pub(crate) struct Parts<'a> {
    header: JwtHeader,
    payload: Vec<u8>,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Parts<'a> {
    pub(crate) fn of(token: &'a str) -> Result<Self, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::TooLong(token.len()));
        }
        let shape = TokenError::Malformed("three parts separated by dots are expected");
        let (signed, signature) = token.rsplit_once('.').ok_or_else(|| shape.clone())?;
        let (header, payload) = signed.split_once('.').ok_or_else(|| shape.clone())?;
        if payload.contains('.') {
            return Err(shape);
        }
        let decode = |text: &str| {
            URL_SAFE_NO_PAD
                .decode(text)
                .map_err(|_| TokenError::Malformed("a part is not base64url without padding"))
        };
        let header: JwtHeader = serde_json::from_slice(&decode(header)?)
            .map_err(|_| TokenError::Malformed("the header is not the JSON of a header"))?;
        Ok(Self { header, payload: decode(payload)?, signed, signature: decode(signature)? })
    }

    fn claims<T: DeserializeOwned>(&self) -> Result<T, TokenError> {
        serde_json::from_slice(&self.payload).map_err(|error| TokenError::Claims(error.to_string()))
    }

    /// The key that the header names.
    pub(crate) fn named_key(
        &self,
        key: impl Fn(&str) -> Option<PublicKey>,
    ) -> Result<PublicKey, TokenError> {
        self.header.check_extensions()?;
        let kid = self.header.kid.as_deref().filter(|kid| !kid.is_empty());
        let kid = kid.ok_or(TokenError::NoKeyId)?;
        key(kid).ok_or_else(|| TokenError::UnknownKey(kid.chars().take(80).collect()))
    }

    fn verify<T: DeserializeOwned>(
        &self,
        key: &PublicKey,
        expect: &Expect<'_>,
    ) -> Result<T, TokenError> {
        let is_right =
            |how: Signature, signed: &[u8], signature: &[u8]| key.verify(how, signed, signature);
        self.verify_by(key, expect, Duration::ZERO, is_right)
    }

    /// Verifies the token with this key; its times hold that much longer on both sides. `is_right` tells
    /// whether the signature of a text is right.
    pub(crate) fn verify_by<T: DeserializeOwned>(
        &self,
        key: &PublicKey,
        expect: &Expect<'_>,
        leeway: Duration,
        is_right: impl FnOnce(Signature, &[u8], &[u8]) -> bool,
    ) -> Result<T, TokenError> {
        self.header.check_extensions()?;
        let how = signature_for(&self.header.alg, key.algorithm())
            .ok_or_else(|| TokenError::Algorithm(self.header.alg.chars().take(20).collect()))?;
        if !is_right(how, self.signed.as_bytes(), &self.signature) {
            return Err(TokenError::Signature);
        }
        self.claims::<Limits>()?.check(expect, leeway.as_secs_f64())?;
        self.claims()
    }
}

/// The algorithm of this name, if a key of this kind may be used with it.
fn signature_for(name: &str, key: KeyAlgorithm) -> Option<Signature> {
    Some(match (key, name) {
        (KeyAlgorithm::Rsa { .. }, "RS256") => Signature::RsaPkcs1Sha256,
        (KeyAlgorithm::Rsa { .. }, "RS384") => Signature::RsaPkcs1Sha384,
        (KeyAlgorithm::Rsa { .. }, "RS512") => Signature::RsaPkcs1Sha512,
        (KeyAlgorithm::Rsa { .. }, "PS256") => Signature::RsaPssSha256,
        (KeyAlgorithm::Rsa { .. }, "PS384") => Signature::RsaPssSha384,
        (KeyAlgorithm::Rsa { .. }, "PS512") => Signature::RsaPssSha512,
        (KeyAlgorithm::EcP256, "ES256")
        | (KeyAlgorithm::EcP384, "ES384")
        | (KeyAlgorithm::EcP521, "ES512") => Signature::EcdsaFixed,
        (KeyAlgorithm::Ed25519, "EdDSA" | "Ed25519") => Signature::Ed25519,
        _ => return None,
    })
}

/// The claims that limit a token's use.
#[derive(Deserialize)]
struct Limits {
    #[serde(default)]
    iss: Option<String>,
    #[serde(default)]
    aud: Option<Audience>,
    /// Seconds since 1970, possibly with a fraction.
    #[serde(default)]
    exp: Option<f64>,
    #[serde(default)]
    nbf: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Limits {
    fn check(&self, expect: &Expect<'_>, leeway: f64) -> Result<(), TokenError> {
        let now = expect.now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = now.as_secs_f64();
        match self.exp {
            Some(exp) if now - leeway >= exp => return Err(TokenError::Expired),
            None if expect.require_expiry => return Err(TokenError::NoExpiry),
            _ => {}
        }
        if let (Some(exp), Some(longest)) = (self.exp, expect.longest)
            && exp - now > longest.as_secs_f64()
        {
            return Err(TokenError::ExpiresLate(longest.as_secs() / (24 * 60 * 60)));
        }
        if self.nbf.is_some_and(|nbf| now + leeway < nbf) {
            return Err(TokenError::NotYet);
        }
        if let Some(issuer) = expect.issuer
            && self.iss.as_deref() != Some(issuer)
        {
            let found = self.iss.as_deref().unwrap_or_default();
            return Err(TokenError::Issuer(found.chars().take(200).collect()));
        }
        if expect.audience.is_empty() || expect.audience.iter().any(|one| self.is_for(one)) {
            Ok(())
        } else {
            Err(TokenError::Audience)
        }
    }

    fn is_for(&self, audience: &str) -> bool {
        match &self.aud {
            Some(Audience::One(one)) => one == audience,
            Some(Audience::Many(many)) => many.iter().any(|one| one == audience),
            None => false,
        }
    }
}

fn encode(value: &impl Serialize) -> Result<String, TokenError> {
    let json = serde_json::to_vec(value).map_err(|error| TokenError::Claims(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(json))
}
