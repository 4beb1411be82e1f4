//! The authentication of SDKs: their token against keys or announced sessions, and their
//! certificate against the token (docs/protocol/edge-control-plane.md 11, docs/protocol/sdk.md 3).

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use rustls_pki_types::CertificateDer;
use weft_channel::clock::time_of_day;
use weft_identity::token::TokenError;
use weft_wire::edge_ctrl::ErrorCode;

use super::binding::{self, Bound};
use super::inner::Inner;
use super::live::{TokenFacts, is_revoked};
use super::token;
use crate::seam::{ApiSession, ControllerId, Refusal, Release, RetryHint};

/// Most certificates of a peer that are checked.
const MAX_CERTIFICATES: usize = 16;

/// A token and the session that it belongs to.
struct Presented {
    id: String,
    identity: String,
    fingerprints: Vec<String>,
    expired_allowed: bool,
    /// The claims of a signed token; `None` for an opaque one.
    facts: Option<TokenFacts>,
    /// The controller that announced an opaque token.
    controller: Option<ControllerId>,
}

/// Why a token is unknown.
enum Unknown {
    /// The token may become known soon: its session or its key may not have arrived yet.
    Yet(String),
    /// The token will not become known.
    Final(String),
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::INVALID_API_SESSION, RetryHint::START_OVER, message)
}

/// Judges the token and the certificates of an SDK connection. The judgement waits for sessions and
/// keys that may still arrive, because SDKs connect right after their login, often before the
/// router has heard of the login.
pub(crate) async fn authenticate(
    inner: &Arc<Inner>,
    token: &[u8],
    certificates: Vec<Bytes>,
) -> Result<Arc<ApiSession>, Refusal> {
    let chain: Vec<CertificateDer<'static>> = certificates
        .into_iter()
        .take(MAX_CERTIFICATES)
        .map(|der| CertificateDer::from(der.to_vec()))
        .collect();
    if chain.is_empty() {
        return Err(invalid("no client certificate"));
    }
    let token = std::str::from_utf8(token).map_err(|_| invalid("the token is not text"))?;
    if token.is_empty() {
        return Err(invalid("no token"));
    }
    let presented = find(inner, token).await?;
    let bound = Bound {
        identity: &presented.identity,
        session: &presented.id,
        fingerprints: &presented.fingerprints,
        legacy: presented.facts.is_none(),
        expired_allowed: presented.expired_allowed,
    };
    binding::check(&bound, &chain, &inner.first_party.load(), time_of_day()).map_err(invalid)?;
    let prints = chain.iter().map(|der| weft_identity::fingerprint(der)).collect();
    admit(inner, presented, token, prints)
}

/// Looks for a token until the token is known, or the time for the look-up is over.
async fn find(inner: &Inner, token: &str) -> Result<Presented, Refusal> {
    let deadline = tokio::time::Instant::now() + inner.options.lookup_timeout;
    let mut arrivals = inner.arrivals.subscribe();
    loop {
        arrivals.mark_unchanged();
        let problem = match look(inner, token, time_of_day()) {
            Ok(presented) => return Ok(presented),
            Err(Unknown::Final(problem)) => return Err(invalid(problem)),
            Err(Unknown::Yet(problem)) => problem,
        };
        if !matches!(tokio::time::timeout_at(deadline, arrivals.changed()).await, Ok(Ok(()))) {
            return Err(invalid(problem));
        }
    }
}

fn look(inner: &Inner, token: &str, now: SystemTime) -> Result<Presented, Unknown> {
    if !token::is_signed(token.as_bytes()) {
        let sessions = inner.sessions.lock();
        let known = sessions.of_token(token);
        let known = known.ok_or_else(|| Unknown::Yet("the session is not known".into()))?;
        return Ok(Presented {
            id: known.id.clone(),
            identity: known.identity.clone(),
            fingerprints: known.fingerprints.clone(),
            expired_allowed: true,
            facts: None,
            controller: Some(known.controller.clone()),
        });
    }
    let claims = token::access(&inner.keys.load(), token, now).map_err(|error| match error {
        TokenError::UnknownKey(_) => Unknown::Yet(error.to_string()),
        other => Unknown::Final(other.to_string()),
    })?;
    Ok(Presented {
        facts: Some((&claims).into()),
        id: claims.z_asid,
        identity: claims.sub,
        fingerprints: claims.z_cfs.unwrap_or_default(),
        expired_allowed: claims.z_cae,
        controller: None,
    })
}

/// Enters a session with this token and the fingerprints of these certificates. Refuses sessions that have ended, and
/// those of disabled identities. The locks are held until the session is entered: an end comes before, or finds the
/// session.
fn admit(
    inner: &Inner,
    presented: Presented,
    token: &str,
    fingerprints: Vec<String>,
) -> Result<Arc<ApiSession>, Refusal> {
    let model = inner.model.read();
    let identity = model.identities.get(&presented.identity);
    if identity.is_some_and(|identity| identity.disabled) {
        return Err(invalid("the identity is disabled"));
    }
    if let Some(facts) = &presented.facts
        && is_revoked(&model, &presented.id, &presented.identity, facts)
    {
        return Err(invalid("the session is revoked"));
    }
    let legacy = presented.facts.is_none();
    let session = ApiSession {
        id: presented.id,
        token: token.to_owned(),
        identity_name: identity.map(|identity| identity.name.clone()),
        identity: presented.identity,
        legacy,
        controller: presented.controller,
        fingerprints,
        release: Release::default(),
    };
    let sessions = legacy.then(|| inner.sessions.lock());
    if sessions.as_ref().is_some_and(|known| !known.contains(&session.id)) {
        return Err(invalid("the session has ended"));
    }
    let mut live = inner.live.lock();
    // The key may have been lost since it verified the token.
    let counts = |facts: &TokenFacts| inner.keys.load().tokens.get(&facts.kid).is_some();
    if !presented.facts.as_ref().is_none_or(counts) {
        return Err(invalid("the key of the token counts no more"));
    }
    Ok(live.hold(session, presented.facts))
}

/// Takes a newer token of the same session (docs/protocol/edge-control-plane.md 11.4).
pub(crate) fn renew(
    inner: &Inner,
    session: &ApiSession,
    token: &[u8],
    now: SystemTime,
) -> Result<Arc<ApiSession>, Refusal> {
    if session.legacy {
        let text = "only sessions with signed tokens can be renewed";
        return Err(Refusal::new(ErrorCode::INVALID_API_SESSION_TYPE, RetryHint::START_OVER, text));
    }
    let token = std::str::from_utf8(token).map_err(|_| invalid("the token is not text"))?;
    if !token::is_signed(token.as_bytes()) {
        let text = "the new token is not a signed one";
        return Err(Refusal::new(ErrorCode::INVALID_API_SESSION_TYPE, RetryHint::START_OVER, text));
    }
    let claims = token::access(&inner.keys.load(), token, now);
    let claims = claims.map_err(|error| invalid(error.to_string()))?;
    if claims.z_asid != session.id || claims.sub != session.identity {
        return Err(invalid("the new token is of another session"));
    }
    let presented = Presented {
        facts: Some((&claims).into()),
        id: claims.z_asid,
        identity: claims.sub,
        fingerprints: Vec::new(),
        expired_allowed: false,
        controller: None,
    };
    admit(inner, presented, token, session.fingerprints.clone())
}
