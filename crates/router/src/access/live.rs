//! The API sessions of open connections, each shared by its connections.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::SystemTime,
};

use weft_wire::edge_ctrl::data_model::{Revocation, revocation_type};

use super::{model::Model, sessions::Sessions, token::AccessClaims};
use crate::seam::ApiSession;

/// The API sessions of open connections.
#[derive(Debug, Default)]
pub(crate) struct LiveSessions {
    by_id: HashMap<String, LiveSession>,
}

#[derive(Debug)]
struct LiveSession {
    identity: String,
    /// The claims of the newest token; `None` for an opaque one.
    token: Option<TokenFacts>,
    holders: Vec<Weak<ApiSession>>,
}

/// The claims of a signed token that are checked repeatedly.
#[derive(Debug, Clone)]
pub(crate) struct TokenFacts {
    pub(crate) jti: String,
    pub(crate) issued: f64,
    pub(crate) expires: f64,
}

impl From<&AccessClaims> for TokenFacts {
    fn from(claims: &AccessClaims) -> Self {
        Self { jti: claims.jti.clone(), issued: claims.iat, expires: claims.exp }
    }
}

impl LiveSessions {
    /// Enters a session of a connection. Returns the equal session that other connections hold
    /// already, if there is one, so that equal sessions share one value.
    pub(crate) fn hold(
        &mut self,
        session: ApiSession,
        token: Option<TokenFacts>,
    ) -> Arc<ApiSession> {
        let live = self.by_id.entry(session.id.clone()).or_insert_with(|| LiveSession {
            identity: session.identity.clone(),
            token: None,
            holders: Vec::new(),
        });
        if let Some(token) = token
            && live.token.as_ref().is_none_or(|known| known.expires <= token.expires)
        {
            live.token = Some(token);
        }
        live.holders.retain(|holder| holder.strong_count() > 0);
        let same = |held: &Arc<ApiSession>| {
            held.token == session.token
                && held.fingerprints == session.fingerprints
                && held.identity == session.identity
                && held.legacy == session.legacy
                && held.controller == session.controller
        };
        if let Some(held) = live.holders.iter().filter_map(Weak::upgrade).find(same) {
            return held;
        }
        let session = Arc::new(session);
        live.holders.push(Arc::downgrade(&session));
        session
    }

    /// True if a session is known and has not ended.
    pub(crate) fn contains(&self, session: &str) -> bool {
        self.by_id.contains_key(session)
    }

    /// The identities of the sessions.
    pub(crate) fn identities(&self) -> impl Iterator<Item = &str> {
        self.by_id.values().map(|live| live.identity.as_str())
    }

    /// Removes sessions that have ended and returns their ids; sessions without a connection are
    /// forgotten.
    pub(crate) fn sweep(
        &mut self,
        model: &Model,
        sessions: &Sessions,
        now: SystemTime,
    ) -> Vec<String> {
        let mut ended = Vec::new();
        self.by_id.retain(|id, live| {
            live.holders.retain(|holder| holder.strong_count() > 0);
            if live.holders.is_empty() {
                return false;
            }
            let over = match &live.token {
                None => !sessions.contains(id),
                Some(token) => {
                    seconds(now) >= token.expires || is_revoked(model, id, &live.identity, token)
                }
            };
            if over {
                ended.push(id.clone());
            }
            !over
        });
        ended
    }
}

/// True if a token is revoked: by itself, with its session, or with its identity
/// (docs/protocol/edge-control-plane.md 4.4, 11.4). Times are compared in whole seconds, so that a
/// token of the same second as the revocation is revoked.
pub(crate) fn is_revoked(model: &Model, session: &str, identity: &str, token: &TokenFacts) -> bool {
    let revocation = |id: &str, kind: &str| -> Option<&Revocation> {
        model.revocations.get(id).map(|one| &**one).filter(|one| one.r#type == kind)
    };
    let before = |one: &Revocation| {
        one.issued_before
            .as_ref()
            .is_none_or(|cutoff| token.issued.floor() <= cutoff.seconds as f64)
    };
    revocation(session, revocation_type::API_SESSION).is_some()
        || (!token.jti.is_empty() && revocation(&token.jti, revocation_type::JTI).is_some())
        || revocation(identity, revocation_type::IDENTITY).is_some_and(before)
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> f64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
