//! The posture data of an identity, and its refused service requests
//! (docs/protocol/management-api.md 6, 7.1).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::entity::{DialBind, Semantic, detail};
use crate::json::ListOrNull;
use crate::resource::client::SdkInfo;
use crate::timestamp::Timestamp;

detail! {
    /// The posture data of an identity. The controller never stores it, so that a restart loses it.
    pub struct PostureDataDetail {
        /// The posture data of each API session, by the id of the session.
        pub api_session_posture_data: BTreeMap<String, ApiSessionPosture>,
        /// The Windows domain of the device.
        pub domain: DomainPosture,
        /// The hardware addresses of the device.
        pub mac: MacPosture,
        /// The operating system of the device.
        pub os: OsPosture,
        /// The processes that the client was asked for.
        pub processes: Vec<ProcessPosture>,
    }
}

detail! {
    /// The posture data of an API session.
    pub struct ApiSessionPosture {
        /// The times at which the device last woke and was last unlocked.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub endpoint_state: Option<EndpointState>,
        /// The second factor of the session.
        pub mfa: MfaPosture,
        /// The program of the client.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sdk_info: Option<SdkInfo>,
    }
}

detail! {
    /// The times at which a device last woke and was last unlocked.
    pub struct EndpointState {
        /// The time at which the device was last unlocked.
        pub unlocked_at: Timestamp,
        /// The time at which the device last woke.
        pub woken_at: Timestamp,
    }
}

detail! {
    /// The second factor of an API session.
    pub struct MfaPosture {
        /// The id of the API session.
        pub api_session_id: String,
        /// The time of the last right code.
        pub passed_at: Timestamp,
        /// Whether the client has given a right code.
        pub passed_mfa: bool,
        /// Whether the client has given a right code since the device was unlocked.
        pub passed_on_unlock: bool,
        /// Whether the client has given a right code since the device woke.
        pub passed_on_wake: bool,
    }
}

detail! {
    /// The Windows domain of a device.
    pub struct DomainPosture {
        /// The time of the client's report.
        pub last_updated_at: Timestamp,
        /// The id of the posture check that the report answers.
        pub posture_check_id: String,
        /// Whether the report is too old to count; always false, since reports do not expire in weft.
        pub timed_out: bool,
        /// The Windows domain.
        pub domain: String,
    }
}

detail! {
    /// The hardware addresses of a device.
    pub struct MacPosture {
        /// The time of the client's report.
        pub last_updated_at: Timestamp,
        /// The id of the posture check that the report answers.
        pub posture_check_id: String,
        /// Whether the report is too old to count; always false, since reports do not expire in weft.
        pub timed_out: bool,
        /// The hardware addresses; null if there are none.
        pub addresses: ListOrNull<String>,
    }
}

detail! {
    /// The operating system of a device.
    pub struct OsPosture {
        /// The time of the client's report.
        pub last_updated_at: Timestamp,
        /// The id of the posture check that the report answers.
        pub posture_check_id: String,
        /// Whether the report is too old to count; always false, since reports do not expire in weft.
        pub timed_out: bool,
        /// The build of the operating system.
        pub build: String,
        /// The operating system.
        pub r#type: String,
        /// The version of the operating system.
        pub version: String,
    }
}

detail! {
    /// A process on a device.
    pub struct ProcessPosture {
        /// The time of the client's report.
        pub last_updated_at: Timestamp,
        /// The id of the posture check that the report answers.
        pub posture_check_id: String,
        /// Whether the report is too old to count; always false, since reports do not expire in weft.
        pub timed_out: bool,
        /// The SHA-512 of the program's file, in hex.
        pub binary_hash: String,
        /// Whether the process runs.
        pub is_running: bool,
        /// The SHA-1 of the certificates that signed the file, in hex.
        pub signer_fingerprints: Vec<String>,
    }
}

detail! {
    /// A service that an identity was refused, since its device failed posture checks.
    pub struct FailedServiceRequest {
        /// The id of the API session that asked for the service.
        pub api_session_id: String,
        /// The policies that grant the service, with the posture checks that failed.
        pub policy_failures: Vec<PolicyFailure>,
        /// The id of the service.
        pub service_id: String,
        /// The name of the service.
        pub service_name: String,
        /// Whether the identity asked to dial or to host the service.
        pub session_type: DialBind,
        /// The time of the refusal.
        pub when: Timestamp,
    }
}

detail! {
    /// A service policy, and its posture checks that failed.
    pub struct PolicyFailure {
        /// The posture checks that failed.
        pub checks: Vec<CheckFailure>,
        /// The id of the service policy.
        pub policy_id: String,
        /// The name of the service policy.
        pub policy_name: String,
    }
}

detail! {
    /// A posture check, with the values that it is judged by. The form of the found and the expected value depends on the
    /// type of the check.
    pub struct CheckFailure {
        /// The value that the device has.
        pub actual_value: Value,
        /// `MFA`: the times that decided the check.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub criteria: Option<MfaCriteria>,
        /// The value that the check expects.
        pub expected_value: Value,
        /// The id of the posture check.
        pub posture_check_id: String,
        /// The name of the posture check.
        pub posture_check_name: String,
        /// The type of the posture check.
        pub posture_check_type: String,
        /// `PROCESS_MULTI`: whether all of the processes must run (AllOf) or one of them (AnyOf).
        #[serde(skip_serializing_if = "Option::is_none")]
        pub semantic: Option<Semantic>,
    }
}

detail! {
    /// The posture checks of the policies for a service, as they are judged now in one API session of the identity.
    pub struct PostureJudgement {
        /// The id of the API session. Empty if the identity has none; nothing is known of its device then.
        pub api_session_id: String,
        /// The time at which the client last used the session.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub last_activity_at: Option<Timestamp>,
        /// The policies that hold identity and service, and have posture checks.
        pub policies: Vec<PolicyJudgement>,
        /// The program of the client.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sdk_info: Option<SdkInfo>,
    }
}

detail! {
    /// A service policy, and how its posture checks are judged.
    pub struct PolicyJudgement {
        /// The posture checks.
        pub checks: Vec<CheckJudgement>,
        /// Whether all posture checks pass.
        pub is_passing: bool,
        /// The id of the service policy.
        pub policy_id: String,
        /// The name of the service policy.
        pub policy_name: String,
        /// Whether the policy lets identities dial or host.
        pub policy_type: DialBind,
    }
}

detail! {
    /// A posture check, how it is judged, and the facts that it is judged by.
    pub struct CheckJudgement including found: CheckFailure {
        /// Whether the check passes.
        pub is_passing: bool,
        /// Why the check fails, as a sentence; empty if it passes.
        pub reason: String,
        /// The time of the client's report.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub reported_at: Option<Timestamp>,
        /// The time until which the check passes without another report; absent if it has no end.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub valid_until: Option<Timestamp>,
    }
}

detail! {
    /// The times that decided an MFA check.
    pub struct MfaCriteria {
        /// The time of the last right code.
        pub passed_mfa_at: Timestamp,
        /// The time for which the code was still good, in seconds; -1 means for ever.
        pub timeout_remaining_seconds: i64,
        /// The time for which a code is good, in seconds; -1 means for ever.
        pub timeout_seconds: i64,
        /// The time at which the device was last unlocked.
        pub unlocked_at: Timestamp,
        /// The time at which the device last woke.
        pub woken_at: Timestamp,
    }
}

detail! {
    /// The state of a second factor that was found, or that a check expects.
    pub struct MfaValues {
        /// Whether the client has given a right code.
        pub passed_mfa: bool,
        /// Whether the client has given a right code since the device was unlocked.
        pub passed_on_unlock: bool,
        /// Whether the client has given a right code since the device woke.
        pub passed_on_wake: bool,
        /// Whether the code is too old.
        pub timed_out: bool,
    }
}

detail! {
    /// The operating system that the device has.
    pub struct OsFound {
        /// The operating system.
        pub r#type: String,
        /// The version of the operating system.
        pub version: String,
    }
}

detail! {
    /// A process that a check looked for.
    pub struct ProcessFound {
        /// The SHA-512 of the program's file, in hex.
        pub hash: String,
        /// Whether the process runs.
        pub is_running: bool,
        /// The operating system that the process runs on.
        pub os_type: String,
        /// The path of the program's file.
        pub path: String,
        /// The SHA-1 of the certificates that signed the file, in hex.
        pub signer_fingerprints: Vec<String>,
    }
}
