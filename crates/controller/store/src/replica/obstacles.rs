//! Why a controller cannot share changes with the others.

use tokio::sync::watch;

use crate::standing::ReplicaState;

/// What stands between a controller and the logs that it shares with others: that of the model, and that of the sessions.
#[derive(Debug, Clone)]
pub struct Obstacles {
    pub(super) model: watch::Receiver<ReplicaState>,
    pub(super) sessions: Option<watch::Receiver<ReplicaState>>,
}

impl Obstacles {
    /// The obstacle; none if there is none.
    #[must_use]
    pub fn current(&self) -> Option<String> {
        let of_sessions = || {
            let why = self.sessions.as_ref()?.borrow().obstacle.clone()?;
            Some(format!("sessions are not shared: {why}"))
        };
        self.model.borrow().obstacle.clone().or_else(of_sessions)
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
        }
    }
}
