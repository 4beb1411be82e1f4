//! Certificates that the clients of sessions replaced. A client may have open connections that show the replaced one,
//! with requests on their way; for its own session they stay good until they close.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weft_kernel::{Caller, Origin};
use weft_model::Id;

use super::Sessions;

/// Longest time for which a connection stays good after its certificate was replaced.
const LONGEST: Duration = Duration::from_secs(3600);

/// The certificate that the client of a session replaced last. It is kept in memory only, as connections are.
#[derive(Debug)]
pub(super) struct Former {
    fingerprint: Arc<str>,
    at: Instant,
}

impl Sessions {
    /// Notes that the client of a session replaced its certificate now.
    pub fn replaced_certificate(&self, session: &Id, fingerprint: Arc<str>) {
        let mut tables = self.0.tables.write();
        if tables.api.ordinal(session).is_some() {
            tables.former.insert(session.clone(), Former { fingerprint, at: Instant::now() });
        }
    }

    /// Whether a request came over a connection that was open when the client of the session replaced the
    /// certificate that the connection shows.
    pub(crate) fn shows_former(&self, session: &Id, origin: &Origin) -> bool {
        let (Some(leaf), Some(since)) = (origin.certificates.first(), origin.connected) else {
            return false;
        };
        let tables = self.0.tables.read();
        tables.former.get(session).is_some_and(|former| {
            *former.fingerprint == *leaf.fingerprint()
                && since <= former.at
                && former.at.elapsed() < LONGEST
        })
    }

    /// Whether the connection of a caller ought to close, because it shows a certificate that was replaced.
    pub fn is_outdated(&self, caller: &Caller) -> bool {
        let login = caller.login();
        login.is_some_and(|login| self.shows_former(&Id::new(&login.session.id), &caller.origin))
    }
}
