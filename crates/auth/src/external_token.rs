//! Tokens of external signers (docs/protocol/auth.md 13.2, 13.4).
//!
//! A signer with a certificate has one key. Key sets are not fetched, so that tokens of signers without
//! a certificate are refused.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use weft_identity::Certificate;
use weft_identity::token::{self, Expect, TokenError};
use weft_kernel::clock::system_time;
use weft_model::entity::ExtJwtSigner;
use weft_model::{Id, Snapshot, Timestamp};

/// Latest expiry of a token: ten years from now. A later one is refused like a missing one.
const LONGEST: Duration = Duration::from_secs(3652 * 24 * 60 * 60);

/// The claims that choose the signer; they are read before the token is verified.
#[derive(Deserialize)]
struct Issued {
    #[serde(default)]
    iss: Option<String>,
}

/// A verified token, and its signer.
pub struct External {
    /// The signer.
    pub signer: Arc<ExtJwtSigner>,
    claims: Value,
}

impl External {
    /// The claim that a pointer names; its leading slash may be left out.
    pub fn claim(&self, pointer: &str) -> Option<&Value> {
        match pointer.starts_with('/') {
            true => self.claims.pointer(pointer),
            false => self.claims.pointer(&format!("/{pointer}")),
        }
    }

    /// The claim that a pointer names, if it is a text that is not blank.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.claim(pointer)?.as_str().filter(|text| !text.trim().is_empty())
    }
}

/// Why a token was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The token was good, and has expired.
    #[error("expired")]
    Expired,
    /// Another reason.
    #[error("{0}")]
    Because(String),
}

impl From<&str> for Refused {
    fn from(reason: &str) -> Self {
        Self::Because(reason.to_owned())
    }
}

impl From<weft_identity::Error> for Refused {
    fn from(error: weft_identity::Error) -> Self {
        Self::Because(error.to_string())
    }
}

impl From<TokenError> for Refused {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Expired => Self::Expired,
            other => Self::Because(other.to_string()),
        }
    }
}

/// The item of `WWW-Authenticate` for a login that lacks a token of a signer (docs/protocol/auth.md 1.5), and that
/// came with these tokens.
pub(crate) fn challenge<'t>(
    snapshot: &Snapshot,
    signer: &Id,
    tokens: impl Iterator<Item = &'t str>,
    now: Timestamp,
) -> String {
    let mut tokens = tokens.filter(|token| token::peek::<Issued>(token).is_ok());
    let shown =
        tokens.next().map(|token| verify(snapshot, Some(signer.as_str()), token, now).err());
    let (error, description) = match shown.flatten() {
        None => ("missing", "no matching token was provided"),
        Some(Refused::Expired) => ("expired", "token expired"),
        Some(Refused::Because(_)) => ("invalid", "token is invalid"),
    };
    let issuer = snapshot.get::<ExtJwtSigner>(signer).and_then(|signer| signer.issuer.clone());
    let issuer = issuer.as_deref().unwrap_or_default().replace(['"', '\\'], "");
    format!(
        "Bearer realm=\"openziti-secondary-ext-jwt\" error=\"{error}\" \
         error_description=\"{description}\" id=\"{signer}\" issuer=\"{issuer}\""
    )
}

/// Verifies a token of an enabled signer: of the named one, or else of the issuer in the token.
/// Issuer, audience and expiry are checked in both cases. A token without expiry is refused,
/// because a thief could use it for ever.
pub fn verify(
    snapshot: &Snapshot,
    named: Option<&str>,
    token: &str,
    now: Timestamp,
) -> Result<External, Refused> {
    let signer = match named {
        Some(id) => snapshot.get::<ExtJwtSigner>(&Id::new(id)),
        None => {
            let (_, issued): (_, Issued) = token::peek(token)?;
            let issuer = issued.iss.ok_or("the token names no issuer")?;
            snapshot.by_unique::<ExtJwtSigner>(ExtJwtSigner::ISSUER, &issuer)
        }
    };
    let signer = signer.filter(|signer| signer.enabled).ok_or("no such signer is enabled")?;
    let (Some(issuer), Some(audience)) = (&signer.issuer, &signer.audience) else {
        return Err("the signer has no issuer or no audience".into());
    };
    let pem = signer.cert_pem.as_deref().ok_or(
        "the signer has no certificate, and key sets (`jwksEndpoint`) are not fetched by this release",
    )?;
    let certificate = Certificate::from_pem(pem.as_bytes())?;
    let certificate = certificate.first().ok_or("the signer has no certificate")?;
    let key = certificate.public_key()?;
    let kid = signer.kid.as_deref().unwrap_or(certificate.fingerprint());
    let expect = Expect {
        now: system_time(now),
        issuer: Some(issuer),
        audience: &[audience],
        require_expiry: true,
        longest: Some(LONGEST),
    };
    let claims = token::verify(token, |named| (named == kid).then(|| key.clone()), &expect);
    Ok(External { signer: signer.clone(), claims: claims? })
}
