//! Refusals that this router makes itself, and the hints of controllers.

use weft_wire::edge_ctrl::ErrorCode;

use crate::seam::{Refusal, RetryHint};

/// A refusal of this router itself.
pub(crate) fn refusal(code: ErrorCode, hint: RetryHint, message: impl Into<String>) -> Refusal {
    Refusal {
        code: code.0,
        hint,
        message: message.into(),
        failing_checks: Vec::new(),
        circuit: None,
    }
}

/// The hint with this number; the client decides where the number is unknown.
pub(crate) fn hint(number: u32) -> RetryHint {
    match RetryHint(number) {
        hint @ (RetryHint::TOO_BUSY | RetryHint::START_OVER | RetryHint::NOT_RETRIABLE) => hint,
        _ => RetryHint::DEFAULT,
    }
}
