//! The codes of the second factor that posture checks ask for (docs/protocol/auth.md 18).

use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::sync::{Mutex, Notify};
use weft_contract::Word as _;
use weft_contract::resource::posture_check::PostureCheckType;
use weft_contract::resource::service::ServiceDetail;

use crate::error::Error;

/// The codes of the second factor that posture checks have asked for.
#[derive(Debug, Default)]
pub(crate) struct Proofs {
    /// Held while a code is asked for, so that a person is asked once for all services.
    pub(crate) one: Mutex<()>,
    /// The codes that were given.
    pub(crate) given: AtomicU64,
    /// True if a code was asked for and not given yet.
    pub(crate) is_open: AtomicBool,
    /// Wakes the task that waits for codes.
    pub(crate) opened: Notify,
}

/// True if the controller refused because this device fails posture checks.
pub(crate) fn is_for_posture(error: &Error) -> bool {
    matches!(error, Error::Controller(refusal)
        if refusal.api().is_some_and(|api| api.code() == "INVALID_POSTURE"))
}

/// True if a posture check of the service waits for a code of the second factor.
pub(crate) fn wants_code(service: &ServiceDetail) -> bool {
    let queries = service.posture_queries.iter().flat_map(|policy| &policy.posture_queries);
    queries
        .filter(|query| !query.is_passing)
        .any(|query| PostureCheckType::parse(&query.query_type) == Some(PostureCheckType::Mfa))
}
