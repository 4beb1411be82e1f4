//! Looks at all sessions. However many there are, the lock of the tables is held no longer than for one: a clone of a table
//! shares everything with it.

use std::sync::Arc;

use weft_kernel::events::EndCause;
use weft_model::entity::ApiSession;

use super::Sessions;

/// Numbers of sessions.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// API sessions.
    pub api_sessions: u64,
    /// Service sessions.
    pub service_sessions: u64,
    /// Certificates of API sessions.
    pub certificates: u64,
}

impl Sessions {
    /// Numbers of sessions.
    pub fn counts(&self) -> Counts {
        let (mut api_sessions, mut certificates) = (0, 0);
        self.look_at_all(|session| {
            api_sessions += 1;
            certificates += session.certificates.len() as u64;
        });
        Counts { api_sessions, service_sessions: self.count_services() as u64, certificates }
    }

    /// The number of sessions.
    pub fn count(&self) -> usize {
        self.0.tables.read().api.len()
    }

    /// All sessions, ordered by id.
    pub fn all(&self) -> Vec<Arc<ApiSession>> {
        let mut all = Vec::new();
        self.look_at_all(|session| all.push(Arc::clone(session)));
        all
    }

    /// Looks at all sessions of this moment, ordered by id.
    pub(super) fn look_at_all(&self, look: impl FnMut(&Arc<ApiSession>)) {
        let table = self.0.tables.read().api.clone();
        table.iter().filter_map(|entity| entity.get::<ApiSession>()).for_each(look);
    }

    /// Ends the sessions for which `keep` is false. They are judged without the lock.
    pub fn retain(&self, cause: &EndCause, keep: impl Fn(&ApiSession) -> bool) {
        let mut ids = Vec::new();
        self.look_at_all(|session| {
            if !keep(session) {
                ids.push(session.base.id.clone());
            }
        });
        self.end_because(&ids, cause);
    }
}
