//! Sessions whose clients replaced their certificates. A client may have open connections that show the replaced one,
//! with requests on their way; for its own session they stay good until they close.

use std::sync::Arc;

use weft_kernel::{Caller, Origin};
use weft_model::Id;

use super::Sessions;
use super::former::Former;

impl Sessions {
    /// Notes that the client of a session replaced its certificate now.
    pub fn replaced_certificate(&self, session: &Id, fingerprint: Arc<str>) {
        let mut tables = self.0.tables.write();
        if tables.api.ordinal(session).is_some() {
            tables.former.insert(session.clone(), Former::now(fingerprint));
        }
    }

    /// Whether a request came over a connection that was open when the client of the session replaced the
    /// certificate that the connection shows.
    pub(crate) fn shows_former(&self, session: &Id, origin: &Origin) -> bool {
        let tables = self.0.tables.read();
        tables.former.get(session).is_some_and(|former| former.is_shown_by(origin))
    }

    /// Whether the connection of a caller ought to close, because it shows a certificate that was replaced.
    pub fn is_outdated(&self, caller: &Caller) -> bool {
        let login = caller.login();
        login.is_some_and(|login| self.shows_former(&Id::new(&login.session.id), &caller.origin))
    }
}
