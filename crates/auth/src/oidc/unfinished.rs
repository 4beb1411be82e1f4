//! Logins that are not finished, and what they keep.

use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use weft_contract::resource::session::AuthenticateBody;
use weft_kernel::Caller;
use weft_oidc::login::Kept;
use weft_oidc::logins::Logins;

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
}

impl PartialEq for LoginFacts {
    fn eq(&self, other: &Self) -> bool {
        self.shown.authenticator == other.shown.authenticator && self.csr == other.csr
    }
}

impl Kept for LoginFacts {
    fn bytes(&self) -> usize {
        let certificates = &self.caller.origin.certificates;
        let shown: usize = certificates.iter().map(|certificate| certificate.der().len()).sum();
        let types = self.body.config_types.iter().flatten().map(|text| text.len() + 32);
        let csr = self.csr.as_ref().map_or(0, String::len);
        // The description of a client has twelve texts of 255 bytes at most.
        4096 + 2 * shown + csr + types.sum::<usize>()
    }
}

/// Logins that are not finished, codes and device codes.
#[derive(Debug, Default)]
pub(crate) struct Unfinished(Mutex<Logins<LoginFacts>>);

impl Unfinished {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Logins<LoginFacts>> {
        self.0.lock()
    }

    /// Drops what is too old.
    pub(crate) fn sweep(&self) {
        self.lock().expire(Instant::now());
    }
}
