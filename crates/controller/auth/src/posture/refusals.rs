//! Refusals for posture: the service, and for each failed check the value that it found and the
//! value that it expected (docs/protocol/management-api.md 6, 7.1).

use serde::Serialize;
use serde_json::Value;
use weft_contract::resource::posture_check::{OperatingSystemDetail, ProcessMultiDetail};
use weft_contract::resource::posture_data::{
    CheckFailure, FailedServiceRequest, MfaCriteria, MfaValues, OsFound, PolicyFailure,
    ProcessFound,
};
use weft_contract::{Cause, ErrorCode, JsonMap, Timestamp as TimeWord};
use weft_kernel::{Failure, convert};
use weft_model::access::FailedPolicy;
use weft_model::entity::{
    ApiSession, PolicyType, PostureCheck, PostureCheckType, ProcessSpec, Service,
};
use weft_model::posture::{Check, CheckFailure as Why};
use weft_model::{Choice as _, Snapshot, Timestamp};

use super::wanted::{process, process_of_many, systems};
use crate::handle::Auth;
use crate::posture::viewer::Viewer;

impl Auth {
    /// Remembers a refusal, and makes the failure of the request, which lists the failed checks of
    /// each policy (docs/protocol/auth.md 17.7).
    pub fn refuse_for_posture(
        &self,
        snapshot: &Snapshot,
        viewer: &Viewer,
        login: &ApiSession,
        service: &Service,
        wanted: PolicyType,
        failed: &[FailedPolicy],
    ) -> Failure {
        let now = self.kernel().now();
        let policy_failures: Vec<PolicyFailure> =
            failed.iter().map(|policy| policy_failure(snapshot, viewer, policy, now)).collect();
        let by_policy: JsonMap = policy_failures
            .iter()
            .map(|failure| (failure.policy_id.clone(), json(&failure.checks)))
            .collect();
        let names: Vec<&str> = failed.iter().map(|policy| policy.name.as_str()).collect();
        let message = format!("posture checks failed for the policies {}", names.join(", "));
        let refusal = FailedServiceRequest {
            api_session_id: login.base.id.to_string(),
            policy_failures,
            service_id: service.base.id.to_string(),
            service_name: service.name.to_string(),
            session_type: convert::word(wanted),
            when: convert::time(now),
        };
        self.postures().refused(&login.identity_id, refusal);
        Failure::new(ErrorCode::InvalidPosture).with_cause(Cause {
            data: Some(Value::Object(by_policy)),
            ..Cause::error(ErrorCode::InvalidPosture, message)
        })
    }
}

fn policy_failure(
    snapshot: &Snapshot,
    viewer: &Viewer,
    policy: &FailedPolicy,
    now: Timestamp,
) -> PolicyFailure {
    let checks = policy.checks.iter().filter_map(|failed| {
        let check = snapshot.get::<PostureCheck>(&failed.id)?;
        Some(found_by(viewer, check, Some(failed.failure), now))
    });
    PolicyFailure {
        checks: checks.collect(),
        policy_id: policy.id.to_string(),
        policy_name: policy.name.clone(),
    }
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// The values that a posture check is judged by. `why` is the reason if it fails.
pub(super) fn found_by(
    viewer: &Viewer,
    check: &PostureCheck,
    why: Option<Why>,
    now: Timestamp,
) -> CheckFailure {
    let data = viewer.data();
    let mut found_by = CheckFailure {
        posture_check_id: check.base.id.to_string(),
        posture_check_name: check.name.to_string(),
        posture_check_type: check.check_type.as_str().to_owned(),
        ..CheckFailure::default()
    };
    let (actual, expected) = match check.check_type {
        PostureCheckType::Domain => {
            (json(&data.domain.clone().unwrap_or_default()), json(&check.domains))
        }
        PostureCheckType::Mac => (json(&data.mac_addresses), json(&check.mac_addresses)),
        PostureCheckType::Os => {
            let os = data.os.clone().unwrap_or_default();
            let found = OsFound { r#type: os.os_type, version: os.version };
            let wanted: Vec<OperatingSystemDetail> = systems(&check.operating_systems);
            (json(&found), json(&wanted))
        }
        PostureCheckType::Process => {
            let spec = check.processes.processes.first();
            (json(&spec.map(|spec| found(viewer, spec))), json(&spec.map(process)))
        }
        PostureCheckType::ProcessMulti => {
            let specs = &check.processes.processes;
            let actual: Vec<ProcessFound> = specs.iter().map(|spec| found(viewer, spec)).collect();
            let wanted: Vec<ProcessMultiDetail> = specs.iter().map(process_of_many).collect();
            found_by.semantic = Some(convert::word(check.processes.semantic));
            (json(&actual), json(&wanted))
        }
        PostureCheckType::Mfa => {
            found_by.criteria = Some(criteria(viewer, check, now));
            mfa(viewer, check, why)
        }
    };
    CheckFailure { actual_value: actual, expected_value: expected, ..found_by }
}

fn found(viewer: &Viewer, spec: &ProcessSpec) -> ProcessFound {
    let data = viewer.data();
    let report = data.processes.get(&spec.path).cloned().unwrap_or_default();
    ProcessFound {
        hash: report.hash,
        is_running: report.is_running,
        os_type: data.os.as_ref().map(|os| os.os_type.clone()).unwrap_or_default(),
        path: spec.path.clone(),
        signer_fingerprints: report.signer_fingerprints,
    }
}

fn mfa(viewer: &Viewer, check: &PostureCheck, why: Option<Why>) -> (Value, Value) {
    let data = viewer.data();
    let since =
        |at: Option<Timestamp>| data.mfa_passed_at().is_some() && data.mfa_passed_at() >= at;
    let actual = MfaValues {
        passed_mfa: data.mfa_passed_at().is_some(),
        passed_on_unlock: since(data.unlocked_at()),
        passed_on_wake: since(data.woken_at()),
        timed_out: why == Some(Why::MfaTimedOut),
    };
    let expected = MfaValues {
        passed_mfa: true,
        passed_on_unlock: check.mfa.prompt_on_unlock,
        passed_on_wake: check.mfa.prompt_on_wake,
        timed_out: false,
    };
    (json(&actual), json(&expected))
}

fn criteria(viewer: &Viewer, check: &PostureCheck, now: Timestamp) -> MfaCriteria {
    let data = viewer.data();
    let time = |at: Option<Timestamp>| at.map_or(TimeWord::ZERO, convert::time);
    let timeout = match viewer.check(check) {
        Check::Mfa { timeout, .. } => timeout,
        _ => None,
    };
    let seconds = |span: std::time::Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    let left = match (timeout, data.mfa_passed_at()) {
        (None, _) => -1,
        (Some(_), None) => 0,
        (Some(timeout), Some(passed)) => seconds(passed.plus(timeout).since(now)),
    };
    MfaCriteria {
        passed_mfa_at: time(data.mfa_passed_at()),
        timeout_remaining_seconds: left,
        timeout_seconds: timeout.map_or(-1, seconds),
        unlocked_at: time(data.unlocked_at()),
        woken_at: time(data.woken_at()),
    }
}
