//! The hints of controllers to clients that were refused.

use crate::seam::RetryHint;

/// The hint with this number. An unknown number becomes the default hint, which leaves the next
/// step to the client.
pub(super) fn hint(number: u32) -> RetryHint {
    match RetryHint(number) {
        hint @ (RetryHint::TOO_BUSY | RetryHint::START_OVER | RetryHint::NOT_RETRIABLE) => hint,
        _ => RetryHint::DEFAULT,
    }
}
