//! Tokens of external signers (docs/protocol/auth.md 13.2, 13.4).
//!
//! A token is judged in two steps: its signer and key are found, which may fetch the key set of the signer; then
//! the token is verified with that key. Nothing in a token is believed before, but its issuer and the name of its
//! key, which choose the key.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use weft_identity::token::{self, Expect, TokenError};
use weft_identity::{Certificate, PublicKey};
use weft_kernel::clock::system_time;
use weft_model::entity::ExtJwtSigner;
use weft_model::{Id, Snapshot, Timestamp};

use crate::handle::Auth;
use crate::token_refusal::TokenRefused;

/// Latest expiry of a token: ten years from now. A later one is refused like a missing one.
pub(crate) const LONGEST: Duration = Duration::from_secs(3652 * 24 * 60 * 60);
/// The claim that names an identity if the signer sets none.
const SUBJECT: &str = "/sub";
/// The event that a token for logging out is about (OpenID Connect Back-Channel Logout 2.4).
const LOGOUT: &str = "http://schemas.openid.net/event/backchannel-logout";

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
        claim(&self.claims, pointer)
    }

    /// The claim that a pointer names, if it is a text that is not blank.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.claim(pointer)?.as_str().filter(|text| !text.trim().is_empty())
    }

    /// The claim that names the identity.
    pub(crate) fn name(&self) -> Option<&str> {
        self.text(name_claim(&self.signer))
    }

    /// The time at which the token expires.
    pub(crate) fn expiry(&self) -> Option<Timestamp> {
        let seconds = self.claims.get("exp")?.as_f64()?;
        Some(Timestamp((seconds * 1000.0) as i64))
    }
}

/// The claim that a pointer names; its leading slash may be left out.
pub(crate) fn claim<'c>(claims: &'c Value, pointer: &str) -> Option<&'c Value> {
    match pointer.starts_with('/') {
        true => claims.pointer(pointer),
        false => claims.pointer(&format!("/{pointer}")),
    }
}

/// The pointer to the claim that names the identity.
pub(crate) fn name_claim(signer: &ExtJwtSigner) -> &str {
    signer.claims_property.as_deref().filter(|pointer| !pointer.is_empty()).unwrap_or(SUBJECT)
}

/// A token whose signer is known, and that is not verified yet.
pub(crate) struct Claimed<'t> {
    pub(crate) token: &'t str,
    pub(crate) signer: Arc<ExtJwtSigner>,
    /// The name of the key, from the header of the token.
    pub(crate) kid: String,
}

/// A token with the key that verifies it.
pub(crate) struct Keyed<'t> {
    pub(crate) claimed: Claimed<'t>,
    pub(crate) key: PublicKey,
}

impl<'t> Claimed<'t> {
    /// The signer of a token, which must be enabled: the named one, or else the one with the issuer in the token.
    pub(crate) fn of(
        snapshot: &Snapshot,
        named: Option<&Id>,
        token: &'t str,
    ) -> Result<Self, TokenRefused> {
        let unrelated = |reason: &str| TokenRefused::Unrelated(reason.to_owned());
        let (header, issued): (_, Issued) =
            token::peek(token).map_err(|error| TokenRefused::Unrelated(error.to_string()))?;
        let issuer = issued.iss.ok_or_else(|| unrelated("the token names no issuer"))?;
        check_purpose(header.typ.as_deref())?;
        header.check_extensions()?;
        let kid = header.kid.filter(|kid| !kid.is_empty()).ok_or(TokenError::NoKeyId)?;
        let signer = match named {
            Some(id) => snapshot.get::<ExtJwtSigner>(id),
            None => snapshot.by_unique::<ExtJwtSigner>(ExtJwtSigner::ISSUER, &issuer),
        };
        let signer = signer.filter(|signer| signer.enabled);
        let signer = signer.ok_or_else(|| unrelated("no such signer is enabled"))?;
        if signer.issuer.as_ref().is_some_and(|own| **own != *issuer) {
            let issuer: String = issuer.chars().take(200).collect();
            return Err(unrelated(&format!("issued by {issuer:?}, and not by the signer")));
        }
        if signer.issuer.is_none() || signer.audience.is_none() {
            return Err("the signer has no issuer or no audience".into());
        }
        Ok(Self { token, signer: Arc::clone(signer), kid })
    }

    /// The key of the certificate, if the signer has one.
    fn key_of_certificate(&self) -> Option<Result<PublicKey, TokenRefused>> {
        let pem = self.signer.cert_pem.as_deref()?;
        let read = || {
            let certificate = Certificate::from_pem(pem.as_bytes())?;
            let certificate = certificate.first().ok_or("the signer has no certificate")?;
            match self.kid == self.signer.kid.as_deref().unwrap_or(certificate.fingerprint()) {
                true => Ok(certificate.public_key()?.clone()),
                false => Err(TokenError::UnknownKey(self.kid.chars().take(80).collect()).into()),
            }
        };
        Some(read())
    }

    /// The token with its key, which is fetched if it is not known.
    pub(crate) async fn key(
        self,
        auth: &Auth,
        from: Option<IpAddr>,
    ) -> Result<Keyed<'t>, TokenRefused> {
        let key = match self.key_of_certificate() {
            Some(key) => key?,
            None => auth.key_sets().key(&self.signer, &self.kid, from).await?,
        };
        self.keyed(auth, key)
    }

    /// The token with its key, if that is known without a fetch.
    pub(crate) fn known_key(self, auth: &Auth) -> Result<Keyed<'t>, TokenRefused> {
        let key = match self.key_of_certificate() {
            Some(key) => key?,
            None => auth
                .key_sets()
                .known(&self.signer, &self.kid)
                .ok_or("the key set of the signer has no such key")?,
        };
        self.keyed(auth, key)
    }

    /// A signer whose key is the controller's own would accept tokens that the controller made for another purpose.
    fn keyed(self, auth: &Auth, key: PublicKey) -> Result<Keyed<'t>, TokenRefused> {
        match auth.signs_with(&key) {
            true => Err("the key of the signer is one of this controller".into()),
            false => Ok(Keyed { claimed: self, key }),
        }
    }
}

/// How the signature of a token is judged.
#[derive(Debug, Clone, Copy)]
enum How {
    Verify,
    /// By what was verified before.
    Recall,
}

impl Keyed<'_> {
    /// Verifies the token: signature, times, issuer and audience. A token without expiry is refused, because a
    /// thief could use it for ever.
    pub(crate) fn verify(&self, auth: &Auth) -> Result<External, TokenRefused> {
        self.judge(auth, How::Verify)
    }

    /// The same for a token whose signature was verified before. Any other one is refused without work.
    fn recall(&self, auth: &Auth) -> Result<External, TokenRefused> {
        self.judge(auth, How::Recall).map_err(|refused| match refused {
            TokenRefused::Forged(_) => TokenRefused::Busy(
                "too many tokens with wrong signatures came from its source".into(),
            ),
            other => other,
        })
    }

    fn judge(&self, auth: &Auth, how: How) -> Result<External, TokenRefused> {
        let signer = &self.claimed.signer;
        let audience = [signer.audience.as_deref().unwrap_or_default()];
        let expect = Expect {
            now: system_time(auth.kernel().now()),
            issuer: signer.issuer.as_deref(),
            audience: &audience,
            require_expiry: true,
            longest: Some(LONGEST),
        };
        let (token, leeway) = (self.claimed.token, auth.kernel().settings().external_tokens.leeway);
        let (seen, key) = (&auth.0.seen_tokens, |_: &str| Some(self.key.clone()));
        let claims: Value = match how {
            How::Verify => seen.verify_within(token, key, &expect, leeway)?,
            How::Recall => seen.recall_within(token, key, &expect, leeway)?,
        };
        check_event(&claims)?;
        Ok(External { signer: Arc::clone(signer), claims })
    }

    /// [`Self::verify`], and once more if the provider has given the name of the key to another key meanwhile. The set
    /// is fetched for that as seldom as for a key that is not known.
    pub(crate) async fn verify_renewing(&self, auth: &Auth) -> Result<External, TokenRefused> {
        let judged = self.verify(auth);
        let Claimed { token, signer, kid } = &self.claimed;
        if !matches!(judged, Err(TokenRefused::Forged(_))) || signer.cert_pem.is_some() {
            return judged;
        }
        let Some(key) = auth.key_sets().renewed(signer, kid, &self.key).await else {
            return judged;
        };
        let claimed = Claimed { token, signer: Arc::clone(signer), kid: kid.clone() };
        claimed.keyed(auth, key)?.verify(auth)
    }
}

/// Refuses a token whose header says that it is for another purpose than to log in: one for logging out, an
/// event, a proof of possession. Most providers write `JWT` or nothing, some `at+jwt` (RFC 9068).
pub(crate) fn check_purpose(typ: Option<&str>) -> Result<(), TokenRefused> {
    let typ = typ.unwrap_or("JWT").to_ascii_lowercase();
    match typ.strip_prefix("application/").unwrap_or(&typ) {
        "jwt" | "at+jwt" => Ok(()),
        other => {
            let other: String = other.chars().take(40).collect();
            Err(TokenRefused::Because(format!(
                "a token of the type {other:?} is not for logging in"
            )))
        }
    }
}

/// Refuses a token for logging out that does not say so in its header.
pub(crate) fn check_event(claims: &Value) -> Result<(), TokenRefused> {
    match claims.get("events").and_then(|events| events.get(LOGOUT)) {
        Some(_) => Err("a token for logging out is not for logging in".into()),
        None => Ok(()),
    }
}

/// Verifies a token of an enabled signer: of the named one, or else of the issuer in the token.
/// Issuer, audience and expiry are checked in both cases.
pub async fn verify(
    auth: &Auth,
    named: Option<&Id>,
    token: &str,
    from: Option<IpAddr>,
) -> Result<External, TokenRefused> {
    let claimed = Claimed::of(&auth.kernel().snapshot(), named, token)?;
    claimed.key(auth, from).await?.verify_renewing(auth).await
}

/// Verifies a token of this signer with the keys that are known. This waits for nothing, and costs a digest for a
/// token that was verified before. `is_limited`: only such a token is good.
pub(crate) fn verify_known(
    auth: &Auth,
    snapshot: &Snapshot,
    signer: &Id,
    token: &str,
    is_limited: bool,
) -> Result<External, TokenRefused> {
    let keyed = Claimed::of(snapshot, Some(signer), token)?.known_key(auth)?;
    if is_limited { keyed.recall(auth) } else { keyed.verify(auth) }
}
