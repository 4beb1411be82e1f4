//! Passes each message of a router to the module that handles it.
//!
//! This runs on the task that reads the connection, so nothing here waits. Look-ups in tables are
//! done at once; changes of the model are queued in order; work that waits for other routers gets a
//! task. Each kind of work has a limit, above which the router is told to come back later.

use std::sync::Arc;

use weft_channel::Lane;
use weft_kernel::aside;
use weft_model::Id;
use weft_model::entity::Router;
use weft_wire::ctrl::{
    self, CarriedCircuits, CircuitConfirmation, Fault, InspectRequest, InspectResponse,
    LinkStateUpdate, RouteResult, RouterLinks, ValidateTerminatorsV2Response, VerifyRouter,
    inspect_response,
};
use weft_wire::edge_ctrl::data_model::{CurrentIndex, SubscribeToDataModelRequest};
use weft_wire::edge_ctrl::{self, EndStatementRequest, RequestClientReSync};
use weft_wire::metrics::MetricsMessage;
use weft_wire::{Message, Outcome, ProtoBody, WireError, content_type};

use super::session::RouterSession;
use super::{circuit_requests, edge_errors, legacy, renewal, reports, statements};

/// The subject of the question for the controller's abilities, by name.
const CAPABILITY: &str = "capability";

/// Handles a message. Large ones hold up no other task.
pub fn dispatch(session: &Arc<RouterSession>, message: Message) {
    aside(message.body.len(), || handle(session, message));
}

fn handle(session: &Arc<RouterSession>, message: Message) {
    let done = match message.content_type {
        content_type::PING => {
            session.answer(Lane::Default, &message, Outcome::success("ok").to_message());
            Ok(())
        }
        1000..=1999 | ctrl::content_type::CARRIED_CIRCUITS | ctrl::content_type::ROUTER_DRAINS => {
            fabric(session, &message)
        }
        20_000..=20_599 | edge_ctrl::content_type::END_STATEMENT_REQUEST => edge(session, &message),
        // The probe of a reconnecting 1.x router.
        content_type::RECONNECT_PING => Ok(()),
        other => {
            tracing::debug!(router = %session.router.id, content_type = other, "message ignored");
            Ok(())
        }
    };
    if let Err(problem) = done {
        refuse(session, &message, &problem);
    }
}

/// Messages of every router (docs/protocol/control-plane.md 5).
fn fabric(session: &Arc<RouterSession>, message: &Message) -> Result<(), WireError> {
    use ctrl::content_type as is;
    let (network, router) = (&session.plane.network, &session.router);
    match message.content_type {
        is::CIRCUIT_REQUEST => circuit_requests::spawn(session, message),
        is::ROUTE_RESULT => {
            network.on_route_result(&router.id, RouteResult::from_message(message)?);
        }
        is::FAULT => network.on_fault(router, &Fault::from_message(message)?),
        is::CIRCUIT_CONFIRMATION => {
            network.on_confirmation(router, &CircuitConfirmation::from_message(message)?);
        }
        is::CARRIED_CIRCUITS => {
            let part = CarriedCircuits::from_message(message)?;
            match part.claimed_of.is_empty() {
                _ if !part.taken.is_empty() => network.on_taken(router, &part.taken),
                true => network.on_carried(router, part),
                false => network.on_claimed(router, part),
            }
        }
        is::ROUTER_DRAINS => {
            session.change_facts(|facts| facts.drains = true);
            network.on_drains(router);
        }
        is::METRICS
            if !router.may_report(message.body.len())
                || !weft_wire::metrics::is_within_limit(&message.body)? =>
        {
            network.refuse_metrics(router);
        }
        is::METRICS => {
            network.on_metrics(router, &MetricsMessage::from_message(message)?);
        }
        is::ROUTER_LINKS => network.on_links(router, &RouterLinks::from_message(message)?),
        is::LINK_STATE => {
            network.on_link_state(router, LinkStateUpdate::from_message(message)?);
        }
        is::UPDATE_LINK_LISTENERS => {
            if network.on_listeners(router, message)? {
                session.plane.peers.changed(&router.id);
                session.change_facts(|facts| facts.keys = router.keys());
            }
        }
        is::VERIFY_ROUTER => {
            let outcome = verify_router(session, &VerifyRouter::from_message(message)?);
            session.answer(Lane::Default, message, outcome.to_message());
        }
        is::VALIDATE_TERMINATORS_V2_RESPONSE => {
            network.on_validated(router, &ValidateTerminatorsV2Response::from_message(message)?);
        }
        is::CREATE_TERMINATOR
        | is::REMOVE_TERMINATOR
        | is::REMOVE_TERMINATORS
        | is::UPDATE_TERMINATOR
        | is::QUIESCE_ROUTER
        | is::DEQUIESCE_ROUTER
        | is::DECOMMISSION_ROUTER => queue(session, message),
        is::REQUEST_CLUSTER_MEMBERS => session.plane.peers.tell_controllers(&session.plane, router),
        is::UPDATE_ROUTER_INTERFACES => reports::on_interfaces(session, message)?,
        is::ALERTS => reports::on_alerts(session, message)?,
        is::INSPECT_REQUEST => inspect(session, message)?,
        other => tracing::debug!(router = %router.id, content_type = other, "message ignored"),
    }
    Ok(())
}

/// Messages of edge routers (docs/protocol/edge-control-plane.md 2).
fn edge(session: &Arc<RouterSession>, message: &Message) -> Result<(), WireError> {
    use edge_ctrl::content_type as is;
    match message.content_type {
        is::SUBSCRIBE_TO_DATA_MODEL => {
            session.subscribe(SubscribeToDataModelRequest::from_message(message)?);
        }
        is::CURRENT_INDEX => session.plane.model.hear(&CurrentIndex::from_message(message)?),
        is::CLIENT_HELLO => session.on_client_hello(message),
        is::CREATE_CIRCUIT_REQUEST
        | is::CREATE_CIRCUIT_V2_REQUEST
        | is::CREATE_CIRCUIT_V3_REQUEST
        | is::CREATE_TUNNEL_CIRCUIT_V2_REQUEST => circuit_requests::spawn(session, message),
        is::CREATE_TERMINATOR_V2_REQUEST
        | is::UPDATE_TERMINATOR_REQUEST
        | is::REMOVE_TERMINATOR_REQUEST
        | is::CREATE_TUNNEL_TERMINATOR_REQUEST_V2
        | is::UPDATE_TUNNEL_TERMINATOR_REQUEST
        | is::REMOVE_TUNNEL_TERMINATOR_REQUEST => queue(session, message),
        is::API_SESSION_HEARTBEAT => legacy::on_heartbeat(session, message)?,
        is::VALIDATE_SESSIONS_REQUEST => legacy::on_validate(session, message)?,
        is::REQUEST_CLIENT_RE_SYNC => {
            let reason = RequestClientReSync::from_message(message)?.reason;
            tracing::info!(router = %session.router.id, reason, "a router asks for all sessions; they are sent again");
            session.resync.notify_one();
        }
        is::CONNECT_EVENTS => reports::on_connects(session, message)?,
        is::HEALTH_EVENT | is::TUNNEL_HEALTH_EVENT => reports::on_health(session, message)?,
        is::EXTEND_REQUEST | is::EXTEND_VERIFY => renewal::spawn(session, message),
        is::END_STATEMENT_REQUEST => {
            statements::spawn(session, EndStatementRequest::from_message(message)?, message);
        }
        other => {
            tracing::debug!(router = %session.router.id, content_type = other, "message ignored");
        }
    }
    Ok(())
}

fn queue(session: &Arc<RouterSession>, message: &Message) {
    if let Err(message) = session.queue_write(message.clone())
        && let Some(reply) = edge_errors::busy(&message)
    {
        session.answer(Lane::Default, &message, reply);
    }
}

/// Answers a request that could not be decoded; the original lets the router wait.
fn refuse(session: &RouterSession, message: &Message, problem: &WireError) {
    if let Some(reply) = edge_errors::malformed(message, problem) {
        session.answer(Lane::Default, message, reply);
    }
    session.not_understood(message, problem);
}

/// Whether a router that opens a link to another is the one it claims to be
/// (docs/protocol/control-plane.md 9.4). An issued certificate that was not shown yet counts too.
fn verify_router(session: &RouterSession, asked: &VerifyRouter) -> Outcome {
    let snapshot = session.plane.auth.kernel().snapshot();
    let Some(router) = snapshot.get::<Router>(&Id::new(&asked.router_id)) else {
        return Outcome::failure(format!("router {} not found", asked.router_id));
    };
    let known = [&router.fingerprint, &router.unverified_fingerprint];
    let mut known = known.into_iter().flatten();
    if router.fingerprint.is_none() || router.disabled {
        return Outcome::failure("the router is not enrolled or is disabled");
    }
    if known.any(|known| asked.fingerprints.iter().any(|shown| **shown == **known)) {
        Outcome::success("router verified")
    } else {
        Outcome::failure("could not verify fingerprint for router")
    }
}

fn inspect(session: &RouterSession, message: &Message) -> Result<(), WireError> {
    let asked = InspectRequest::from_message(message)?;
    let mut response = InspectResponse { success: true, ..InspectResponse::default() };
    for name in asked.requested_values {
        if name.eq_ignore_ascii_case(CAPABILITY) {
            let value = "ziti.fabric".to_owned();
            response.values.push(inspect_response::InspectValue { name, value });
        }
    }
    session.answer(Lane::Low, message, response.to_message());
    Ok(())
}
