//! Edge routers (docs/protocol/management-api.md 7.5; docs/protocol/auth.md 17.5).

use std::collections::BTreeMap;

use crate::body::Body;
use crate::collection;
use crate::entity::detail;
use crate::json::{JsonMap, ListOrNull, Tags};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{Access, BY_ROLE, DELETE_STATUSES, Operation, action, list};
use crate::paths::Api;
use crate::permission::{Action, Subject};
use crate::resource::identity::Interface;
use crate::timestamp::Timestamp;

/// The collection in paths and references.
pub const COLLECTION: &str = "edge-routers";
/// The collection that the references of terminators to their routers name.
pub const ROUTER_COLLECTION: &str = "transit-routers";

const UPDATE: Access = Access::Permission(Subject::Router, Action::Update);

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::EDGE_ROUTERS.list("listEdgeRouters").query(BY_ROLE),
    collection::EDGE_ROUTERS.create::<EdgeRouterBody>("createEdgeRouter"),
    collection::EDGE_ROUTERS.get("detailEdgeRouter"),
    collection::EDGE_ROUTERS.replace::<EdgeRouterBody>("updateEdgeRouter"),
    collection::EDGE_ROUTERS.patch::<EdgeRouterBody>("patchEdgeRouter"),
    collection::EDGE_ROUTERS.delete("deleteEdgeRouter").statuses(DELETE_STATUSES),
    collection::EDGE_ROUTER_POLICIES
        .nested("listEdgeRouterEdgeRouterPolicies", "/edge-routers/{id}/edge-router-policies"),
    collection::IDENTITIES.nested("listEdgeRouterIdentities", "/edge-routers/{id}/identities"),
    action("reEnrollEdgeRouter", "/edge-routers/{id}/re-enroll", UPDATE),
    collection::SERVICE_EDGE_ROUTER_POLICIES.nested(
        "listEdgeRouterServiceEdgeRouterPolicies",
        "/edge-routers/{id}/service-edge-router-policies",
    ),
    collection::SERVICE_POLICIES
        .nested("listEdgeRouterServicePolicies", "/edge-routers/{id}/service-policies"),
    collection::SERVICES.nested("listEdgeRouterServices", "/edge-routers/{id}/services"),
];

/// Operations of the client API.
pub const CLIENT: &[Operation] = &[list(
    "getCurrentIdentityEdgeRouters",
    "/current-identity/edge-routers",
    Access::Authenticated,
    "currentIdentityEdgeRouterDetail",
)
.statuses(&[200, 401, 429, 503])];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "edge-router",
    plural: COLLECTION,
    aliases: &["er", "ers", "router", "routers"],
    about: "a router that applications connect to",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: EdgeRouterBody::FIELDS,
    links: &["edge-router-policies"],
    role_attributes: Some("/edge-router-role-attributes"),
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "ONLINE", pointer: "/isOnline" },
        Column { title: "VERIFIED", pointer: "/isVerified" },
        Column { title: "TUNNELER", pointer: "/isTunnelerEnabled" },
        Column { title: "COST", pointer: "/cost" },
        Column { title: "DISABLED", pointer: "/disabled" },
        Column { title: "ATTRIBUTES", pointer: "/roleAttributes" },
    ],
    ..Kind::PLAIN
};

members! {
    /// The members of an edge router that callers set.
    body EdgeRouterBody;
    /// An edge router: a router that applications connect to.
    detail EdgeRouterDetail with Base;

    /// Data for applications, which the identity of the router gets, as a JSON object.
    Optional app_data: JsonMap, shown;
    /// The names of the router's capabilities; null while it is not connected.
    Shown capabilities: ListOrNull<String>;
    /// The certificate of the router and its chain, as PEM; null until the router is enrolled.
    Shown cert_pem: Option<String>;
    /// The configs of the router, at most one per config type.
    Optional configs: Vec<String> => "configs",
        shown "The ids of the router's configs; null if there are none." as ListOrNull<String>;
    /// The cost that the router adds to a path, 0 by default.
    Optional cost: u16, shown;
    /// The addresses at which controllers can reach the router, such as `tls:host:port`, each with
    /// the names of its groups; without names the group is `default`.
    Optional ctrl_chan_listeners: BTreeMap<String, Vec<String>>, shown;
    /// Whether the router is forbidden to connect.
    Optional disabled: bool, shown;
    /// The time at which the open enrollment was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_created_at: Option<Timestamp>;
    /// The time at which the open enrollment expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_expires_at: Option<Timestamp>;
    /// The JWT of the open enrollment, with which the router enrolls.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_jwt: Option<String>;
    /// The one-time token in the enrollment JWT.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_token: Option<String>;
    /// The SHA-1 of the router's certificate, in hex; null until the router is enrolled.
    Shown fingerprint: Option<String>;
    /// The host at which SDKs reach the router; empty while it is not connected.
    Shown hostname: String;
    /// The network interfaces of the router that it has reported; null if there are none.
    Shown interfaces: ListOrNull<Interface>;
    /// Whether the router is connected to a controller.
    Shown is_online: bool;
    /// Whether the router dials and hosts services itself, with an identity of its own.
    Optional is_tunneler_enabled: bool, shown "Whether the router dials and hosts services itself.";
    /// Whether the router is enrolled.
    Shown is_verified: bool;
    /// The name of the router; unique among routers.
    Both name: String, shown "The name of the router.";
    /// Whether paths may only begin and end at the router, instead of leading through it.
    Optional no_traversal: bool, shown;
    /// The role attributes of the router, by which policies select it.
    Optional role_attributes: Vec<String>,
        shown "The role attributes of the router; null if there are none." as ListOrNull<String>;
    /// The addresses at which SDKs reach the router, by protocol: `tls` to `tls://host:port`.
    Shown supported_protocols: BTreeMap<String, String>;
    /// The state in which the router has the data model: `SYNC_NEW`, `SYNC_IN_PROGRESS`,
    /// `SYNC_DONE`, `SYNC_DISCONNECTED`, or `SYNC_UNKNOWN` if it has not connected since the
    /// controller started.
    Shown sync_status: String;
    /// Labels of the router.
    Optional tags: Tags;
    /// A new certificate that the router has not confirmed yet, as PEM.
    Shown unverified_cert_pem: Option<String>;
    /// The SHA-1 of the certificate that is not confirmed yet, in hex.
    Shown unverified_fingerprint: Option<String>;
    /// The program and the machine of the router; left out while it is not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown version_info: Option<VersionInfo>;
}

detail! {
    /// The members of an edge router that every caller may see.
    pub struct EdgeRouterCommon {
        /// Data for applications, which the identity of the router gets, as a JSON object.
        #[serde(skip_serializing_if = "JsonMap::is_empty")]
        pub app_data: JsonMap,
        /// The names of the router's capabilities; null while it is not connected.
        pub capabilities: ListOrNull<String>,
        /// The cost that the router adds to a path.
        pub cost: u16,
        /// Whether the router is forbidden to connect.
        pub disabled: bool,
        /// The host at which SDKs reach the router.
        pub hostname: String,
        /// Whether the router is connected to a controller.
        pub is_online: bool,
        /// The name of the router.
        pub name: String,
        /// Whether paths may only begin and end at the router, instead of leading through it.
        pub no_traversal: bool,
        /// The addresses at which SDKs reach the router, by protocol: `tls` to `tls://host:port`.
        pub supported_protocols: BTreeMap<String, String>,
        /// The state in which the router has the data model: `SYNC_NEW`, `SYNC_IN_PROGRESS`,
        /// `SYNC_DONE`, `SYNC_DISCONNECTED`, or `SYNC_UNKNOWN` if it has not connected since the
        /// controller started.
        pub sync_status: String,
        /// The version of the router; left out while the router is not connected.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub version: String,
    }
}

/// Values of `syncStatus`.
pub mod sync_status {
    /// The router has just connected.
    pub const NEW: &str = "SYNC_NEW";
    /// The router has the whole data model.
    pub const DONE: &str = "SYNC_DONE";
    /// The router has not connected since the controller started.
    pub const UNKNOWN: &str = "SYNC_UNKNOWN";
    /// The router was connected, and is not now.
    pub const DISCONNECTED: &str = "SYNC_DISCONNECTED";
    /// The controller is sending the data model to the router.
    pub const IN_PROGRESS: &str = "SYNC_IN_PROGRESS";
    /// The controller could not bring the data model of the router up to date. weft sends no such
    /// state.
    pub const ERROR: &str = "SYNC_ERROR";
}

detail! {
    /// The program and the machine of a router.
    pub struct VersionInfo {
        /// The processor architecture of the machine, such as `amd64`.
        pub arch: String,
        /// The time at which the program was built.
        pub build_date: String,
        /// The operating system of the machine, such as `linux`.
        pub os: String,
        /// The revision of the program's source.
        pub revision: String,
        /// The version of the program.
        pub version: String,
    }
}

detail! {
    /// An edge router that the caller may connect to.
    pub struct OwnEdgeRouterDetail with Base including router: EdgeRouterCommon {}
}
