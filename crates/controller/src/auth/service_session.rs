//! Service sessions: leave to dial or host one service within a login
//! (docs/protocol/auth.md 17.7; docs/protocol/edge-control-plane.md 11.5, 13.2, 14.3). The token is
//! signed; a stored record stands behind it and ends with the login.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::value::RawValue;
use weft_contract::entity::DialBind;
use weft_contract::envelope::Pagination;
use weft_contract::resource::service::COLLECTION as SERVICES;
use weft_contract::resource::service_session::{
    COLLECTION, SessionBody, SessionDetail, SessionEdgeRouter,
};
use weft_contract::resource::session::COLLECTION as API_SESSIONS;
use weft_contract::{Api, EntityRef, ErrorCode, Verb};
use weft_model::access::{Decision, Denial};
use weft_model::entity::{ApiSession, Identity, PolicyType, Revocation, Service, Session};
use weft_model::filter::{PageRules, Table, Type, Value};
use weft_model::token::{AUDIENCE, ClaimError, ServiceClaims, TokenKind};
use weft_model::{Base, Id, Snapshot, Timestamp};

use super::client_services::routers_between;
use super::current::session_of;
use super::resolve::is_complete;
use super::signing::is_slow;
use crate::domain::call::{Answer, Call, Handler, Reply};
use crate::domain::convert;
use crate::domain::list;
use crate::domain::resources::edge_router::common;
use crate::domain::symbols::symbols;
use crate::domain::view::Context;
use crate::{Caller, Controller, Failure};

/// Longest life of a service token; it ends with the login in any case.
const TOKEN_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The operations.
pub(crate) const HANDLERS: &[(Api, &str, Handler)] = &[
    (Api::Client, "createSession", create),
    (Api::Client, "listSessions", list_own),
    (Api::Client, "detailSession", detail),
    (Api::Client, "deleteSession", delete),
];

// The token is no symbol: who may filter by it could guess it.
pub(crate) static SYMBOLS: Table<Context, Session> = symbols!("sessions", Session {
    Column::one("apiSession", Type::String, |_, it| Value::text(it.api_session_id.as_str()))
        .public(),
    Column::one("service", Type::String, |_, it| Value::text(it.service_id.as_str())).public(),
    Column::one("type", Type::String, |_, it| Value::text(it.session_type.as_str())).public(),
});

fn create(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let body: SessionBody = call.decode(Verb::Create)?;
        let login = session_of(&controller, &caller)?;
        let context = controller.context(&caller);
        let word = body.session_type.unwrap_or(DialBind::Dial);
        let session_type = PolicyType::parse(word.as_str())
            .ok_or_else(|| Failure::field("type", "must be Dial or Bind", word.as_str()))?;
        let id = body.service_id.unwrap_or_default();
        let service = context.view().get::<Service>(&id).filter(|it| !it.is_fabric_only);
        let service = service.ok_or_else(|| Failure::not_found("service", &id))?;
        let identity = login.identity_id.as_str();
        let wanted = service.base.id.as_str();
        let (snapshot, viewer) = (context.snapshot(), controller.viewer(&login));
        let decision = viewer.decide(snapshot, wanted, session_type, context.now());
        match &decision {
            Decision::Granted { .. } => {}
            Decision::Denied(Denial::Posture(failed)) => {
                let refused = controller.refuse_for_posture(
                    snapshot,
                    &viewer,
                    &login,
                    service,
                    session_type,
                    failed,
                );
                return Err(refused);
            }
            Decision::Denied(_) => {
                return Err(Failure::field("serviceId", "service not found", id));
            }
        }
        // One that is away may be back before the client needs it.
        let edge_routers = snapshot.routers_between(&Id::new(identity), &service.base.id);
        if edge_routers.is_empty() {
            return Err(ErrorCode::NoEdgeRoutersAvailable.into());
        }
        let session = record(&controller, &login, &service.base.id, session_type)?;
        controller.remember_end(&session.base.id, &decision);
        // Of a change since the decision nobody may have told this session, which was not there.
        let now_known = controller.snapshot();
        if now_known.revision() != snapshot.revision() {
            controller.end_ungranted(&now_known, &[Arc::clone(&session)]);
            if controller.sessions().service(session.base.id.as_str()).is_none() {
                return Err(Failure::field("serviceId", "service not found", id));
            }
        }
        controller.sessions().begun().await;
        // The whole session, where the original leaves half of it null
        // (docs/protocol/auth.md 20.6).
        let (kept, keys) = (Arc::clone(&session), controller.keys());
        let sign = move |controller: &Controller| controller.service_token(&kept);
        let key = keys.of_tokens().key().algorithm();
        let token = controller.sign_in_turn(&caller, key, sign).await?;
        let text = controller.0.router_texts.of(&context, edge_routers)?;
        Ok(Reply::created_as(with_routers(&shown_with(&context, &session, token), &text)?))
    }
    .boxed()
}

/// A service session as JSON, with these routers in the place of its own.
fn with_routers(detail: &SessionDetail, routers: &RawValue) -> Result<String, Failure> {
    const NONE: &str = r#""edgeRouters":[]"#;
    let text = serde_json::to_string(detail);
    let text = text.map_err(|error| Failure::unhandled(error.to_string()))?;
    // No text of a member can look like this: quotes inside of it are escaped.
    let (before, after) = text
        .split_once(NONE)
        .ok_or_else(|| Failure::unhandled("a service session shows routers of its own"))?;
    Ok([before, r#""edgeRouters":"#, routers.get(), after].concat())
}

/// The stored session: one for each login, type and service; asked for again it is the same.
fn record(
    controller: &Controller,
    login: &ApiSession,
    service: &Id,
    session_type: PolicyType,
) -> Result<Arc<Session>, Failure> {
    let now = controller.now();
    let id = controller.ids().ordered(now);
    let session = Session {
        token: id.as_str().into(),
        base: Base::new(id, now),
        api_session_id: login.base.id.clone(),
        identity_id: login.identity_id.clone(),
        service_id: service.clone(),
        session_type,
    };
    let kept = controller.sessions().service_or(session);
    kept.ok_or_else(|| Failure::unauthorized("the session has ended"))
}

fn edge_routers(context: &Context, identity: &str, service: &Id) -> Vec<SessionEdgeRouter> {
    let routers = routers_between(context, identity, service);
    routers.iter().map(|router| SessionEdgeRouter::new(common(context, router))).collect()
}

/// A service session as the APIs show it. The token is for whoever may use the session.
pub(crate) fn shown(context: &Context, session: &Session, token: String) -> SessionDetail {
    let edge_routers = edge_routers(context, session.identity_id.as_str(), &session.service_id);
    SessionDetail { edge_routers, ..shown_with(context, session, token) }
}

/// The same without its routers.
fn shown_with(context: &Context, session: &Session, token: String) -> SessionDetail {
    let (identity, service) = (session.identity_id.as_str(), &session.service_id);
    let api_session = session.api_session_id.as_str();
    SessionDetail {
        base: convert::base(COLLECTION, &session.base, &["route-path"]),
        api_session: EntityRef::new(API_SESSIONS, api_session, ""),
        api_session_id: api_session.to_owned(),
        edge_routers: Vec::new(),
        identity_id: identity.to_owned(),
        service: convert::mention::<Service>(context.view(), SERVICES, service),
        service_id: service.to_string(),
        token,
        r#type: convert::policy_type(session.session_type),
    }
}

/// The service sessions of the caller, over all of its logins; an administrator sees all.
fn list_own(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let login = session_of(&controller, &caller)?;
        let context = controller.context(&caller);
        let sessions = controller.sessions();
        let found = match caller.is_admin() {
            true => sessions.all_services(),
            false => sessions.services_of_identity(&login.identity_id),
        };
        let key = controller.keys().of_tokens().key().algorithm();
        let effort = if is_slow(key) { usize::MAX } else { found.len() };
        let turns = controller.scans().asked_by(&caller);
        list::run(turns, effort, move || page_of(&context, &call, &found)).await
    }
    .boxed()
}

fn page_of(context: &Context, call: &Call, found: &[Arc<Session>]) -> Result<Reply, Failure> {
    let selection = list::selection(&call.query, &SYMBOLS, &PageRules::LIST)?;
    let listed = selection.run_by_id(found.iter().map(|it| SYMBOLS.row(context, it)));
    let details = listed.rows.iter().map(|row| detail_of(context, row.record()));
    let details = details.collect::<Result<Vec<_>, _>>()?;
    let pagination = Pagination {
        limit: listed.page.stated_limit(),
        offset: listed.page.offset as i64,
        total_count: listed.total as i64,
    };
    let names = SYMBOLS.public_names().map(str::to_owned).collect();
    Reply::list(&details, pagination, names)
}

fn detail_of(context: &Context, session: &Session) -> Result<SessionDetail, Failure> {
    let token = context.controller().service_token(session)?;
    Ok(shown(context, session, token))
}

/// A service session of the caller's own login.
fn own(controller: &Controller, caller: &Caller, id: &str) -> Result<Arc<Session>, Failure> {
    let login = session_of(controller, caller)?;
    let found = controller.sessions().service(id);
    found
        .filter(|session| session.identity_id == login.identity_id)
        .ok_or_else(|| Failure::not_found("session", id))
}

fn detail(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let session = own(&controller, &caller, call.id(0))?;
        let key = controller.keys().of_tokens().key().algorithm();
        let context = controller.context(&caller);
        let sign = move |_: &Controller| detail_of(&context, &session);
        Reply::detail(&controller.sign_in_turn(&caller, key, sign).await?)
    }
    .boxed()
}

fn delete(controller: Controller, caller: Caller, call: Call) -> Answer {
    async move {
        let session = own(&controller, &caller, call.id(0))?;
        controller.sessions().remove_services(std::slice::from_ref(&session.base.id));
        controller.sessions().kept().await?;
        Reply::empty()
    }
    .boxed()
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
}

impl RefusalCode {
    /// What the client should do: 0 try again, 2 start over, 3 give up.
    pub fn retry_hint(self) -> u32 {
        match self {
            Self::Internal => 0,
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
    /// For a person.
    pub reason: String,
}

impl Refusal {
    fn new(code: RefusalCode, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

/// A service session that was checked.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The snapshot it was checked on.
    pub snapshot: Arc<Snapshot>,
    /// Who uses it.
    pub identity: Arc<Identity>,
    /// The service.
    pub service: Arc<Service>,
    /// Id of the API session.
    pub api_session: Id,
    /// Id of the service session.
    pub session: Id,
}

impl Controller {
    /// Signs the token of a service session (docs/protocol/edge-control-plane.md 11.5).
    pub(crate) fn service_token(&self, session: &Session) -> Result<String, Failure> {
        let now = self.now();
        self.sign(&ServiceClaims {
            iss: self.issuer(),
            sub: session.service_id.to_string(),
            aud: vec![AUDIENCE.to_owned()],
            iat: now.secs(),
            exp: now.plus(TOKEN_LIFE).secs(),
            jti: session.base.id.to_string(),
            z_asid: session.api_session_id.to_string(),
            z_iid: session.identity_id.to_string(),
            z_t: TokenKind::Service,
            z_st: session.session_type.as_str().to_owned(),
            z_leg: true,
        })
    }

    /// Checks the tokens that a router passes on for a client that dials or hosts
    /// (docs/protocol/edge-control-plane.md 13.2, 14.3): the login, the service session, its type,
    /// the router, the service, and that the policies still grant it.
    pub fn check_service_session(
        &self,
        router: &Id,
        api_session_token: &str,
        service_token: &str,
        wanted: PolicyType,
    ) -> Result<Checked, Refusal> {
        let now = self.now();
        let snapshot = self.snapshot();
        let (login, identity) = self.check_login(&snapshot, api_session_token, now)?;
        if self.legacy_session(&login).is_none() {
            let reason = "the session is none that routers may be used with";
            return Err(Refusal::new(RefusalCode::InvalidApiSession, reason));
        }
        let invalid = |reason: &str| Refusal::new(RefusalCode::InvalidSession, reason);
        let claims = self
            .read_service_token(service_token, now)
            .map_err(|error| invalid(&format!("service session token: {error}")))?;
        let (api_session, owner) = (login.base.id.as_str(), identity.base.id.as_str());
        claims.check(api_session, owner, wanted, now).map_err(|error| match error {
            ClaimError::Action(_) => Refusal::new(RefusalCode::WrongSessionType, error.to_string()),
            error => invalid(&format!("service session token: {error}")),
        })?;
        let revoked = |id: &str| snapshot.get::<Revocation>(&Id::new(id)).map(|found| &**found);
        if !claims.z_leg || claims.is_revoked(revoked) {
            return Err(invalid("the service session token was revoked"));
        }
        let session = self.sessions().service(&claims.jti);
        let session = session.filter(|it| it.api_session_id == login.base.id);
        let session = session.ok_or_else(|| invalid("the service session has ended"))?;
        if session.session_type != wanted {
            let reason = format!("the service session is for {}", session.session_type);
            return Err(Refusal::new(RefusalCode::WrongSessionType, reason));
        }
        if !snapshot.is_router_usable(&identity.base.id, &session.service_id, router) {
            return Err(Refusal::new(
                RefusalCode::InvalidEdgeRouterForSession,
                "no edge router policy lets the identity use this router for the service",
            ));
        }
        let service = snapshot.get::<Service>(&session.service_id).cloned();
        let service = service.ok_or_else(|| {
            Refusal::new(RefusalCode::InvalidService, "the service does not exist")
        })?;
        let wanted_service = service.base.id.as_str();
        self.viewer(&login)
            .decide(&snapshot, wanted_service, wanted, now)
            .granted()
            .map_err(|denial| invalid(&denial.to_string()))?;
        let (api_session, session) = (login.base.id.clone(), session.base.id.clone());
        Ok(Checked { identity, service, api_session, session, snapshot })
    }

    /// The login behind an opaque token, for requests of routers.
    fn check_login(
        &self,
        snapshot: &Snapshot,
        token: &str,
        now: Timestamp,
    ) -> Result<(Arc<ApiSession>, Arc<Identity>), Refusal> {
        if token.starts_with("ey") {
            let reason = "this controller issues no bearer sessions";
            return Err(Refusal::new(RefusalCode::Internal, reason));
        }
        let invalid = |reason: &str| Refusal::new(RefusalCode::InvalidApiSession, reason);
        let login = self.sessions().by_token(token, now);
        let login = login.ok_or_else(|| invalid("the session is not known or has expired"))?;
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::online::RouterFacts;
    use crate::testing::Bed;

    async fn all(bed: &Bed, admin: &Caller, operation: &str, roles: &[&str]) -> String {
        let mut body = json!({"name": "all", "semantic": "AnyOf", "type": "Dial"});
        for role in roles {
            body[*role] = json!(["#all"]);
        }
        bed.create(admin, operation, body).await
    }

    fn names(routers: &Value) -> Vec<&str> {
        routers.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
    }

    #[tokio::test]
    async fn a_session_needs_a_router_that_is_assigned_and_may_be_away() {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        let body = json!({"name": "web", "encryptionRequired": true});
        let service = bed.create(&admin, "createService", body).await;
        all(&bed, &admin, "createServicePolicy", &["identityRoles", "serviceRoles"]).await;
        let roles = ["edgeRouterRoles", "identityRoles"];
        let policy = all(&bed, &admin, "createEdgeRouterPolicy", &roles).await;
        let roles = ["edgeRouterRoles", "serviceRoles"];
        all(&bed, &admin, "createServiceEdgeRouterPolicy", &roles).await;
        let (_, chain) = bed.enroll(&admin, "laptop").await;
        let token = bed.login_with(&chain).await.unwrap().data()["token"].clone();
        let client = bed.with_token(token.as_str().unwrap());
        let make = || {
            let ask = json!({"serviceId": service, "type": "Dial"});
            bed.client(&client, "createSession", &[], ask)
        };
        assert_eq!(make().await.unwrap_err().code(), ErrorCode::NoEdgeRoutersAvailable);

        // Neither enrolled, nor ever connected.
        bed.create(&admin, "createEdgeRouter", json!({"name": "new"})).await;
        assert_eq!(names(&make().await.unwrap()["edgeRouters"]), ["new"]);
        let mut made = Vec::new();
        for name in ["one", "two", "three"] {
            made.push((bed.router(&admin, name, json!({})).await, name));
        }
        bed.controller.online().put_router(&made[1].0, 1, RouterFacts::default());
        made.sort_unstable();
        let session = make().await.unwrap();
        let (operation, of) = ("listServiceEdgeRouters", [service.as_str()]);
        let listed = bed.client(&client, operation, &of, Value::Null).await.unwrap();
        let managed = bed.manage(&admin, operation, &of, Value::Null).await.unwrap();
        assert_eq!(managed.as_array().unwrap().len(), 4);
        for routers in [&session["edgeRouters"], &listed["edgeRouters"]] {
            let found = names(routers);
            assert_eq!((found.len(), found[0]), (4, "two"), "the connected one first");
            let away: Vec<&str> = found[1..].iter().copied().filter(|it| *it != "new").collect();
            let by_id = made.iter().map(|(_, name)| *name).filter(|name| *name != "two");
            assert_eq!(away, by_id.collect::<Vec<_>>());
            assert_eq!(routers[0]["isOnline"], json!(true));
            assert_eq!(routers[1]["isOnline"], json!(false));
        }
        // What is shown of routers is kept, and follows them.
        let id = session["id"].as_str().unwrap();
        let alone = bed.client(&client, "detailSession", &[id], Value::Null).await.unwrap();
        assert_eq!(session["edgeRouters"], alone["edgeRouters"]);
        assert_eq!(make().await.unwrap()["edgeRouters"], session["edgeRouters"]);
        let two = made.iter().find(|(_, name)| *name == "two").unwrap().0.clone();
        bed.controller.online().remove_router(&two, 1);
        let patch = json!({"name": "second"});
        bed.manage(&admin, "patchEdgeRouter", &[two.as_str()], patch).await.unwrap();
        let session = make().await.unwrap();
        let routers = session["edgeRouters"].as_array().unwrap();
        assert!(routers.iter().all(|router| router["isOnline"] == json!(false)));
        assert!(names(&session["edgeRouters"]).contains(&"second"));
        bed.manage(&admin, "deleteEdgeRouterPolicy", &[&policy], Value::Null).await.unwrap();
        assert_eq!(make().await.unwrap_err().code(), ErrorCode::NoEdgeRoutersAvailable);
    }
}
