//! Services (docs/protocol/management-api.md 7.2; docs/protocol/auth.md 17.6).

use std::collections::BTreeMap;

use crate::body::{Body, FieldType};
use crate::entity::{DialBind, detail};
use crate::json::{JsonMap, Tags};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, DELETE_STATUSES, Operation, create, delete, detail as get, list, patch, replace,
};
use crate::permission::{Action, Subject};
use crate::resource::edge_router::EdgeRouterCommon;
use crate::timestamp::Timestamp;

/// The collection in paths and references.
pub const COLLECTION: &str = "services";
/// How terminators are chosen when a service does not say.
pub const DEFAULT_STRATEGY: &str = "smartrouting";
/// How terminators can be chosen.
pub const STRATEGIES: &[&str] = &[DEFAULT_STRATEGY, "weighted", "random", "sticky"];
/// The word that means all config types.
pub const ALL_CONFIG_TYPES: &str = "all";

const READ: Access = Access::Permission(Subject::Service, Action::Read);
const UPDATE: Access = Access::Permission(Subject::Service, Action::Update);
const AUTH: Access = Access::Authenticated;

const fn read(subject: Subject) -> Access {
    Access::Permission(subject, Action::Read)
}

const QUERY: &[&str] = &["configTypes", "roleFilter", "roleSemantic", "asIdentity"];

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listServices", "/services", READ, "serviceDetail").query(QUERY),
    create::<ServiceBody>(
        "createService",
        "/services",
        Access::Permission(Subject::Service, Action::Create),
    ),
    get("detailService", "/services/{id}", READ, "serviceDetail"),
    replace::<ServiceBody>("updateService", "/services/{id}", UPDATE),
    patch::<ServiceBody>("patchService", "/services/{id}", UPDATE),
    delete("deleteService", "/services/{id}", Access::Permission(Subject::Service, Action::Delete))
        .statuses(DELETE_STATUSES),
    list("listServiceConfig", "/services/{id}/configs", read(Subject::Config), "configDetail"),
    list(
        "listServiceEdgeRouters",
        "/services/{id}/edge-routers",
        read(Subject::Router),
        "edgeRouterDetail",
    ),
    list(
        "listServiceIdentities",
        "/services/{id}/identities",
        read(Subject::Identity),
        "identityDetail",
    )
    .query(&["policyType"]),
    list(
        "listServiceServiceEdgeRouterPolicies",
        "/services/{id}/service-edge-router-policies",
        read(Subject::ServiceEdgeRouterPolicy),
        "serviceEdgeRouterPolicyDetail",
    ),
    list(
        "listServiceServicePolicies",
        "/services/{id}/service-policies",
        read(Subject::ServicePolicy),
        "servicePolicyDetail",
    ),
    list(
        "listServiceTerminators",
        "/services/{id}/terminators",
        read(Subject::Terminator),
        "terminatorDetail",
    ),
];

/// Operations of the client API.
pub const CLIENT: &[Operation] = &[
    list("listServices", "/services", AUTH, "serviceDetail").query(&[
        "configTypes",
        "roleFilter",
        "roleSemantic",
    ]),
    get("detailService", "/services/{id}", AUTH, "serviceDetail"),
    get("listServiceEdgeRouters", "/services/{id}/edge-routers", AUTH, "serviceEdgeRouters")
        .statuses(&[200, 400, 401, 404, 429]),
    list("listServiceTerminators", "/services/{id}/terminators", AUTH, "terminatorClientDetail"),
    replace::<ServiceBody>("updateService", "/services/{id}", AUTH),
    patch::<ServiceBody>("patchService", "/services/{id}", AUTH),
    delete("deleteService", "/services/{id}", AUTH).statuses(DELETE_STATUSES),
];

/// Operations of the client API that are described and were never implemented: they answer 501
/// (docs/protocol/management-api.md 1).
pub const NEVER_BUILT: &[&str] = &["updateService", "patchService", "deleteService"];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "service",
    plural: COLLECTION,
    aliases: &["svc", "svcs"],
    about: "something that identities host and dial",
    operations: MANAGEMENT,
    fields: ServiceBody::FIELDS,
    links: &["service-edge-router-policies", "service-policies", "terminators", "configs"],
    role_attributes: Some("/service-role-attributes"),
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "ENCRYPTION", pointer: "/encryptionRequired" },
        Column { title: "STRATEGY", pointer: "/terminatorStrategy" },
        Column { title: "ATTRIBUTES", pointer: "/roleAttributes" },
    ],
};

members! {
    /// The members of a service that callers set.
    body ServiceBody;
    /// A service.
    detail ServiceDetail with Base;

    /// Data of the configs asked for, by name of the config type.
    Shown config: BTreeMap<String, JsonMap>;
    /// Configs, one per type.
    Optional configs: Vec<String> => "configs", shown "Ids of its configs.";
    /// Whether both ends must encrypt end to end.
    Create encryption_required: bool, shown;
    /// Circuits idle for longer are ended; 0 is never.
    Optional max_idle_time_millis: i64 as FieldType::Integer { min: 0, max: i64::MAX },
        shown "Circuits idle for longer are ended.";
    /// The name; unique among services.
    Both name: String, shown "The name.";
    /// The caller's permissions for it; never empty.
    Shown permissions: Vec<DialBind>;
    /// The posture checks of each policy, for the caller.
    Shown posture_queries: Vec<PostureQueries>;
    /// Attributes that policies select by.
    Optional role_attributes: Vec<String>, shown;
    /// Labels.
    Optional tags: Tags;
    /// How a terminator is chosen: smartrouting, weighted, random or sticky.
    Optional terminator_strategy: String as FieldType::Choice(STRATEGIES),
        shown "How a terminator is chosen.";
}

detail! {
    /// The posture checks of one policy.
    pub struct PostureQueries {
        /// Whether all of them pass.
        pub is_passing: bool,
        /// The policy.
        pub policy_id: String,
        /// The permission that the policy grants.
        pub policy_type: DialBind,
        /// One for each check.
        pub posture_queries: Vec<PostureQuery>,
    }
}

impl PostureQueries {
    /// The entry that means "no posture checks" (docs/protocol/management-api.md 7.2).
    #[must_use]
    pub fn none(policy_type: DialBind) -> Self {
        let word = policy_type.as_str().to_lowercase();
        Self {
            is_passing: true,
            policy_id: format!("dummy {word} policy: no posture checks defined"),
            policy_type,
            posture_queries: Vec::new(),
        }
    }
}

detail! {
    /// One posture check.
    pub struct PostureQuery with Base {
        /// Whether it passes.
        pub is_passing: bool,
        /// The process it looks for.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub process: Option<PostureQueryProcess>,
        /// The processes it looks for.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub processes: Vec<PostureQueryProcess>,
        /// Seconds to pass MFA again after waking or unlocking.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub prompt_grace_period_seconds: Option<i64>,
        /// MFA is asked again after unlocking.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub prompt_on_unlock: Option<bool>,
        /// MFA is asked again after waking.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub prompt_on_wake: Option<bool>,
        /// The type of the check.
        pub query_type: String,
        /// Seconds it holds; -1 is for ever.
        pub timeout: i64,
        /// When it no longer holds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout_at: Option<Timestamp>,
        /// Seconds it still holds.
        pub timeout_remaining: i64,
    }
}

detail! {
    /// A process that a posture check looks for.
    pub struct PostureQueryProcess {
        /// Operating system.
        pub os_type: String,
        /// Path of the program.
        pub path: String,
    }
}

detail! {
    /// The edge routers over which the caller may use a service.
    pub struct ServiceEdgeRouters {
        /// They.
        pub edge_routers: Vec<EdgeRouterCommon>,
    }
}
