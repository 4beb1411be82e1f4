//! The failure by which the writer says that the network changed since a plan was made.

use weft_contract::ErrorCode;
use weft_kernel::Failure;

/// The failure for a plan whose snapshot is not the tip any more. [`submit`] catches it: no client
/// sees it.
pub(crate) fn moved() -> Failure {
    Failure::new(ErrorCode::PlanHasChanged)
}
