//! Identities, and the caller's own identity
//! (docs/protocol/management-api.md 7.1).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::body::{Body, body};
use crate::collection;
use crate::entity::{DialBind, EntityRef, PrecedenceWord, detail};
use crate::json::{JsonMap, ListOrNull};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, BY_ROLE, CHANGE_STATUSES, DELETE_STATUSES, DETAIL_STATUSES, Operation, Request,
    Response, action, delete, detail as get, nested, replace,
};
use crate::paths::Api;
use crate::permission::{Action, Subject};
use crate::resource::client::{EnvInfo, SdkInfo};
use crate::resource::posture_data::PostureJudgement;
use crate::timestamp::Timestamp;
use crate::word::Word;

/// The collection in paths and references.
pub const COLLECTION: &str = "identities";

const READ: Access = Access::Permission(Subject::Identity, Action::Read);
const UPDATE: Access = Access::Permission(Subject::Identity, Action::Update);

const fn read(subject: Subject) -> Access {
    Access::Permission(subject, Action::Read)
}

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::IDENTITIES.list("listIdentities").query(BY_ROLE),
    collection::IDENTITIES.create::<IdentityBody>("createIdentity"),
    collection::IDENTITIES.get("detailIdentity"),
    collection::IDENTITIES.replace::<IdentityBody>("updateIdentity"),
    collection::IDENTITIES.patch::<IdentityBody>("patchIdentity"),
    collection::IDENTITIES.delete("deleteIdentity").statuses(DELETE_STATUSES),
    collection::AUTHENTICATORS
        .nested("getIdentityAuthenticators", "/identities/{id}/authenticators"),
    action("disableIdentity", "/identities/{id}/disable", UPDATE).takes::<DisableBody>(),
    action("enableIdentity", "/identities/{id}/enable", UPDATE),
    collection::EDGE_ROUTER_POLICIES
        .nested("listIdentitysEdgeRouterPolicies", "/identities/{id}/edge-router-policies"),
    collection::EDGE_ROUTERS.nested("listIdentityEdgeRouters", "/identities/{id}/edge-routers"),
    collection::ENROLLMENTS.nested("getIdentityEnrollments", "/identities/{id}/enrollments"),
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
    collection::SERVICE_POLICIES
        .nested("listIdentityServicePolicies", "/identities/{id}/service-policies"),
    collection::SERVICES
        .nested("listIdentityServices", "/identities/{id}/services")
        .query(&["policyType"]),
    replace::<TraceBody>("updateIdentityTracing", "/identities/{id}/trace", UPDATE)
        .answers(Response::Detail("traceDetail")),
];

/// The caller's own identity, in both APIs.
pub const CURRENT: &[Operation] =
    &[get("getCurrentIdentity", "/current-identity", Access::Authenticated, "identityDetail")
        .answers(Response::Detail("identityDetail"))
        .statuses(&[200, 401])];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "identity",
    plural: COLLECTION,
    aliases: &["id", "ids", "identitys"],
    about: "a person, device or program that may log in",
    api: Api::Management,
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
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "TYPE", pointer: "/typeId" },
        Column { title: "ADMIN", pointer: "/isAdmin" },
        Column { title: "ATTRIBUTES", pointer: "/roleAttributes" },
        Column { title: "ONLINE", pointer: "/edgeRouterConnectionStatus" },
        Column { title: "DISABLED", pointer: "/disabled" },
        Column { title: "LOCKED", pointer: "/isLocked" },
    ],
    ..Kind::PLAIN
};

/// The type of an identity. It tells people what the identity is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
pub enum IdentityType {
    /// An identity of no special type.
    #[default]
    Default,
    /// A person.
    User,
    /// A device.
    Device,
    /// A program.
    Service,
    /// The identity of an edge router. It is created with the router, never by a caller.
    Router,
}

impl Word for IdentityType {}

/// Whether an identity is connected to an edge router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ConnectionStatus {
    /// A router has reported the identity, and none has for more than 5 minutes.
    #[default]
    Unknown,
    /// The identity is connected to at least one edge router.
    Online,
    /// The identity is connected to no edge router.
    Offline,
}

impl Word for ConnectionStatus {}

members! {
    /// The members of an identity that callers set.
    body IdentityBody;
    /// An identity: a person, a device, a service or a router's tunneler that can log in.
    detail IdentityDetail with Base;

    /// Data for the applications of the identity, as a JSON object.
    Optional app_data: JsonMap, shown;
    /// The auth policy of the identity, which says how the identity may log in.
    Shown auth_policy: EntityRef;
    /// The auth policy of the identity, which says how the identity may log in; `default` by
    /// default.
    Optional auth_policy_id: String => "auth-policies",
        shown "The id of the auth policy of the identity.";
    /// The credentials that the identity has.
    Shown authenticators: IdentityAuthenticators;
    /// The cost of terminators that the identity hosts, 0 by default.
    Optional default_hosting_cost: u16, shown;
    /// The precedence of terminators that the identity hosts, `default` by default.
    Optional default_hosting_precedence: PrecedenceWord, shown;
    /// Whether the identity is disabled, so that it cannot log in.
    Shown disabled: bool;
    /// The time at which the identity was disabled; null if it is not disabled.
    Shown disabled_at: Option<Timestamp>;
    /// The time until which the identity is disabled; null if it is not disabled, or disabled until
    /// somebody enables it.
    Shown disabled_until: Option<Timestamp>;
    /// Whether the identity is connected to an edge router: `online`, `offline` or `unknown`.
    Shown edge_router_connection_status: ConnectionStatus;
    /// The enrollment of the identity. Set when the identity is created.
    Optional enrollment: IdentityEnrollmentBody,
        shown "The open enrollments of the identity." as IdentityEnrollments;
    /// The machine of the client, as the last login described it.
    Shown env_info: EnvInfo;
    /// A name by which a CA or an external signer knows the identity; unique.
    Optional external_id: String, shown as Option<String>;
    /// Whether the identity has an API session.
    Shown has_api_session: bool;
    /// Whether the identity is connected to an edge router.
    Shown has_edge_router_connection: bool;
    /// The network interfaces of the identity that its router has reported; null if there are none.
    Shown interfaces: ListOrNull<Interface>;
    /// Whether the identity is an administrator, who may run every operation.
    Both is_admin: bool, shown;
    /// Whether the identity is the default administrator, which cannot be deleted.
    Shown is_default_admin: bool;
    /// Whether the password of the identity is locked, because of too many wrong ones in a row.
    Shown is_locked: bool;
    /// Whether the identity has a verified second factor.
    Shown is_mfa_enabled: bool;
    /// The time since which the password is locked; left out if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown locked_at: Option<Timestamp>;
    /// The addresses from which the wrong passwords came that locked the password, the latest one last,
    /// at most 4; left out if it is not locked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    Shown locked_by: Vec<String>;
    /// The time until which the password is locked; left out if it is not, or if it is locked until
    /// somebody enables the identity or sets another password.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown locked_until: Option<Timestamp>;
    /// The name of the identity; unique among identities.
    Both name: String, shown "The name of the identity.";
    /// The permissions of the identity for operations of the management API.
    Optional permissions: Vec<String>,
        shown "The permissions of the identity; null if none were ever set." as Option<Vec<String>>;
    /// The role attributes of the identity, by which policies select it.
    Optional role_attributes: Vec<String>, shown;
    /// The program of the client, as the last login described it.
    Shown sdk_info: SdkInfo;
    /// The cost of terminators that the identity hosts, by the id of the service; other services
    /// have the default cost.
    Optional service_hosting_costs: BTreeMap<String, u16>, shown;
    /// The precedence of terminators that the identity hosts, by the id of the service; other
    /// services have the default precedence.
    Optional service_hosting_precedences: BTreeMap<String, PrecedenceWord>, shown;
    /// Labels of the identity.
    Optional tags: crate::json::Tags;
    /// The type of the identity: `Default`, `User`, `Device` or `Service`.
    Both "type" identity_type: IdentityType;
    /// The type of the identity.
    Shown r#type: EntityRef;
    /// The id of the type of the identity.
    Shown type_id: String;
}

body! {
    /// The enrollment of a new identity. Of several members that are set the first one counts.
    pub struct IdentityEnrollmentBody {
        /// Whether the identity enrolls with a one-time token.
        Optional ott: bool,
        /// The CA whose certificate the identity needs to enroll, besides a one-time token.
        Optional ottca: String => "cas",
        /// The username of the identity, which chooses its password when it enrolls.
        Optional updb: String,
    }
}

body! {
    /// Disables an identity, so that it cannot log in.
    pub struct DisableBody {
        /// The time for which the identity is disabled, in minutes; 0 or a negative number disables
        /// it until it is enabled.
        Create duration_minutes: i64,
    }
}

body! {
    /// A config that an identity gets for a service, in place of the service's own config of that
    /// type.
    pub struct ServiceConfigBody {
        /// The id of the config.
        Always config_id: String => "configs",
        /// The id of the service.
        Always service_id: String => "services",
    }
}

body! {
    /// Begins or ends a trace: lines in the log of the controller about circuits of the identity.
    pub struct TraceBody {
        /// The steps that are traced: `selectPath`, `establishPath` or `all`; an empty list is all,
        /// and other names are ignored.
        Optional channels: Vec<String>,
        /// The length of the trace, such as `5m` or `1h30m`; longer than 0. Needed when a trace
        /// begins.
        Optional duration: String,
        /// Whether the trace begins. Otherwise the running one ends.
        Optional enabled: bool,
        /// The name of the trace, at most 256 bytes; the controller makes one if it is empty.
        Optional trace_id: String,
    }
}

detail! {
    /// The trace of an identity's circuits.
    pub struct TraceDetail {
        /// Whether a trace runs.
        pub enabled: bool,
        /// The name of the trace.
        pub trace_id: String,
        /// The time at which the trace ends; `0001-01-01T00:00:00.000Z` if no trace runs.
        pub until: Timestamp,
    }
}

detail! {
    /// The credentials of an identity. A credential that the identity does not have is left out.
    pub struct IdentityAuthenticators {
        /// The certificate of the identity.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cert: Option<IdentityCert>,
        /// The username and password of the identity.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub updb: Option<IdentityPassword>,
    }
}

detail! {
    /// A certificate of an identity.
    pub struct IdentityCert {
        /// The SHA-1 of the certificate, in hex.
        pub fingerprint: String,
        /// The id of the authenticator.
        pub id: String,
    }
}

detail! {
    /// The username and password of an identity.
    pub struct IdentityPassword {
        /// The id of the authenticator.
        pub id: String,
        /// The username.
        pub username: String,
    }
}

detail! {
    /// The open enrollments of an identity. An enrollment that the identity does not have is left out.
    pub struct IdentityEnrollments {
        /// The enrollment with a one-time token.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ott: Option<IdentityEnrollment>,
        /// The enrollment with a one-time token and a certificate of a CA.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ottca: Option<IdentityEnrollment>,
        /// The enrollment in which the identity chooses a password.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub updb: Option<IdentityEnrollment>,
    }
}

detail! {
    /// An open enrollment of an identity.
    pub struct IdentityEnrollment {
        /// The CA whose certificate the identity needs, for `ottca`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ca: Option<EntityRef>,
        /// The id of the CA whose certificate the identity needs, for `ottca`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ca_id: Option<String>,
        /// The time at which the enrollment expires.
        pub expires_at: Timestamp,
        /// The id of the enrollment.
        pub id: String,
        /// The JWT with which the identity enrolls.
        pub jwt: String,
        /// The one-time token in the JWT.
        pub token: String,
    }
}

detail! {
    /// A network interface.
    pub struct Interface {
        /// The addresses of the interface, each with the length of its prefix: `192.0.2.7/24`.
        pub addresses: Vec<String>,
        /// The hardware (MAC) address of the interface.
        pub hardware_address: String,
        /// The number of the interface on its machine.
        pub index: i64,
        /// Whether the interface supports broadcasts.
        pub is_broadcast: bool,
        /// Whether the interface is a loopback.
        pub is_loopback: bool,
        /// Whether the interface supports multicasts.
        pub is_multicast: bool,
        /// Whether the interface is running.
        pub is_running: bool,
        /// Whether the interface is up.
        pub is_up: bool,
        /// The largest packet that the interface sends, in bytes.
        pub mtu: i64,
        /// The name of the interface.
        pub name: String,
    }
}

detail! {
    /// The reasons for which an identity may or may not use a service.
    pub struct PolicyAdvice {
        /// The edge routers that both the identity and the service may use.
        pub common_routers: Vec<RouterRef>,
        /// The identity.
        pub identity: EntityRef,
        /// The id of the identity.
        pub identity_id: String,
        /// The number of edge routers that the identity may use.
        pub identity_router_count: i64,
        /// Whether a service policy lets the identity host the service.
        pub is_bind_allowed: bool,
        /// Whether a service policy lets the identity dial the service.
        pub is_dial_allowed: bool,
        /// The posture checks of the policies that hold both, as they are judged in each API session of the identity,
        /// the one that was used last first, ten at most; empty if no policy has any. Null for callers that may not
        /// read identities and posture checks.
        pub posture: Option<Vec<PostureJudgement>>,
        /// The service.
        pub service: EntityRef,
        /// The id of the service.
        pub service_id: String,
        /// The number of edge routers that the service may use.
        pub service_router_count: i64,
    }
}

detail! {
    /// A mention of a router.
    pub struct RouterRef including entity: EntityRef {
        /// Whether the router is connected to a controller.
        pub is_online: bool,
    }
}

detail! {
    /// A config that an identity gets for a service, in place of the service's own config of that
    /// type.
    pub struct ServiceConfigDetail {
        /// The config.
        pub config: EntityRef,
        /// The id of the config.
        pub config_id: String,
        /// The service.
        pub service: EntityRef,
        /// The id of the service.
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
