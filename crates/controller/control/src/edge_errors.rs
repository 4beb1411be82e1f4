//! Refusals in the forms that routers expect (docs/protocol/control-plane.md 16,
//! docs/protocol/edge-control-plane.md 14.3, 18.1); the form depends on the request.

use weft_auth::service_session::Refusal;
use weft_network::terminators::Refused;
use weft_wire::edge_ctrl::{
    self, CreateTerminatorResult, CreateTerminatorV2Request, CreateTerminatorV2Response,
    CreateTunnelTerminatorRequestV2, CreateTunnelTerminatorResponseV2, EdgeError, ErrorCode,
    RetryHint,
};
use weft_wire::{
    BUSY_TEXT, Capabilities, Message, Outcome, ProtoBody, WireError, ctrl, router_capability,
};

/// A refusal with this code, and its usual hint.
pub fn error(code: ErrorCode, text: impl Into<String>) -> EdgeError {
    EdgeError::new(code, hint(code), text)
}

/// The usual hint of a code.
fn hint(code: ErrorCode) -> RetryHint {
    match code {
        ErrorCode::INVALID_API_SESSION
        | ErrorCode::INVALID_SESSION
        | ErrorCode::WRONG_SESSION_TYPE
        | ErrorCode::INVALID_EDGE_ROUTER_FOR_SESSION
        | ErrorCode::ENCRYPTION_DATA_MISSING => RetryHint::START_OVER,
        ErrorCode::INVALID_SERVICE
        | ErrorCode::TUNNELING_NOT_ENABLED
        | ErrorCode::INVALID_TERMINATOR
        | ErrorCode::INVALID_PRECEDENCE
        | ErrorCode::INVALID_COST
        | ErrorCode::INVALID_INSTANCE_ID => RetryHint::NOT_RETRIABLE,
        _ => RetryHint::DEFAULT,
    }
}

/// The only text of a refusal by which C SDKs drop a service session and begin a new one (docs/protocol/sdk.md 6).
const INVALID_SESSION: &str = "Invalid Session";

/// The refusal for a failed check of a session. Routers of weft give clients the text that they need, and the reason beside
/// it; others pass the text on.
pub fn of_session(refusal: &Refusal, router: Capabilities) -> EdgeError {
    let code = ErrorCode(refusal.code as u32);
    let passes_on = !router.has(router_capability::SESSION_LISTS);
    let text = match code == ErrorCode::INVALID_SESSION && passes_on && !refusal.lacks_proof {
        true => {
            tracing::debug!(reason = %refusal.reason, "service session refused");
            INVALID_SESSION
        }
        false => &refusal.reason,
    };
    EdgeError::new(code, RetryHint(refusal.code.retry_hint()), text)
}

/// The refusal for a terminator that was not written.
pub(crate) fn of_refused(refused: &Refused) -> EdgeError {
    if refused.is_busy() {
        return too_busy();
    }
    let text = refused.to_string();
    match refused {
        Refused::Conflict(_) | Refused::TooLong { .. } => {
            EdgeError::new(ErrorCode::INTERNAL, RetryHint::NOT_RETRIABLE, text)
        }
        // There may be room later.
        Refused::TooMany { .. } | Refused::TooManyOfHost(_) => error(ErrorCode::INTERNAL, text),
        Refused::Gone(_) => error(ErrorCode::INVALID_SERVICE, text),
        Refused::Instance { .. } => error(ErrorCode::INVALID_INSTANCE_ID, text),
        Refused::Unknown(_) | Refused::Router | Refused::Host(_) => {
            error(ErrorCode::INVALID_TERMINATOR, text)
        }
        Refused::Write(_) => error(ErrorCode::INTERNAL, text),
    }
}

/// The refusal "come back later".
pub(crate) fn too_busy() -> EdgeError {
    EdgeError::new(ErrorCode::INTERNAL, RetryHint::TOO_BUSY, BUSY_TEXT)
}

/// The outcome of the creation of a terminator.
pub fn result(done: &Result<(), EdgeError>) -> CreateTerminatorResult {
    match done {
        Ok(()) => CreateTerminatorResult::Success,
        Err(error) if error.retry_hint == RetryHint::TOO_BUSY => CreateTerminatorResult::FailedBusy,
        Err(_) => CreateTerminatorResult::FailedOther,
    }
}

/// The answer to the creation of a terminator for an SDK. It names the address, also on failure,
/// because routers match it by the address.
pub(crate) fn terminator_answer(address: String, done: &Result<(), EdgeError>) -> Message {
    let error = done.as_ref().err();
    CreateTerminatorV2Response {
        terminator_id: address,
        result: result(done).into(),
        msg: error.map(|error| error.text.clone()).unwrap_or_default(),
        error_code: error.map_or(0, |error| error.code.0),
        retry_hint: error.map_or(0, |error| error.retry_hint.0),
    }
    .to_message()
}

/// The answer to the creation of a terminator for the router's own identity.
pub(crate) fn tunnel_terminator_answer(
    request: &CreateTunnelTerminatorRequestV2,
    done: &Result<(), EdgeError>,
) -> Message {
    let error = done.as_ref().err();
    CreateTunnelTerminatorResponseV2 {
        terminator_id: request.address.clone(),
        start_time: if done.is_ok() { request.start_time } else { 0 },
        result: result(done).into(),
        msg: error.map(|error| error.text.clone()).unwrap_or_default(),
        error_code: error.map_or(0, |error| error.code.0),
        retry_hint: error.map_or(0, |error| error.retry_hint.0),
    }
    .to_message()
}

/// The answer to a request for which the queue has no room; none for messages without answer.
pub fn busy(request: &Message) -> Option<Message> {
    refusal(request, &too_busy(), Outcome::busy())
}

/// The answer to a request that could not be decoded; none for messages without answer.
pub fn malformed(request: &Message, problem: &WireError) -> Option<Message> {
    let text = problem.to_string();
    refusal(request, &error(ErrorCode::INTERNAL, text.clone()), Outcome::failure(text))
}

fn refusal(request: &Message, edge: &EdgeError, outcome: Outcome) -> Option<Message> {
    use ctrl::content_type as fabric;
    use edge_ctrl::content_type as is;
    match request.content_type {
        is::CREATE_TERMINATOR_V2_REQUEST => {
            let address = CreateTerminatorV2Request::from_message(request).ok()?.address;
            Some(terminator_answer(address, &Err(edge.clone())))
        }
        is::CREATE_TUNNEL_TERMINATOR_REQUEST_V2 => {
            let request = CreateTunnelTerminatorRequestV2::from_message(request).ok()?;
            Some(tunnel_terminator_answer(&request, &Err(edge.clone())))
        }
        is::CREATE_CIRCUIT_REQUEST
        | is::CREATE_CIRCUIT_V2_REQUEST
        | is::CREATE_CIRCUIT_V3_REQUEST
        | is::CREATE_TUNNEL_CIRCUIT_V2_REQUEST
        | is::UPDATE_TERMINATOR_REQUEST
        | is::REMOVE_TERMINATOR_REQUEST
        | is::UPDATE_TUNNEL_TERMINATOR_REQUEST
        | is::REMOVE_TUNNEL_TERMINATOR_REQUEST => Some(edge.to_message()),
        fabric::CIRCUIT_REQUEST => {
            Some(ctrl::CircuitFailed { error: outcome.text, elsewhere: false }.to_message())
        }
        fabric::CREATE_TERMINATOR
        | fabric::REMOVE_TERMINATOR
        | fabric::REMOVE_TERMINATORS
        | fabric::UPDATE_TERMINATOR
        | fabric::QUIESCE_ROUTER
        | fabric::DEQUIESCE_ROUTER
        | fabric::DECOMMISSION_ROUTER
        | fabric::VERIFY_ROUTER
        | fabric::UPDATE_ROUTER_INTERFACES => Some(outcome.to_message()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use weft_auth::service_session::RefusalCode;

    use super::*;

    #[test]
    fn every_request_is_refused_in_its_own_form() {
        let create = CreateTerminatorV2Request { address: "t1".into(), ..Default::default() };
        let answer = busy(&create.to_message()).unwrap();
        // The example of docs/protocol/edge-control-plane.md 21, with the text of this controller.
        let answer = CreateTerminatorV2Response::from_message(&answer).unwrap();
        assert_eq!(answer.terminator_id, "t1");
        assert_eq!(answer.result(), CreateTerminatorResult::FailedBusy);
        assert_eq!((answer.error_code, answer.retry_hint), (1, 1));
        let dial = Message::new(edge_ctrl::content_type::CREATE_CIRCUIT_V2_REQUEST, "");
        let problem = dial.missing(11);
        let answer = EdgeError::from_message(&malformed(&dial, &problem).unwrap()).unwrap();
        assert_eq!((answer.code, answer.retry_hint), (ErrorCode::INTERNAL, RetryHint::DEFAULT));
        let remove = Message::new(ctrl::content_type::REMOVE_TERMINATORS, "");
        assert!(Outcome::from_message(&busy(&remove).unwrap()).unwrap().busy);
        assert!(busy(&Message::new(ctrl::content_type::FAULT, "")).is_none());
    }

    #[test]
    fn a_router_that_passes_texts_on_gets_the_one_that_clients_know() {
        let refusal =
            |code| Refusal { code, reason: "it has ended".to_owned(), lacks_proof: false };
        let (ended, unknown) =
            (refusal(RefusalCode::InvalidSession), refusal(RefusalCode::InvalidService));
        let weft = Capabilities::NONE.with(router_capability::SESSION_LISTS);
        assert_eq!(of_session(&ended, Capabilities::NONE).text, "Invalid Session");
        assert_eq!(of_session(&ended, weft).text, "it has ended");
        let unproven = Refusal { lacks_proof: true, ..ended };
        assert_eq!(of_session(&unproven, Capabilities::NONE).text, "it has ended");
        assert_eq!(of_session(&unknown, Capabilities::NONE).text, "it has ended");
    }
}
