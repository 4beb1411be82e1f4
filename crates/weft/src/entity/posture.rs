//! Posture for people: what a device has reported, which checks it passes, and the services that it was refused.

use serde_json::Value;
use weft_contract::resource::posture_data::{
    CheckFailure, CheckJudgement, FailedServiceRequest, PostureDataDetail,
};
use weft_contract::timestamp::Timestamp;

use crate::output::table::text;

/// The refusals of an identity, the latest first.
pub(crate) fn refusals(refusals: &[FailedServiceRequest]) -> Vec<String> {
    if refusals.is_empty() {
        return vec![
            "no request of the identity was refused for posture since its last session began"
                .to_owned(),
        ];
    }
    let mut lines = Vec::new();
    for refusal in refusals {
        let FailedServiceRequest { when, session_type, service_name, api_session_id, .. } = refusal;
        lines.push(format!("{when}  {session_type} {service_name}, session {api_session_id}"));
        for policy in &refusal.policy_failures {
            lines.push(format!("  policy {}", policy.policy_name));
            lines.extend(policy.checks.iter().map(|check| format!("    ✗ {}", facts(check))));
        }
    }
    lines
}

/// What the device of an identity has reported.
pub(crate) fn reports(data: &PostureDataDetail) -> Vec<String> {
    let mut lines = Vec::new();
    let mut report = |what: String, at: Timestamp| {
        if !at.is_zero() {
            lines.push(format!("{what}; reported at {at}"));
        }
    };
    let os = &data.os;
    report(
        format!("operating system: {} {} {}", os.r#type, os.version, os.build),
        os.last_updated_at,
    );
    report(
        format!("hardware addresses: {}", data.mac.addresses.join(", ")),
        data.mac.last_updated_at,
    );
    report(format!("domain: {}", data.domain.domain), data.domain.last_updated_at);
    for process in &data.processes {
        let state = if process.is_running { "runs" } else { "does not run" };
        let hash = match process.binary_hash.as_str() {
            "" => String::new(),
            hash => format!(", hash {hash}"),
        };
        let of = &process.posture_check_id;
        report(format!("process of check {of}: {state}{hash}"), process.last_updated_at);
    }
    for (session, of_session) in &data.api_session_posture_data {
        let passed = match of_session.mfa.passed_at {
            at if at.is_zero() => "no code of a second factor so far".to_owned(),
            at => format!("last code of the second factor at {at}"),
        };
        lines.push(format!("session {session}: {passed}"));
        if let Some(state) = &of_session.endpoint_state {
            let times = [("woken", state.woken_at), ("unlocked", state.unlocked_at)];
            let told = times.iter().filter(|(_, at)| !at.is_zero());
            lines.extend(told.map(|(what, at)| format!("  device {what} at {at}")));
        }
    }
    if lines.is_empty() {
        lines.push("the identity has no session whose device has reported anything".to_owned());
    }
    lines
}

/// A check as it was judged, with the facts.
pub(crate) fn judged(check: &CheckJudgement) -> String {
    let mut line = format!("{} {}", if check.is_passing { "✓" } else { "✗" }, facts(&check.found));
    if !check.reason.is_empty() {
        line.push_str(&format!("; {}", check.reason));
    }
    if let Some(at) = check.reported_at {
        line.push_str(&format!("; reported at {at}"));
    }
    if let Some(until) = check.valid_until {
        line.push_str(&format!("; until {until}"));
    }
    line
}

/// The name and type of a check, and its values.
fn facts(check: &CheckFailure) -> String {
    let shown = |value: &Value| match text(value) {
        empty if empty.is_empty() => "nothing".to_owned(),
        shown => shown,
    };
    let mut line = format!("{} ({})", check.posture_check_name, check.posture_check_type);
    match &check.criteria {
        // The values of a second factor are yes or no: its times say more.
        Some(criteria) => {
            let times = [
                ("last code", criteria.passed_mfa_at),
                ("woken", criteria.woken_at),
                ("unlocked", criteria.unlocked_at),
            ];
            let told = times.iter().filter(|(_, at)| !at.is_zero());
            let told: Vec<String> = told.map(|(what, at)| format!("{what} {at}")).collect();
            let told = if told.is_empty() { "no code so far".to_owned() } else { told.join(", ") };
            line.push_str(&format!(": {told}"));
            if criteria.timeout_seconds >= 0 {
                line.push_str(&format!("; a code is good for {} s", criteria.timeout_seconds));
            }
        }
        None => {
            line.push_str(&format!(": the device has {}", shown(&check.actual_value)));
            if !check.expected_value.is_null() {
                line.push_str(&format!("; wanted is {}", shown(&check.expected_value)));
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_are_told_with_what_was_found_and_wanted() {
        let refused = json!([{"apiSessionId": "s1", "serviceName": "web", "sessionType": "Dial",
            "when": "2026-01-02T03:04:05.000Z", "policyFailures": [{"policyName": "staff", "checks": [
                {"postureCheckName": "windows", "postureCheckType": "OS",
                    "actualValue": {"type": "linux", "version": "6.1.0"},
                    "expectedValue": [{"type": "Windows", "versions": [">=10.0.0"]}]}]}]}]);
        let refused: Vec<FailedServiceRequest> = serde_json::from_value(refused).unwrap();
        assert_eq!(
            refusals(&refused),
            [
                "2026-01-02T03:04:05.000Z  Dial web, session s1",
                "  policy staff",
                "    ✗ windows (OS): the device has type=linux version=6.1.0; wanted is type=Windows versions=>=10.0.0",
            ]
        );
        assert_eq!(refusals(&[]).len(), 1);
    }

    #[test]
    fn only_what_was_reported_is_told() {
        let data = json!({"os": {"type": "Linux", "version": "6.1.0", "build": "7",
                "lastUpdatedAt": "2026-01-02T03:04:05.000Z"},
            "mac": {"lastUpdatedAt": "0001-01-01T00:00:00.000Z"},
            "apiSessionPostureData": {"s1": {"mfa": {"passedAt": "2026-01-02T03:04:06.000Z"}}}});
        let data: PostureDataDetail = serde_json::from_value(data).unwrap();
        assert_eq!(
            reports(&data),
            [
                "operating system: Linux 6.1.0 7; reported at 2026-01-02T03:04:05.000Z",
                "session s1: last code of the second factor at 2026-01-02T03:04:06.000Z",
            ]
        );
        assert_eq!(reports(&PostureDataDetail::default()).len(), 1);
    }

    #[test]
    fn a_second_factor_is_told_by_its_times() {
        let check = json!({"postureCheckName": "code", "postureCheckType": "MFA", "isPassing": false,
            "reason": "the second factor has timed out",
            "criteria": {"passedMfaAt": "2026-01-02T03:04:05.000Z", "timeoutSeconds": 60}});
        let check: CheckJudgement = serde_json::from_value(check).unwrap();
        assert_eq!(
            judged(&check),
            "✗ code (MFA): last code 2026-01-02T03:04:05.000Z; a code is good for 60 s; \
             the second factor has timed out"
        );
    }
}
