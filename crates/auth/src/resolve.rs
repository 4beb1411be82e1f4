//! Finds the caller of a request by its credentials (docs/protocol/auth.md 10).

use std::sync::Arc;

use weft_contract::{Api, Permission};
use weft_identity::Certificate;
use weft_kernel::{Caller, Challenge, Login, Origin, SessionRef, Who};
use weft_model::Snapshot;
use weft_model::entity::{ApiSession, AuthPolicy, Authenticator, Identity, Mfa};

use super::sessions::stands;
use crate::handle::Auth;
use crate::sessions::VIRTUAL;

/// Bearer tokens of a request that are tried.
pub const MAX_BEARERS: usize = 3;

/// The credentials of a request.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    /// The header `zt-session`.
    pub session: Option<String>,
    /// The bearer tokens of the `Authorization` headers, in order.
    pub bearers: Vec<String>,
    /// The source of the request, with the certificates of the TLS connection.
    pub origin: Origin,
}

impl Auth {
    /// The caller of a request. This never fails, because public operations work with wrong
    /// credentials too; the gate judges the caller.
    pub fn resolve(&self, credentials: Credentials) -> Caller {
        let Credentials { session, bearers, origin } = credentials;
        let who = match session.filter(|token| !token.is_empty()) {
            Some(token) => self.resolve_session(&token, &origin),
            // This controller issues no bearer sessions and accepts none.
            None if bearers.iter().take(MAX_BEARERS).any(|token| !token.is_empty()) => {
                Who::Nobody(Some(Challenge::InvalidBearer))
            }
            None => Who::Nobody(Some(Challenge::Missing)),
        };
        Caller { who, origin }
    }

    /// The caller of a request that has waited: rights, factors and the session may have changed since the
    /// request came.
    pub fn resolve_again(&self, caller: &Caller) -> Caller {
        let Some(login) = caller.login() else { return caller.clone() };
        let who = self.resolve_session(&login.session.token, &caller.origin);
        Caller { who, origin: caller.origin.clone() }
    }

    /// The caller of a request that has waited, on a snapshot that may be unpublished. This is no use of the
    /// session.
    pub fn resolve_on(&self, snapshot: &Snapshot, caller: &Caller) -> Caller {
        let Some(login) = caller.login() else { return caller.clone() };
        let session = self.sessions().by_token(&login.session.token, self.now());
        let who = self.login_of(snapshot, session.as_deref(), &login.session.token, &caller.origin);
        Caller { who, origin: caller.origin.clone() }
    }

    fn resolve_session(&self, token: &str, origin: &Origin) -> Who {
        let now = self.now();
        let session = self.sessions().by_token(token, now);
        let who = self.login_of(&self.snapshot(), session.as_deref(), token, origin);
        if let (Who::Identity(_), Some(session)) = (&who, session) {
            self.sessions().touch(&session.base.id, now);
        }
        who
    }

    fn login_of(
        &self,
        snapshot: &Snapshot,
        session: Option<&ApiSession>,
        token: &str,
        origin: &Origin,
    ) -> Who {
        let now = self.now();
        let Some(session) = session else {
            return Who::Nobody(Some(Challenge::InvalidSession));
        };
        let identity = snapshot.get::<Identity>(&session.identity_id);
        let Some(identity) = identity.filter(|identity| !identity.is_disabled(now)) else {
            return Who::Nobody(None);
        };
        let leaf = origin.certificates.first();
        let is_shown = is_shown_by(snapshot, session, leaf)
            || self.sessions().shows_former(&session.base.id, origin);
        if !stands(snapshot, session, now) || !is_shown {
            return Who::Nobody(Some(Challenge::InvalidSession));
        }
        Who::Identity(Arc::new(Login {
            identity: identity.base.id.to_string(),
            name: identity.name.to_string(),
            is_admin: identity.is_admin || identity.is_default_admin,
            permissions: identity
                .permissions
                .iter()
                .filter_map(|it| Permission::parse(it))
                .collect(),
            complete: is_complete(snapshot, session),
            session: SessionRef {
                id: session.base.id.to_string(),
                token: token.to_owned(),
                legacy: true,
            },
        }))
    }
}

/// Whether a caller's session may use an API. A router knows the tokens that it is told, and must
/// not be able to use them: a session by certificate needs the certificate, and a session by
/// password that routers know opens the client API only.
pub fn opens(auth: &Auth, caller: &Caller, api: Api) -> bool {
    let Some(login) = caller.login().filter(|_| api != Api::Client) else { return true };
    let session = auth.sessions().by_id(&login.session.id);
    let Some(session) = session.filter(|session| session.is_of_client) else { return true };
    is_by_certificate(&auth.snapshot(), &session) || auth.legacy_session(&session).is_none()
}

/// Whether a session was opened with a certificate.
fn is_by_certificate(snapshot: &Snapshot, session: &ApiSession) -> bool {
    let authenticator = &session.authenticator_id;
    let known = || snapshot.get::<Authenticator>(authenticator);
    *authenticator == VIRTUAL || known().is_some_and(|it| it.cert.is_some())
}

/// Whether the peer may use the token that it shows. A session of the client API by certificate
/// needs that certificate, its successor, or a certificate made for the session; connections that
/// showed a certificate before its client replaced it are judged by `Sessions::shows_former`. Routers are not
/// told of sessions of the management API. These are accepted without the certificate, because some
/// programs show it only at the login.
fn is_shown_by(snapshot: &Snapshot, session: &ApiSession, leaf: Option<&Certificate>) -> bool {
    if !session.is_of_client || !is_by_certificate(snapshot, session) {
        return true;
    }
    let Some(leaf) = leaf.map(Certificate::fingerprint) else { return false };
    let own = snapshot.referring::<Authenticator>(0, &session.identity_id);
    let mut own = own.filter_map(|it| it.cert.as_ref());
    session.certificates.iter().any(|it| *it.fingerprint == *leaf)
        || own.any(|it| *it.fingerprint == *leaf || **it.unverified_fingerprint == *leaf)
}

/// The factors that a session still lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// A one-time code.
    pub totp: bool,
    /// A token of this signer.
    pub signer: Option<weft_model::Id>,
}

impl Outstanding {
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The factors that the auth policy, and a verified second factor, require and a session lacks
/// (docs/protocol/auth.md 8.1).
pub fn outstanding(snapshot: &Snapshot, session: &ApiSession) -> Outstanding {
    let required = second_factors(snapshot, &session.identity_id);
    Outstanding { totp: required.totp && !session.is_mfa_complete, ..required }
}

/// The factors that a new session of an identity lacks.
pub(crate) fn second_factors(snapshot: &Snapshot, identity: &weft_model::Id) -> Outstanding {
    let owner = snapshot.get::<Identity>(identity);
    let policy = owner.and_then(|it| snapshot.get::<AuthPolicy>(&it.auth_policy_id));
    let required = policy.is_some_and(|policy| policy.secondary.require_totp);
    Outstanding {
        totp: required || has_mfa(snapshot, identity),
        signer: policy.and_then(|policy| policy.secondary.require_ext_jwt_signer.clone()),
    }
}

/// Whether a session lacks no factor.
pub fn is_complete(snapshot: &Snapshot, session: &ApiSession) -> bool {
    outstanding(snapshot, session).is_nothing()
}

/// Whether an identity has a verified second factor.
pub(crate) fn has_mfa(snapshot: &Snapshot, identity: &weft_model::Id) -> bool {
    let mfa = snapshot.by_unique::<Mfa>(Mfa::IDENTITY, identity.as_str());
    mfa.is_some_and(|mfa| mfa.is_verified)
}
