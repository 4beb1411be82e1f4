//! Notices about sessions, for routers.

use std::sync::Arc;

use tokio::sync::broadcast;
use weft_model::Id;
use weft_model::entity::{ApiSession, ServiceSession};

/// Notices that a subscriber may be behind; then it has to start over.
const BACKLOG: usize = 16_384;

/// A notice about sessions, for routers.
#[derive(Debug, Clone)]
pub enum SessionNotice {
    /// A session is fully authenticated.
    Added(Arc<ApiSession>),
    /// The certificates of a session changed, or the factors that it lacks. For routers a session
    /// that is incomplete now has ended.
    Updated(Arc<ApiSession>),
    /// Sessions with these ids have ended; 500 at most.
    Removed(Vec<Id>),
    /// Service sessions have ended, 500 at most. Their ids are also the `jti` of their tokens.
    ServiceRemoved(Vec<Arc<ServiceSession>>),
    /// Service sessions have ended together with their API sessions by signed tokens, 500 at most. Routers from 2.0 on
    /// end them when they hear of the revocation of these.
    ServicesOfTokens(Vec<Arc<ServiceSession>>),
    /// Notices were lost, or so many sessions have ended that no notices name them: start over with
    /// [`crate::handle::Auth::legacy_sessions`].
    Resync,
}

/// A subscription to notices about sessions.
#[derive(Debug)]
pub struct SessionSubscription(broadcast::Receiver<SessionNotice>);

impl SessionSubscription {
    /// The next notice; none after the controller has stopped.
    pub async fn next(&mut self) -> Option<SessionNotice> {
        match self.0.recv().await {
            Ok(notice) => Some(notice),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(SessionNotice::Resync),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// The next notice, if there is one.
    #[cfg(any(test, feature = "testing"))]
    pub fn try_next(&mut self) -> Result<SessionNotice, broadcast::error::TryRecvError> {
        self.0.try_recv()
    }
}

/// Sends notices to all subscribers.
pub(super) struct Notices(broadcast::Sender<SessionNotice>);

impl Notices {
    pub(super) fn new() -> Self {
        Self(broadcast::channel(BACKLOG).0)
    }

    pub(super) fn subscribe(&self) -> SessionSubscription {
        SessionSubscription(self.0.subscribe())
    }

    pub(super) fn tell(&self, notice: SessionNotice) {
        // It is no error if there is no subscriber.
        let _ = self.0.send(notice);
    }
}
