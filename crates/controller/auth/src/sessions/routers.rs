//! Sessions in the form for routers (docs/protocol/edge-control-plane.md 10).

use std::sync::Arc;

use weft_model::entity::{ApiSession, Authenticator};
use weft_model::{Id, Snapshot, Timestamp};

use super::stands;
use crate::factors::is_complete;
use crate::handle::Auth;

/// A session in the form for routers (docs/protocol/edge-control-plane.md 10.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacySession {
    /// Id of the session; ids sort by time of creation.
    pub id: Id,
    /// The opaque token.
    pub token: Arc<str>,
    /// The id of its identity.
    pub identity: Id,
    /// Certificates that the client may show with the token: those of the identity, and those of
    /// the session. Never empty, because every router asks for one of them.
    pub fingerprints: Vec<String>,
}

impl Auth {
    /// All sessions that some router may know, ordered by id (docs/protocol/edge-control-plane.md
    /// 10.2).
    pub fn legacy_sessions(&self) -> Vec<LegacySession> {
        let (snapshot, now) = (self.kernel().snapshot(), self.kernel().now());
        let sessions = self.sessions().all().into_iter();
        sessions.filter_map(|session| self.for_routers(&snapshot, &session, now)).collect()
    }

    /// A session in the form for routers, with its present certificates; none if no router may know
    /// it.
    pub fn legacy_session(&self, session: &ApiSession) -> Option<LegacySession> {
        self.for_routers(&self.kernel().snapshot(), session, self.kernel().now())
    }

    /// The form for routers; only for complete sessions of the client API whose client has a
    /// certificate, because others cannot be used at a router.
    fn for_routers(
        &self,
        snapshot: &Snapshot,
        session: &ApiSession,
        now: Timestamp,
    ) -> Option<LegacySession> {
        let is_over = session.external.second_until.is_some_and(|until| until <= now);
        // Routers judge signed tokens by themselves.
        let is_opaque = session.is_of_client && session.tokens.is_none();
        let is_one = is_opaque && is_complete(snapshot, session) && !is_over;
        if !is_one || !stands(snapshot, session, now) {
            return None;
        }
        let fingerprints = fingerprints(snapshot, session, now);
        if fingerprints.is_empty() {
            return None;
        }
        Some(LegacySession {
            id: session.base.id.clone(),
            token: self.sessions().token_of(session)?,
            identity: session.identity_id.clone(),
            fingerprints,
        })
    }
}

fn fingerprints(snapshot: &Snapshot, session: &ApiSession, now: Timestamp) -> Vec<String> {
    let own = snapshot.referring::<Authenticator>(0, &session.identity_id);
    let own = own.filter_map(|it| Some(it.cert.as_ref()?.fingerprint.to_string()));
    let valid = session.certificates.iter().filter(|it| it.not_after > now);
    let mut all: Vec<String> = own.chain(valid.map(|it| it.fingerprint.to_string())).collect();
    all.sort_unstable();
    all.dedup();
    all
}
