//! Posture checks, their types, and reports of clients about their devices
//! (docs/protocol/management-api.md 7.6; docs/protocol/auth.md 18).
//!
//! The kind of a check is its `typeId`. One body has the members of every kind; only those of the
//! check's own kind count. The other members are ignored: consoles send a form with all members,
//! filled in or empty.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::body::{Body, FieldType, Shape, Unread, body};
use crate::collection;
use crate::entity::{Semantic, detail};
use crate::json::{ListOrNull, Tags};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, BY_ROLE, Operation, Request, Response, action, detail as get, list,
};
use crate::paths::Api;
use crate::word::Word;

/// The collection in paths and references.
pub const COLLECTION: &str = "posture-checks";
/// The collection of their types.
pub const TYPE_COLLECTION: &str = "posture-check-types";

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::POSTURE_CHECKS.list("listPostureChecks").query(BY_ROLE),
    collection::POSTURE_CHECKS.create::<PostureCheckBody>("createPostureCheck"),
    collection::POSTURE_CHECKS.get("detailPostureCheck"),
    collection::POSTURE_CHECKS.replace::<PostureCheckBody>("updatePostureCheck"),
    collection::POSTURE_CHECKS.patch::<PostureCheckBody>("patchPostureCheck"),
    collection::POSTURE_CHECKS.delete("deletePostureCheck").statuses(&[200, 403, 404, 429, 503]),
];

/// Posture check types.
pub const TYPES: &[Operation] = &[
    list(
        "listPostureCheckTypes",
        "/posture-check-types",
        Access::Authenticated,
        "postureCheckTypeDetail",
    ),
    get(
        "detailPostureCheckType",
        "/posture-check-types/{id}",
        Access::Authenticated,
        "postureCheckTypeDetail",
    ),
];

/// Operations of the client API: reports of a client about its device.
pub const CLIENT: &[Operation] = &[
    action("createPostureResponse", "/posture-response", Access::Authenticated)
        .takes::<PostureResponseBody>()
        .answers(Response::Detail("postureResponse"))
        .statuses(&[201, 400, 401, 429, 503]),
    action("createPostureResponseBulk", "/posture-response-bulk", Access::Authenticated)
        .request(Request::JsonList(PostureResponseBody::FIELDS))
        .answers(Response::Detail("postureResponse"))
        .statuses(&[200, 400, 401, 429, 503]),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "posture-check",
    plural: COLLECTION,
    aliases: &["check", "checks"],
    about: "a condition on the device of an identity",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: PostureCheckBody::FIELDS,
    role_attributes: Some("/posture-check-role-attributes"),
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "TYPE", pointer: "/typeId" },
        Column { title: "ATTRIBUTES", pointer: "/roleAttributes" },
    ],
    ..Kind::PLAIN
};

/// The kind of their types in the words of commands.
pub const TYPE_KIND: Kind = Kind {
    name: "posture-check-type",
    plural: TYPE_COLLECTION,
    aliases: &[],
    about: "what a posture check can look at",
    api: Api::Management,
    operations: TYPES,
    fields: &[],
    columns: &[Column { title: "ID", pointer: "/id" }, Column { title: "NAME", pointer: "/name" }],
    ..Kind::PLAIN
};

/// The property of a device that a posture check looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum PostureCheckType {
    /// The operating system.
    #[default]
    Os,
    /// One process.
    Process,
    /// The Windows domain.
    Domain,
    /// Hardware addresses.
    Mac,
    /// The second factor.
    Mfa,
    /// Several processes.
    ProcessMulti,
}

impl Word for PostureCheckType {}

/// An operating system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
pub enum OsType {
    /// Windows.
    #[default]
    Windows,
    /// Windows for servers.
    WindowsServer,
    /// Android.
    Android,
    /// iOS.
    #[serde(rename = "iOS")]
    #[strum(serialize = "iOS")]
    Ios,
    /// Linux.
    Linux,
    /// macOS.
    #[serde(rename = "macOS")]
    #[strum(serialize = "macOS")]
    MacOs,
}

impl Word for OsType {}

/// The `typeId` of a body: a word of [`PostureCheckType`], or one of those that stand for
/// `DOMAIN` in bodies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TypeId(pub String);

/// Words that mean `DOMAIN` in bodies.
const DOMAIN_WORDS: &[&str] =
    &["postureCheckDomainCreate", "postureCheckDomainUpdate", "postureCheckDomainPatch"];

impl TypeId {
    /// The type of the check; none for a word that is no type.
    #[must_use]
    pub fn parse(&self) -> Option<PostureCheckType> {
        if DOMAIN_WORDS.contains(&self.0.as_str()) {
            return Some(PostureCheckType::Domain);
        }
        PostureCheckType::parse(&self.0)
    }
}

impl Shape for TypeId {
    const SHAPE: FieldType = PostureCheckType::SHAPE;
}

members! {
    /// The members of a posture check that callers set.
    body PostureCheckBody;
    /// A posture check. Members of other types are left out.
    detail PostureCheckDetail with Base;

    /// `DOMAIN`: the Windows domains that pass; 1000 at most.
    Optional domains: Unread<Vec<String>>;
    /// `DOMAIN`: the Windows domains that pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown domains: Option<Vec<String>>;
    /// `MFA`: whether clients that cannot ask for codes pass.
    Optional ignore_legacy_endpoints: Unread<bool>;
    /// `MFA`: whether clients that cannot ask for codes pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown ignore_legacy_endpoints: Option<bool>;
    /// `MAC`: the hardware addresses that pass, in any spelling; 1000 at most.
    Optional mac_addresses: Unread<Vec<String>>;
    /// `MAC`: the hardware addresses that pass, as hex digits in lower case.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown mac_addresses: Option<Vec<String>>;
    /// The name of the posture check; unique among posture checks.
    Both name: String, shown "The name of the posture check.";
    /// `OS`: the operating systems that pass, with their versions; 1000 at most.
    Optional operating_systems: Unread<Vec<OperatingSystem>>;
    /// `OS`: the operating systems that pass, with their versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown operating_systems: Option<Vec<OperatingSystemDetail>>;
    /// `PROCESS`: the process that must run on the device.
    Optional process: Unread<Process>;
    /// `PROCESS`: the process that must run on the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown process: Option<ProcessDetail>;
    /// `PROCESS_MULTI`: the processes that must run on the device; 1000 at most.
    Optional processes: Unread<Vec<ProcessMulti>>;
    /// `PROCESS_MULTI`: the processes that must run on the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown processes: Option<Vec<ProcessMultiDetail>>;
    /// `MFA`: whether a new code is needed after the device was unlocked.
    Optional prompt_on_unlock: Unread<bool>;
    /// `MFA`: whether a new code is needed after the device was unlocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown prompt_on_unlock: Option<bool>;
    /// `MFA`: whether a new code is needed after the device woke.
    Optional prompt_on_wake: Unread<bool>;
    /// `MFA`: whether a new code is needed after the device woke.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown prompt_on_wake: Option<bool>;
    /// The role attributes of the posture check, by which service policies select it.
    Optional role_attributes: Vec<String>, shown;
    /// `PROCESS_MULTI`: whether all of the processes must run (AllOf) or one of them (AnyOf).
    Optional semantic: Unread<Semantic>;
    /// `PROCESS_MULTI`: whether all of the processes must run (AllOf) or one of them (AnyOf).
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown semantic: Option<Semantic>;
    /// Labels of the posture check.
    Optional tags: Tags;
    /// `MFA`: the time for which a code is good, in seconds; 0, a negative number or no value means
    /// for ever.
    Optional timeout_seconds: Unread<i64>;
    /// `MFA`: the time for which a code is good, in seconds; -1 means for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown timeout_seconds: Option<i64>;
    /// The type of the posture check. Replacing a posture check keeps its type.
    NotReplace type_id: TypeId,
        shown "The type: `OS`, `PROCESS`, `DOMAIN`, `MAC`, `MFA` or `PROCESS_MULTI`." as String;
    /// The version of the posture check: 1 for a new one, and 1 more after each change.
    Shown version: i64;
}

body! {
    /// An operating system that passes, and its versions.
    pub struct OperatingSystem {
        /// The operating system.
        Always "type" os_type: OsType,
        /// Ranges of versions, such as `>=10.0.0 <11.0.0` or `9.x`, one of which the device must
        /// have; an empty list takes every version.
        Always versions: Vec<String>,
    }
}

body! {
    /// A process that must run.
    pub struct Process {
        /// The SHA-512 sums of the file, in hex, one of which the file must have; an empty list
        /// takes every file.
        Optional hashes: Vec<String>,
        /// The operating system that the process runs on.
        Always os_type: OsType,
        /// The path of the program's file.
        Always path: String,
        /// The SHA-1 of the certificate that signed the file, in hex; an empty text takes every
        /// signer.
        Optional signer_fingerprint: String,
    }
}

body! {
    /// One of several processes that must run.
    pub struct ProcessMulti {
        /// The SHA-512 sums of the file, in hex, one of which the file must have; an empty list
        /// takes every file.
        Optional hashes: Vec<String>,
        /// The operating system that the process runs on.
        Always os_type: OsType,
        /// The path of the program's file.
        Always path: String,
        /// The SHA-1 of certificates, in hex, one of which must have signed the file; an empty list
        /// takes every signer.
        Optional signer_fingerprints: Vec<String>,
    }
}

detail! {
    /// An operating system, and versions of it.
    pub struct OperatingSystemDetail {
        /// The operating system.
        pub r#type: String,
        /// The versions, or ranges of versions; null if there are none.
        pub versions: ListOrNull<String>,
    }
}

detail! {
    /// A process that must run.
    pub struct ProcessDetail {
        /// The SHA-512 sums of the file, in hex, one of which the file must have; null if there are none.
        pub hashes: ListOrNull<String>,
        /// The operating system that the process runs on.
        pub os_type: String,
        /// The path of the program's file.
        pub path: String,
        /// The SHA-1 of the certificate that signed the file, in hex.
        pub signer_fingerprint: String,
    }
}

detail! {
    /// One of several processes that must run.
    pub struct ProcessMultiDetail {
        /// The SHA-512 sums of the file, in hex, one of which the file must have.
        pub hashes: Vec<String>,
        /// The operating system that the process runs on.
        pub os_type: String,
        /// The path of the program's file.
        pub path: String,
        /// The SHA-1 of certificates, in hex, one of which must have signed the file.
        pub signer_fingerprints: Vec<String>,
    }
}

detail! {
    /// A type of posture checks, and the operating systems that it is for.
    pub struct PostureCheckTypeDetail with Base {
        /// The name of the type.
        pub name: String,
        /// The operating systems that the type is for.
        pub operating_systems: Vec<OperatingSystemDetail>,
        /// The version of the type.
        pub version: String,
    }
}

/// Values of `typeId` in reports of clients about their devices.
pub mod response {
    /// The operating system.
    pub const OS: &str = "OS";
    /// Hardware addresses.
    pub const MAC: &str = "MAC";
    /// The Windows domain.
    pub const DOMAIN: &str = "DOMAIN";
    /// A process; for checks of one process and of several.
    pub const PROCESS: &str = "PROCESS";
    /// The device woke or was unlocked.
    pub const ENDPOINT_STATE: &str = "ENDPOINT_STATE";
    /// All values.
    pub const ALL: &[&str] = &[OS, MAC, DOMAIN, PROCESS, ENDPOINT_STATE];
}

body! {
    /// A report of a client about its device. One body holds the members of every `typeId`.
    pub struct PostureResponseBody {
        /// `OS`: the build of the operating system.
        Optional build: String,
        /// `DOMAIN`: the Windows domain of the device.
        Optional domain: String,
        /// `PROCESS`: the SHA-512 of the program's file, in hex.
        Optional hash: String,
        /// The id of the posture check that the report answers. It has no meaning for the state of
        /// the device.
        Always id: String,
        /// `PROCESS`: whether the process runs.
        Optional is_running: bool,
        /// `MAC`: the hardware addresses of the device.
        Optional mac_addresses: Vec<String>,
        /// `PROCESS`: the path of the program's file.
        Optional path: String,
        /// `PROCESS`: the SHA-1 of the certificates that signed the file, in hex.
        Optional signer_fingerprints: Vec<String>,
        /// `OS`: the operating system.
        Optional "type" os_type: String,
        /// The kind of the report: `OS`, `MAC`, `DOMAIN`, `PROCESS` or `ENDPOINT_STATE`.
        Always type_id: String as FieldType::Choice(response::ALL),
        /// `ENDPOINT_STATE`: whether the device was unlocked.
        Optional unlocked: bool,
        /// `OS`: the version of the operating system.
        Optional version: String,
        /// `ENDPOINT_STATE`: whether the device woke.
        Optional woken: bool,
    }
}

detail! {
    /// The services that need a new code after a report.
    pub struct PostureResponseDetail {
        /// The services.
        pub services: Vec<PostureResponseService>,
    }
}

detail! {
    /// A service that needs a new code.
    pub struct PostureResponseService {
        /// The id of the service.
        pub id: String,
        /// The name of the service.
        pub name: String,
        /// The type of the posture check: `MFA`.
        pub posture_query_type: String,
        /// The time for which a code is good, in seconds; -1 means for ever.
        pub timeout: i64,
        /// The time that is left to give a code, in seconds.
        pub timeout_remaining: i64,
    }
}
