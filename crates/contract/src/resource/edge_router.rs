//! Edge routers (docs/protocol/management-api.md 7.5; docs/protocol/auth.md 17.5).

use std::collections::BTreeMap;

use crate::body::Body;
use crate::entity::detail;
use crate::json::{JsonMap, Tags};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, BY_ROLE, DELETE_STATUSES, Operation, action, create, delete, detail as get, list,
    nested, patch, replace,
};
use crate::permission::{Action, Subject};
use crate::resource::identity::Interface;
use crate::timestamp::Timestamp;

/// The collection in paths and references.
pub const COLLECTION: &str = "edge-routers";
/// The collection a terminator's reference to its router names.
pub const ROUTER_COLLECTION: &str = "transit-routers";

const READ: Access = Access::Permission(Subject::Router, Action::Read);
const UPDATE: Access = Access::Permission(Subject::Router, Action::Update);

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listEdgeRouters", "/edge-routers", READ, "edgeRouterDetail").query(BY_ROLE),
    create::<EdgeRouterBody>(
        "createEdgeRouter",
        "/edge-routers",
        Access::Permission(Subject::Router, Action::Create),
    ),
    get("detailEdgeRouter", "/edge-routers/{id}", READ, "edgeRouterDetail"),
    replace::<EdgeRouterBody>("updateEdgeRouter", "/edge-routers/{id}", UPDATE),
    patch::<EdgeRouterBody>("patchEdgeRouter", "/edge-routers/{id}", UPDATE),
    delete(
        "deleteEdgeRouter",
        "/edge-routers/{id}",
        Access::Permission(Subject::Router, Action::Delete),
    )
    .statuses(DELETE_STATUSES),
    nested(
        "listEdgeRouterEdgeRouterPolicies",
        "/edge-routers/{id}/edge-router-policies",
        Access::Permission(Subject::EdgeRouterPolicy, Action::Read),
        "edgeRouterPolicyDetail",
    ),
    nested(
        "listEdgeRouterIdentities",
        "/edge-routers/{id}/identities",
        Access::Permission(Subject::Identity, Action::Read),
        "identityDetail",
    ),
    action("reEnrollEdgeRouter", "/edge-routers/{id}/re-enroll", UPDATE),
    nested(
        "listEdgeRouterServiceEdgeRouterPolicies",
        "/edge-routers/{id}/service-edge-router-policies",
        Access::Permission(Subject::ServiceEdgeRouterPolicy, Action::Read),
        "serviceEdgeRouterPolicyDetail",
    ),
    nested(
        "listEdgeRouterServicePolicies",
        "/edge-routers/{id}/service-policies",
        Access::Permission(Subject::ServicePolicy, Action::Read),
        "servicePolicyDetail",
    ),
    nested(
        "listEdgeRouterServices",
        "/edge-routers/{id}/services",
        Access::Permission(Subject::Service, Action::Read),
        "serviceDetail",
    ),
];

/// Operations of the client API.
pub const CLIENT: &[Operation] = &[list(
    "getCurrentIdentityEdgeRouters",
    "/current-identity/edge-routers",
    Access::Authenticated,
    "currentIdentityEdgeRouterDetail",
)
.statuses(&[200, 401, 429, 503])];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "edge-router",
    plural: COLLECTION,
    aliases: &["er", "ers", "router", "routers"],
    about: "a router that applications connect to",
    operations: MANAGEMENT,
    fields: EdgeRouterBody::FIELDS,
    links: &["edge-router-policies"],
    role_attributes: Some("/edge-router-role-attributes"),
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "ONLINE", pointer: "/isOnline" },
        Column { title: "VERIFIED", pointer: "/isVerified" },
        Column { title: "TUNNELER", pointer: "/isTunnelerEnabled" },
        Column { title: "COST", pointer: "/cost" },
        Column { title: "ATTRIBUTES", pointer: "/roleAttributes" },
    ],
};

members! {
    /// What can be said of an edge router.
    body EdgeRouterBody;
    /// An edge router.
    detail EdgeRouterDetail with Base;

    /// Data for the applications of its identity.
    Optional app_data: JsonMap, shown;
    /// Names of what it can do, while connected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    Shown capabilities: Vec<String>;
    /// Its certificate and chain, PEM.
    Shown cert_pem: Option<String>;
    /// Configs for routers, one per type.
    Optional configs: Vec<String> => "configs", shown "Configs for routers.";
    /// Cost of paths through it.
    Optional cost: u16, shown;
    /// Groups by address, of listeners for the control channel.
    Optional ctrl_chan_listeners: BTreeMap<String, Vec<String>>, shown;
    /// Whether it may not connect.
    Optional disabled: bool, shown;
    /// When the outstanding enrollment was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_created_at: Option<Timestamp>;
    /// When the outstanding enrollment ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_expires_at: Option<Timestamp>;
    /// What to give to the router to enroll.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_jwt: Option<String>;
    /// The one-time token in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_token: Option<String>;
    /// SHA-1 of its certificate, hex; null until enrolled.
    Shown fingerprint: Option<String>;
    /// Where it listens for SDKs; empty while it is away.
    Shown hostname: String;
    /// Network interfaces it has told of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    Shown interfaces: Vec<Interface>;
    /// Whether it is connected to a controller.
    Shown is_online: bool;
    /// Whether it dials and hosts services itself, with an identity of its own.
    Optional is_tunneler_enabled: bool, shown "Whether it dials and hosts services itself.";
    /// Whether it is enrolled.
    Shown is_verified: bool;
    /// The name; unique among routers.
    Both name: String, shown "The name.";
    /// Whether paths may not lead through it.
    Optional no_traversal: bool, shown;
    /// Attributes that policies select by.
    Optional role_attributes: Vec<String>, shown;
    /// Where it listens, by protocol.
    Shown supported_protocols: BTreeMap<String, String>;
    /// How far it has the data model.
    Shown sync_status: String;
    /// Labels.
    Optional tags: Tags;
    /// A certificate it has not confirmed yet, PEM.
    Shown unverified_cert_pem: Option<String>;
    /// SHA-1 of that, hex.
    Shown unverified_fingerprint: Option<String>;
    /// What it runs on, while connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown version_info: Option<VersionInfo>;
}

detail! {
    /// What everybody may know of an edge router.
    pub struct EdgeRouterCommon {
        /// Data for the applications of its identity.
        #[serde(skip_serializing_if = "JsonMap::is_empty")]
        pub app_data: JsonMap,
        /// Names of what it can do.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub capabilities: Vec<String>,
        /// Cost of paths through it.
        pub cost: u16,
        /// Whether it may not connect.
        pub disabled: bool,
        /// Where it listens for SDKs.
        pub hostname: String,
        /// Whether it is connected to a controller.
        pub is_online: bool,
        /// The name.
        pub name: String,
        /// Whether paths may not lead through it.
        pub no_traversal: bool,
        /// Where it listens, by protocol: `tls` to `tls://host:port`.
        pub supported_protocols: BTreeMap<String, String>,
        /// How far it has the data model.
        pub sync_status: String,
        /// Its version; towards clients.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub version: String,
    }
}

/// Values of `syncStatus`.
pub mod sync_status {
    /// Just connected.
    pub const NEW: &str = "SYNC_NEW";
    /// Has everything.
    pub const DONE: &str = "SYNC_DONE";
    /// Never seen since the controller started.
    pub const UNKNOWN: &str = "SYNC_UNKNOWN";
    /// Gone.
    pub const DISCONNECTED: &str = "SYNC_DISCONNECTED";
    /// Is being sent the data model.
    pub const IN_PROGRESS: &str = "SYNC_IN_PROGRESS";
    /// Could not be brought up to date.
    pub const ERROR: &str = "SYNC_ERROR";
}

detail! {
    /// What a router runs on.
    pub struct VersionInfo {
        /// Processor.
        pub arch: String,
        /// When it was built.
        pub build_date: String,
        /// Operating system.
        pub os: String,
        /// Revision of its source.
        pub revision: String,
        /// Version.
        pub version: String,
    }
}

detail! {
    /// An edge router that the caller may connect to.
    pub struct OwnEdgeRouterDetail with Base including router: EdgeRouterCommon {}
}
