//! The posture data of an identity, and its refused service requests
//! (docs/protocol/management-api.md 6, 7.1).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::entity::{DialBind, Semantic, detail};
use crate::resource::identity::SdkInfo;
use crate::resource::posture_check::OperatingSystemDetail;
use crate::timestamp::Timestamp;

detail! {
    /// The posture data of an identity. It is lost when the controller stops.
    pub struct PostureDataDetail {
        /// By API session.
        pub api_session_posture_data: BTreeMap<String, ApiSessionPosture>,
        /// The Windows domain.
        pub domain: DomainPosture,
        /// Hardware addresses.
        pub mac: MacPosture,
        /// The operating system.
        pub os: OsPosture,
        /// Processes.
        pub processes: Vec<ProcessPosture>,
    }
}

detail! {
    /// The posture data of an API session.
    pub struct ApiSessionPosture {
        /// When it last woke and was unlocked.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub endpoint_state: Option<EndpointState>,
        /// The second factor.
        pub mfa: MfaPosture,
        /// The program.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub sdk_info: Option<SdkInfo>,
    }
}

detail! {
    /// When a device last woke and was unlocked.
    pub struct EndpointState {
        /// Unlocked.
        pub unlocked_at: Timestamp,
        /// Woke.
        pub woken_at: Timestamp,
    }
}

detail! {
    /// The second factor of an API session.
    pub struct MfaPosture {
        /// The API session.
        pub api_session_id: String,
        /// When a code was last given.
        pub passed_at: Timestamp,
        /// Whether a code was given.
        pub passed_mfa: bool,
        /// Whether a code was given since the device was unlocked.
        pub passed_on_unlock: bool,
        /// Whether a code was given since the device woke.
        pub passed_on_wake: bool,
    }
}

detail! {
    /// The Windows domain.
    pub struct DomainPosture {
        /// When the client said so.
        pub last_updated_at: Timestamp,
        /// The check it answered.
        pub posture_check_id: String,
        /// Whether it is too old to count.
        pub timed_out: bool,
        /// The domain.
        pub domain: String,
    }
}

detail! {
    /// Hardware addresses.
    pub struct MacPosture {
        /// When the client said so.
        pub last_updated_at: Timestamp,
        /// The check it answered.
        pub posture_check_id: String,
        /// Whether it is too old to count.
        pub timed_out: bool,
        /// The addresses.
        pub addresses: Vec<String>,
    }
}

detail! {
    /// The operating system.
    pub struct OsPosture {
        /// When the client said so.
        pub last_updated_at: Timestamp,
        /// The check it answered.
        pub posture_check_id: String,
        /// Whether it is too old to count.
        pub timed_out: bool,
        /// The build.
        pub build: String,
        /// Which one.
        pub r#type: String,
        /// The version.
        pub version: String,
    }
}

detail! {
    /// A process.
    pub struct ProcessPosture {
        /// When the client said so.
        pub last_updated_at: Timestamp,
        /// The check it answered.
        pub posture_check_id: String,
        /// Whether it is too old to count.
        pub timed_out: bool,
        /// SHA-512 of its file, hex.
        pub binary_hash: String,
        /// Whether it runs.
        pub is_running: bool,
        /// Signers of its file.
        pub signer_fingerprints: Vec<String>,
    }
}

detail! {
    /// A service that an identity was refused for its posture.
    pub struct FailedServiceRequest {
        /// The API session that asked.
        pub api_session_id: String,
        /// The policies that would have allowed it.
        pub policy_failures: Vec<PolicyFailure>,
        /// The service.
        pub service_id: String,
        /// Its name.
        pub service_name: String,
        /// To dial or to host it.
        pub session_type: DialBind,
        /// When.
        pub when: Timestamp,
    }
}

detail! {
    /// The checks of a policy that failed.
    pub struct PolicyFailure {
        /// They.
        pub checks: Vec<CheckFailure>,
        /// The policy.
        pub policy_id: String,
        /// Its name.
        pub policy_name: String,
    }
}

detail! {
    /// A failed check: the found and the expected value, in the form of its type.
    pub struct CheckFailure {
        /// The found value.
        pub actual_value: Value,
        /// `MFA`: the times it was judged by.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub criteria: Option<MfaCriteria>,
        /// The expected value.
        pub expected_value: Value,
        /// The check.
        pub posture_check_id: String,
        /// Its name.
        pub posture_check_name: String,
        /// Its type.
        pub posture_check_type: String,
        /// `PROCESS_MULTI`: whether all or one of the processes must run.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub semantic: Option<Semantic>,
    }
}

detail! {
    /// The times by which a second factor was judged.
    pub struct MfaCriteria {
        /// When a code was last given.
        pub passed_mfa_at: Timestamp,
        /// Seconds that were left; -1 is for ever.
        pub timeout_remaining_seconds: i64,
        /// Seconds that a code lasts; -1 is for ever.
        pub timeout_seconds: i64,
        /// When the device was last unlocked.
        pub unlocked_at: Timestamp,
        /// When the device last woke.
        pub woken_at: Timestamp,
    }
}

detail! {
    /// The state of a second factor, found or expected.
    pub struct MfaValues {
        /// A code was given.
        pub passed_mfa: bool,
        /// Whether a code was given since the device was unlocked.
        pub passed_on_unlock: bool,
        /// Whether a code was given since the device woke.
        pub passed_on_wake: bool,
        /// It is too old.
        pub timed_out: bool,
    }
}

detail! {
    /// The operating system that was found.
    pub struct OsFound {
        /// Which one.
        pub r#type: String,
        /// Its version.
        pub version: String,
    }
}

detail! {
    /// A process that was found, or was not.
    pub struct ProcessFound {
        /// SHA-512 of its file, hex.
        pub hash: String,
        /// Whether it runs.
        pub is_running: bool,
        /// On which operating system.
        pub os_type: String,
        /// Path of its file.
        pub path: String,
        /// Signers of its file.
        pub signer_fingerprints: Vec<String>,
    }
}

/// Operating systems that were wanted.
pub type OsWanted = Vec<OperatingSystemDetail>;
