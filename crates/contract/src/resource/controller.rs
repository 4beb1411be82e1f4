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
    /// A controller.
    pub struct ControllerDetail with Base {
        /// Where its APIs are, by binding.
        pub api_addresses: BTreeMap<String, Vec<ApiAddress>>,
        /// Its certificate, PEM.
        pub cert_pem: String,
        /// Where routers reach it; null towards clients.
        pub ctrl_address: Option<String>,
        /// SHA-1 of the certificate, hex.
        pub fingerprint: String,
        /// Whether it is there.
        pub is_online: bool,
        /// Whether it should lead.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub is_preferred_leader: Option<bool>,
        /// When it last joined.
        pub last_joined_at: Timestamp,
        /// The name.
        pub name: String,
    }
}

detail! {
    /// Where an API is.
    pub struct ApiAddress {
        /// Full address.
        pub url: String,
        /// `v1`.
        pub version: String,
    }
}
