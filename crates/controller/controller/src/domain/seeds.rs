//! The content of a new network (docs/protocol/management-api.md 8): identity types, posture check
//! types, the default authentication policy and the built-in config types, with their fixed ids.
//!
//! The schemas of config types are an interface, because consoles make their forms from them. The
//! schema of a list is an `allOf` of two parts, the rules of every list and the schema of the
//! items: consoles look for the items there.

use weft_model::entity::{ConfigTarget, ConfigType};
use weft_model::{Base, Choice as _, Id, JsonMap, Timestamp};

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
    /// The config type, made now; `None` if the schema is not an object.
    pub(crate) fn make(&self, now: Timestamp) -> Option<ConfigType> {
        Some(ConfigType {
            base: Base::new(Id::new(self.id), now),
            name: self.name.into(),
            schema: JsonMap::from_text(self.schema)?,
            target: ConfigTarget::parse(self.target).unwrap_or_default(),
        })
    }
}

/// The built-in config types. Databases know the ids, tunnelers the names.
pub const CONFIG_TYPES: &[ConfigTypeSeed] = &[
    ConfigTypeSeed {
        id: "f2dd2df0-9c04-4b84-a91e-71437ac229f1",
        name: "ziti-tunneler-client.v1",
        target: "service",
        schema: include_str!("schemas/ziti-tunneler-client.v1.json"),
    },
    ConfigTypeSeed {
        id: "cea49285-6c07-42cf-9f52-09a9b115c783",
        name: "ziti-tunneler-server.v1",
        target: "service",
        schema: include_str!("schemas/ziti-tunneler-server.v1.json"),
    },
    ConfigTypeSeed {
        id: "g7cIWbcGg",
        name: "intercept.v1",
        target: "service",
        schema: include_str!("schemas/intercept.v1.json"),
    },
    ConfigTypeSeed {
        id: "NH5p4FpGR",
        name: "host.v1",
        target: "service",
        schema: include_str!("schemas/host.v1.json"),
    },
    ConfigTypeSeed {
        id: "host.v2",
        name: "host.v2",
        target: "service",
        schema: include_str!("schemas/host.v2.json"),
    },
    ConfigTypeSeed {
        id: "l2.host.v1",
        name: "l2.host.v1",
        target: "service",
        schema: include_str!("schemas/l2.host.v1.json"),
    },
    ConfigTypeSeed {
        id: "l2.intercept.v1",
        name: "l2.intercept.v1",
        target: "service",
        schema: include_str!("schemas/l2.intercept.v1.json"),
    },
    ConfigTypeSeed {
        id: "interfaces.v1",
        name: "interfaces.v1",
        target: "service",
        schema: include_str!("schemas/interfaces.v1.json"),
    },
    ConfigTypeSeed {
        id: "proxy.v1",
        name: "proxy.v1",
        target: "service",
        schema: include_str!("schemas/proxy.v1.json"),
    },
    ConfigTypeSeed {
        id: "router.link.v1",
        name: "router.link.v1",
        target: "router",
        schema: include_str!("schemas/router.link.v1.json"),
    },
];

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
