//! A session for the process that runs the controller.
//!
//! A program that contains the controller can do everything in any case. With this session it uses
//! the same API as others, without a stored password.

use std::sync::Arc;

use weft_model::Base;
use weft_model::entity::{ApiSession, Authenticator, Identity};

use crate::factors::is_complete;
use crate::handle::Auth;

impl Auth {
    /// Opens a session of the default administrator, without credentials, and returns its token.
    /// None if there is no default administrator, or if the session is refused. Only for the program
    /// around the controller, never for a request.
    pub fn open_operator_session(&self) -> Option<Arc<str>> {
        let snapshot = self.kernel().snapshot();
        let admin = snapshot.list::<Identity>().find(|identity| identity.is_default_admin)?;
        let own = |it: &&Arc<Authenticator>| it.identity_id == admin.base.id;
        let authenticator = snapshot.list::<Authenticator>().find(own)?;
        let now = self.kernel().now();
        let session = ApiSession {
            base: Base::new(self.kernel().ids().ordered(now), now),
            identity_id: admin.base.id.clone(),
            authenticator_id: authenticator.base.id.clone(),
            is_mfa_required: false,
            is_mfa_complete: true,
            mfa_passed_at: Some(now),
            last_activity_at: now,
            ..ApiSession::default()
        };
        let token = self.kernel().ids().token();
        self.sessions().open(session, token.as_str(), |it| is_complete(&snapshot, it)).ok()?;
        Some(token.as_str().into())
    }
}
