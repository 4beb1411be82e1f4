//! Sessions as routers know them (protocol: edge-control-plane 10).

use std::sync::Arc;

use weft_model::entity::{ApiSession, Authenticator};
use weft_model::{Id, Snapshot, Timestamp};

use crate::Controller;
use crate::auth::resolve::is_complete;

/// A session as routers know it (protocol: edge-control-plane 10.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LegacySession {
    /// Its id; ids sort by creation.
    pub id: Id,
    /// The opaque token.
    pub token: Arc<str>,
    /// Whose it is.
    pub identity: Id,
    /// Certificates that prove possession: those of the identity, and those of the session.
    pub fingerprints: Vec<String>,
}

impl Controller {
    /// Every fully authenticated session with an opaque token, ordered by id: what a router is
    /// told when it connects (protocol: edge-control-plane 10.2).
    pub fn legacy_sessions(&self) -> Vec<LegacySession> {
        let snapshot = self.snapshot();
        let now = self.now();
        let sessions = self.sessions().all().into_iter();
        let complete = sessions.filter(|it| is_complete(&snapshot, it));
        complete.map(|session| for_router(&snapshot, &session, now)).collect()
    }

    /// A session as routers know it, with its certificates of this moment.
    pub fn legacy_session(&self, session: &ApiSession) -> LegacySession {
        for_router(&self.snapshot(), session, self.now())
    }
}

fn for_router(snapshot: &Snapshot, session: &ApiSession, now: Timestamp) -> LegacySession {
    let own = snapshot.referring::<Authenticator>(0, &session.identity_id);
    let own = own.filter_map(|it| Some(it.cert.as_ref()?.fingerprint.to_string()));
    let valid = session.certificates.iter().filter(|it| it.not_after > now);
    let mut fingerprints: Vec<String> =
        own.chain(valid.map(|it| it.fingerprint.to_string())).collect();
    fingerprints.sort_unstable();
    fingerprints.dedup();
    LegacySession {
        id: session.base.id.clone(),
        token: Arc::clone(&session.token),
        identity: session.identity_id.clone(),
        fingerprints,
    }
}
