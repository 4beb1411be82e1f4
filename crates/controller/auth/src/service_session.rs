//! Permissions to dial or host one service within a login: a stored record, a signed token, and its
//! check for routers (docs/protocol/auth.md 17.7; docs/protocol/edge-control-plane.md 11.5, 13.2,
//! 14.3).

use std::sync::Arc;
use std::time::Duration;

use weft_kernel::{Failure, Result};
use weft_model::entity::{ApiSession, Identity, PolicyType, Revocation, Service, ServiceSession};
use weft_model::token::{AUDIENCE, ClaimError, ServiceClaims, TokenKind};
use weft_model::{Base, Choice as _, Id, Snapshot, Timestamp};

use super::end_statement;
use super::sessions::stands;
use crate::factors::is_complete;
use crate::handle::Auth;
use crate::posture::viewer::Viewer;

/// Longest life of a service token; it ends with the login in any case.
const TOKEN_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The beginning of every signed token.
const SIGNED: &str = "ey";

/// The record of a service session. There is one for each API session, type and service; a repeated
/// request gets the same record.
pub fn record(
    controller: &Auth,
    login: &ApiSession,
    service: &Id,
    session_type: PolicyType,
) -> Result<Arc<ServiceSession>> {
    let now = controller.kernel().now();
    let id = controller.kernel().ids().ordered(now);
    let session = ServiceSession {
        token: id.as_str().into(),
        base: Base::new(id, now),
        api_session_id: login.base.id.clone(),
        identity_id: login.identity_id.clone(),
        service_id: service.clone(),
        session_type,
    };
    controller.sessions().service_or(session)
}

/// Codes of refusals towards routers (docs/protocol/edge-control-plane.md 18.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RefusalCode {
    Internal = 1,
    InvalidApiSession = 2,
    InvalidSession = 3,
    WrongSessionType = 4,
    InvalidEdgeRouterForSession = 5,
    InvalidService = 6,
    AccessDenied = 14,
}

impl RefusalCode {
    /// The number that tells the client what to do: 0 try again, 2 start over, 3 give up.
    pub fn retry_hint(self) -> u32 {
        match self {
            Self::Internal | Self::AccessDenied => 0,
            Self::InvalidService => 3,
            _ => 2,
        }
    }
}

/// Why a router's request on behalf of a client is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// The code.
    pub code: RefusalCode,
    /// The reason, for people.
    pub reason: String,
    /// Whether the client lacks a proof of its end, which no new session changes.
    pub lacks_proof: bool,
}

impl Refusal {
    fn new(code: RefusalCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into(), lacks_proof: false }
    }
}

/// A service session that was checked.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The snapshot on which it was checked.
    pub snapshot: Arc<Snapshot>,
    /// The identity that uses it.
    pub identity: Arc<Identity>,
    /// The service.
    pub service: Arc<Service>,
    /// Id of the API session.
    pub api_session: Id,
    /// Id of the service session.
    pub session: Id,
    /// Whether the login named a key that proves it to other ends.
    pub has_end_key: bool,
}

/// The service, if it exists and an identity may use it over a router; `no_router` is the refusal if it may not.
fn usable(
    snapshot: &Snapshot,
    identity: &Identity,
    service: &Id,
    router: &Id,
    no_router: RefusalCode,
) -> Result<Arc<Service>, Refusal> {
    let found = snapshot.get::<Service>(service).cloned();
    let missing = || Refusal::new(RefusalCode::InvalidService, "the service does not exist");
    let found = found.ok_or_else(missing)?;
    if !snapshot.is_router_usable(&identity.base.id, service, router) {
        let reason = "no edge router policy lets the identity use this router for the service";
        return Err(Refusal::new(no_router, reason));
    }
    Ok(found)
}

/// The refusal of an API session that has ended.
fn unknown_login() -> Refusal {
    Refusal::new(RefusalCode::InvalidApiSession, "the session is not known or has expired")
}

impl Auth {
    /// Signs the token of a service session (docs/protocol/edge-control-plane.md 11.5). It ends with the
    /// login's tokens, if these end.
    pub fn service_token(&self, session: &ServiceSession) -> Result<String> {
        let now = self.kernel().now();
        let login = self.sessions().by_id(session.api_session_id.as_str());
        let tokens = login.as_ref().and_then(|login| login.tokens.as_ref());
        let end = tokens.and_then(|login| login.last_end);
        let longest = now.plus(TOKEN_LIFE);
        self.sign(&ServiceClaims {
            iss: self.issuer(),
            sub: session.service_id.to_string(),
            aud: vec![AUDIENCE.to_owned()],
            iat: now.secs(),
            exp: end.map_or(longest, |end| end.min(longest)).secs(),
            jti: session.base.id.to_string(),
            z_asid: session.api_session_id.to_string(),
            z_iid: session.identity_id.to_string(),
            z_t: TokenKind::Service,
            z_st: session.session_type.as_str().to_owned(),
            z_leg: tokens.is_none(),
        })
    }

    /// Checks the token of a service session that a client shows in this API session (docs/protocol/auth.md 17.6). A
    /// client that is refused makes a new service session; with one of a former API session, routers would refuse it
    /// for good.
    pub fn own_service_session(&self, api_session: &str, token: &str) -> Result<()> {
        let refused = |reason: &str| Failure::unauthorized(format!("session-token: {reason}"));
        let now = self.kernel().now();
        let is_own = match token.starts_with(SIGNED) {
            true => {
                let read = self.service_token_with_key(token, now);
                let (claims, kid) = read.map_err(|error| refused(&error.to_string()))?;
                let known = self.sessions().service(&claims.jti);
                known.is_some_and(|it| it.api_session_id == *api_session)
                    || claims.z_asid == api_session && self.is_of_former(&claims, &kid, now)
            }
            false => {
                let known = self.sessions().service_of_token(token);
                known.is_some_and(|it| it.api_session_id == *api_session)
            }
        };
        match is_own {
            true => Ok(()),
            false => Err(refused("the service session has ended, or is of another API session")),
        }
    }

    /// Checks the tokens that a router passes on for a client that dials or hosts
    /// (docs/protocol/edge-control-plane.md 13.2, 14.3): the login, the service session, its type,
    /// the router, the service, and that policies still grant it.
    pub fn check_service_session(
        &self,
        router: &Id,
        api_session_token: &str,
        service_token: &str,
        wanted: PolicyType,
    ) -> Result<Checked, Refusal> {
        let now = self.kernel().now();
        let snapshot = self.kernel().snapshot();
        let opaque = match service_token.starts_with(SIGNED) {
            true => None,
            false => self.sessions().service_of_token(service_token),
        };
        let (login, identity) = match &opaque {
            // Routers before 2.0 tell the API session of signed service tokens only.
            Some(session) if api_session_token.is_empty() => {
                let login = self.sessions().unexpired(&session.api_session_id, now);
                self.usable_login(&snapshot, login.ok_or_else(unknown_login)?, now)?
            }
            _ => self.check_login(&snapshot, api_session_token, now)?,
        };
        if login.tokens.is_none() && self.legacy_session(&login).is_none() {
            let reason = "the session is none that routers may be used with";
            return Err(Refusal::new(RefusalCode::InvalidApiSession, reason));
        }
        let session = match opaque {
            Some(session) if session.api_session_id == login.base.id => session,
            Some(_) => {
                let reason = "the service session is of another API session";
                return Err(Refusal::new(RefusalCode::InvalidSession, reason));
            }
            None => {
                let of = (&*login, &*identity);
                self.session_of_signed(&snapshot, of, service_token, wanted)?
            }
        };
        let invalid = |reason: &str| Refusal::new(RefusalCode::InvalidSession, reason);
        if session.session_type != wanted {
            let reason = format!("the service session is for {}", session.session_type);
            return Err(Refusal::new(RefusalCode::WrongSessionType, reason));
        }
        let no_router = RefusalCode::InvalidEdgeRouterForSession;
        let service = usable(&snapshot, &identity, &session.service_id, router, no_router)?;
        if end_statement::lacks_proof(&service, &login) {
            return Err(Refusal {
                lacks_proof: true,
                ..invalid(&end_statement::refusal(&service))
            });
        }
        let wanted_service = service.base.id.as_str();
        self.viewer_at(router, &login)
            .decide(&snapshot, wanted_service, wanted, now)
            .granted()
            .map_err(|denial| invalid(&denial.to_string()))?;
        let (api_session, session) = (login.base.id.clone(), session.base.id.clone());
        let has_end_key = !login.end_key.is_empty();
        Ok(Checked { identity, service, api_session, session, has_end_key, snapshot })
    }

    /// The service session of a signed token, which was checked against the API session.
    fn session_of_signed(
        &self,
        snapshot: &Snapshot,
        (login, identity): (&ApiSession, &Identity),
        service_token: &str,
        wanted: PolicyType,
    ) -> Result<Arc<ServiceSession>, Refusal> {
        let now = self.kernel().now();
        let invalid = |reason: &str| Refusal::new(RefusalCode::InvalidSession, reason);
        let (claims, kid) = self
            .service_token_with_key(service_token, now)
            .map_err(|error| invalid(&format!("service session token: {error}")))?;
        let (api_session, owner) = (login.base.id.as_str(), identity.base.id.as_str());
        claims.check(api_session, owner, wanted, now).map_err(|error| match error {
            ClaimError::Action(_) => Refusal::new(RefusalCode::WrongSessionType, error.to_string()),
            error => invalid(&format!("service session token: {error}")),
        })?;
        let revoked = |id: &str| snapshot.get::<Revocation>(&Id::new(id)).map(|found| &**found);
        if claims.z_leg != login.tokens.is_none() || claims.is_revoked(revoked) {
            return Err(invalid("the service session token was revoked"));
        }
        let session = self.sessions().service(&claims.jti);
        let session = session
            .filter(|it| it.api_session_id == login.base.id)
            .or_else(|| self.adopted_service(&claims, &kid, login, now));
        session.ok_or_else(|| invalid("the service session has ended"))
    }

    /// The viewer of a session whose client is connected to this router.
    fn viewer_at(&self, router: &Id, login: &ApiSession) -> Viewer {
        let viewer = self.viewer(login);
        match self.kernel().online().judges_posture(router.as_str()) {
            true => viewer,
            false => viewer.judged_here(),
        }
    }

    /// The service session of a token that the program signed which served the network before weft first started
    /// (docs/protocol/auth.md 16.1): it kept none of signed API sessions. The token gives no right, which is judged as for
    /// others; without the session, C SDKs would show the same token again until they start anew.
    fn adopted_service(
        &self,
        claims: &ServiceClaims,
        kid: &str,
        login: &ApiSession,
        now: Timestamp,
    ) -> Option<Arc<ServiceSession>> {
        let is_of_former = self.is_of_former(claims, kid, now);
        let service = Id::parse(&claims.sub).ok().filter(|_| is_of_former)?;
        self.kernel().snapshot().get::<Service>(&service)?;
        let session_type = PolicyType::parse(&claims.z_st)?;
        record(self, login, &service, session_type)
            .inspect_err(|error| tracing::warn!(session = %login.base.id, %error, "a service session of the former controller cannot be taken over"))
            .ok()
    }

    /// Whether a token is one of the program that signed before weft first started, while tokens of it may be good.
    fn is_of_former(&self, claims: &ServiceClaims, kid: &str, now: Timestamp) -> bool {
        let signed_until = self.token_keys().earlier_program_until(kid);
        signed_until.is_some_and(|until| Timestamp::from_secs(claims.iat) <= until)
            && self.last_earlier_token(now).is_some()
    }

    /// Checks the access token that a router passes on for a client that dials a service without a service session
    /// (docs/protocol/edge-control-plane.md 13.3), and makes the service session. The token decides who dials; the
    /// identity that the router names only has to be the same.
    pub fn check_dial_by_token(
        &self,
        router: &Id,
        api_session_token: &str,
        named: &str,
        service: &Id,
    ) -> Result<Checked, Refusal> {
        let (now, snapshot) = (self.kernel().now(), self.kernel().snapshot());
        let invalid = |reason: &str| Refusal::new(RefusalCode::InvalidApiSession, reason);
        let (login, identity) = self.check_login(&snapshot, api_session_token, now)?;
        if login.tokens.is_none() {
            return Err(invalid("a dial without a service session needs a signed token"));
        }
        if identity.base.id.as_str() != named {
            return Err(invalid("the token is of another identity"));
        }
        let service = usable(&snapshot, &identity, service, router, RefusalCode::AccessDenied)?;
        let viewer = self.viewer_at(router, &login);
        let decision = viewer.decide(&snapshot, service.base.id.as_str(), PolicyType::Dial, now);
        if let Err(denial) = decision.clone().granted() {
            return Err(Refusal::new(RefusalCode::InvalidService, denial.to_string()));
        }
        let session = record(self, &login, &service.base.id, PolicyType::Dial)
            .map_err(|failure| Refusal::new(RefusalCode::Internal, failure.to_string()))?;
        self.remember_end(&session.base.id, &decision);
        if end_statement::lacks_proof(&service, &login) {
            return Err(invalid(&end_statement::refusal(&service)));
        }
        let (api_session, session) = (login.base.id.clone(), session.base.id.clone());
        let has_end_key = !login.end_key.is_empty();
        Ok(Checked { identity, service, api_session, session, has_end_key, snapshot })
    }

    /// The login of a token in a router's request.
    fn check_login(
        &self,
        snapshot: &Snapshot,
        token: &str,
        now: Timestamp,
    ) -> Result<(Arc<ApiSession>, Arc<Identity>), Refusal> {
        let invalid = |reason: &str| Refusal::new(RefusalCode::InvalidApiSession, reason);
        let login = match token.starts_with(SIGNED) {
            true => {
                let proven = self.proven(snapshot, token, TokenKind::Access, now);
                let proven = proven.map_err(|refusal| invalid(&refusal.to_string()))?;
                if !stands(snapshot, &proven.session, now) {
                    return Err(invalid("the session's credential is no longer good"));
                }
                self.saw_newest(&proven, now);
                proven.session
            }
            false => self.sessions().by_token(token, now).ok_or_else(unknown_login)?,
        };
        self.usable_login(snapshot, login, now)
    }

    /// A login that routers may be used with, and its identity.
    fn usable_login(
        &self,
        snapshot: &Snapshot,
        login: Arc<ApiSession>,
        now: Timestamp,
    ) -> Result<(Arc<ApiSession>, Arc<Identity>), Refusal> {
        let invalid = |reason: &str| Refusal::new(RefusalCode::InvalidApiSession, reason);
        if !is_complete(snapshot, &login) {
            return Err(invalid("the session needs a second factor"));
        }
        let identity = snapshot.get::<Identity>(&login.identity_id);
        let identity = identity.filter(|identity| !identity.is_disabled(now)).cloned();
        let identity =
            identity.ok_or_else(|| invalid("the identity does not exist or is disabled"))?;
        Ok((login, identity))
    }
}
