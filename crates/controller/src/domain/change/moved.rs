//! What is said when the network changed meanwhile.

use weft_contract::ErrorCode;
use weft_kernel::Failure;

/// The network is not any more what the plan was made on. Seen by nobody but [`submit`].
pub(crate) fn moved() -> Failure {
    Failure::new(ErrorCode::PlanHasChanged)
}
