//! Edge router policies: which identities may connect to which edge routers
//! (docs/protocol/management-api.md 7.4).

use crate::body::Body;
use crate::collection;
use crate::entity::{NamedRole, Semantic};
use crate::json::{ListOrNull, Tags};
use crate::kind::{Column, Kind, RoleField};
use crate::members::members;
use crate::operation::{DELETE_STATUSES, Operation};
use crate::paths::Api;

/// The collection in paths and references.
pub const COLLECTION: &str = "edge-router-policies";

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::EDGE_ROUTER_POLICIES.list("listEdgeRouterPolicies"),
    collection::EDGE_ROUTER_POLICIES.create::<EdgeRouterPolicyBody>("createEdgeRouterPolicy"),
    collection::EDGE_ROUTER_POLICIES.get("detailEdgeRouterPolicy"),
    collection::EDGE_ROUTER_POLICIES.replace::<EdgeRouterPolicyBody>("updateEdgeRouterPolicy"),
    collection::EDGE_ROUTER_POLICIES.patch::<EdgeRouterPolicyBody>("patchEdgeRouterPolicy"),
    collection::EDGE_ROUTER_POLICIES.delete("deleteEdgeRouterPolicy").statuses(DELETE_STATUSES),
    collection::EDGE_ROUTERS
        .nested("listEdgeRouterPolicyEdgeRouters", "/edge-router-policies/{id}/edge-routers"),
    collection::IDENTITIES
        .nested("listEdgeRouterPolicyIdentities", "/edge-router-policies/{id}/identities"),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "edge-router-policy",
    plural: COLLECTION,
    aliases: &["erp", "erps"],
    about: "which identities may connect to which edge routers",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: EdgeRouterPolicyBody::FIELDS,
    links: &["edge-routers", "identities"],
    roles: &[
        RoleField {
            field: "edgeRouterRoles",
            display: "edgeRouterRolesDisplay",
            selects: "edge-routers",
        },
        RoleField {
            field: "identityRoles",
            display: "identityRolesDisplay",
            selects: "identities",
        },
    ],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "SEMANTIC", pointer: "/semantic" },
        Column { title: "EDGE ROUTERS", pointer: "/edgeRouterRolesDisplay" },
        Column { title: "IDENTITIES", pointer: "/identityRolesDisplay" },
    ],
    ..Kind::PLAIN
};

members! {
    /// The members of an edge router policy that callers set.
    body EdgeRouterPolicyBody;
    /// An edge router policy: the edge routers that identities may use.
    detail EdgeRouterPolicyDetail with Base;

    /// The roles of edge routers that the policy selects: `#attribute`, `@id` or `#all`.
    Optional edge_router_roles: Vec<String>,
        shown "The roles of edge routers that the policy selects; null if there are none." as ListOrNull<String>;
    /// The roles of edge routers, with names in place of ids.
    Shown edge_router_roles_display: Vec<NamedRole>;
    /// The roles of identities that the policy selects: `#attribute`, `@id` or `#all`.
    Optional identity_roles: Vec<String>,
        shown "The roles of identities that the policy selects; null if there are none." as ListOrNull<String>;
    /// The roles of identities, with names in place of ids.
    Shown identity_roles_display: Vec<NamedRole>;
    /// Whether the policy was created with a router and is deleted with it. Such a policy cannot be
    /// changed.
    Shown is_system: bool;
    /// The name of the policy; unique among edge router policies.
    Both name: String, shown "The name of the policy.";
    /// Whether an entity needs all attributes of its side or one of them: AllOf or AnyOf.
    Both semantic: Semantic,
        shown "Whether an entity needs all attributes of its side or one of them.";
    /// Labels of the policy.
    Optional tags: Tags;
}
