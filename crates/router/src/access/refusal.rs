//! Refusals of API sessions and of rights.

use weft_wire::edge_ctrl::ErrorCode;

use crate::seam::{Refusal, RetryHint};

/// A refusal of an API session.
pub(super) fn refused(code: ErrorCode, hint: RetryHint, message: impl Into<String>) -> Refusal {
    Refusal {
        code: code.0,
        hint,
        message: message.into(),
        failing_checks: Vec::new(),
        circuit: None,
    }
}
