//! Identities and identity types, and the caller's own identity
//! (docs/protocol/management-api.md 7.1).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::body::{Body, FieldType, Shape, body};
use crate::entity::{DialBind, EntityRef, Precedence, detail, words};
use crate::json::JsonMap;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, BY_ROLE, CHANGE_STATUSES, DELETE_STATUSES, DETAIL_STATUSES, Operation, Request,
    Response, action, create, delete, detail as get, list, nested, patch, replace,
};
use crate::permission::{Action, Subject};
use crate::schema::{HasMembers, HasSchema, Member, Object, Schema};
use crate::timestamp::Timestamp;

/// The collection in paths and references.
pub const COLLECTION: &str = "identities";
/// The collection of identity types.
pub const TYPE_COLLECTION: &str = "identity-types";

const READ: Access = Access::Permission(Subject::Identity, Action::Read);
const UPDATE: Access = Access::Permission(Subject::Identity, Action::Update);

const fn read(subject: Subject) -> Access {
    Access::Permission(subject, Action::Read)
}

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listIdentities", "/identities", READ, "identityDetail").query(BY_ROLE),
    create::<IdentityBody>(
        "createIdentity",
        "/identities",
        Access::Permission(Subject::Identity, Action::Create),
    ),
    get("detailIdentity", "/identities/{id}", READ, "identityDetail"),
    replace::<IdentityBody>("updateIdentity", "/identities/{id}", UPDATE),
    patch::<IdentityBody>("patchIdentity", "/identities/{id}", UPDATE),
    delete(
        "deleteIdentity",
        "/identities/{id}",
        Access::Permission(Subject::Identity, Action::Delete),
    )
    .statuses(DELETE_STATUSES),
    nested(
        "getIdentityAuthenticators",
        "/identities/{id}/authenticators",
        Access::AdminOrReadOnly,
        "authenticatorDetail",
    ),
    action("disableIdentity", "/identities/{id}/disable", UPDATE).takes::<DisableBody>(),
    action("enableIdentity", "/identities/{id}/enable", UPDATE),
    nested(
        "listIdentitysEdgeRouterPolicies",
        "/identities/{id}/edge-router-policies",
        read(Subject::EdgeRouterPolicy),
        "edgeRouterPolicyDetail",
    ),
    nested(
        "listIdentityEdgeRouters",
        "/identities/{id}/edge-routers",
        read(Subject::Router),
        "edgeRouterDetail",
    ),
    nested(
        "getIdentityEnrollments",
        "/identities/{id}/enrollments",
        read(Subject::Enrollment),
        "enrollmentDetail",
    ),
    nested(
        "getIdentityFailedServiceRequests",
        "/identities/{id}/failed-service-requests",
        READ,
        "failedServiceRequest",
    )
    .unpaged(),
    delete("removeIdentityMfa", "/identities/{id}/mfa", UPDATE).statuses(DETAIL_STATUSES),
    get("getIdentityPostureData", "/identities/{id}/posture-data", READ, "postureData"),
    get(
        "getIdentityPolicyAdvice",
        "/identities/{id}/policy-advice/{serviceId}",
        read(Subject::Service),
        "policyAdvice",
    ),
    nested(
        "listIdentitysServiceConfigs",
        "/identities/{id}/service-configs",
        READ,
        "serviceConfigDetail",
    )
    .unpaged(),
    action("associateIdentitysServiceConfigs", "/identities/{id}/service-configs", UPDATE)
        .request(Request::JsonList(ServiceConfigBody::FIELDS))
        .statuses(CHANGE_STATUSES),
    delete("disassociateIdentitysServiceConfigs", "/identities/{id}/service-configs", UPDATE)
        .request(Request::JsonList(ServiceConfigBody::FIELDS)),
    nested(
        "listIdentityServicePolicies",
        "/identities/{id}/service-policies",
        read(Subject::ServicePolicy),
        "servicePolicyDetail",
    ),
    nested(
        "listIdentityServices",
        "/identities/{id}/services",
        read(Subject::Service),
        "serviceDetail",
    )
    .query(&["policyType"]),
    replace::<TraceBody>("updateIdentityTracing", "/identities/{id}/trace", UPDATE)
        .answers(Response::Detail("traceDetail")),
];

/// Identity types.
pub const TYPES: &[Operation] = &[
    list("listIdentityTypes", "/identity-types", Access::Authenticated, "identityTypeDetail"),
    get("detailIdentityType", "/identity-types/{id}", Access::Authenticated, "identityTypeDetail"),
];

/// The caller's own identity, in both APIs.
pub const CURRENT: &[Operation] =
    &[get("getCurrentIdentity", "/current-identity", Access::Authenticated, "identityDetail")
        .answers(Response::Detail("identityDetail"))
        .statuses(&[200, 401])];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "identity",
    plural: COLLECTION,
    aliases: &["id", "ids", "identitys"],
    about: "a person, device or program that may log in",
    operations: MANAGEMENT,
    fields: IdentityBody::FIELDS,
    links: &[
        "edge-router-policies",
        "edge-routers",
        "service-policies",
        "services",
        "posture-data",
        "failed-service-requests",
        "authenticators",
        "enrollments",
        "service-configs",
    ],
    role_attributes: Some("/identity-role-attributes"),
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "TYPE", pointer: "/typeId" },
        Column { title: "ADMIN", pointer: "/isAdmin" },
        Column { title: "ATTRIBUTES", pointer: "/roleAttributes" },
        Column { title: "ONLINE", pointer: "/edgeRouterConnectionStatus" },
    ],
};

/// How people name identity types.
pub const TYPE_KIND: Kind = Kind {
    name: "identity-type",
    plural: TYPE_COLLECTION,
    aliases: &[],
    about: "what sort of thing an identity is",
    operations: TYPES,
    fields: &[],
    links: &[],
    role_attributes: None,
    roles: &[],
    columns: &[Column { title: "ID", pointer: "/id" }, Column { title: "NAME", pointer: "/name" }],
};

words! {
    /// What sort of thing an identity is.
    pub enum IdentityType {
        /// Nothing in particular.
        Default = "Default",
        /// A person.
        User = "User",
        /// A device.
        Device = "Device",
        /// A program.
        Service = "Service",
        /// An edge router; made with the router, never by hand.
        Router = "Router",
    }
}

words! {
    /// Whether an identity is connected to an edge router.
    pub enum ConnectionStatus {
        /// No router has told for a while.
        Unknown = "unknown",
        /// To one at least.
        Online = "online",
        /// To none.
        Offline = "offline",
    }
}

members! {
    /// What can be said of an identity.
    body IdentityBody;
    /// An identity.
    detail IdentityDetail with Base;

    /// Data for the applications of the identity.
    Optional app_data: JsonMap, shown;
    /// The policy that says how it may log in.
    Shown auth_policy: EntityRef;
    /// The policy that says how it may log in.
    Optional auth_policy_id: String => "auth-policies", shown "Its id.";
    /// What it can log in with.
    Shown authenticators: IdentityAuthenticators;
    /// Cost of the terminators it hosts.
    Optional default_hosting_cost: u16, shown;
    /// Precedence of the terminators it hosts.
    Optional default_hosting_precedence: Precedence, shown;
    /// Whether it may not log in now.
    Shown disabled: bool;
    /// Since when.
    Shown disabled_at: Option<Timestamp>;
    /// Until when; none is until it is enabled.
    Shown disabled_until: Option<Timestamp>;
    /// Whether it is connected to an edge router.
    Shown edge_router_connection_status: ConnectionStatus;
    /// How it is to be enrolled; only when it is made.
    Optional enrollment: IdentityEnrollmentBody,
        shown "Its outstanding enrollments." as IdentityEnrollments;
    /// About its machine, as of its last login.
    Shown env_info: EnvInfo;
    /// Its name elsewhere.
    Optional external_id: String, shown as Option<String>;
    /// Whether it is logged in.
    Shown has_api_session: bool;
    /// Whether it is connected to an edge router.
    Shown has_edge_router_connection: bool;
    /// Network interfaces it has told of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    Shown interfaces: Vec<Interface>;
    /// Whether it is an administrator.
    Both is_admin: bool, shown;
    /// Whether it is the administrator that cannot be removed.
    Shown is_default_admin: bool;
    /// Whether it has a second factor.
    Shown is_mfa_enabled: bool;
    /// The name; unique among identities.
    Both name: String, shown "The name.";
    /// What it may do in the management API.
    Optional permissions: Vec<String>,
        shown "What it may do in the management API; null when unset." as Option<Vec<String>>;
    /// Attributes that policies select by.
    Optional role_attributes: Vec<String>, shown;
    /// About its program, as of its last login.
    Shown sdk_info: SdkInfo;
    /// Cost of its terminators, by service id.
    Optional service_hosting_costs: BTreeMap<String, u16>, shown;
    /// Precedence of its terminators, by service id.
    Optional service_hosting_precedences: BTreeMap<String, Precedence>, shown;
    /// Labels.
    Optional tags: crate::json::Tags;
    /// What sort of thing it is.
    Both "type" identity_type: IdentityType;
    /// What sort of thing it is.
    Shown r#type: EntityRef;
    /// The id of that.
    Shown type_id: String;
}

body! {
    /// How a new identity is to be enrolled: the first that is set counts.
    pub struct IdentityEnrollmentBody {
        /// By a one-time token.
        Optional ott: bool,
        /// By a one-time token and a certificate of this CA.
        Optional ottca: String => "cas",
        /// By choosing a password; the value is the login name.
        Optional updb: String,
    }
}

body! {
    /// Disables an identity.
    pub struct DisableBody {
        /// For how long; 0 is until it is enabled.
        Create duration_minutes: i64,
    }
}

body! {
    /// A config that an identity sees for a service instead of the service's own.
    pub struct ServiceConfigBody {
        /// The config.
        Always config_id: String => "configs",
        /// The service.
        Always service_id: String => "services",
    }
}

body! {
    /// Says what of an identity's circuits is written to the log.
    pub struct TraceBody {
        /// `selectPath`, `establishPath` or `all`; none is all.
        Optional channels: Vec<String>,
        /// For how long, such as `5m` or `1h30m`.
        Optional duration: String,
        /// Whether it begins or ends.
        Optional enabled: bool,
        /// A name for the trace; made up when empty.
        Optional trace_id: String,
    }
}

detail! {
    /// What of an identity's circuits is written to the log.
    pub struct TraceDetail {
        /// Whether anything is.
        pub enabled: bool,
        /// The name of the trace.
        pub trace_id: String,
        /// Until when.
        pub until: Timestamp,
    }
}

/// About the machine of a client (docs/protocol/auth.md 9.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[allow(missing_docs)]
pub struct EnvInfo {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub arch: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 253>")]
    pub domain: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 253>")]
    pub hostname: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub os: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub os_release: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub os_version: String,
}

body! { objects of EnvInfo }

/// About the program of a client (docs/protocol/auth.md 9.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[allow(missing_docs)]
pub struct SdkInfo {
    #[serde(
        alias = "appID",
        skip_serializing_if = "String::is_empty",
        deserialize_with = "text::<_, 255>"
    )]
    pub app_id: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub app_version: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub branch: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub revision: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub r#type: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub version: String,
}

body! { objects of SdkInfo }

use crate::json::short_text as text;

/// A member of these two in answers.
const fn text_if_known(name: &'static str, about: &'static str) -> Member {
    Member { name, schema: String::SCHEMA, always: false, about }
}

impl HasSchema for EnvInfo {
    const SCHEMA: Schema = Schema::Object(&Self::OBJECT);
}

impl HasMembers for EnvInfo {
    const OBJECT: Object = Object {
        name: "EnvInfo",
        about: "About the machine of a client.",
        includes: &[],
        members: &[
            text_if_known("arch", "Processor."),
            text_if_known("domain", "Windows domain."),
            text_if_known("hostname", "Name of the machine."),
            text_if_known("os", "Operating system."),
            text_if_known("osRelease", "Release of the operating system."),
            text_if_known("osVersion", "Version of the operating system."),
        ],
    };
}

impl HasSchema for SdkInfo {
    const SCHEMA: Schema = Schema::Object(&Self::OBJECT);
}

impl HasMembers for SdkInfo {
    const OBJECT: Object = Object {
        name: "SdkInfo",
        about: "About the program of a client.",
        includes: &[],
        members: &[
            text_if_known("appId", "Id of the application."),
            text_if_known("appVersion", "Version of the application."),
            text_if_known("branch", "Branch the SDK was built from."),
            text_if_known("revision", "Revision the SDK was built from."),
            text_if_known("type", "Name of the SDK."),
            text_if_known("version", "Version of the SDK."),
        ],
    };
}

impl Shape for EnvInfo {
    const SHAPE: FieldType = FieldType::Json;
}

impl Shape for SdkInfo {
    const SHAPE: FieldType = FieldType::Json;
}

detail! {
    /// What an identity can log in with; only what exists.
    pub struct IdentityAuthenticators {
        /// A certificate.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cert: Option<IdentityCert>,
        /// A password.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub updb: Option<IdentityPassword>,
    }
}

detail! {
    /// A certificate of an identity.
    pub struct IdentityCert {
        /// SHA-1, hex.
        pub fingerprint: String,
        /// Id of the authenticator.
        pub id: String,
    }
}

detail! {
    /// A password of an identity.
    pub struct IdentityPassword {
        /// Id of the authenticator.
        pub id: String,
        /// The login name.
        pub username: String,
    }
}

detail! {
    /// Outstanding enrollments of an identity; only what exists.
    pub struct IdentityEnrollments {
        /// By a one-time token.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ott: Option<IdentityEnrollment>,
        /// By a one-time token and a certificate.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ottca: Option<IdentityEnrollment>,
        /// By choosing a password.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub updb: Option<IdentityEnrollment>,
    }
}

detail! {
    /// An outstanding enrollment of an identity.
    pub struct IdentityEnrollment {
        /// The CA, for `ottca`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ca: Option<EntityRef>,
        /// Its id.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ca_id: Option<String>,
        /// When it ends.
        pub expires_at: Timestamp,
        /// Its id.
        pub id: String,
        /// What to give to the one who enrolls.
        pub jwt: String,
        /// The one-time token in it.
        pub token: String,
    }
}

detail! {
    /// A network interface.
    pub struct Interface {
        /// Addresses with prefix length.
        pub addresses: Vec<String>,
        /// Hardware address.
        pub hardware_address: String,
        /// Index.
        pub index: i64,
        /// Supports broadcast.
        pub is_broadcast: bool,
        /// Is a loopback.
        pub is_loopback: bool,
        /// Supports multicast.
        pub is_multicast: bool,
        /// Is running.
        pub is_running: bool,
        /// Is up.
        pub is_up: bool,
        /// Largest packet.
        pub mtu: i64,
        /// Name.
        pub name: String,
    }
}

detail! {
    /// A sort of identity.
    pub struct IdentityTypeDetail with Base {
        /// The name.
        pub name: String,
    }
}

detail! {
    /// Whether and why an identity may use a service.
    pub struct PolicyAdvice {
        /// Routers that both may use.
        pub common_routers: Vec<RouterRef>,
        /// The identity.
        pub identity: EntityRef,
        /// Its id.
        pub identity_id: String,
        /// How many routers it may use.
        pub identity_router_count: i64,
        /// A policy lets it host the service.
        pub is_bind_allowed: bool,
        /// A policy lets it dial the service.
        pub is_dial_allowed: bool,
        /// The service.
        pub service: EntityRef,
        /// Its id.
        pub service_id: String,
        /// How many routers may carry the service.
        pub service_router_count: i64,
    }
}

detail! {
    /// A mention of a router.
    pub struct RouterRef including entity: EntityRef {
        /// Whether it is connected to a controller.
        pub is_online: bool,
    }
}

detail! {
    /// A config that an identity sees for a service.
    pub struct ServiceConfigDetail {
        /// The config.
        pub config: EntityRef,
        /// Its id.
        pub config_id: String,
        /// The service.
        pub service: EntityRef,
        /// Its id.
        pub service_id: String,
    }
}

/// The permission of an identity on a service, in the query parameter `policyType`; any case.
#[must_use]
pub fn policy_type(text: &str) -> Option<DialBind> {
    [DialBind::Dial, DialBind::Bind]
        .into_iter()
        .find(|kind| kind.as_str().eq_ignore_ascii_case(text))
}
