//! Sessions in the form for routers, and notices about them.

use std::sync::{Arc, OnceLock};

use weft_auth::sessions::LegacySession;
use weft_model::Id;
use weft_model::entity::ServiceSession;
use weft_wire::edge_ctrl::{ApiSession, ApiSessionRemoved, EncodedApiSession};
use weft_wire::{Message, ProtoBody as _};

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

/// Sessions that ended together. Routers that are told of all of them share the list and its message.
#[derive(Debug)]
pub(super) struct EndedTogether {
    pub(super) sessions: Box<[Arc<AnnouncedSession>]>,
    message: OnceLock<Message>,
}

impl EndedTogether {
    pub(super) fn new(sessions: Box<[Arc<AnnouncedSession>]>) -> Self {
        Self { sessions, message: OnceLock::new() }
    }

    /// The message that tells a router of these ends, made at its first use.
    pub(super) fn message(&self) -> Message {
        self.message.get_or_init(|| removed(&self.sessions)).clone()
    }
}

/// The message that tells a router that sessions have ended.
pub(super) fn removed(sessions: &[Arc<AnnouncedSession>]) -> Message {
    let removed = ApiSessionRemoved {
        tokens: sessions.iter().map(|told| told.token.to_string()).collect(),
        ids: sessions.iter().map(|told| told.id.to_string()).collect(),
    };
    removed.to_message()
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
    /// These sessions have ended together.
    Ended(Arc<EndedTogether>),
    /// Service sessions have ended.
    ServiceRemoved(Arc<[Arc<ServiceSession>]>),
}
