//! Terminators that routers report (docs/protocol/edge-control-plane.md 14, 15.2, 15.3;
//! docs/protocol/control-plane.md 15, 21).
//!
//! Changes of one router are decided in order of arrival, so that a removal after a creation finds
//! the terminator. A router can change only its own terminators.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use weft_auth::end_statement::is_key;
use weft_channel::Lane;
use weft_kernel::{Caller, Failure};
use weft_model::entity::{OfKind as _, PolicyType, Precedence, Router, Service, Terminator};
use weft_model::{Id, Kind};
use weft_network::terminators::{Owned, Refused, ReportedTerminator, TerminatorPatch, Terminators};
use weft_wire::ctrl::{
    self, CreateTerminatorRequest, RemoveTerminatorsRequest, TerminatorPrecedence,
};
use weft_wire::edge_ctrl::{
    self, CreateTerminatorV2Request, CreateTunnelTerminatorRequestV2, EdgeError, ErrorCode,
    RemoveTunnelTerminator, UpdateTunnelTerminatorRequest,
};
use weft_wire::{Message, Outcome, ProtoBody, WireError};

use super::circuit_requests::{own_binding, own_identity};
use super::demand;
use super::edge_errors::{
    error, malformed, of_refused, of_session, terminator_answer, tunnel_terminator_answer,
};
use super::ended::EDGE;
use super::session::RouterSession;

/// Binding of terminators of the router's own identity.
const TUNNEL: &str = "tunnel";
/// Terminators changed in one change set when all of a router change.
const CHANGED_AT_ONCE: usize = 1000;
/// Most terminators named in one message.
const MAX_NAMED: usize = 100_000;

/// Handles a request and answers it.
pub async fn handle(session: Arc<RouterSession>, message: Message) {
    let served = serve(&session, &message).await;
    let reply = match &served {
        Ok(reply) => reply.clone(),
        Err(problem) => malformed(&message, problem),
    };
    if let Some(reply) = reply {
        let reply = reply.in_reply_to(&message);
        if let Err(problem) = session.router.channel.send_on(Lane::Default, reply).await {
            tracing::debug!(router = %session.router.id, %problem, "answer not sent");
        }
    }
    if let Err(problem) = served {
        session.not_understood(&message, &problem);
    }
}

async fn serve(session: &RouterSession, message: &Message) -> Result<Option<Message>, WireError> {
    use ctrl::content_type as fabric;
    use edge_ctrl::content_type as is;
    let reply = match message.content_type {
        is::CREATE_TERMINATOR_V2_REQUEST => {
            let request = CreateTerminatorV2Request::from_message(message)?;
            let address = request.address.clone();
            terminator_answer(address, &create_for_sdk(session, request).await)
        }
        is::CREATE_TUNNEL_TERMINATOR_REQUEST_V2 => {
            let request = CreateTunnelTerminatorRequestV2::from_message(message)?;
            tunnel_terminator_answer(&request, &create_for_tunneler(session, &request).await)
        }
        is::UPDATE_TERMINATOR_REQUEST => {
            let request = edge_ctrl::UpdateTerminatorRequest::from_message(message)?;
            let done = update_for_sdk(session, &request).await;
            edge_answer(done, is::UPDATE_TERMINATOR_RESPONSE)
        }
        is::UPDATE_TUNNEL_TERMINATOR_REQUEST => {
            let request = UpdateTunnelTerminatorRequest::from_message(message)?;
            let done = update_for_tunneler(session, &request).await;
            edge_answer(done, is::UPDATE_TUNNEL_TERMINATOR_RESPONSE)
        }
        is::REMOVE_TERMINATOR_REQUEST => {
            let request = edge_ctrl::RemoveTerminatorRequest::from_message(message)?;
            let done = remove_one(session, &request.terminator_id, EDGE).await;
            edge_answer(done, is::REMOVE_TERMINATOR_RESPONSE)
        }
        is::REMOVE_TUNNEL_TERMINATOR_REQUEST => {
            let request = RemoveTunnelTerminator::from_message(message)?;
            let done = remove_one(session, &request.terminator_id, TUNNEL).await;
            edge_answer(done, is::REMOVE_TUNNEL_TERMINATOR_RESPONSE)
        }
        fabric::CREATE_TERMINATOR => {
            outcome(create(session, CreateTerminatorRequest::from_message(message)?).await)
        }
        fabric::UPDATE_TERMINATOR => {
            outcome(update(session, &ctrl::UpdateTerminatorRequest::from_message(message)?).await)
        }
        fabric::REMOVE_TERMINATOR => {
            let request = ctrl::RemoveTerminatorRequest::from_message(message)?;
            outcome(remove_owned(session, &request.terminator_id).await)
        }
        fabric::REMOVE_TERMINATORS => {
            let request = RemoveTerminatorsRequest::from_message(message)?;
            outcome(remove_all(session, &request.terminator_ids).await)
        }
        fabric::QUIESCE_ROUTER => outcome(quiesce(session).await),
        fabric::DEQUIESCE_ROUTER => outcome(dequiesce(session).await),
        fabric::DECOMMISSION_ROUTER => match decommission(session).await {
            // The connection closes instead of an answer.
            Ok(_) => return Ok(None),
            refused => outcome(refused),
        },
        _ => return Ok(None),
    };
    Ok(Some(reply))
}

fn edge_answer(done: Result<(), EdgeError>, success: i32) -> Message {
    match done {
        Ok(()) => Message::new(success, ""),
        Err(error) => error.to_message(),
    }
}

fn outcome(done: Result<String, Refused>) -> Message {
    match done {
        Ok(text) => Outcome::success(text).to_message(),
        Err(refused) if refused.is_busy() => Outcome::busy().to_message(),
        Err(refused) => Outcome::failure(refused.to_string()).to_message(),
    }
}

fn cost(cost: u32) -> Result<u16, EdgeError> {
    let text = || format!("invalid cost {cost}, must be 0 to 65535");
    u16::try_from(cost).map_err(|_| error(ErrorCode::INVALID_COST, text()))
}

fn precedence(number: i32) -> Result<Precedence, EdgeError> {
    match TerminatorPrecedence::try_from(number) {
        Ok(TerminatorPrecedence::Default) => Ok(Precedence::Default),
        Ok(TerminatorPrecedence::Required) => Ok(Precedence::Required),
        Ok(TerminatorPrecedence::Failed) => Ok(Precedence::Failed),
        Err(_) => Err(error(ErrorCode::INVALID_PRECEDENCE, format!("invalid precedence {number}"))),
    }
}

fn terminator_id(text: &str) -> Result<Id, EdgeError> {
    Id::parse(text.trim()).map_err(|problem| {
        error(ErrorCode::INVALID_TERMINATOR, format!("terminator id: {problem}"))
    })
}

/// Makes a terminator for the bind session of an SDK.
async fn create_for_sdk(
    session: &RouterSession,
    request: CreateTerminatorV2Request,
) -> Result<(), EdgeError> {
    let id = terminator_id(&request.address)?;
    let checked = session
        .plane
        .auth
        .check_service_session(
            &session.router.id,
            &request.api_session_token,
            &request.session_token,
            PolicyType::Bind,
        )
        .map_err(|refusal| of_session(&refusal, session.router.capabilities))?;
    let reported = ReportedTerminator {
        address: request.address,
        router: session.router.id.clone(),
        service: checked.service.base.id.clone(),
        binding: EDGE.to_owned(),
        instance_id: request.instance_id,
        instance_secret: request.instance_secret,
        peer_data: request.peer_data,
        cost: cost(request.cost)?,
        precedence: precedence(request.precedence)?,
        host: checked.identity.base.id.clone(),
        host_proves: checked.has_end_key,
        id: id.clone(),
    };
    put(session, reported).await?;
    // The session may have ended before its terminator existed, where the end did not find it.
    let auth = &session.plane.auth;
    let snapshot = auth.kernel().with_held();
    let put = snapshot.get::<Terminator>(&id);
    if put.is_some_and(|put| !super::ended::is_founded(auth, put)) {
        let _ = remove_one(session, id.as_str(), EDGE).await;
        return Err(error(ErrorCode::INVALID_SESSION, "the service session has ended"));
    }
    Ok(())
}

/// Makes a terminator for the router's own identity.
async fn create_for_tunneler(
    session: &RouterSession,
    request: &CreateTunnelTerminatorRequestV2,
) -> Result<(), EdgeError> {
    let id = terminator_id(&request.address)?;
    let snapshot = session.plane.auth.kernel().snapshot();
    let service = snapshot.get::<Service>(&Id::new(&request.service_id));
    let service = service.filter(|service| !service.is_fabric_only).ok_or_else(|| {
        let text = format!("service {} does not exist", request.service_id);
        error(ErrorCode::INVALID_SERVICE, text)
    })?;
    let identity = own_identity(session, service, PolicyType::Bind)?;
    demand::of_tunneler(service, &request.end_key)?;
    let reported = ReportedTerminator {
        address: request.address.clone(),
        router: session.router.id.clone(),
        service: service.base.id.clone(),
        binding: TUNNEL.to_owned(),
        instance_id: request.instance_id.clone(),
        instance_secret: request.instance_secret.clone(),
        peer_data: request.peer_data.clone(),
        cost: cost(request.cost)?,
        precedence: precedence(request.precedence)?,
        host: identity.base.id.clone(),
        host_proves: is_key(&request.end_key),
        id,
    };
    put(session, reported).await
}

async fn put(session: &RouterSession, reported: ReportedTerminator) -> Result<(), EdgeError> {
    let id = reported.id.clone();
    session.plane.network.terminator_reported(&session.router.id, &id);
    let done = session.plane.network.put_terminator(reported).await;
    done.map_err(|refused| of_refused(&noted(session, &id, refused)))
}

/// Counts the refused change of a terminator if it belongs to another router.
fn noted(session: &RouterSession, id: &Id, refused: Refused) -> Refused {
    if !matches!(refused, Refused::Write(_)) {
        session.plane.network.count_foreign(&session.router, std::iter::once(id));
    }
    refused
}

async fn update_for_sdk(
    session: &RouterSession,
    request: &edge_ctrl::UpdateTerminatorRequest,
) -> Result<(), EdgeError> {
    let auth = &session.plane.auth;
    let checked = auth.check_service_session(
        &session.router.id,
        &request.api_session_token,
        &request.session_token,
        PolicyType::Bind,
    );
    let checked = checked.map_err(|refusal| of_session(&refusal, session.router.capabilities))?;
    let host = Some(checked.identity.base.id.clone());
    let owned = Owned { host, ..owned(session, EDGE) };
    let new_cost = request.update_cost.then_some(request.cost);
    let new_precedence = request.update_precedence.then_some(request.precedence);
    change(session, owned, &request.terminator_id, new_cost, new_precedence).await
}

async fn update_for_tunneler(
    session: &RouterSession,
    request: &UpdateTunnelTerminatorRequest,
) -> Result<(), EdgeError> {
    let owned = owned(session, TUNNEL);
    let new_cost = request.update_cost.then_some(request.cost);
    let new_precedence = request.update_precedence.then_some(request.precedence);
    change(session, owned, &request.terminator_id, new_cost, new_precedence).await
}

/// The terminators of this router with this binding.
fn owned(session: &RouterSession, binding: &'static str) -> Owned {
    Owned { binding: Some(binding), ..Owned::by(&session.router.id) }
}

/// Changes cost or precedence of a terminator of the router. A terminator that is missing is reported
/// before a value that is wrong.
async fn change(
    session: &RouterSession,
    owned: Owned,
    id: &str,
    new_cost: Option<u32>,
    new_precedence: Option<i32>,
) -> Result<(), EdgeError> {
    let wanted = || -> Result<TerminatorPatch, EdgeError> {
        Ok(TerminatorPatch {
            cost: new_cost.map(cost).transpose()?,
            precedence: new_precedence.map(precedence).transpose()?,
        })
    };
    let (id, wanted) = (Id::new(id), wanted());
    let update = wanted.as_ref().copied().unwrap_or_default();
    let done = Terminators::of(session.plane.auth.kernel()).update_owned(owned, &id, update).await;
    done.map_err(|refused| of_refused(&noted(session, &id, refused)))?;
    wanted.map(drop)
}

/// Removes a terminator of the router. Only router and binding are checked, because the session may have
/// ended already.
async fn remove_one(
    session: &RouterSession,
    id: &str,
    binding: &'static str,
) -> Result<(), EdgeError> {
    let (auth, owned, id) = (&session.plane.auth, owned(session, binding), Id::new(id));
    let done = Terminators::of(auth.kernel()).remove_owned(owned, &id).await;
    done.map_err(|refused| of_refused(&noted(session, &id, refused)))
}

/// Makes a terminator of a binding other than `edge` (docs/protocol/control-plane.md 15.1).
async fn create(
    session: &RouterSession,
    request: CreateTerminatorRequest,
) -> Result<String, Refused> {
    let refused = |error: EdgeError| Refused::Gone(error.text);
    let auth = &session.plane.auth;
    let snapshot = auth.kernel().snapshot();
    let service = snapshot.by_id_or_name::<Service>(&request.service_id);
    let service = service
        .ok_or_else(|| Refused::Gone(format!("service {} does not exist", request.service_id)))?;
    let host = own_binding(session, service, PolicyType::Bind).map_err(refused)?;
    demand::of_binding(service).map_err(refused)?;
    let host = host.map(|identity| identity.base.id.clone()).unwrap_or_default();
    let service = service.base.id.clone();
    let binding = match request.binding.as_str() {
        "" if request.address.starts_with("udp:") => "udp",
        "" => "transport",
        binding => binding,
    };
    let id = auth.kernel().ids().entity();
    let reported = ReportedTerminator {
        id: id.clone(),
        router: session.router.id.clone(),
        service,
        binding: binding.to_owned(),
        address: request.address,
        instance_id: request.instance_id,
        instance_secret: request.instance_secret,
        peer_data: request.peer_data,
        cost: cost(request.cost).map_err(refused)?,
        precedence: precedence(request.precedence).map_err(refused)?,
        host,
        host_proves: false,
    };
    session.plane.network.put_terminator(reported).await?;
    Ok(id.to_string())
}

async fn update(
    session: &RouterSession,
    request: &ctrl::UpdateTerminatorRequest,
) -> Result<String, Refused> {
    let refused = |error: EdgeError| Refused::Gone(error.text);
    let update = TerminatorPatch {
        cost: request.update_cost.then(|| cost(request.cost)).transpose().map_err(refused)?,
        precedence: request
            .update_precedence
            .then(|| precedence(request.precedence))
            .transpose()
            .map_err(refused)?,
    };
    let id = Id::new(&request.terminator_id);
    let done =
        Terminators::of(session.plane.auth.kernel()).update(&session.router.id, &id, update).await;
    done.map_err(|refused| noted(session, &id, refused))?;
    Ok(String::new())
}

async fn remove_owned(session: &RouterSession, id: &str) -> Result<String, Refused> {
    let (auth, id) = (&session.plane.auth, Id::new(id));
    let done =
        Terminators::of(auth.kernel()).remove_owned(Owned::by(&session.router.id), &id).await;
    done.map_err(|refused| noted(session, &id, refused))?;
    Ok(String::new())
}

async fn remove_all(session: &RouterSession, ids: &[String]) -> Result<String, Refused> {
    let ids: Vec<Id> = ids.iter().take(MAX_NAMED).map(|id| Id::new(id)).collect();
    if !ids.is_empty() {
        session.plane.network.count_foreign(&session.router, ids.iter());
        Terminators::of(session.plane.auth.kernel()).remove(&session.router.id, &ids).await?;
    }
    Ok(String::new())
}

/// The answer to a change of all terminators that a newer one has ended.
const REPLACED: &str = "a newer quiesce or dequiesce of this router has replaced this one";

/// Quiesces the router's terminators, and remembers their precedence.
async fn quiesce(session: &RouterSession) -> Result<String, Refused> {
    each_own(session, |it| {
        (it.precedence != Precedence::Failed).then(|| Terminator {
            saved_precedence: Some(it.precedence),
            precedence: Precedence::Failed,
            ..it.clone()
        })
    })
    .await?;
    Ok("router quiesced".to_owned())
}

/// Ends the quiescing of the router's terminators.
async fn dequiesce(session: &RouterSession) -> Result<String, Refused> {
    each_own(session, |it| {
        let saved = it.saved_precedence.filter(|_| it.precedence == Precedence::Failed);
        saved.map(|precedence| Terminator { precedence, saved_precedence: None, ..it.clone() })
    })
    .await?;
    Ok("router dequiesced".to_owned())
}

/// Changes all terminators of the router, in several change sets if there are many, so that others write
/// between them. A repetition goes on where a failed call stopped, and a newer change ends this one before its last step,
/// which is an error: not all terminators have been changed as this one says.
async fn each_own(
    session: &RouterSession,
    change: impl Fn(&Terminator) -> Option<Terminator> + Send + Sync + 'static,
) -> Result<(), Refused> {
    let busy = || Failure::new(weft_contract::ErrorCode::ServerTooManyRequests);
    let turn = session.quiescing.begin(Instant::now()).ok_or_else(busy)?;
    let caller = Caller::router(&session.router.id, "quiesce");
    let change = Arc::new(change);
    loop {
        let (router, change) = (session.router.id.clone(), Arc::clone(&change));
        let [is_over, is_replaced] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (told, was_replaced) = (Arc::clone(&is_over), Arc::clone(&is_replaced));
        let turn = turn.clone();
        let decided = session.plane.auth.kernel().decide_or_hold(&caller, move |decision| {
            // Asked by the one writer, so that no step of an older change follows one of a newer change.
            if !turn.is_newest() {
                was_replaced.store(true, Ordering::Relaxed);
                return Ok(());
            }
            let own = decision.tip().referring::<Terminator>(Terminator::ROUTER, &router);
            let changed = own.filter_map(|terminator| change(terminator));
            let changed: Vec<Terminator> = changed.take(CHANGED_AT_ONCE).collect();
            told.store(changed.len() < CHANGED_AT_ONCE, Ordering::Relaxed);
            for mut terminator in changed {
                terminator.base_mut().updated_at = decision.now();
                decision.put(terminator);
            }
            Ok(())
        });
        decided.await?;
        if is_replaced.load(Ordering::Relaxed) {
            return Err(Refused::Gone(REPLACED.to_owned()));
        }
        if is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

async fn decommission(session: &RouterSession) -> Result<String, Refused> {
    let router = session.router.id.clone();
    tracing::info!(%router, "router decommissioned");
    let caller = Caller::router(&session.router.id, "decommission");
    let decided = session.plane.auth.kernel().decide(&caller, move |decision| {
        // The router's own identity, if it has one, is changed too.
        let has_identity =
            decision.tip().get::<Router>(&router).is_some_and(|router| router.is_tunneler_enabled);
        if has_identity {
            decision.delete_if_there(Kind::Identity, &router)?;
        }
        decision.delete(Kind::Router, &router)
    });
    decided.await?;
    Ok(String::new())
}
