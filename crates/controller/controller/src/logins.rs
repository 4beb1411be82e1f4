//! Answers the network's questions about sessions.

use weft_auth::sessions::Sessions;
use weft_network::{LoginCounts, Logins};

/// Answers from the table of sessions.
pub(crate) struct OfSessions(pub(crate) Sessions);

impl Logins for OfSessions {
    fn has_session(&self, id: &str) -> bool {
        self.0.service(id).is_some()
    }

    fn counts(&self) -> LoginCounts {
        let (counts, ends) = (self.0.counts(), self.0.end_counts());
        LoginCounts {
            api_sessions: counts.api_sessions,
            service_sessions: counts.service_sessions,
            to_end: ends.to_end,
            ended_together: ends.ended_together,
            to_revoke: ends.to_revoke,
            to_revoke_singly: ends.to_revoke_singly,
        }
    }
}
