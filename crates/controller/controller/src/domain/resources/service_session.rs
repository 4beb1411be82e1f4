//! Service sessions: permissions to dial or host one service within a login (docs/protocol/auth.md
//! 17.7). `weft_auth::service_session` implements the table of sessions.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use weft_auth::current::session_of;
use weft_auth::end_statement::{self, lacks_proof};
use weft_auth::service_session::record;
use weft_contract::entity::DialBind;
use weft_contract::resource::service::COLLECTION as SERVICES;
use weft_contract::resource::service_session::{
    COLLECTION, SessionBody, SessionDetail, SessionEdgeRouter,
};
use weft_contract::resource::session::COLLECTION as API_SESSIONS;
use weft_contract::{Api, EntityRef, ErrorCode, Verb, Word as _};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Reply, Result, convert, list};
use weft_model::access::{AccessDecision, Denial};
use weft_model::entity::{PolicyType, Service, ServiceSession};
use weft_model::filter::{Column, PageRules, Selection, Symbols, Type, Value};
use weft_model::{Choice as _, Id, Meter, Part};

use crate::domain::context::Context;
use crate::domain::resources::known_routers::{in_session, routers_between};
use crate::domain::symbols::symbols;
use crate::{Caller, Controller, Failure};

/// Units of work of a signature.
const SIGNATURE: u64 = 1024;

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Client, "createSession", &create),
    (Api::Client, "listSessions", &list_own),
    (Api::Client, "detailSession", &detail),
    (Api::Client, "deleteSession", &delete),
    (Api::Client, "stateSessionEnd", &state_end),
];

type SessionColumn = Column<Context, ServiceSession>;

// The token is no symbol: a caller could guess it by filters.
pub(crate) static SYMBOLS: Symbols<Context, ServiceSession> = symbols(
    "sessions",
    &[
        SessionColumn::one("apiSession", Type::String, |_, it| {
            Value::text(it.api_session_id.as_str())
        })
        .public(),
        SessionColumn::one("service", Type::String, |_, it| Value::text(it.service_id.as_str()))
            .public(),
        SessionColumn::one("type", Type::String, |_, it| Value::text(it.session_type.as_str()))
            .public(),
    ],
);

async fn create(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let body: SessionBody = call.decode(Verb::Create)?;
    let login = session_of(controller.auth(), &caller)?;
    let context = controller.context(&caller);
    let word = body.session_type.unwrap_or(DialBind::Dial);
    let session_type = PolicyType::parse(word.as_str())
        .ok_or_else(|| Failure::field("type", "must be Dial or Bind", word.as_str()))?;
    let id = body.service_id.unwrap_or_default();
    let service = context.view().get::<Service>(&id).filter(|it| !it.is_fabric_only);
    let service = service.ok_or_else(|| Failure::not_found("service", &id))?;
    let identity = login.identity_id.as_str();
    let wanted = service.base.id.as_str();
    let (snapshot, viewer) = (context.snapshot(), controller.auth().viewer(&login));
    let decision = viewer.decide(snapshot, wanted, session_type, context.now());
    match &decision {
        AccessDecision::Granted { .. } => {}
        _ if controller.auth().may_be_known_elsewhere(&login.identity_id, &decision) => {
            let text = "this controller has just started, and has not heard yet what other controllers know of the device: \
                        try again, or ask another one";
            let failure = Failure::unhandled(text).with_status(503);
            return Err(failure.with_retry_after(Duration::from_secs(1)));
        }
        AccessDecision::Denied(Denial::Posture(failed)) => {
            let refused = controller.auth().refuse_for_posture(
                snapshot,
                &viewer,
                &login,
                service,
                session_type,
                failed,
            );
            return Err(refused);
        }
        AccessDecision::Denied(_) => {
            return Err(Failure::field("serviceId", "service not found", id));
        }
    }
    if lacks_proof(service, &login) {
        return Err(Failure::field("serviceId", end_statement::refusal(service), id));
    }
    // Routers that are not connected count too, because they may connect before the client
    // needs them.
    let edge_routers = snapshot.routers_between(&Id::new(identity), &service.base.id);
    if edge_routers.is_empty() {
        return Err(ErrorCode::NoEdgeRoutersAvailable.into());
    }
    caller.begin()?;
    let session = record(controller.auth(), &login, &service.base.id, session_type)?;
    controller.auth().remember_end(&session.base.id, &decision);
    // The session did not exist when a change was published after the decision, so that change
    // did not end it: check again with the current snapshot.
    let now_known = controller.kernel().snapshot();
    if now_known.revision() != snapshot.revision() {
        controller.auth().end_ungranted(&now_known, &[Arc::clone(&session)]);
        if controller.auth().sessions().service(session.base.id.as_str()).is_none() {
            return Err(Failure::field("serviceId", "service not found", id));
        }
    }
    controller.auth().sessions().begun().await;
    // The reply has all members of the session; the original leaves some null
    // (docs/protocol/auth.md 20.6).
    let token = controller.auth().service_token(&session)?;
    let text = controller.router_texts().of(snapshot, context.online(), edge_routers)?;
    Ok(Reply::created_as(with_routers(&shown_with(&context, &session, token), &text)?))
}

/// A service session as JSON, with the member for its routers replaced by this text.
fn with_routers(detail: &SessionDetail, routers: &RawValue) -> Result<String> {
    const NONE: &str = r#""edgeRouters":[]"#;
    let text = serde_json::to_string(detail);
    let text = text.map_err(|error| Failure::unhandled(error.to_string()))?;
    // The placeholder contains quotes, which any text of a member would have escaped.
    let (before, after) = text
        .split_once(NONE)
        .ok_or_else(|| Failure::unhandled("a service session shows routers of its own"))?;
    Ok([before, r#""edgeRouters":"#, routers.get(), after].concat())
}

fn edge_routers(context: &Context, identity: &str, service: &Id) -> Vec<SessionEdgeRouter> {
    let routers = routers_between(context.snapshot(), context.online(), identity, service);
    routers.iter().map(|router| in_session(context.online(), router)).collect()
}

/// A service session as the APIs show it. `token` is empty for callers that may not use the
/// session.
pub(crate) fn shown(context: &Context, session: &ServiceSession, token: String) -> SessionDetail {
    let edge_routers = edge_routers(context, session.identity_id.as_str(), &session.service_id);
    SessionDetail { edge_routers, ..shown_with(context, session, token) }
}

/// A service session as the APIs show it, without routers.
fn shown_with(context: &Context, session: &ServiceSession, token: String) -> SessionDetail {
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
        r#type: convert::word(session.session_type),
    }
}

/// The service sessions of all logins of the caller; for an administrator those of everybody.
async fn list_own(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let login = session_of(controller.auth(), &caller)?;
    let context = controller.context(&caller);
    let sessions = controller.auth().sessions();
    let found = match caller.is_admin() {
        true => sessions.all_services(),
        false => sessions.services_of_identity(&login.identity_id),
    };
    let selection = list::selection(&caller, &call.query, &SYMBOLS, &PageRules::LIST)?;
    let effort = effort(&selection, found.len());
    let request = controller.kernel().scans().asked_by(&caller);
    request.counted(effort, move |meter| page_of(&context, &selection, &found, meter)).await
}

/// The effort of a page of this many sessions, whose tokens are signed.
fn effort(selection: &Selection, sessions: usize) -> u64 {
    let (start, end) = selection.page().bounds();
    let signed = end.min(sessions).saturating_sub(start) as u64;
    selection.effort_of(sessions).saturating_add(signed.saturating_mul(SIGNATURE))
}

fn page_of(
    context: &Context,
    selection: &Selection,
    found: &[Arc<ServiceSession>],
    meter: &Meter,
) -> Result<Reply> {
    let rows = found.iter().map(|it| SYMBOLS.row(context, it));
    list::answer(selection, &SYMBOLS, rows, meter, |session| {
        meter.take(Part::Rows, SIGNATURE)?;
        detail_of(context, session)
    })
}

fn detail_of(context: &Context, session: &ServiceSession) -> Result<SessionDetail> {
    let token = context.controller().auth().service_token(session)?;
    Ok(shown(context, session, token))
}

/// A service session of the caller's identity, in any of its logins.
fn own(controller: &Controller, caller: &Caller, id: &str) -> Result<Arc<ServiceSession>> {
    let login = session_of(controller.auth(), caller)?;
    let found = controller.auth().sessions().service(id);
    found
        .filter(|session| session.identity_id == login.identity_id)
        .ok_or_else(|| Failure::not_found("session", id))
}

async fn detail(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let session = own(&controller, &caller, call.id(0))?;
    let context = controller.context(&caller);
    let token = controller.auth().service_token(&session)?;
    // Hosts ask for the routers of each of their services from time to time.
    let snapshot = context.snapshot();
    let routers = snapshot.routers_between(&session.identity_id, &session.service_id);
    let text = controller.router_texts().of(snapshot, context.online(), routers)?;
    Ok(Reply::detail_as(with_routers(&shown_with(&context, &session, token), &text)?))
}

/// The controller's statement about the caller as an end of connections.
async fn state_end(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let login = session_of(controller.auth(), &caller)?;
    let session = own(&controller, &caller, call.id(0))?;
    if session.api_session_id != login.base.id {
        return Err(Failure::not_found("session", call.id(0)));
    }
    let instance = call.query.get("instance").unwrap_or_default();
    Reply::detail(&controller.auth().end_statement(&login, &session, instance)?)
}

async fn delete(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let session = own(&controller, &caller, call.id(0))?;
    controller.auth().sessions().remove_services(std::slice::from_ref(&session.base.id));
    controller.auth().sessions().kept().await?;
    Reply::empty()
}
