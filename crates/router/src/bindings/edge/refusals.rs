//! Refusals and closes in the forms that SDKs read (docs/protocol/sdk.md 7, 8).

use weft_wire::Message;
use weft_wire::edge::{ErrorCode, StateClosed, StructuredError};

use crate::seam::{Refusal, RetryHint};

/// The reason that SDKs are sent when the router stops.
pub(super) const SHUTTING_DOWN: &str = "the router is shutting down";
/// The text after which native SDKs, which read no code, begin again with a new session.
const INVALID_SESSION: &str = "Invalid Session";
/// The text for a host that accepts a dial too late.
pub(super) const GIVEN_UP: &str = "the dial was given up";

/// The refusal for a right that was lost.
pub(super) fn access_lost() -> Refusal {
    refusal(ErrorCode::ACCESS_DENIED, "bind access lost")
}

/// A refusal after which the SDK has to log in again.
pub(super) fn refusal(code: ErrorCode, message: &str) -> Refusal {
    Refusal::new(code, RetryHint::START_OVER, message)
}

/// The refusal of a request whose session was refused, or whose channel is closed.
pub(super) fn no_session() -> Refusal {
    refusal(ErrorCode::INVALID_SESSION, "the session of the channel is refused")
}

/// A refusal in the form that SDKs read.
pub(super) fn structured(refusal: &Refusal) -> StructuredError {
    StructuredError {
        message: refusal.message.clone(),
        code: ErrorCode(refusal.code),
        retry_hint: refusal.hint,
        failing_posture_check_ids: refusal.failing_checks.clone(),
    }
}

/// The refusal of a router that drains. With a new session the SDK gets to know other routers.
pub(super) fn draining() -> Refusal {
    refusal(ErrorCode::INVALID_SESSION, SHUTTING_DOWN)
}

/// The close with the text of a refusal.
pub(super) fn closed_message(conn_id: u32, refusal: &Refusal) -> Message {
    let reason = match refusal.message.as_str() {
        _ if refusal.code == ErrorCode::INVALID_SESSION.0 => INVALID_SESSION,
        // C SDKs read an empty text as "log in again".
        "" => "refused",
        text => text,
    };
    StateClosed {
        conn_id,
        reason: reason.to_owned(),
        error: (refusal.code != 0).then(|| structured(refusal)),
        circuit_id: refusal.circuit.clone(),
    }
    .to_message()
}
