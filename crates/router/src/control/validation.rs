//! The questions of controllers which terminators are alive (docs/protocol/control-plane.md 15.4).

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_channel::Lane;
use weft_wire::ctrl::{
    RouterTerminatorState, Terminator, TerminatorInvalidReason, ValidateTerminatorsRequest,
    ValidateTerminatorsV2Request, ValidateTerminatorsV2Response, content_type,
};
use weft_wire::{Message, ProtoBody};

use super::shared::Core;
use crate::controllers::Controller;
use crate::seam::Data;

/// Bindings of this router whose terminators can be dialed.
const BINDINGS: [&str; 6] =
    ["edge", "tunnel", "transport", "transport_udp", "udp", "edge_transport"];

/// Handles a question. The answer is computed in a task of its own.
pub(crate) fn on_request(core: &Arc<Core>, from: &Arc<Controller>, message: Message) {
    let (core, from) = (core.clone(), from.clone());
    core.clone().spawn_side(async move {
        let Some(data) = core.data.get() else { return };
        if message.content_type == content_type::VALIDATE_TERMINATORS {
            return old_form(&core, &from, &**data, &message);
        }
        match ValidateTerminatorsV2Request::from_message(&message) {
            Ok(request) => {
                let reply = answer(&core, &**data, &request).to_message().in_reply_to(&message);
                if let Err(problem) = from.channel.send_on(Lane::Default, reply).await {
                    tracing::debug!(controller = %from.id, %problem, "answer not sent");
                }
            }
            Err(problem) => from.not_understood(&message, &problem),
        }
    });
}

fn answer(
    core: &Core,
    data: &dyn Data,
    request: &ValidateTerminatorsV2Request,
) -> ValidateTerminatorsV2Response {
    let mut states = BTreeMap::new();
    for terminator in &request.terminators {
        // A terminator that is being made or taken over has no state yet: the controller has to ask
        // again.
        if let Some(state) = state_of(core, data, terminator) {
            states.insert(terminator.id.clone(), state);
        }
    }
    ValidateTerminatorsV2Response { states }
}

fn state_of(
    core: &Core,
    data: &dyn Data,
    terminator: &Terminator,
) -> Option<RouterTerminatorState> {
    let marker = terminator.marker;
    if alive(data, terminator) {
        core.terminators.confirm(&terminator.id);
        let detail = "valid".to_owned();
        return Some(RouterTerminatorState { valid: true, detail, marker, ..Default::default() });
    }
    if core.terminators.wants(&terminator.id) {
        return None;
    }
    let reason = if BINDINGS.contains(&terminator.binding.as_str()) {
        TerminatorInvalidReason::UnknownTerminator
    } else {
        TerminatorInvalidReason::UnknownBinding
    };
    Some(RouterTerminatorState {
        valid: false,
        reason: reason.into(),
        detail: String::new(),
        marker,
    })
}

fn alive(data: &dyn Data, terminator: &Terminator) -> bool {
    let address = terminator.address.strip_prefix("hosted:").unwrap_or(&terminator.address);
    data.vouches(&terminator.binding, address)
}

/// Old controllers get no answer; they are asked to remove the terminators that are not alive.
fn old_form(core: &Core, from: &Controller, data: &dyn Data, message: &Message) {
    match ValidateTerminatorsRequest::from_message(message) {
        Ok(request) => {
            let dead = request
                .terminators
                .into_iter()
                .filter(|one| !alive(data, one) && !core.terminators.wants(&one.id));
            core.terminators.remove(dead.map(|one| one.id).collect::<Vec<_>>());
        }
        Err(problem) => from.not_understood(message, &problem),
    }
}
