//! The rights of an SDK: service session tokens and decisions
//! (docs/protocol/edge-control-plane.md 11.5, 12).

use std::time::SystemTime;

use parking_lot::MutexGuard;
use weft_wire::edge_ctrl::ErrorCode;

use super::inner::Inner;
use super::live::{self, LiveSessions};
use super::{decide, token};
use crate::seam::{AccessGrant, ApiSession, Refusal, RetryHint, Use};

/// The only text of a refusal that C SDKs react to: they drop the service session and begin again
/// (docs/protocol/sdk.md 6).
const INVALID_SESSION: &str = "Invalid Session";

fn invalid(detail: &dyn std::fmt::Display, session: &ApiSession) -> Refusal {
    tracing::debug!(session = %session.id, identity = %session.identity, %detail, "service session refused");
    Refusal::new(ErrorCode::INVALID_SESSION, RetryHint::START_OVER, INVALID_SESSION)
}

/// Judges the service token of a connect or a bind. In an API session with a signed token the data
/// model decides here. In an opaque API session the decision is the controller's.
pub(crate) fn judge(
    inner: &Inner,
    session: &ApiSession,
    token: &[u8],
    purpose: Use,
    now: SystemTime,
) -> Result<AccessGrant, Refusal> {
    let text = std::str::from_utf8(token)
        .map_err(|_| invalid(&"the service token is not text", session))?;
    let grant = if token::is_signed(token) {
        of_token(inner, session, text, purpose, now)?
    } else {
        of_service(inner, session, text, purpose)?
    };
    if !session.legacy {
        let posture = inner.posture_of_clients();
        // The lock is held until the grant is noted, so that a change of the model either comes
        // before the decision or finds the grant.
        let model = inner.model.read();
        decide::decide(&model, &session.identity, &grant.service, purpose, posture)?;
        // Grants are forgotten with the last session of their identity.
        let live = held(inner, session)?;
        inner.grants.lock().insert(&session.identity, &grant.service, purpose);
        drop(live);
    }
    Ok(grant)
}

/// The sessions, locked, with this one among them. Grants and service sessions are noted while they are locked, so
/// that they are forgotten with the session.
fn held<'i>(
    inner: &'i Inner,
    session: &ApiSession,
) -> Result<MutexGuard<'i, LiveSessions>, Refusal> {
    let live = inner.live.lock();
    if live.contains(&session.id) {
        return Ok(live);
    }
    Err(invalid(&"the API session has ended", session))
}

fn of_token(
    inner: &Inner,
    session: &ApiSession,
    text: &str,
    purpose: Use,
    now: SystemTime,
) -> Result<AccessGrant, Refusal> {
    let claims = token::service(&inner.keys.load(), text, now);
    let claims = claims.map_err(|error| invalid(&error, session))?;
    if claims.z_asid != session.id {
        return Err(invalid(&"the token is of another API session", session));
    }
    if !claims.z_iid.is_empty() && claims.z_iid != session.identity {
        return Err(invalid(&"the token is of another identity", session));
    }
    let facts =
        live::TokenFacts { jti: claims.jti.clone(), kid: String::new(), issued: 0.0, expires: 0.0 };
    if live::is_revoked(&inner.model.read(), "", "", &facts) {
        return Err(invalid(&"the token is revoked", session));
    }
    let wanted = match purpose {
        Use::Dial => "Dial",
        Use::Bind => "Bind",
    };
    if claims.z_st != wanted {
        let verb = wanted.to_lowercase();
        let got: String = claims.z_st.chars().take(16).collect();
        let text = format!("rejecting {verb}, invalid session type. expected {wanted}, got {got}");
        return Err(Refusal::new(ErrorCode::WRONG_SESSION_TYPE, RetryHint::START_OVER, text));
    }
    // Under one lock: either the end comes before, or it is told to the bindings.
    let live = held(inner, session)?;
    let used = inner.service_sessions.lock().use_one(&claims.jti, &session.id);
    drop(live);
    used.map_err(|why| invalid(&why, session))?;
    Ok(AccessGrant {
        service: claims.sub,
        service_session: claims.jti,
        token: text.to_owned(),
        purpose,
    })
}

/// Judges a request that names its service by id instead of a service token. Only a dial may do so.
fn of_service(
    inner: &Inner,
    session: &ApiSession,
    text: &str,
    purpose: Use,
) -> Result<AccessGrant, Refusal> {
    if purpose == Use::Bind {
        return Err(invalid(&"a bind needs a signed service token", session));
    }
    if !inner.model.read().services.contains_key(text) {
        let shown: String = text.chars().take(64).collect();
        return Err(decide::unknown_service(&shown));
    }
    Ok(AccessGrant {
        service: text.to_owned(),
        service_session: String::new(),
        token: text.to_owned(),
        purpose,
    })
}
