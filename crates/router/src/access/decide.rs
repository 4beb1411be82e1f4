//! The decision whether an identity may use a service, from the data model alone, by the same
//! function as everywhere in the network ([`weft_model::access`];
//! docs/protocol/edge-control-plane.md 12.2).

use weft_model::access::{self, AccessDecision, Denial, Facts, PolicyFacts, Posture, Standing};
use weft_model::entity::PolicyType;
use weft_model::posture::{Check, OsRule, ProcessRule};
use weft_model::{Semantic, Timestamp};
use weft_wire::edge_ctrl::ErrorCode;
use weft_wire::edge_ctrl::data_model::posture_check::{Os, Process, Subtype};
use weft_wire::edge_ctrl::data_model::{ALL_OF, PolicyType as WireType, PostureCheck};

use super::model::Model;
use crate::seam::{Refusal, RetryHint, Use};

/// Decides whether an identity may use a service. Routers of this release take no posture data from
/// SDKs, as their capabilities say: unless posture is ignored, a policy with posture checks grants nothing.
pub(crate) fn decide(
    model: &Model,
    identity: &str,
    service: &str,
    purpose: Use,
    posture: Posture<'_>,
) -> Result<(), Refusal> {
    let action = match purpose {
        Use::Dial => PolicyType::Dial,
        Use::Bind => PolicyType::Bind,
    };
    // Nothing here depends on the time: there is no posture data, and no identity that is disabled
    // for a time.
    let now = Timestamp::default();
    match access::decide(model, identity, service, action, posture, now) {
        AccessDecision::Granted { .. } => Ok(()),
        AccessDecision::Denied(denial) => Err(refusal(&denial, identity, service)),
    }
}

fn refusal(denial: &Denial, identity: &str, service: &str) -> Refusal {
    let (code, hint) = match denial {
        Denial::UnknownService => return unknown_service(service),
        Denial::Posture(_) => (ErrorCode::POSTURE_CHECK_FAILED, RetryHint::DEFAULT),
        _ => (ErrorCode::ACCESS_DENIED, RetryHint::DEFAULT),
    };
    let failing_checks = denial.failed_checks().into_iter().map(ToString::to_string).collect();
    let message = format!("{denial} (identity {identity}, service {service})");
    Refusal { failing_checks, ..Refusal::new(code, hint, message) }
}

/// The refusal for an unknown service.
pub(crate) fn unknown_service(service: &str) -> Refusal {
    let message = format!("service {service} not found");
    Refusal::new(ErrorCode::INVALID_SERVICE, RetryHint::NOT_RETRIABLE, message)
}

impl Facts for Model {
    fn standing(&self, identity: &str, _: Timestamp) -> Standing {
        match self.identities.get(identity) {
            None => Standing::Unknown,
            Some(known) if known.disabled => Standing::Disabled,
            Some(_) => Standing::Active,
        }
    }

    fn has_service(&self, service: &str) -> bool {
        self.services.contains_key(service)
    }

    fn policies(&self, identity: &str, service: &str, action: PolicyType) -> Vec<PolicyFacts<'_>> {
        let kind = match action {
            PolicyType::Dial => WireType::Dial,
            PolicyType::Bind => WireType::Bind,
        };
        let policies = self.policies_for(identity, service, kind);
        let facts = policies.map(|policy| PolicyFacts {
            id: &policy.value.id,
            name: &policy.value.name,
            checks: policy
                .checks
                .iter()
                .map(|id| (&**id, self.checks.get(&**id).and_then(|known| check(known))))
                .collect(),
        });
        facts.collect()
    }
}

/// A posture check, ready to be evaluated; `None` if this release does not know its kind.
fn check<'a>(of: &'a PostureCheck) -> Option<Check<'a>> {
    let seconds = |number: i64| u64::try_from(number).ok().map(std::time::Duration::from_secs);
    Some(match of.subtype.as_ref()? {
        Subtype::Mac(mac) => Check::Mac(&mac.mac_addresses),
        Subtype::Domains(domains) => Check::Domain(&domains.domains),
        Subtype::OsList(list) => {
            let rule = |os: &'a Os| OsRule { os_type: &os.os_type, versions: &os.os_versions };
            Check::Os(list.os_list.iter().map(rule).collect())
        }
        Subtype::Process(process) => Check::Processes(Semantic::AllOf, vec![rule(process)]),
        Subtype::ProcessMulti(multi) => {
            let semantic = if multi.semantic == ALL_OF { Semantic::AllOf } else { Semantic::AnyOf };
            Check::Processes(semantic, multi.processes.iter().map(rule).collect())
        }
        Subtype::Mfa(mfa) => Check::Mfa {
            timeout: seconds(mfa.timeout_seconds),
            prompt_on_wake: mfa.prompt_on_wake,
            prompt_on_unlock: mfa.prompt_on_unlock,
        },
    })
}

fn rule(process: &Process) -> ProcessRule<'_> {
    ProcessRule {
        path: &process.path,
        hashes: &process.hashes,
        signer_fingerprints: &process.fingerprints,
    }
}
