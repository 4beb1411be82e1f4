//! From the credentials of a request to its caller (protocol: auth 10).

use std::sync::Arc;

use weft_contract::Permission;
use weft_model::Snapshot;
use weft_model::entity::{ApiSession, AuthPolicy, Identity, Mfa};

use crate::{Caller, Challenge, Controller, Login, Origin, SessionRef, Who};

/// Bearer tokens of a request that are looked at.
pub const MAX_BEARERS: usize = 3;

/// What a request shows of who sent it.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// The header `zt-session`.
    pub session: Option<String>,
    /// The bearer tokens of the `Authorization` headers, in order.
    pub bearers: Vec<String>,
    /// Where it came from, with the certificates of the TLS connection.
    pub origin: Origin,
}

impl Controller {
    /// Who sent a request. Whether that is enough is decided by the gate, so this never fails:
    /// public operations work with wrong credentials too.
    pub fn resolve(&self, credentials: Credentials) -> Caller {
        let Credentials { session, bearers, origin } = credentials;
        let who = match session.filter(|token| !token.is_empty()) {
            Some(token) => self.resolve_session(&token),
            // No bearer session is issued by this controller, and none is accepted.
            None if bearers.iter().take(MAX_BEARERS).any(|token| !token.is_empty()) => {
                Who::Nobody(Some(Challenge::InvalidBearer))
            }
            None => Who::Nobody(Some(Challenge::Missing)),
        };
        Caller { who, origin }
    }

    fn resolve_session(&self, token: &str) -> Who {
        let now = self.now();
        let Some(session) = self.sessions().by_token(token, now) else {
            return Who::Nobody(Some(Challenge::InvalidSession));
        };
        let snapshot = self.snapshot();
        let identity = snapshot.get::<Identity>(&session.identity_id);
        let Some(identity) = identity.filter(|identity| !identity.is_disabled(now)) else {
            return Who::Nobody(None);
        };
        self.sessions().touch(&session.base.id, now);
        Who::Identity(Arc::new(Login {
            identity: identity.base.id.to_string(),
            name: identity.name.to_string(),
            is_admin: identity.is_admin || identity.is_default_admin,
            permissions: identity
                .permissions
                .iter()
                .filter_map(|it| Permission::parse(it))
                .collect(),
            complete: is_complete(&snapshot, &session),
            session: SessionRef {
                id: session.base.id.to_string(),
                token: session.token.to_string(),
                legacy: true,
            },
        }))
    }
}

/// What is still asked of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outstanding {
    /// A one-time code.
    pub(crate) totp: bool,
    /// A token of this signer.
    pub(crate) signer: Option<weft_model::Id>,
}

impl Outstanding {
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What the policy of its identity, and a verified second factor, still ask of a session
/// (protocol: auth 8.1).
pub(crate) fn outstanding(snapshot: &Snapshot, session: &ApiSession) -> Outstanding {
    let identity = snapshot.get::<Identity>(&session.identity_id);
    let policy = identity.and_then(|it| snapshot.get::<AuthPolicy>(&it.auth_policy_id));
    let required = policy.is_some_and(|policy| policy.secondary.require_totp);
    let totp = required || has_mfa(snapshot, &session.identity_id);
    Outstanding {
        totp: totp && !session.is_mfa_complete,
        signer: policy.and_then(|policy| policy.secondary.require_ext_jwt_signer.clone()),
    }
}

/// Whether nothing more is asked of a session.
pub(crate) fn is_complete(snapshot: &Snapshot, session: &ApiSession) -> bool {
    outstanding(snapshot, session).is_nothing()
}

/// Whether an identity has a verified second factor.
pub(crate) fn has_mfa(snapshot: &Snapshot, identity: &weft_model::Id) -> bool {
    let mfa = snapshot.by_unique::<Mfa>(Mfa::IDENTITY, identity.as_str());
    mfa.is_some_and(|mfa| mfa.is_verified)
}
