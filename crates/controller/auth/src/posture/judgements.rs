//! The posture checks of the policies for a service, as they are judged now, for people who ask why an identity may
//! not use it.

use std::cmp::Reverse;
use std::sync::Arc;

use weft_contract::resource::posture_data::{CheckJudgement, PolicyJudgement, PostureJudgement};
use weft_kernel::convert;
use weft_model::access::JudgedPolicy;
use weft_model::entity::{ApiSession, PolicyType, PostureCheck, PostureCheckType};
use weft_model::{Id, Snapshot, Timestamp};

use super::DevicePosture;
use super::refusals::found_by;
use super::viewer::Viewer;
use crate::handle::Auth;

/// Most sessions of an identity in which the checks are judged, and most policies of each.
const SESSIONS: usize = 10;
const POLICIES: usize = 50;

impl Auth {
    /// Judges the posture checks of the policies that hold an identity and a service, in each of the identity's
    /// sessions that can use services. Without such a session nothing is known of its device. Empty if no policy has
    /// posture checks.
    pub fn judge_posture(
        &self,
        snapshot: &Snapshot,
        identity: &Id,
        service: &Id,
    ) -> Vec<PostureJudgement> {
        let mut sessions: Vec<Arc<ApiSession>> = self.sessions().of_identity(identity);
        sessions.retain(|session| session.is_of_client);
        let last_activity = |session: &ApiSession| self.sessions().last_activity(session);
        sessions.sort_by_cached_key(|session| Reverse(last_activity(session)));
        sessions.truncate(SESSIONS);
        let mut judged = Vec::new();
        if sessions.is_empty() {
            let viewer = Viewer::new(self, identity, None);
            let policies = self.judged(snapshot, &viewer, service);
            judged.push(PostureJudgement { policies, ..PostureJudgement::default() });
        }
        for session in &sessions {
            judged.push(PostureJudgement {
                api_session_id: session.base.id.to_string(),
                last_activity_at: Some(convert::time(last_activity(session))),
                policies: self.judged(snapshot, &self.viewer(session), service),
                sdk_info: session.sdk_info.as_ref().map(convert::sdk),
            });
        }
        judged.retain(|judgement| !judgement.policies.is_empty());
        judged
    }

    fn judged(&self, snapshot: &Snapshot, viewer: &Viewer, service: &Id) -> Vec<PolicyJudgement> {
        let now = self.kernel().now();
        let device = self.postures().device(&viewer.identity);
        let mut judged = Vec::new();
        for action in [PolicyType::Dial, PolicyType::Bind] {
            let policies = viewer.judge(snapshot, service.as_str(), action, now).into_iter();
            let policies = policies.filter(|policy| !policy.checks.is_empty()).take(POLICIES);
            judged.extend(policies.map(|policy| PolicyJudgement {
                checks: checks(snapshot, viewer, &device, &policy, now),
                is_passing: policy.is_passing(),
                policy_id: policy.id.to_string(),
                policy_name: policy.name,
                policy_type: convert::word(action),
            }));
        }
        judged
    }
}

fn checks(
    snapshot: &Snapshot,
    viewer: &Viewer,
    device: &DevicePosture,
    policy: &JudgedPolicy,
    now: Timestamp,
) -> Vec<CheckJudgement> {
    let judged = policy.checks.iter().filter_map(|(id, outcome)| {
        let check = snapshot.get::<PostureCheck>(id)?;
        Some(CheckJudgement {
            found: found_by(viewer, check, outcome.err(), now),
            is_passing: outcome.is_ok(),
            reason: outcome.err().map(|failure| failure.to_string()).unwrap_or_default(),
            reported_at: reported_at(device, check).map(convert::time),
            valid_until: outcome.ok().flatten().map(convert::time),
        })
    });
    judged.collect()
}

/// The time of the report that a check is judged by.
fn reported_at(device: &DevicePosture, check: &PostureCheck) -> Option<Timestamp> {
    match check.check_type {
        PostureCheckType::Os => device.os.as_ref().map(|told| told.at),
        PostureCheckType::Mac => device.mac.as_ref().map(|told| told.at),
        PostureCheckType::Domain => device.domain.as_ref().map(|told| told.at),
        PostureCheckType::Process | PostureCheckType::ProcessMulti => {
            let paths = check.processes.processes.iter().map(|process| &process.path);
            paths.filter_map(|path| Some(device.processes.get(path)?.at)).max()
        }
        PostureCheckType::Mfa => None,
    }
}
