//! The posture checks of a service, as a client is asked them, with the result of each
//! (docs/protocol/auth.md 17.6; docs/protocol/management-api.md 7.2).

use std::sync::Arc;

use weft_contract::entity::DialBind;
use weft_contract::resource::posture_check::COLLECTION;
use weft_contract::resource::service::{PostureQueries, PostureQuery, PostureQueryProcess};
use weft_kernel::convert;
use weft_model::entity::{PostureCheck, PostureCheckType, ProcessSpec, ServicePolicy};
use weft_model::posture::{Check, GRACE};
use weft_model::{Choice as _, Kind, Snapshot, Timestamp};

use crate::posture::viewer::Viewer;

/// The posture checks of a service policy.
pub(crate) fn checks_of(
    snapshot: &Snapshot,
    policy: u32,
) -> impl Iterator<Item = &Arc<PostureCheck>> {
    let checks = snapshot.members(Kind::ServicePolicy, policy, ServicePolicy::POSTURE_CHECKS);
    let checks: Vec<u32> = checks.iter().collect();
    checks.into_iter().filter_map(|check| snapshot.at::<PostureCheck>(check))
}

/// One entry for each of the policies between the viewer and a service. Without any posture check,
/// one passing entry for each permission of the viewer.
pub fn of_service(
    snapshot: &Snapshot,
    viewer: &Viewer,
    between: &[(u32, &Arc<ServicePolicy>)],
    permissions: &[DialBind],
    now: Timestamp,
) -> Vec<PostureQueries> {
    if !viewer.is_judged || snapshot.table(Kind::PostureCheck).is_empty() {
        let granted = permissions.iter().filter(|word| **word != DialBind::Invalid);
        return granted.map(|word| PostureQueries::none(*word)).collect();
    }
    let of_policy = |(ordinal, policy): &(u32, &Arc<ServicePolicy>)| {
        let queries: Vec<PostureQuery> =
            checks_of(snapshot, *ordinal).map(|check| query(viewer, check, now)).collect();
        PostureQueries {
            is_passing: queries.iter().all(|query| query.is_passing),
            policy_id: policy.base.id.to_string(),
            policy_type: convert::word(policy.policy_type),
            posture_queries: queries,
        }
    };
    between.iter().map(of_policy).collect()
}

fn query(viewer: &Viewer, check: &PostureCheck, now: Timestamp) -> PostureQuery {
    let ready = viewer.check(check);
    let outcome = ready.evaluate(viewer.data(), now);
    let mut base = convert::base(COLLECTION, &check.base, &[]);
    if let Some(changed) = viewer.changed_at {
        base.updated_at = base.updated_at.max(convert::time(changed));
    }
    let mut query = PostureQuery {
        base,
        is_passing: outcome.is_ok(),
        query_type: check.check_type.as_str().to_owned(),
        timeout: -1,
        timeout_remaining: -1,
        ..PostureQuery::default()
    };
    let process = |spec: &ProcessSpec| PostureQueryProcess {
        os_type: spec.os_type.clone(),
        path: spec.path.clone(),
    };
    let processes = &check.processes.processes;
    match check.check_type {
        PostureCheckType::Process => query.process = processes.first().map(process),
        PostureCheckType::ProcessMulti => query.processes = processes.iter().map(process).collect(),
        _ => {}
    }
    if let Check::Mfa { timeout, prompt_on_wake, prompt_on_unlock } = ready {
        let seconds = |span: std::time::Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
        let until = outcome.ok().flatten();
        query.timeout = timeout.map_or(-1, seconds);
        query.timeout_remaining = match (query.is_passing, until) {
            (false, _) => 0,
            (true, None) => -1,
            (true, Some(until)) => seconds(until.since(now)),
        };
        query.timeout_at = until.map(convert::time);
        query.prompt_on_wake = Some(prompt_on_wake);
        query.prompt_on_unlock = Some(prompt_on_unlock);
        query.prompt_grace_period_seconds = Some(seconds(GRACE));
    }
    query
}
