//! Role attributes in use (protocol: management-api 2.2).

use crate::operation::{Access, Operation, list};
use crate::permission::{Action, Subject};

/// Operations of the management API. Each answers a list of attributes.
pub const MANAGEMENT: &[Operation] = &[
    list(
        "listEdgeRouterRoleAttributes",
        "/edge-router-role-attributes",
        Access::Permission(Subject::Router, Action::Read),
        "string",
    ),
    list(
        "listIdentityRoleAttributes",
        "/identity-role-attributes",
        Access::Permission(Subject::Identity, Action::Read),
        "string",
    ),
    list(
        "listServiceRoleAttributes",
        "/service-role-attributes",
        Access::Permission(Subject::Service, Action::Read),
        "string",
    ),
    list(
        "listPostureCheckRoleAttributes",
        "/posture-check-role-attributes",
        Access::Permission(Subject::PostureCheck, Action::Read),
        "string",
    ),
];
