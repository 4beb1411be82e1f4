//! Tokens of external signers (docs/protocol/auth.md 13.2, 13.4).
//!
//! A signer with a certificate has one key. Nothing fetches the key sets of others yet, so their
//! tokens are refused.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use weft_identity::Certificate;
use weft_identity::token::{self, Expect};
use weft_kernel::clock::system_time;
use weft_model::entity::ExtJwtSigner;
use weft_model::{Id, Snapshot, Timestamp};

/// How far ahead the end of a token may lie, ten years: what is later is no end.
const LONGEST: Duration = Duration::from_secs(3652 * 24 * 60 * 60);

/// What chooses the signer, before anything is verified.
#[derive(Deserialize)]
struct Issued {
    #[serde(default)]
    iss: Option<String>,
}

/// The claims of a token, and who signed it.
pub struct External {
    /// Who signed it.
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

    /// The claim that a pointer names, if it is a text that says something.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.claim(pointer)?.as_str().filter(|text| !text.trim().is_empty())
    }
}

/// Verifies a token of an enabled signer: the one named, or else the one that the token says it is
/// of. Issuer, audience and expiry count either way: a token without an end could be used forever by
/// whoever finds it. Says why it is refused.
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
