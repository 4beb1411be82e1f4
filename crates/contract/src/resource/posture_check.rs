//! Posture checks, their types, and reports of clients about their devices
//! (docs/protocol/management-api.md 7.6; docs/protocol/auth.md 18).
//!
//! The kind of a check is its `typeId`. One body has the members of every kind; only those of the
//! check's own kind count. The other members are ignored: consoles send a form with all members,
//! filled in or empty.

use serde::{Deserialize, Serialize};

use crate::body::{Body, FieldType, Shape, Unread, body};
use crate::entity::{Semantic, detail, words};
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, BY_ROLE, Operation, Request, Response, action, create, delete, detail as get, list,
    patch, replace,
};
use crate::permission::{Action, Subject};

/// The collection in paths and references.
pub const COLLECTION: &str = "posture-checks";
/// The collection of their types.
pub const TYPE_COLLECTION: &str = "posture-check-types";

const fn access(action: Action) -> Access {
    Access::Permission(Subject::PostureCheck, action)
}

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listPostureChecks", "/posture-checks", access(Action::Read), "postureCheckDetail")
        .query(BY_ROLE),
    create::<PostureCheckBody>("createPostureCheck", "/posture-checks", access(Action::Create)),
    get("detailPostureCheck", "/posture-checks/{id}", access(Action::Read), "postureCheckDetail"),
    replace::<PostureCheckBody>(
        "updatePostureCheck",
        "/posture-checks/{id}",
        access(Action::Update),
    ),
    patch::<PostureCheckBody>("patchPostureCheck", "/posture-checks/{id}", access(Action::Update)),
    delete("deletePostureCheck", "/posture-checks/{id}", access(Action::Delete))
        .statuses(&[200, 403, 404, 429, 503]),
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
        .statuses(&[201, 400, 401, 429, 503]),
];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "posture-check",
    plural: COLLECTION,
    aliases: &["check", "checks"],
    about: "a condition on the device of an identity",
    operations: MANAGEMENT,
    fields: PostureCheckBody::FIELDS,
    links: &[],
    role_attributes: Some("/posture-check-role-attributes"),
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "TYPE", pointer: "/typeId" },
        Column { title: "ATTRIBUTES", pointer: "/roleAttributes" },
    ],
};

/// How people name their types.
pub const TYPE_KIND: Kind = Kind {
    name: "posture-check-type",
    plural: TYPE_COLLECTION,
    aliases: &[],
    about: "what a posture check can look at",
    operations: TYPES,
    fields: &[],
    links: &[],
    role_attributes: None,
    roles: &[],
    columns: &[Column { title: "ID", pointer: "/id" }, Column { title: "NAME", pointer: "/name" }],
};

words! {
    /// The property of a device that a posture check judges.
    pub enum PostureCheckType {
        /// The operating system.
        Os = "OS",
        /// One process.
        Process = "PROCESS",
        /// The Windows domain.
        Domain = "DOMAIN",
        /// Hardware addresses.
        Mac = "MAC",
        /// The second factor.
        Mfa = "MFA",
        /// Several processes.
        ProcessMulti = "PROCESS_MULTI",
    }
}

words! {
    /// An operating system.
    pub enum OsType {
        /// Windows.
        Windows = "Windows",
        /// Windows for servers.
        WindowsServer = "WindowsServer",
        /// Android.
        Android = "Android",
        /// iOS.
        Ios = "iOS",
        /// Linux.
        Linux = "Linux",
        /// macOS.
        MacOs = "macOS",
    }
}

/// The `typeId` of a body: a word of [`PostureCheckType`], or one of those that stand for
/// `DOMAIN` in bodies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TypeId(pub String);

/// Words that mean `DOMAIN` in bodies.
const DOMAIN_WORDS: &[&str] =
    &["postureCheckDomainCreate", "postureCheckDomainUpdate", "postureCheckDomainPatch"];

impl TypeId {
    /// The type it means; none if it means none.
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

    /// `DOMAIN`: Windows domains that pass.
    Optional domains: Unread<Vec<String>>;
    /// `DOMAIN`: Windows domains that pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown domains: Option<Vec<String>>;
    /// `MFA`: let clients through that cannot ask for codes.
    Optional ignore_legacy_endpoints: Unread<bool>;
    /// `MFA`: clients that cannot ask for codes are let through.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown ignore_legacy_endpoints: Option<bool>;
    /// `MAC`: hardware addresses that pass, in any spelling.
    Optional mac_addresses: Unread<Vec<String>>;
    /// `MAC`: hardware addresses that pass, as digits in lower case.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown mac_addresses: Option<Vec<String>>;
    /// The name; unique among posture checks.
    Both name: String, shown "The name.";
    /// `OS`: operating systems that pass.
    Optional operating_systems: Unread<Vec<OperatingSystem>>;
    /// `OS`: operating systems that pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown operating_systems: Option<Vec<OperatingSystemDetail>>;
    /// `PROCESS`: the process that must run.
    Optional process: Unread<Process>;
    /// `PROCESS`: the process that must run.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown process: Option<ProcessDetail>;
    /// `PROCESS_MULTI`: processes that must run.
    Optional processes: Unread<Vec<ProcessMulti>>;
    /// `PROCESS_MULTI`: processes that must run.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown processes: Option<Vec<ProcessMultiDetail>>;
    /// `MFA`: ask for a code after the device was unlocked.
    Optional prompt_on_unlock: Unread<bool>;
    /// `MFA`: a code is needed after the device was unlocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown prompt_on_unlock: Option<bool>;
    /// `MFA`: ask for a code after the device woke.
    Optional prompt_on_wake: Unread<bool>;
    /// `MFA`: a code is needed after the device woke.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown prompt_on_wake: Option<bool>;
    /// Attributes that policies select by.
    Optional role_attributes: Vec<String>, shown;
    /// `PROCESS_MULTI`: whether all or one of the processes must run.
    Optional semantic: Unread<Semantic>;
    /// `PROCESS_MULTI`: whether all or one of the processes must run.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown semantic: Option<Semantic>;
    /// Labels.
    Optional tags: Tags;
    /// `MFA`: seconds that a code lasts; 0 and less, or nothing, is for ever.
    Optional timeout_seconds: Unread<i64>;
    /// `MFA`: seconds that a code lasts; -1 is for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown timeout_seconds: Option<i64>;
    /// The type of the check.
    NotReplace type_id: TypeId, shown "What it looks at: a word of [`PostureCheckType`]." as String;
    /// How often it was changed, from 1.
    Shown version: i64;
}

body! {
    /// An operating system that passes.
    pub struct OperatingSystem {
        /// Which one.
        Always "type" os_type: OsType,
        /// Ranges of versions, one of which must hold; none is every version.
        Always versions: Vec<String>,
    }
}

body! {
    /// A process that must run.
    pub struct Process {
        /// SHA-512 of its file, hex, one of which must hold; none is every file.
        Optional hashes: Vec<String>,
        /// On which operating system.
        Always os_type: OsType,
        /// Path of its file.
        Always path: String,
        /// Fingerprint of the signer of its file.
        Optional signer_fingerprint: String,
    }
}

body! {
    /// One of several processes that must run.
    pub struct ProcessMulti {
        /// SHA-512 of its file, hex, one of which must hold; none is every file.
        Optional hashes: Vec<String>,
        /// On which operating system.
        Always os_type: OsType,
        /// Path of its file.
        Always path: String,
        /// Fingerprints of signers of its file, one of which must hold; none is every signer.
        Optional signer_fingerprints: Vec<String>,
    }
}

detail! {
    /// An operating system and versions of it.
    pub struct OperatingSystemDetail {
        /// Which one.
        pub r#type: String,
        /// Its versions.
        pub versions: Vec<String>,
    }
}

detail! {
    /// A process that must run.
    pub struct ProcessDetail {
        /// SHA-512 of its file, hex.
        pub hashes: Vec<String>,
        /// On which operating system.
        pub os_type: String,
        /// Path of its file.
        pub path: String,
        /// Fingerprint of the signer of its file.
        pub signer_fingerprint: String,
    }
}

detail! {
    /// One of several processes that must run.
    pub struct ProcessMultiDetail {
        /// SHA-512 of its file, hex.
        pub hashes: Vec<String>,
        /// On which operating system.
        pub os_type: String,
        /// Path of its file.
        pub path: String,
        /// Fingerprints of signers of its file.
        pub signer_fingerprints: Vec<String>,
    }
}

detail! {
    /// The types of posture checks, and their systems.
    pub struct PostureCheckTypeDetail with Base {
        /// The name.
        pub name: String,
        /// The systems.
        pub operating_systems: Vec<OperatingSystemDetail>,
        /// The version.
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
    /// A process; for checks of one and of several.
    pub const PROCESS: &str = "PROCESS";
    /// The device woke or was unlocked.
    pub const ENDPOINT_STATE: &str = "ENDPOINT_STATE";
    /// All of them.
    pub const ALL: &[&str] = &[OS, MAC, DOMAIN, PROCESS, ENDPOINT_STATE];
}

body! {
    /// A report of a client about its device. One body holds the members of every `typeId`.
    pub struct PostureResponseBody {
        /// `OS`: the build.
        Optional build: String,
        /// `DOMAIN`: the Windows domain.
        Optional domain: String,
        /// `PROCESS`: SHA-512 of the file, hex.
        Optional hash: String,
        /// The posture check it answers; of no meaning for the state of the device.
        Always id: String,
        /// `PROCESS`: whether it runs.
        Optional is_running: bool,
        /// `MAC`: hardware addresses.
        Optional mac_addresses: Vec<String>,
        /// `PROCESS`: path of the file.
        Optional path: String,
        /// `PROCESS`: fingerprints of the signers of the file.
        Optional signer_fingerprints: Vec<String>,
        /// `OS`: which one.
        Optional "type" os_type: String,
        /// The kind of the report: a word of [`response`].
        Always type_id: String as FieldType::Choice(response::ALL),
        /// `ENDPOINT_STATE`: the device was unlocked.
        Optional unlocked: bool,
        /// `OS`: the version.
        Optional version: String,
        /// `ENDPOINT_STATE`: the device woke.
        Optional woken: bool,
    }
}

detail! {
    /// The services that ask for a code after a report.
    pub struct PostureResponseDetail {
        /// They.
        pub services: Vec<PostureResponseService>,
    }
}

detail! {
    /// A service that asks for a code.
    pub struct PostureResponseService {
        /// Its id.
        pub id: String,
        /// Its name.
        pub name: String,
        /// `MFA`.
        pub posture_query_type: String,
        /// Seconds that a code lasts; -1 is for ever.
        pub timeout: i64,
        /// Seconds left to give one.
        pub timeout_remaining: i64,
    }
}
