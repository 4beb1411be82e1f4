//! The certificate that the client of a session replaced last. It is kept in memory only, as connections are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_kernel::Origin;

/// Longest time for which a connection stays good after its certificate was replaced.
const LONGEST: Duration = Duration::from_secs(3600);

/// The certificate, and the time at which it was replaced.
#[derive(Debug)]
pub(super) struct Former {
    fingerprint: Arc<str>,
    at: Instant,
}

impl Former {
    /// A certificate that is replaced now.
    pub(super) fn now(fingerprint: Arc<str>) -> Self {
        Self { fingerprint, at: Instant::now() }
    }

    /// Whether a request came over a connection that shows the certificate, and that was open when it was replaced.
    pub(super) fn is_shown_by(&self, origin: &Origin) -> bool {
        let (Some(leaf), Some(since)) = (origin.certificates.first(), origin.connected) else {
            return false;
        };
        *self.fingerprint == *leaf.fingerprint() && since <= self.at && self.at.elapsed() < LONGEST
    }
}
