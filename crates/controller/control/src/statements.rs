//! Statements about a router's own tunneler as an end of connections (docs/protocol/sdk.md 14.6). The router names its key
//! over its own control channel, so that the key is that of this router.

use std::sync::Arc;

use weft_auth::end_statement::{StatementClaims, is_key};
use weft_channel::Lane;
use weft_model::Id;
use weft_model::entity::{PolicyType, Service};
use weft_wire::edge_ctrl::{EdgeError, EndStatementRequest, EndStatementResponse, ErrorCode};
use weft_wire::{Message, ProtoBody as _};

use super::circuit_requests::own_identity;
use super::edge_errors::{error, too_busy};
use super::session::RouterSession;

/// Answers a request in a task, if the router has room for one more.
pub(crate) fn spawn(session: &Arc<RouterSession>, request: EndStatementRequest, message: &Message) {
    let Some(room) = session.making.take() else {
        return session.answer(Lane::High, message, too_busy().to_message());
    };
    let (session, message) = (Arc::clone(session), message.clone());
    session.plane.network.clone().spawn(async move {
        let reply = match state(&session, &request) {
            Ok(stated) => stated.to_message(),
            Err(refused) => refused.to_message(),
        };
        session.answer(Lane::High, &message, reply);
        drop(room);
    });
}

fn state(
    session: &RouterSession,
    request: &EndStatementRequest,
) -> Result<EndStatementResponse, EdgeError> {
    if !is_key(&request.key) {
        let text = "the key of an end is an uncompressed point of P-256 (65 bytes)";
        return Err(error(ErrorCode::INTERNAL, text));
    }
    let auth = &session.plane.auth;
    let snapshot = auth.kernel().snapshot();
    let service = snapshot.get::<Service>(&Id::new(&request.service_id));
    let service = service.filter(|service| !service.is_fabric_only).ok_or_else(|| {
        let text = format!("service {} does not exist", request.service_id);
        error(ErrorCode::INVALID_SERVICE, text)
    })?;
    let role = if request.hosts { PolicyType::Bind } else { PolicyType::Dial };
    let identity = own_identity(session, service, role)?.base.id.clone();
    // Each use of a service is an end of its own, as service sessions are.
    let stands_for = format!("{identity} {role} {}", service.base.id);
    let stated = auth.state(&StatementClaims {
        identity: &identity,
        session: &stands_for,
        service: &service.base.id,
        role,
        instance: &request.instance_id,
        key: &request.key,
    });
    let stated = stated.map_err(|problem| error(ErrorCode::INTERNAL, problem.to_string()))?;
    Ok(EndStatementResponse {
        statement: stated.statement,
        session: stands_for,
        keys_json: stated.keys.to_string().into(),
    })
}
