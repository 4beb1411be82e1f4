//! Service edge router policies: which edge routers may carry which services
//! (docs/protocol/management-api.md 7.4).

use crate::body::{Body, body};
use crate::entity::{NamedRole, Semantic, detail};
use crate::json::Tags;
use crate::kind::{Column, Kind, RoleField};
use crate::operation::{
    Access, DELETE_STATUSES, Operation, create, delete, detail as get, list, nested, patch, replace,
};
use crate::permission::{Action, Subject};

/// The collection in paths and references.
pub const COLLECTION: &str = "service-edge-router-policies";

const fn access(action: Action) -> Access {
    Access::Permission(Subject::ServiceEdgeRouterPolicy, action)
}

const ALL: &str = "/service-edge-router-policies";
const ONE: &str = "/service-edge-router-policies/{id}";
const DETAIL: &str = "serviceEdgeRouterPolicyDetail";

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listServiceEdgeRouterPolicies", ALL, access(Action::Read), DETAIL),
    create::<ServiceEdgeRouterPolicyBody>(
        "createServiceEdgeRouterPolicy",
        ALL,
        access(Action::Create),
    ),
    get("detailServiceEdgeRouterPolicy", ONE, access(Action::Read), DETAIL),
    replace::<ServiceEdgeRouterPolicyBody>(
        "updateServiceEdgeRouterPolicy",
        ONE,
        access(Action::Update),
    ),
    patch::<ServiceEdgeRouterPolicyBody>(
        "patchServiceEdgeRouterPolicy",
        ONE,
        access(Action::Update),
    ),
    delete("deleteServiceEdgeRouterPolicy", ONE, access(Action::Delete)).statuses(DELETE_STATUSES),
    nested(
        "listServiceEdgeRouterPolicyEdgeRouters",
        "/service-edge-router-policies/{id}/edge-routers",
        Access::Permission(Subject::Router, Action::Read),
        "edgeRouterDetail",
    ),
    nested(
        "listServiceEdgeRouterPolicyServices",
        "/service-edge-router-policies/{id}/services",
        Access::Permission(Subject::Service, Action::Read),
        "serviceDetail",
    ),
];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "service-edge-router-policy",
    plural: COLLECTION,
    aliases: &["serp", "serps"],
    about: "which edge routers may carry which services",
    operations: MANAGEMENT,
    fields: ServiceEdgeRouterPolicyBody::FIELDS,
    links: &["edge-routers", "services"],
    role_attributes: None,
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
};

body! {
    /// What can be said of a service edge router policy.
    pub struct ServiceEdgeRouterPolicyBody {
        /// Which edge routers: `#attribute`, `@id` or `#all`.
        Optional "edgeRouterRoles" edge_router_roles: Vec<String>,
        /// The name; unique among service edge router policies.
        Both "name" name: String,
        /// How attributes are combined: AllOf or AnyOf.
        Both "semantic" semantic: Semantic,
        /// Which services: `#attribute`, `@id` or `#all`.
        Optional "serviceRoles" service_roles: Vec<String>,
        /// Labels.
        Optional "tags" tags: Tags,
    }
}

detail! {
    /// A service edge router policy.
    pub struct ServiceEdgeRouterPolicyDetail with Base {
        /// Which edge routers.
        pub edge_router_roles: Vec<String>,
        /// The same, by name.
        pub edge_router_roles_display: Vec<NamedRole>,
        /// The name.
        pub name: String,
        /// How attributes are combined.
        pub semantic: Semantic,
        /// Which services.
        pub service_roles: Vec<String>,
        /// The same, by name.
        pub service_roles_display: Vec<NamedRole>,
    }
}
