//! Questions to controllers for statements about the router's own tunneler as an end of connections
//! (docs/protocol/sdk.md 14.6).

use weft_channel::Lane;
use weft_contract::resource::service_session::EndStatement;
use weft_e2e::ends::StatementReply;
use weft_wire::ProtoBody;
use weft_wire::edge_ctrl::{EdgeError, EndStatementRequest, EndStatementResponse, content_type};

use super::shared::Core;
use crate::seam::{EndRequest, RetryHint};

/// Asks a controller that states ends. Others would not know the message.
pub(crate) async fn ask(core: &Core, request: EndRequest) -> StatementReply {
    let controllers = core.controllers.all();
    if controllers.is_empty() {
        return StatementReply::Unreached;
    }
    let mut states = controllers.into_iter().filter(|controller| controller.states_ends());
    let Some(controller) = states.next() else { return StatementReply::Refused };
    let asked = EndStatementRequest {
        key: request.key,
        service_id: request.service,
        hosts: request.hosts,
        instance_id: request.instance,
    };
    let asked = controller.channel.request_on(Lane::High, asked.to_message(), request.timeout);
    let Ok(reply) = asked.await else { return StatementReply::Unreached };
    if reply.content_type == content_type::ERROR {
        let refused = EdgeError::from_message(&reply);
        let is_busy = refused.is_ok_and(|refused| refused.retry_hint == RetryHint::TOO_BUSY);
        // What it refuses now it may state later: the service, the right or the terminator may come yet.
        return if is_busy { StatementReply::Unreached } else { StatementReply::NotYet };
    }
    match EndStatementResponse::from_message(&reply) {
        Ok(EndStatementResponse { statement, session, keys_json }) => {
            match serde_json::from_slice(&keys_json) {
                Ok(keys) => StatementReply::Stated(session, EndStatement { statement, keys }),
                Err(_) => StatementReply::Refused,
            }
        }
        Err(problem) => {
            controller.not_understood(&reply, &problem);
            StatementReply::Refused
        }
    }
}
