//! Service edge router policies: which edge routers may carry which services
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
pub const COLLECTION: &str = "service-edge-router-policies";

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::SERVICE_EDGE_ROUTER_POLICIES.list("listServiceEdgeRouterPolicies"),
    collection::SERVICE_EDGE_ROUTER_POLICIES
        .create::<ServiceEdgeRouterPolicyBody>("createServiceEdgeRouterPolicy"),
    collection::SERVICE_EDGE_ROUTER_POLICIES.get("detailServiceEdgeRouterPolicy"),
    collection::SERVICE_EDGE_ROUTER_POLICIES
        .replace::<ServiceEdgeRouterPolicyBody>("updateServiceEdgeRouterPolicy"),
    collection::SERVICE_EDGE_ROUTER_POLICIES
        .patch::<ServiceEdgeRouterPolicyBody>("patchServiceEdgeRouterPolicy"),
    collection::SERVICE_EDGE_ROUTER_POLICIES
        .delete("deleteServiceEdgeRouterPolicy")
        .statuses(DELETE_STATUSES),
    collection::EDGE_ROUTERS.nested(
        "listServiceEdgeRouterPolicyEdgeRouters",
        "/service-edge-router-policies/{id}/edge-routers",
    ),
    collection::SERVICES.nested(
        "listServiceEdgeRouterPolicyServices",
        "/service-edge-router-policies/{id}/services",
    ),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "service-edge-router-policy",
    plural: COLLECTION,
    aliases: &["serp", "serps"],
    about: "which edge routers may carry which services",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: ServiceEdgeRouterPolicyBody::FIELDS,
    links: &["edge-routers", "services"],
    roles: &[
        RoleField {
            field: "edgeRouterRoles",
            display: "edgeRouterRolesDisplay",
            selects: "edge-routers",
        },
        RoleField { field: "serviceRoles", display: "serviceRolesDisplay", selects: "services" },
    ],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "SEMANTIC", pointer: "/semantic" },
        Column { title: "SERVICES", pointer: "/serviceRolesDisplay" },
        Column { title: "EDGE ROUTERS", pointer: "/edgeRouterRolesDisplay" },
    ],
    ..Kind::PLAIN
};

members! {
    /// The members of a service edge router policy that callers set.
    body ServiceEdgeRouterPolicyBody;
    /// A service edge router policy: the edge routers over which services go.
    detail ServiceEdgeRouterPolicyDetail with Base;

    /// The roles of edge routers that the policy selects: `#attribute`, `@id` or `#all`.
    Optional edge_router_roles: Vec<String>,
        shown "The roles of edge routers that the policy selects; null if there are none." as ListOrNull<String>;
    /// The roles of edge routers, with names in place of ids.
    Shown edge_router_roles_display: Vec<NamedRole>;
    /// The name of the policy; unique among service edge router policies.
    Both name: String, shown "The name of the policy.";
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
}
