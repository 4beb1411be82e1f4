//! Requests about terminators, of SDKs and of the router itself
//! (docs/protocol/edge-control-plane.md 14, 15).

use weft_channel::clock::since_1970;
use weft_wire::edge_ctrl::{
    CreateTerminatorV2Request, CreateTunnelTerminatorRequestV2, HealthEventRequest,
    TunnelHealthEvent, UpdateTerminatorRequest, UpdateTunnelTerminatorRequest,
};
use weft_wire::{Message, ProtoBody};

use crate::seam::{TerminatorHost, TerminatorRequest, TerminatorUpdate};

/// The request to make a terminator.
pub(super) fn creation(request: &TerminatorRequest) -> Message {
    let precedence = request.precedence.into();
    match &request.host {
        TerminatorHost::Sdk { session, grant } => CreateTerminatorV2Request {
            address: request.id.clone(),
            session_token: grant.token.clone(),
            fingerprints: session.fingerprints.clone(),
            peer_data: request.peer_data.clone(),
            cost: u32::from(request.cost),
            precedence,
            instance_id: request.instance.clone(),
            instance_secret: request.instance_secret.clone(),
            api_session_token: session.token.clone(),
        }
        .to_message(),
        TerminatorHost::Tunnel { service, end_key } => CreateTunnelTerminatorRequestV2 {
            service_id: service.clone(),
            address: request.id.clone(),
            peer_data: request.peer_data.clone(),
            cost: u32::from(request.cost),
            precedence,
            instance_id: request.instance.clone(),
            instance_secret: request.instance_secret.clone(),
            start_time: now_ms(),
            end_key: end_key.clone(),
        }
        .to_message(),
    }
}

fn now_ms() -> i64 {
    i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX)
}

/// The request to change cost and precedence to their present values; `which` says which of the
/// two.
pub(super) fn change(request: &TerminatorRequest, which: TerminatorUpdate) -> Message {
    let (cost, precedence) = (u32::from(request.cost), request.precedence.into());
    let (update_cost, update_precedence) = (which.cost.is_some(), which.precedence.is_some());
    match &request.host {
        TerminatorHost::Sdk { session, grant } => UpdateTerminatorRequest {
            session_token: grant.token.clone(),
            fingerprints: session.fingerprints.clone(),
            terminator_id: request.id.clone(),
            cost,
            precedence,
            update_precedence,
            update_cost,
            api_session_token: session.token.clone(),
        }
        .to_message(),
        TerminatorHost::Tunnel { .. } => UpdateTunnelTerminatorRequest {
            terminator_id: request.id.clone(),
            cost,
            precedence,
            update_precedence,
            update_cost,
        }
        .to_message(),
    }
}

/// The report of a health check's result.
pub(super) fn health(request: &TerminatorRequest, healthy: bool) -> Message {
    match &request.host {
        TerminatorHost::Sdk { session, grant } => HealthEventRequest {
            session_token: grant.token.clone(),
            fingerprints: session.fingerprints.clone(),
            terminator_id: request.id.clone(),
            check_passed: healthy,
            api_session_token: session.token.clone(),
        }
        .to_message(),
        TerminatorHost::Tunnel { .. } => {
            TunnelHealthEvent { terminator_id: request.id.clone(), check_passed: healthy }
                .to_message()
        }
    }
}
