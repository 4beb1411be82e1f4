//! What a new network contains (docs/protocol/management-api.md 8): identity types, posture check
//! types, the default authentication policy and the built-in config types, with their fixed ids.
//!
//! The schemas of config types are an interface: consoles make their forms of them. Whoever wants
//! to know what a list holds looks for `allOf` of what every list is and what its items are.

use weft_model::entity::{ConfigTarget, ConfigType};
use weft_model::{Base, Id, JsonMap, Timestamp};

/// A built-in config type.
#[derive(Debug)]
pub struct ConfigTypeSeed {
    /// Fixed id.
    pub id: &'static str,
    /// Name.
    pub name: &'static str,
    /// `service` or `router`.
    pub target: &'static str,
    /// JSON Schema.
    pub schema: &'static str,
}

impl ConfigTypeSeed {
    /// The config type, made now; none if the schema were no object.
    pub(crate) fn make(&self, now: Timestamp) -> Option<ConfigType> {
        Some(ConfigType {
            base: Base::new(Id::new(self.id), now),
            name: self.name.into(),
            schema: JsonMap::from_text(self.schema)?,
            target: ConfigTarget::parse(self.target).unwrap_or_default(),
        })
    }
}

macro_rules! config_types {
    ($($id:literal $name:literal $target:literal,)+) => {
        /// The built-in config types. Databases know the ids, tunnelers the names.
        pub const CONFIG_TYPES: &[ConfigTypeSeed] = &[$(ConfigTypeSeed {
            id: $id,
            name: $name,
            target: $target,
            schema: include_str!(concat!("schemas/", $name, ".json")),
        }),+];
    };
}

config_types! {
    "f2dd2df0-9c04-4b84-a91e-71437ac229f1" "ziti-tunneler-client.v1" "service",
    "cea49285-6c07-42cf-9f52-09a9b115c783" "ziti-tunneler-server.v1" "service",
    "g7cIWbcGg" "intercept.v1" "service",
    "NH5p4FpGR" "host.v1" "service",
    "host.v2" "host.v2" "service",
    "l2.host.v1" "l2.host.v1" "service",
    "l2.intercept.v1" "l2.intercept.v1" "service",
    "interfaces.v1" "interfaces.v1" "service",
    "proxy.v1" "proxy.v1" "service",
    "router.link.v1" "router.link.v1" "router",
}

/// Identity types; the id is the name.
pub const IDENTITY_TYPES: &[&str] = &["Default", "Router", "User", "Device", "Service"];

/// A posture check type: id, name, operating systems with their versions.
#[derive(Debug)]
pub struct PostureCheckTypeSeed {
    /// Fixed id.
    pub id: &'static str,
    /// Name.
    pub name: &'static str,
    /// Operating systems and versions.
    pub systems: &'static [(&'static str, &'static [&'static str])],
}

const WINDOWS: (&str, &[&str]) = ("Windows", &["Vista", "7", "8", "10", "2000"]);
const LINUX: (&str, &[&str]) = ("Linux", &["4.14", "4.19", "5.4", "5.9"]);
const IOS: (&str, &[&str]) = ("iOS", &["11", "12"]);
const MACOS: (&str, &[&str]) = ("macOS", &["10.15", "11.0"]);
const ANDROID: (&str, &[&str]) = ("Android", &["9", "10", "11"]);

/// Posture check types.
pub const POSTURE_CHECK_TYPES: &[PostureCheckTypeSeed] = &[
    PostureCheckTypeSeed {
        id: "OS",
        name: "Operating System Check",
        systems: &[WINDOWS, LINUX, ANDROID, MACOS, IOS],
    },
    PostureCheckTypeSeed {
        id: "PROCESS",
        name: "Process Check",
        systems: &[WINDOWS, MACOS, LINUX],
    },
    PostureCheckTypeSeed { id: "DOMAIN", name: "Windows Domain Check", systems: &[WINDOWS] },
    PostureCheckTypeSeed {
        id: "MAC",
        name: "MAC Address Check",
        systems: &[WINDOWS, LINUX, MACOS, ANDROID],
    },
    PostureCheckTypeSeed {
        id: "PROCESS_MULTI",
        name: "Process Multi Check",
        systems: &[("Windows", &[]), ("macOS", &[]), ("Linux", &[])],
    },
];

/// Id of the default authentication policy.
pub const DEFAULT_AUTH_POLICY: &str = "default";
