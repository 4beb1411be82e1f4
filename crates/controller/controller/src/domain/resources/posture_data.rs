//! The posture data of an identity, its failed service requests, and the removal of its second
//! factor by an administrator (docs/protocol/management-api.md 6, 7.1; docs/protocol/auth.md 11.3).

use std::collections::BTreeMap;

use serde_json::Value;
use weft_auth::mfa;
use weft_auth::posture::ReportedValue;
use weft_contract::resource::posture_check::COLLECTION as POSTURE_CHECKS;
use weft_contract::resource::posture_data::{
    ApiSessionPosture, DomainPosture, EndpointState, FailedServiceRequest, MacPosture, MfaPosture,
    OsPosture, PostureDataDetail, ProcessPosture,
};
use weft_contract::{Api, Timestamp as TimeWord};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Reply, Result, convert, gate};
use weft_model::entity::{ApiSession, Mfa, OfKind as _, PostureCheckType};
use weft_model::{Choice as _, Timestamp};

use super::identity::Identities;
use crate::Controller;
use crate::domain::resource::require;

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "getIdentityPostureData", &posture_data),
    (Api::Management, "getIdentityFailedServiceRequests", &failed_requests),
    (Api::Management, "removeIdentityMfa", &remove_mfa),
];

async fn posture_data(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let identity = &require::<Identities>(context.view(), call.id(0))?.base.id;
    let device = controller.auth().postures().device(identity);
    let sessions = controller.auth().sessions().of_identity(identity);
    let of_sessions: BTreeMap<String, ApiSessionPosture> = sessions
        .iter()
        .map(|session| (session.base.id.to_string(), of_session(&controller, session)))
        .collect();
    let domain = device.domain.map(|told| DomainPosture {
        last_updated_at: when(&told),
        posture_check_id: told.check,
        timed_out: false,
        domain: told.value,
    });
    let mac = device.mac.map(|told| MacPosture {
        last_updated_at: when(&told),
        posture_check_id: told.check,
        timed_out: false,
        addresses: told.value.into(),
    });
    let os = device.os.map(|told| OsPosture {
        last_updated_at: when(&told),
        posture_check_id: told.check,
        timed_out: false,
        build: told.value.build,
        r#type: told.value.os_type,
        version: told.value.version,
    });
    let processes = device.processes.into_values().map(|told| ProcessPosture {
        last_updated_at: when(&told),
        posture_check_id: told.check,
        timed_out: false,
        binary_hash: told.value.hash,
        is_running: told.value.is_running,
        signer_fingerprints: told.value.signer_fingerprints,
    });
    Reply::detail(&PostureDataDetail {
        api_session_posture_data: of_sessions,
        domain: domain.unwrap_or_default(),
        mac: mac.unwrap_or_default(),
        os: os.unwrap_or_default(),
        processes: processes.collect(),
    })
}

fn when<T>(told: &ReportedValue<T>) -> TimeWord {
    convert::time(told.at)
}

fn of_session(controller: &Controller, session: &ApiSession) -> ApiSessionPosture {
    let state = controller.auth().postures().endpoint(&session.base.id);
    let time = |at: Option<Timestamp>| at.map_or(TimeWord::ZERO, convert::time);
    let passed = session.mfa_passed_at;
    let since = |at: Option<Timestamp>| passed.is_some() && passed >= at;
    let is_known = state.woken_at.is_some() || state.unlocked_at.is_some();
    ApiSessionPosture {
        endpoint_state: is_known.then(|| EndpointState {
            unlocked_at: time(state.unlocked_at),
            woken_at: time(state.woken_at),
        }),
        mfa: MfaPosture {
            api_session_id: session.base.id.to_string(),
            passed_at: time(passed),
            passed_mfa: passed.is_some(),
            passed_on_unlock: since(state.unlocked_at),
            passed_on_wake: since(state.woken_at),
        },
        sdk_info: session.sdk_info.as_ref().map(convert::sdk),
    }
}

async fn failed_requests(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let identity = &require::<Identities>(context.view(), call.id(0))?.base.id;
    let refusals = controller.auth().postures().refusals(identity);
    if gate::reads(&caller, POSTURE_CHECKS) {
        let refusals: Vec<_> = refusals.iter().map(|refusal| &**refusal).collect();
        return Reply::whole_list(&refusals);
    }
    let refusals: Vec<_> = refusals.iter().map(|refusal| without_checks(refusal)).collect();
    Reply::whole_list(&refusals)
}

/// A refusal for a caller that may not read posture checks: which check of which policy failed, and the values of
/// the device that its reports have, but nothing of the content of the check. The values found for processes name
/// the paths of the check.
fn without_checks(refusal: &FailedServiceRequest) -> FailedServiceRequest {
    let mut refusal = refusal.clone();
    for check in refusal.policy_failures.iter_mut().flat_map(|policy| &mut policy.checks) {
        let has_paths = matches!(
            PostureCheckType::parse(&check.posture_check_type),
            None | Some(PostureCheckType::Process | PostureCheckType::ProcessMulti)
        );
        if has_paths {
            check.actual_value = Value::Null;
        }
        (check.expected_value, check.criteria, check.semantic) = (Value::Null, None, None);
    }
    refusal
}

/// Removes the second factor of an identity that has lost it.
async fn remove_mfa(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let id = weft_model::Id::new(call.id(0));
    let identity = id.clone();
    controller
        .kernel()
        .decide(&caller, move |decision| {
            let found = require::<Identities>(decision.view(), identity.as_str())?;
            decision.guard(found)?;
            match mfa::of(decision.tip(), identity.as_str()) {
                Some(mfa) => decision.delete(Mfa::KIND, &mfa.base.id),
                None => Ok(()),
            }
        })
        .await?;
    controller.auth().mfa_removed(&id);
    Reply::empty()
}
