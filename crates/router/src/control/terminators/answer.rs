//! The answers of controllers to requests for terminators
//! (docs/protocol/edge-control-plane.md 14.3, 14.4).

use weft_wire::edge_ctrl::{
    CreateTerminatorResult, CreateTerminatorV2Response, CreateTunnelTerminatorResponseV2,
    ErrorCode, content_type,
};
use weft_wire::{Message, ProtoBody};

use crate::control::hint::hint;
use crate::seam::{Refusal, RetryHint};

/// The answer of a controller to a request for a terminator.
#[derive(Debug)]
pub(crate) struct CreateReply {
    pub(super) terminator: String,
    result: CreateTerminatorResult,
    text: String,
    code: u32,
    hint: u32,
}

impl From<CreateTerminatorV2Response> for CreateReply {
    fn from(answer: CreateTerminatorV2Response) -> Self {
        Self {
            result: answer.result(),
            terminator: answer.terminator_id,
            text: answer.msg,
            code: answer.error_code,
            hint: answer.retry_hint,
        }
    }
}

impl From<CreateTunnelTerminatorResponseV2> for CreateReply {
    fn from(answer: CreateTunnelTerminatorResponseV2) -> Self {
        Self {
            result: answer.result(),
            terminator: answer.terminator_id,
            text: answer.msg,
            code: answer.error_code,
            hint: answer.retry_hint,
        }
    }
}

/// Reads the answer in a reply; `None` if it cannot be read.
pub(super) fn read(reply: &Message) -> Option<CreateReply> {
    let answer = match reply.content_type {
        content_type::CREATE_TUNNEL_TERMINATOR_RESPONSE_V2 => {
            CreateTunnelTerminatorResponseV2::from_message(reply).map(CreateReply::from)
        }
        _ => CreateTerminatorV2Response::from_message(reply).map(CreateReply::from),
    };
    answer
        .inspect_err(|problem| {
            tracing::warn!(
                %problem,
                "the answer of a controller about a terminator cannot be read"
            )
        })
        .ok()
}

/// The consequence of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Established,
    /// Ask again later, because the controller is busy.
    Busy,
    /// Ask again: the next attempt may succeed.
    Failed(Refusal),
    /// Do not ask again: the terminator is refused.
    Refused(Refusal),
}

impl CreateReply {
    /// True if the controller has the terminator.
    pub(super) fn is_success(&self) -> bool {
        self.result == CreateTerminatorResult::Success
    }

    pub(super) fn verdict(self) -> Verdict {
        let text = if self.text.is_empty() {
            format!("the controller refused the terminator ({:?})", self.result)
        } else {
            self.text
        };
        let code = if self.code == 0 { ErrorCode::INTERNAL } else { ErrorCode(self.code) };
        let refusal = Refusal::new(code, hint(self.hint), text);
        match (self.result, refusal.hint) {
            (CreateTerminatorResult::Success, _) => Verdict::Established,
            (CreateTerminatorResult::FailedBusy, _) | (_, RetryHint::TOO_BUSY) => Verdict::Busy,
            // Controllers before 2.0 give no hint.
            (CreateTerminatorResult::FailedInvalidSession, RetryHint::DEFAULT) => {
                Verdict::Refused(Refusal {
                    code: ErrorCode::INVALID_SESSION.0,
                    hint: RetryHint::START_OVER,
                    ..refusal
                })
            }
            (CreateTerminatorResult::FailedIdConflict, RetryHint::DEFAULT) => {
                Verdict::Refused(Refusal { hint: RetryHint::NOT_RETRIABLE, ..refusal })
            }
            (_, RetryHint::DEFAULT) => Verdict::Failed(refusal),
            _ => Verdict::Refused(refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(result: CreateTerminatorResult, code: u32, hint: u32) -> Verdict {
        CreateReply { terminator: "t".into(), result, text: "said".into(), code, hint }.verdict()
    }

    #[test]
    fn answers() {
        use CreateTerminatorResult as R;
        assert_eq!(verdict(R::Success, 0, 0), Verdict::Established);
        assert_eq!(verdict(R::FailedBusy, 1, 1), Verdict::Busy);
        assert_eq!(verdict(R::FailedOther, 1, 1), Verdict::Busy);
        assert!(matches!(verdict(R::FailedOther, 1, 0), Verdict::Failed(_)));
        let Verdict::Refused(refusal) = verdict(R::FailedOther, 3, 2) else { panic!() };
        assert_eq!((refusal.code, refusal.hint), (3, RetryHint::START_OVER));
        assert_eq!(refusal.message, "said");
        let Verdict::Refused(refusal) = verdict(R::FailedInvalidSession, 0, 0) else { panic!() };
        assert_eq!((refusal.code, refusal.hint), (3, RetryHint::START_OVER));
        assert!(matches!(verdict(R::FailedIdConflict, 0, 0), Verdict::Refused(_)));
    }
}
