//! Events of logins: attempts at a first factor, and sessions that begin and get other tokens
//! (docs/protocol/operations.md 4.3).

use std::sync::Arc;

use weft_contract::resource::session::{AuthenticateBody, method};
use weft_identity::Certificate;
use weft_kernel::events::{AuthenticationEvent, Event, SessionChange};
use weft_kernel::{Caller, Failure};
use weft_model::Id;
use weft_model::entity::{Authenticator, Identity};

use crate::first_factor::Shown;
use crate::handle::Auth;
use crate::session_events::changed;

impl Auth {
    /// Tells of an attempt at a first factor. One that had to wait for its turn in vain was no attempt.
    pub(crate) fn tell_attempt(
        &self,
        caller: &Caller,
        word: &str,
        body: &AuthenticateBody,
        found: Result<&Shown, &Failure>,
    ) {
        if !self.kernel().events().has_listeners() {
            return;
        }
        let remote = caller.origin.remote;
        let failure = match found {
            Ok(_) => None,
            Err(failure) if matches!(failure.status(), 429 | 503) => return,
            Err(_) if !self.told_failures().is_due(remote.map(|remote| remote.ip())) => return,
            Err(failure) => Some(failure.to_string()),
        };
        let snapshot = self.kernel().snapshot();
        let (authenticator, identity) = match found {
            Ok(shown) => (shown.authenticator.clone(), shown.identity.base.id.clone()),
            Err(_) => {
                let username = body.username.as_ref().map(|name| name.as_str());
                let print = caller.leaf().map(Certificate::fingerprint);
                let named = match word {
                    method::PASSWORD => {
                        username.and_then(|it| snapshot.authenticator_by_username(it))
                    }
                    method::CERT => print.and_then(|it| snapshot.authenticator_by_fingerprint(it)),
                    _ => None,
                };
                let ids = |it: &Arc<Authenticator>| (it.base.id.clone(), it.identity_id.clone());
                named.map(ids).unwrap_or_default()
            }
        };
        let policy = snapshot.get::<Identity>(&identity).map(|it| it.auth_policy_id.clone());
        let shown = found.ok();
        let signer = shown.and_then(|shown| shown.signer.clone()).unwrap_or_default();
        self.kernel().events().tell(Event::Authentication(
            AuthenticationEvent {
                at: self.kernel().now(),
                method: match word {
                    method::PASSWORD => "updb",
                    method::CERT => "cert",
                    _ => "ext-jwt",
                },
                authenticator,
                signer,
                identity,
                policy: policy.unwrap_or_default(),
                remote: remote.map(|remote| remote.to_string()).unwrap_or_default(),
                failure,
                improper_chain: shown.is_some_and(|shown| shown.improper_chain),
            }
            .into(),
        ));
    }

    /// Tells that a session has changed.
    pub(crate) fn tell_session(&self, session: &Id, change: SessionChange, cert_generated: bool) {
        if let Some(session) = self.sessions().by_id(session.as_str()) {
            changed(self.kernel(), &session, change, cert_generated);
        }
    }
}
