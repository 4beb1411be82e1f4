//! Services (docs/protocol/management-api.md 7.2; docs/protocol/auth.md 17.6).

use std::collections::BTreeMap;

use crate::body::{Body, FieldType};
use crate::collection;
use crate::entity::{DialBind, detail};
use crate::json::{JsonMap, ListOrNull, Tags};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, DELETE_STATUSES, Operation, delete, detail as get, list, patch, replace,
};
use crate::paths::Api;
use crate::resource::edge_router::EdgeRouterCommon;
use crate::timestamp::Timestamp;
use crate::word::Word as _;

/// The collection in paths and references.
pub const COLLECTION: &str = "services";
/// The strategy of a service that names none.
pub const DEFAULT_STRATEGY: &str = "smartrouting";
/// The strategies that choose a terminator for a dial.
pub const STRATEGIES: &[&str] = &[DEFAULT_STRATEGY, "weighted", "random", "sticky"];
/// The word that means all config types.
pub const ALL_CONFIG_TYPES: &str = "all";

const AUTH: Access = Access::Authenticated;

const QUERY: &[&str] = &["configTypes", "roleFilter", "roleSemantic", "asIdentity"];

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::SERVICES.list("listServices").query(QUERY),
    collection::SERVICES.create::<ServiceBody>("createService"),
    collection::SERVICES.get("detailService"),
    collection::SERVICES.replace::<ServiceBody>("updateService"),
    collection::SERVICES.patch::<ServiceBody>("patchService"),
    collection::SERVICES.delete("deleteService").statuses(DELETE_STATUSES),
    collection::CONFIGS.list_at("listServiceConfig", "/services/{id}/configs"),
    collection::EDGE_ROUTERS.list_at("listServiceEdgeRouters", "/services/{id}/edge-routers"),
    collection::IDENTITIES
        .list_at("listServiceIdentities", "/services/{id}/identities")
        .query(&["policyType"]),
    collection::SERVICE_EDGE_ROUTER_POLICIES.list_at(
        "listServiceServiceEdgeRouterPolicies",
        "/services/{id}/service-edge-router-policies",
    ),
    collection::SERVICE_POLICIES
        .list_at("listServiceServicePolicies", "/services/{id}/service-policies"),
    collection::TERMINATORS.list_at("listServiceTerminators", "/services/{id}/terminators"),
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

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "service",
    plural: COLLECTION,
    aliases: &["svc", "svcs"],
    about: "something that identities host and dial",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: ServiceBody::FIELDS,
    links: &["service-edge-router-policies", "service-policies", "terminators", "configs"],
    role_attributes: Some("/service-role-attributes"),
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "ENCRYPTION", pointer: "/encryptionRequired" },
        Column { title: "STRATEGY", pointer: "/terminatorStrategy" },
        Column { title: "ATTRIBUTES", pointer: "/roleAttributes" },
    ],
    ..Kind::PLAIN
};

members! {
    /// The members of a service that callers set.
    body ServiceBody;
    /// A service: something that can be dialed by its name.
    detail ServiceDetail with Base;

    /// Whether both ends of each connection must prove who they are: clients whose login named no
    /// key of an end can neither dial nor host the service. Needs encryptionRequired. A replace
    /// without this member leaves it as it is.
    Optional authenticated_ends: bool, shown "Whether both ends of each connection must prove who they are.";
    /// The data of the configs that the caller asked for, by the name of the config type.
    Shown config: BTreeMap<String, JsonMap>;
    /// The configs of the service, at most one per config type.
    Optional configs: Vec<String> => "configs",
        shown "The ids of the service's configs; null if there are none." as ListOrNull<String>;
    /// Whether dialer and host must encrypt their data from end to end.
    Create encryption_required: bool, shown;
    /// The time after which an idle circuit is ended, in milliseconds; 0 never ends it.
    Optional max_idle_time_millis: i64 as FieldType::Integer { min: 0, max: i64::MAX },
        shown "Circuits idle for longer are ended.";
    /// The name of the service; unique among services.
    Both name: String, shown "The name of the service.";
    /// The caller's permissions for the service; `Invalid` if there are none.
    Shown permissions: Vec<DialBind>;
    /// The posture checks that the caller must pass, by service policy.
    Shown posture_queries: Vec<PostureQueries>;
    /// The role attributes of the service, by which policies select it.
    Optional role_attributes: Vec<String>,
        shown "The role attributes of the service; null if there are none." as ListOrNull<String>;
    /// Labels of the service.
    Optional tags: Tags;
    /// The strategy that chooses a terminator for a dial: smartrouting (the default), weighted,
    /// random or sticky.
    Optional terminator_strategy: String as FieldType::Choice(STRATEGIES),
        shown "The strategy that chooses a terminator for a dial.";
}

detail! {
    /// The posture checks of one service policy.
    pub struct PostureQueries {
        /// Whether the caller passes all of the checks.
        pub is_passing: bool,
        /// The id of the service policy.
        pub policy_id: String,
        /// The permission that the service policy gives.
        pub policy_type: DialBind,
        /// The posture checks of the service policy.
        pub posture_queries: Vec<PostureQuery>,
    }
}

impl PostureQueries {
    /// The entry of a permission that no posture check limits (docs/protocol/management-api.md
    /// 7.2).
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
    /// A posture check that the caller has to pass.
    pub struct PostureQuery with Base {
        /// Whether the caller passes the check.
        pub is_passing: bool,
        /// The process that the check looks for.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub process: Option<PostureQueryProcess>,
        /// The processes that the check looks for.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub processes: Vec<PostureQueryProcess>,
        /// The time to give a new code after the device woke or was unlocked, in seconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub prompt_grace_period_seconds: Option<i64>,
        /// Whether a new code is needed after the device was unlocked.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub prompt_on_unlock: Option<bool>,
        /// Whether a new code is needed after the device woke.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub prompt_on_wake: Option<bool>,
        /// The type of the posture check.
        pub query_type: String,
        /// The time for which the caller passes the check, in seconds; -1 means for ever.
        pub timeout: i64,
        /// The time at which the caller no longer passes the check.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub timeout_at: Option<Timestamp>,
        /// The time for which the caller still passes the check, in seconds; -1 means for ever.
        pub timeout_remaining: i64,
    }
}

detail! {
    /// A process that a posture check looks for.
    pub struct PostureQueryProcess {
        /// The operating system that the process runs on.
        pub os_type: String,
        /// The path of the program's file.
        pub path: String,
    }
}

detail! {
    /// The edge routers over which the caller may use a service.
    pub struct ServiceEdgeRouters {
        /// The edge routers.
        pub edge_routers: Vec<EdgeRouterCommon>,
    }
}
