//! Controllers of the network (docs/protocol/auth.md 17.9).

use std::collections::BTreeMap;

use crate::entity::detail;
use crate::operation::{Access, Operation, list};
use crate::permission::{Action, Subject};
use crate::timestamp::Timestamp;

/// The collection in paths and references.
pub const COLLECTION: &str = "controllers";

const fn all(access: Access) -> Operation {
    list("listControllers", "/controllers", access, "controllerDetail")
        .statuses(&[200, 400, 401, 429])
}

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[all(Access::Permission(Subject::Controllers, Action::Read))];

/// Operations of the client API: SDKs ask once they are logged in.
pub const CLIENT: &[Operation] = &[all(Access::Authenticated)];

detail! {
    /// A controller of the network.
    pub struct ControllerDetail with Base {
        /// The addresses of the APIs that the controller serves, by the name of the API's binding.
        pub api_addresses: BTreeMap<String, Vec<ApiAddress>>,
        /// The certificate of the controller, as PEM.
        pub cert_pem: String,
        /// The address at which routers reach the controller; clients get null.
        pub ctrl_address: Option<String>,
        /// The SHA-1 of the controller's certificate, in hex.
        pub fingerprint: String,
        /// Whether the controller is connected to the one that answers, or is the one that answers.
        pub is_online: bool,
        /// Whether the controller shall lead the cluster if it can.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub is_preferred_leader: Option<bool>,
        /// The time at which the controller last joined the network.
        pub last_joined_at: Timestamp,
        /// The name of the controller.
        pub name: String,
    }
}

detail! {
    /// The address of a version of an API.
    pub struct ApiAddress {
        /// The whole URL.
        pub url: String,
        /// The version of the API: `v1`.
        pub version: String,
    }
}
