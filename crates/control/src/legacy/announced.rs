//! Sessions in the form for routers, and notices about them.

use std::sync::Arc;

use weft_auth::sessions::LegacySession;
use weft_model::Id;
use weft_model::entity::ServiceSession;
use weft_wire::edge_ctrl::{ApiSession, EncodedApiSession};

/// A session in the form for routers.
#[derive(Debug)]
pub(super) struct AnnouncedSession {
    pub(super) id: Id,
    pub(super) token: Arc<str>,
    pub(super) identity: Id,
    /// The session's number among all sessions that were ever added.
    pub(super) number: u64,
    pub(super) encoded: EncodedApiSession,
}

impl AnnouncedSession {
    pub(super) fn new(session: LegacySession, number: u64) -> Self {
        let encoded = EncodedApiSession::from(&ApiSession {
            token: session.token.to_string(),
            cert_fingerprints: session.fingerprints,
            id: session.id.to_string(),
            identity_id: session.identity.to_string(),
        });
        let LegacySession { id, token, identity, .. } = session;
        Self { id, token, identity, number, encoded }
    }
}

/// A notice for a router.
#[derive(Debug, Clone)]
pub(super) enum Say {
    /// Clients may use the router with these sessions.
    Added(Arc<[Arc<AnnouncedSession>]>),
    /// A session has other certificates.
    Updated(Arc<AnnouncedSession>),
    /// These sessions have ended, or may not use this router any more.
    Removed(Arc<[Arc<AnnouncedSession>]>),
    /// Service sessions have ended.
    ServiceRemoved(Arc<[Arc<ServiceSession>]>),
}
