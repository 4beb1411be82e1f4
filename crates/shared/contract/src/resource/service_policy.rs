//! Service policies: which identities may dial or host which services
//! (docs/protocol/management-api.md 7.4).

use crate::body::{Body, FieldType};
use crate::collection;
use crate::entity::{DialBind, NamedRole, Semantic};
use crate::json::{ListOrNull, Tags};
use crate::kind::{Column, Kind, RoleField};
use crate::members::members;
use crate::operation::{DELETE_STATUSES, Operation};
use crate::paths::Api;

/// The collection in paths and references.
pub const COLLECTION: &str = "service-policies";

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::SERVICE_POLICIES.list("listServicePolicies"),
    collection::SERVICE_POLICIES.create::<ServicePolicyBody>("createServicePolicy"),
    collection::SERVICE_POLICIES.get("detailServicePolicy"),
    collection::SERVICE_POLICIES.replace::<ServicePolicyBody>("updateServicePolicy"),
    collection::SERVICE_POLICIES.patch::<ServicePolicyBody>("patchServicePolicy"),
    collection::SERVICE_POLICIES.delete("deleteServicePolicy").statuses(DELETE_STATUSES),
    collection::IDENTITIES
        .list_at("listServicePolicyIdentities", "/service-policies/{id}/identities"),
    collection::POSTURE_CHECKS
        .list_at("listServicePolicyPostureChecks", "/service-policies/{id}/posture-checks"),
    collection::SERVICES.list_at("listServicePolicyServices", "/service-policies/{id}/services"),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "service-policy",
    plural: COLLECTION,
    aliases: &["sp", "sps"],
    about: "which identities may dial or host which services",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: ServicePolicyBody::FIELDS,
    links: &["services", "identities", "posture-checks"],
    roles: &[
        RoleField {
            field: "identityRoles",
            display: "identityRolesDisplay",
            selects: "identities",
        },
        RoleField { field: "serviceRoles", display: "serviceRolesDisplay", selects: "services" },
        RoleField {
            field: "postureCheckRoles",
            display: "postureCheckRolesDisplay",
            selects: "posture-checks",
        },
    ],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "TYPE", pointer: "/type" },
        Column { title: "SEMANTIC", pointer: "/semantic" },
        Column { title: "SERVICES", pointer: "/serviceRolesDisplay" },
        Column { title: "IDENTITIES", pointer: "/identityRolesDisplay" },
    ],
    ..Kind::PLAIN
};

members! {
    /// The members of a service policy that callers set.
    body ServicePolicyBody;
    /// A service policy: the services that identities may dial or host.
    detail ServicePolicyDetail with Base;

    /// The roles of identities that the policy selects: `#attribute`, `@id` or `#all`.
    Optional identity_roles: Vec<String>,
        shown "The roles of identities that the policy selects; null if there are none." as ListOrNull<String>;
    /// The roles of identities, with names in place of ids.
    Shown identity_roles_display: Vec<NamedRole>;
    /// The name of the policy; unique among service policies.
    Both name: String, shown "The name of the policy.";
    /// The roles of posture checks that a device must pass.
    Optional posture_check_roles: Vec<String>,
        shown "The roles of posture checks that a device must pass; null if there are none."
        as ListOrNull<String>;
    /// The roles of posture checks, with names in place of ids.
    Shown posture_check_roles_display: Vec<NamedRole>;
    /// Whether an entity needs all attributes of its side or one of them: AllOf or AnyOf.
    Both semantic: Semantic,
        shown "Whether an entity needs all attributes of its side or one of them.";
    /// The roles of services that the policy selects: `#attribute`, `@id` or `#all`.
    Optional service_roles: Vec<String>,
        shown "The roles of services that the policy selects; null if there are none." as ListOrNull<String>;
    /// The roles of services, with names in place of ids.
    Shown service_roles_display: Vec<NamedRole>;
    /// Labels of the policy.
    Optional tags: Tags;
    /// The permission that the policy gives: Dial or Bind.
    Both "type" policy_type: DialBind as FieldType::Choice(DialBind::GRANTED);
    /// The permission that the policy gives.
    Shown r#type: DialBind;
}
