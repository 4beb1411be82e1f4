//! Finds the caller of a request by its credentials (docs/protocol/auth.md 10).

use std::sync::Arc;

use weft_contract::{Api, Permission};
use weft_identity::Certificate;
use weft_kernel::{Caller, Challenge, Login, Origin, SessionRef, Who};
use weft_model::entity::{ApiSession, Authenticator, Identity};
use weft_model::token::TokenKind;
use weft_model::{Id, Snapshot, Timestamp};

use super::bearer::BearerRefusal;
use super::bearer::claims::fingerprints;
use super::bearer::shown::is_shown;
use super::bearer::verify::Proven;
use super::sessions::stands;
use crate::factors::{Outstanding, is_complete, second_factors};
use crate::handle::Auth;
use crate::second_token;
use crate::sessions::VIRTUAL;

/// Bearer tokens of a request that are tried.
pub const MAX_BEARERS: usize = 3;

/// The credentials of a request.
#[derive(Debug, Clone, Default)]
pub struct RequestCredentials {
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
    pub fn resolve(&self, credentials: RequestCredentials) -> Caller {
        let RequestCredentials { session, bearers, origin } = credentials;
        let mut origin = origin;
        let who = match session.filter(|token| !token.is_empty()) {
            Some(token) => {
                origin.tokens = bearers.into_iter().take(MAX_BEARERS).collect();
                self.resolve_session(&token, &origin)
            }
            None => self.resolve_bearers(bearers, &mut origin),
        };
        Caller { who, origin }
    }

    /// [`Self::resolve`] for a request whose session may have begun at another controller a moment ago.
    pub async fn resolve_latest(&self, credentials: RequestCredentials) -> Caller {
        let is_shown = credentials.session.is_some() || !credentials.bearers.is_empty();
        if !is_shown || !self.sessions().are_shared() {
            return self.resolve(credentials);
        }
        let caller = self.resolve(credentials.clone());
        if caller.login().is_some() {
            return caller;
        }
        self.sessions().catch_up().await;
        self.resolve(credentials)
    }

    /// The caller of a request that has waited: rights, factors and the session may have changed since the
    /// request came.
    pub fn resolve_again(&self, caller: &Caller) -> Caller {
        let Some(login) = caller.login() else { return caller.clone() };
        let who = match login.session.legacy {
            true => self.resolve_session(&login.session.token, &caller.origin),
            false => self.resolve_bearer(&login.session.token, &caller.origin),
        };
        Caller { who, origin: caller.origin.clone() }
    }

    /// The caller of a request that has waited, on a snapshot that may be unpublished. This is no use of the
    /// session.
    pub fn resolve_on(&self, snapshot: &Snapshot, caller: &Caller) -> Caller {
        let Some(login) = caller.login() else { return caller.clone() };
        let (token, now) = (&login.session.token, self.kernel().now());
        let who = match login.session.legacy {
            true => {
                let session = self.sessions().by_token(token, now);
                let (session, origin) = (session.as_deref(), &caller.origin);
                self.login_of(snapshot, session, token, origin)
            }
            false => self.bearer_of(snapshot, token, &caller.origin).0,
        };
        Caller { who, origin: caller.origin.clone() }
    }

    fn resolve_session(&self, token: &str, origin: &Origin) -> Who {
        let now = self.kernel().now();
        let session = self.sessions().by_token(token, now);
        let snapshot = self.kernel().snapshot();
        let who = self.login_of(&snapshot, session.as_deref(), token, origin);
        if let (Who::Identity(_), Some(session)) = (&who, session) {
            self.sessions().touch(&session.base.id, now);
            self.note_second(&snapshot, &session, origin);
        }
        who
    }

    /// The caller with these bearer tokens: the first one that is a token of this network proves the session.
    fn resolve_bearers(&self, bearers: Vec<String>, origin: &mut Origin) -> Who {
        let shown = bearers.into_iter().take(MAX_BEARERS).filter(|token| !token.is_empty());
        let mut others: Vec<String> = shown.collect();
        let Some(own) = others.iter().position(|token| self.is_own_token(token)) else {
            return Who::Nobody(Some(match others.is_empty() {
                true => Challenge::Missing,
                false => Challenge::InvalidBearer,
            }));
        };
        let token = others.remove(own);
        origin.tokens = others.into_iter().collect();
        self.resolve_bearer(&token, origin)
    }

    fn resolve_bearer(&self, token: &str, origin: &Origin) -> Who {
        let (who, proven) = self.bearer_of(&self.kernel().snapshot(), token, origin);
        if let (Who::Identity(_), Some(proven)) = (&who, proven) {
            let now = self.kernel().now();
            self.sessions().touch(&proven.session.base.id, now);
            self.saw_newest(&proven, now);
        }
        who
    }

    /// The caller with an access token, and its session.
    fn bearer_of(
        &self,
        snapshot: &Snapshot,
        token: &str,
        origin: &Origin,
    ) -> (Who, Option<Proven>) {
        let now = self.kernel().now();
        let proven = match self.proven(snapshot, token, TokenKind::Access, now) {
            Ok(proven) => proven,
            Err(BearerRefusal::Expired) => {
                return (Who::Nobody(Some(Challenge::ExpiredBearer)), None);
            }
            Err(refusal) => {
                tracing::debug!(%refusal, "an access token is refused");
                return (Who::Nobody(Some(Challenge::InvalidBearer)), None);
            }
        };
        let session = &proven.session;
        let leaf = origin.certificates.first();
        if !stands(snapshot, session, now) || !is_shown(session, &proven.claims, leaf, now) {
            return (Who::Nobody(Some(Challenge::InvalidBearer)), None);
        }
        let who = identified(snapshot, session, token, is_complete(snapshot, session), now);
        (who, Some(proven))
    }

    fn login_of(
        &self,
        snapshot: &Snapshot,
        session: Option<&ApiSession>,
        token: &str,
        origin: &Origin,
    ) -> Who {
        let now = self.kernel().now();
        let Some(session) = session else {
            return Who::Nobody(Some(Challenge::InvalidSession));
        };
        let leaf = origin.certificates.first();
        let is_shown = is_shown_by(snapshot, session, leaf)
            || self.sessions().shows_former(&session.base.id, origin);
        if !stands(snapshot, session, now) || !is_shown {
            return Who::Nobody(Some(Challenge::InvalidSession));
        }
        let complete = self.lacking(snapshot, session, origin.tokens.iter(), origin).is_nothing();
        identified(snapshot, session, token, complete, now)
    }
}

/// The caller with a session that was judged.
pub(crate) fn identified(
    snapshot: &Snapshot,
    session: &ApiSession,
    token: &str,
    complete: bool,
    now: Timestamp,
) -> Who {
    let identity = snapshot.get::<Identity>(&session.identity_id);
    let Some(identity) = identity.filter(|identity| !identity.is_disabled(now)) else {
        return Who::Nobody(None);
    };
    let permissions = identity.permissions.iter().filter_map(|it| Permission::parse(it));
    Who::Identity(Arc::new(Login {
        identity: identity.base.id.to_string(),
        name: identity.name.to_string(),
        is_admin: identity.is_admin || identity.is_default_admin,
        permissions: permissions.collect(),
        complete,
        session: SessionRef {
            id: session.base.id.to_string(),
            token: token.to_owned(),
            legacy: session.tokens.is_none(),
        },
    }))
}

/// Whether a caller's session may use an API. A router knows the tokens that it is told, and must
/// not be able to use them: a session by certificate needs the certificate, and a session by
/// password that routers know opens the client API only.
pub fn opens(auth: &Auth, caller: &Caller, api: Api) -> bool {
    let Some(login) = caller.login().filter(|_| api != Api::Client) else { return true };
    let session = auth.sessions().by_id(&login.session.id);
    let Some(session) = session.filter(|session| session.is_of_client) else { return true };
    if let Some(tokens) = &session.tokens {
        // Routers accept the tokens of a client with a certificate for its session.
        return !fingerprints(tokens).is_empty() || !session.had_certificate;
    }
    let is_told = session.had_certificate || auth.legacy_session(&session).is_some();
    is_by_certificate(&auth.kernel().snapshot(), &session) || !is_told
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

impl Auth {
    /// The factors that a request with these tokens lacks, beside its session: the token of a signer has to come
    /// with every request (docs/protocol/auth.md 8.1, 10.1).
    pub(crate) fn lacking<'t>(
        &self,
        snapshot: &Snapshot,
        session: &ApiSession,
        tokens: impl Iterator<Item = &'t str>,
        origin: &Origin,
    ) -> Outstanding {
        let required = second_factors(snapshot, &session.identity_id);
        let is_missing = |signer: &Id| {
            let of = (signer, &session.identity_id);
            second_token::shown(self, snapshot, of, tokens, origin).is_err()
        };
        let totp = required.totp && !session.is_mfa_complete;
        Outstanding { totp, signer: required.signer.filter(is_missing) }
    }
}
