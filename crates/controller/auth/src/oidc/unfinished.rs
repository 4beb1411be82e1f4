//! Logins that are not finished, and what they keep.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use weft_contract::resource::session::AuthenticateBody;
use weft_kernel::Caller;
use weft_model::Id;
use weft_oidc::login::CallerData;
use weft_oidc::logins::PendingLogins;

use crate::first_factor::Shown;

/// What a login keeps until its session is made.
#[derive(Debug, Clone)]
pub(crate) struct LoginFacts {
    pub(super) shown: Shown,
    /// The description of the client, and the config types that it wants.
    pub(super) body: AuthenticateBody,
    /// The request for a session certificate, PEM.
    pub(super) csr: Option<String>,
    /// The source of the login.
    pub(super) caller: Caller,
    /// The id of the login among those that wait with codes, as a session has one.
    pub(super) giver: Id,
    /// The second factor that the login has begun. A second factor that somebody else began meanwhile is none of this
    /// login's.
    pub(super) enrollment: Arc<Mutex<Option<Id>>>,
}

impl PartialEq for LoginFacts {
    fn eq(&self, other: &Self) -> bool {
        self.shown.authenticator == other.shown.authenticator
            && self.csr == other.csr
            && self.body.end_key == other.body.end_key
    }
}

impl CallerData for LoginFacts {
    fn bytes(&self) -> usize {
        let certificates = &self.caller.origin.certificates;
        let shown: usize = certificates.iter().map(|certificate| certificate.der().len()).sum();
        let types = self.body.config_types.iter().flatten().map(|text| text.len() + 32);
        let csr = self.csr.as_ref().map_or(0, String::len);
        // The description of a client has twelve texts of 255 bytes at most.
        4096 + 2 * shown + csr + types.sum::<usize>()
    }
}

/// Logins that are not finished, codes, device codes, and sessions of the other protocol that lack a factor.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    logins: Arc<Mutex<PendingLogins<LoginFacts>>>,
    /// Sessions whose code came a second time before they were open.
    stolen: Mutex<VecDeque<Id>>,
}

/// Sessions whose code came a second time that are remembered: more are never being opened at a time.
const STOLEN: usize = 1024;

impl Unfinished {
    pub(crate) fn lock(&self) -> MutexGuard<'_, PendingLogins<LoginFacts>> {
        self.logins.lock()
    }

    /// The table, for sessions that lack a factor.
    pub(crate) fn table(&self) -> Arc<Mutex<PendingLogins<LoginFacts>>> {
        Arc::clone(&self.logins)
    }

    /// Notes that the code of a session that is not open yet came a second time.
    pub(super) fn note_stolen(&self, session: &Id) {
        let mut stolen = self.stolen.lock();
        stolen.truncate(STOLEN - 1);
        stolen.push_front(session.clone());
    }

    /// Whether the code of a session came a second time while the session was being opened.
    pub(super) fn is_stolen(&self, session: &Id) -> bool {
        self.stolen.lock().contains(session)
    }

    /// Drops what is too old.
    pub(crate) fn sweep(&self) {
        self.lock().expire(Instant::now());
    }
}
