//! Whether an identity may use a service, decided from the data model alone
//! (protocol: edge-control-plane 12.2).

use weft_wire::edge_ctrl::{ErrorCode, data_model::PolicyType};

use super::model::Model;
use crate::seam::{Refusal, RetryHint, Use};

/// Decides. A policy grants if none of its posture checks fails. Routers of this release take no
/// posture data from SDKs and say so in their capabilities: a policy with checks grants nothing.
pub(crate) fn decide(
    model: &Model,
    identity: &str,
    service: &str,
    purpose: Use,
) -> Result<(), Refusal> {
    let known = model.identities.get(identity);
    if known.is_none_or(|known| known.disabled) {
        let problem = if known.is_some() { "is disabled" } else { "is not known" };
        return Err(denied(format!("identity {identity} {problem}")));
    }
    if !model.services.contains_key(service) {
        return Err(unknown_service(service));
    }
    let kind = match purpose {
        Use::Dial => PolicyType::Dial,
        Use::Bind => PolicyType::Bind,
    };
    let mut failing: Vec<String> = Vec::new();
    let mut found = false;
    for policy in model.policies_for(identity, service, kind) {
        if policy.checks.is_empty() {
            return Ok(());
        }
        found = true;
        failing.extend(policy.checks.iter().cloned());
    }
    if !found {
        let verb = match purpose {
            Use::Dial => "dial",
            Use::Bind => "bind",
        };
        return Err(denied(format!("no policy lets identity {identity} {verb} service {service}")));
    }
    failing.sort_unstable();
    failing.dedup();
    Err(Refusal {
        code: ErrorCode::POSTURE_CHECK_FAILED.0,
        message: format!("posture checks of service {service} failed"),
        failing_checks: failing,
        ..denied(String::new())
    })
}

fn denied(message: String) -> Refusal {
    Refusal {
        code: ErrorCode::ACCESS_DENIED.0,
        hint: RetryHint::Default,
        message,
        failing_checks: Vec::new(),
        circuit: None,
    }
}

/// The refusal for a service that is not there.
pub(crate) fn unknown_service(service: &str) -> Refusal {
    Refusal {
        code: ErrorCode::INVALID_SERVICE.0,
        hint: RetryHint::NotRetriable,
        ..denied(format!("service {service} not found"))
    }
}
