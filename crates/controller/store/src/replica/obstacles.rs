//! Why a controller cannot share changes with the others.

use tokio::sync::watch;

use crate::standing::ReplicaState;

/// What stands between a controller and the logs that it shares with others: that of the model, and that of the sessions.
#[derive(Debug, Clone)]
pub struct Obstacles {
    pub(super) model: watch::Receiver<ReplicaState>,
    pub(super) sessions: Option<watch::Receiver<ReplicaState>>,
    /// Why the last announcement of this controller was refused.
    pub(super) announcements: watch::Receiver<Option<String>>,
}

impl Obstacles {
    /// The obstacle; none if there is none.
    #[must_use]
    pub fn current(&self) -> Option<String> {
        let of_sessions = || {
            let why = self.sessions.as_ref()?.borrow().obstacle.clone()?;
            Some(format!("sessions are not shared: {why}"))
        };
        // An announcement is a write, too: it may be refused while changes of others still come.
        let of_announcements = || self.announcements.borrow().clone();
        let of_model = self.model.borrow().obstacle.clone();
        of_model.or_else(of_sessions).or_else(of_announcements)
    }

    /// Waits until something has changed. False if the store was closed.
    pub async fn changed(&mut self) -> bool {
        let of_sessions = async {
            match &mut self.sessions {
                Some(sessions) => sessions.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = self.model.changed() => changed.is_ok(),
            changed = of_sessions => changed.is_ok(),
            changed = self.announcements.changed() => changed.is_ok(),
        }
    }
}
