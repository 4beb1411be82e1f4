//! Configs and config types (docs/protocol/management-api.md 7.3, 8).

use crate::body::Body;
use crate::entity::{EntityRef, words};
use crate::json::{JsonMap, Tags};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, DELETE_STATUSES, Operation, create, delete, detail as get, list, patch, replace,
};
use crate::permission::{Action, Subject};

/// The collection of configs.
pub const CONFIG_COLLECTION: &str = "configs";
/// The collection of config types.
pub const CONFIG_TYPE_COLLECTION: &str = "config-types";

const fn config(action: Action) -> Access {
    Access::Permission(Subject::Config, action)
}

const fn config_type(action: Action) -> Access {
    Access::Permission(Subject::ConfigType, action)
}

/// Operations on configs.
pub const CONFIGS: &[Operation] = &[
    list("listConfigs", "/configs", config(Action::Read), "configDetail"),
    create::<ConfigBody>("createConfig", "/configs", config(Action::Create)),
    get("detailConfig", "/configs/{id}", config(Action::Read), "configDetail"),
    replace::<ConfigBody>("updateConfig", "/configs/{id}", config(Action::Update)),
    patch::<ConfigBody>("patchConfig", "/configs/{id}", config(Action::Update)),
    delete("deleteConfig", "/configs/{id}", config(Action::Delete)).statuses(DELETE_STATUSES),
    list(
        "listConfigServices",
        "/configs/{id}/services",
        Access::Permission(Subject::Service, Action::Read),
        "serviceDetail",
    ),
];

/// Operations on config types.
pub const CONFIG_TYPES: &[Operation] = &[
    list("listConfigTypes", "/config-types", config_type(Action::Read), "configTypeDetail"),
    create::<ConfigTypeBody>("createConfigType", "/config-types", config_type(Action::Create)),
    get("detailConfigType", "/config-types/{id}", config_type(Action::Read), "configTypeDetail"),
    replace::<ConfigTypeBody>(
        "updateConfigType",
        "/config-types/{id}",
        config_type(Action::Update),
    ),
    patch::<ConfigTypeBody>("patchConfigType", "/config-types/{id}", config_type(Action::Update)),
    delete("deleteConfigType", "/config-types/{id}", config_type(Action::Delete))
        .statuses(DELETE_STATUSES),
    list(
        "listConfigsForConfigType",
        "/config-types/{id}/configs",
        config(Action::Read),
        "configDetail",
    )
    .statuses(&[200, 401, 429, 503]),
];

/// How people name configs.
pub const CONFIG_KIND: Kind = Kind {
    name: "config",
    plural: CONFIG_COLLECTION,
    aliases: &["cfg", "cfgs"],
    about: "settings of a service or router, of some config type",
    operations: CONFIGS,
    fields: ConfigBody::FIELDS,
    links: &[],
    role_attributes: None,
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "TYPE", pointer: "/configType/name" },
    ],
};

/// How people name config types.
pub const CONFIG_TYPE_KIND: Kind = Kind {
    name: "config-type",
    plural: CONFIG_TYPE_COLLECTION,
    aliases: &["ct", "cts"],
    about: "a JSON schema that configs of this type obey",
    operations: CONFIG_TYPES,
    fields: ConfigTypeBody::FIELDS,
    links: &[],
    role_attributes: None,
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "TARGET", pointer: "/target" },
    ],
};

words! {
    /// The target of configs of a type.
    pub enum Target {
        /// Services.
        Service = "service",
        /// Routers.
        Router = "router",
        /// Another target.
        Other = "other",
    }
}

members! {
    /// The members of a config that callers set.
    body ConfigBody;
    /// A config.
    detail ConfigDetail with Base;

    /// The config type.
    Shown config_type: EntityRef;
    /// The config type; when it is made.
    Create config_type_id: String => "config-types", shown "Its id.";
    /// The settings.
    Both data: JsonMap, shown;
    /// The name; unique among configs.
    Both name: String, shown "The name.";
    /// Labels.
    Optional tags: Tags;
}

members! {
    /// The members of a config type that callers set.
    body ConfigTypeBody;
    /// A config type.
    detail ConfigTypeDetail with Base;

    /// The name; unique among config types.
    Both name: String, shown "The name.";
    /// A JSON schema of type object.
    Optional schema: JsonMap, shown "The JSON schema.";
    /// Labels.
    Optional tags: Tags;
    /// What configs of this type are for; when it is made.
    Optional target: Target, shown "What configs of this type are for.";
}
