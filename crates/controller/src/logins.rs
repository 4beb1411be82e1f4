//! What the network asks about who is logged in.

use weft_auth::sessions::Sessions;
use weft_network::{LoginCounts, Logins};

/// The answers of these sessions.
pub(crate) struct OfSessions(pub(crate) Sessions);

impl Logins for OfSessions {
    fn has_session(&self, id: &str) -> bool {
        self.0.service(id).is_some()
    }

    fn counts(&self) -> LoginCounts {
        let counts = self.0.counts();
        LoginCounts { api_sessions: counts.api_sessions, service_sessions: counts.service_sessions }
    }
}
