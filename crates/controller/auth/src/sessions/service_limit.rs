//! The limit on the service sessions of an identity.

use std::time::Instant;

use parking_lot::Mutex;
use weft_contract::ErrorCode;
use weft_kernel::Failure;
use weft_limits::LogLines;
use weft_model::Id;

/// Service sessions of an identity, over all of its API sessions: room for ten programs that host and dial 10,000
/// services each. Each API session has at most one for each service and type.
const SERVICES: u64 = 200_000;

/// The limit, and the lines of the log about identities that reached it.
pub(super) struct ServiceLimit {
    pub(super) most: u64,
    lines: Mutex<LogLines>,
}

impl Default for ServiceLimit {
    fn default() -> Self {
        Self { most: SERVICES, lines: Mutex::new(LogLines::new(Instant::now())) }
    }
}

impl ServiceLimit {
    /// The refusal of one more service session. The log has a line unless it has many already.
    pub(super) fn refuse(&self, identity: &Id) -> Failure {
        let text = format!(
            "identity {identity} has {} service sessions, as many as it may have; end API sessions that are not used",
            self.most
        );
        if let Some(left_out) = self.lines.lock().due(Instant::now()) {
            tracing::warn!(
                "refused: {text} ({left_out} more such refusals since the last such line)"
            );
        }
        Failure::because(ErrorCode::ServerTooManyRequests, text)
    }
}
