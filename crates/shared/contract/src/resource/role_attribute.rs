//! Role attributes in use, and their uses (docs/protocol/management-api.md 2.2, 6).

use std::collections::BTreeMap;

use crate::entity::detail;
use crate::operation::{Access, Operation, list};
use crate::permission::{Action, Subject};

const fn in_use(id: &'static str, path: &'static str, subject: Subject) -> Operation {
    list(id, path, Access::Permission(subject, Action::Read), "string")
}

/// Operations of the management API. Each answers a list of attributes.
pub const MANAGEMENT: &[Operation] = &[
    in_use("listEdgeRouterRoleAttributes", "/edge-router-role-attributes", Subject::Router),
    in_use("listIdentityRoleAttributes", "/identity-role-attributes", Subject::Identity),
    in_use("listServiceRoleAttributes", "/service-role-attributes", Subject::Service),
    in_use(
        "listPostureCheckRoleAttributes",
        "/posture-check-role-attributes",
        Subject::PostureCheck,
    ),
];

const fn usage(id: &'static str, path: &'static str, subject: Subject) -> Operation {
    list(id, path, Access::Permission(subject, Action::Read), "roleAttributeUsageDetail")
        .query(&["withIds"])
}

/// Operations of the management API that list the uses of each attribute.
pub const USAGE: &[Operation] = &[
    usage("listEdgeRouterRoleAttributeUsage", "/edge-router-role-attribute-usage", Subject::Router),
    usage("listIdentityRoleAttributeUsage", "/identity-role-attribute-usage", Subject::Identity),
    usage("listServiceRoleAttributeUsage", "/service-role-attribute-usage", Subject::Service),
    usage(
        "listPostureCheckRoleAttributeUsage",
        "/posture-check-role-attribute-usage",
        Subject::PostureCheck,
    ),
];

detail! {
    /// A role attribute, with the entities that have it and the policies that name it.
    pub struct RoleAttributeUsage {
        /// The attribute, without `#`.
        pub role_attribute: String,
        /// The entities that have the attribute and the policies that name it, by kind.
        pub usage: BTreeMap<String, RoleAttributeUsers>,
    }
}

detail! {
    /// The entities of one kind that have or name a role attribute.
    pub struct RoleAttributeUsers {
        /// The number of entities.
        pub count: i64,
        /// The ids of the entities. Only an answer to a request with `withIds` has them.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ids: Option<Vec<String>>,
    }
}
