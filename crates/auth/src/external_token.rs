//! Tokens of external signers (docs/protocol/auth.md 13.2, 13.4).
//!
//! A signer with a certificate has one key. Key sets are not fetched, so that tokens of signers without
//! a certificate are refused.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use weft_identity::Certificate;
use weft_identity::token::{self, Expect};
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

/// Verifies a token of an enabled signer: of the named one, or else of the issuer in the token.
/// Issuer, audience and expiry are checked in both cases. A token without expiry is refused,
/// because a thief could use it for ever. The error is the reason of the refusal.
pub fn verify(
    snapshot: &Snapshot,
    named: Option<&str>,
    token: &str,
    now: Timestamp,
) -> Result<External, String> {
    let signer = match named {
        Some(id) => snapshot.get::<ExtJwtSigner>(&Id::new(id)),
        None => {
            let (_, issued): (_, Issued) = token::peek(token).map_err(|it| it.to_string())?;
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
    let certificate = Certificate::from_pem(pem.as_bytes()).map_err(|it| it.to_string())?;
    let certificate = certificate.first().ok_or("the signer has no certificate")?;
    let key = certificate.public_key().map_err(|error| error.to_string())?;
    let kid = signer.kid.as_deref().unwrap_or(certificate.fingerprint());
    let expect = Expect {
        now: system_time(now),
        issuer: Some(issuer),
        audience: &[audience],
        require_expiry: true,
        longest: Some(LONGEST),
    };
    let claims = token::verify(token, |named| (named == kid).then(|| key.clone()), &expect);
    Ok(External { signer: signer.clone(), claims: claims.map_err(|error| error.to_string())? })
}
