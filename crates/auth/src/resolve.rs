//! From the credentials of a request to its caller (docs/protocol/auth.md 10).

use std::sync::Arc;

use weft_contract::{Api, Permission};
use weft_identity::Certificate;
use weft_kernel::{Caller, Challenge, Login, Origin, SessionRef, Who};
use weft_model::Snapshot;
use weft_model::entity::{ApiSession, AuthPolicy, Authenticator, Identity, Mfa};

use super::sessions::stands;
use crate::handle::Auth;
use crate::sessions::VIRTUAL;

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

impl Auth {
    /// Who sent a request. Whether that is enough is decided by the gate, so this never fails:
    /// public operations work with wrong credentials too.
    pub fn resolve(&self, credentials: Credentials) -> Caller {
        let Credentials { session, bearers, origin } = credentials;
        let who = match session.filter(|token| !token.is_empty()) {
            Some(token) => self.resolve_session(&token, &origin),
            // No bearer session is issued by this controller, and none is accepted.
            None if bearers.iter().take(MAX_BEARERS).any(|token| !token.is_empty()) => {
                Who::Nobody(Some(Challenge::InvalidBearer))
            }
            None => Who::Nobody(Some(Challenge::Missing)),
        };
        Caller { who, origin }
    }

    fn resolve_session(&self, token: &str, origin: &Origin) -> Who {
        let now = self.now();
        let Some(session) = self.sessions().by_token(token, now) else {
            return Who::Nobody(Some(Challenge::InvalidSession));
        };
        let snapshot = self.snapshot();
        let identity = snapshot.get::<Identity>(&session.identity_id);
        let Some(identity) = identity.filter(|identity| !identity.is_disabled(now)) else {
            return Who::Nobody(None);
        };
        let leaf = origin.certificates.first();
        if !stands(&snapshot, &session, now) || !is_shown_by(&snapshot, &session, leaf) {
            return Who::Nobody(Some(Challenge::InvalidSession));
        }
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
                token: token.to_owned(),
                legacy: true,
            },
        }))
    }
}

/// Whether the session of a caller opens an API. What a router is told of a session must be of no
/// use to it: a login by certificate is bound to the certificate, and one by password that routers
/// know opens the client API alone.
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

/// Whether the peer that shows a token may: a login of the client API by certificate goes with that
/// certificate, with one that took its place, or with one made for the session. Logins of the
/// management API, of which routers are not told, are also used by programs that show their
/// certificate only once.
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

/// What is still asked of a session.
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

/// What the policy of its identity, and a verified second factor, still ask of a session
/// (docs/protocol/auth.md 8.1).
pub fn outstanding(snapshot: &Snapshot, session: &ApiSession) -> Outstanding {
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
pub fn is_complete(snapshot: &Snapshot, session: &ApiSession) -> bool {
    outstanding(snapshot, session).is_nothing()
}

/// Whether an identity has a verified second factor.
pub(crate) fn has_mfa(snapshot: &Snapshot, identity: &weft_model::Id) -> bool {
    let mfa = snapshot.by_unique::<Mfa>(Mfa::IDENTITY, identity.as_str());
    mfa.is_some_and(|mfa| mfa.is_verified)
}
