//! Configs and config types (docs/protocol/management-api.md 7.3, 8).

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::body::Body;
use crate::collection;
use crate::entity::EntityRef;
use crate::json::{JsonMap, Tags};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{DELETE_STATUSES, Operation};
use crate::paths::Api;
use crate::word::Word;

/// The collection of configs.
pub const CONFIG_COLLECTION: &str = "configs";
/// The collection of config types.
pub const CONFIG_TYPE_COLLECTION: &str = "config-types";

/// Operations on configs.
pub const CONFIGS: &[Operation] = &[
    collection::CONFIGS.list("listConfigs"),
    collection::CONFIGS.create::<ConfigBody>("createConfig"),
    collection::CONFIGS.get("detailConfig"),
    collection::CONFIGS.replace::<ConfigBody>("updateConfig"),
    collection::CONFIGS.patch::<ConfigBody>("patchConfig"),
    collection::CONFIGS.delete("deleteConfig").statuses(DELETE_STATUSES),
    collection::SERVICES.list_at("listConfigServices", "/configs/{id}/services"),
];

/// Operations on config types.
pub const CONFIG_TYPES: &[Operation] = &[
    collection::CONFIG_TYPES.list("listConfigTypes"),
    collection::CONFIG_TYPES.create::<ConfigTypeBody>("createConfigType"),
    collection::CONFIG_TYPES.get("detailConfigType"),
    collection::CONFIG_TYPES.replace::<ConfigTypeBody>("updateConfigType"),
    collection::CONFIG_TYPES.patch::<ConfigTypeBody>("patchConfigType"),
    collection::CONFIG_TYPES.delete("deleteConfigType").statuses(DELETE_STATUSES),
    collection::CONFIGS
        .list_at("listConfigsForConfigType", "/config-types/{id}/configs")
        .statuses(&[200, 401, 429, 503]),
];

/// Configs in the words of commands.
pub const CONFIG_KIND: Kind = Kind {
    name: "config",
    plural: CONFIG_COLLECTION,
    aliases: &["cfg", "cfgs"],
    about: "settings of a service or router, of some config type",
    api: Api::Management,
    operations: CONFIGS,
    fields: ConfigBody::FIELDS,
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "TYPE", pointer: "/configType/name" },
    ],
    ..Kind::PLAIN
};

/// Config types in the words of commands.
pub const CONFIG_TYPE_KIND: Kind = Kind {
    name: "config-type",
    plural: CONFIG_TYPE_COLLECTION,
    aliases: &["ct", "cts"],
    about: "a JSON schema that configs of this type obey",
    api: Api::Management,
    operations: CONFIG_TYPES,
    fields: ConfigTypeBody::FIELDS,
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "TARGET", pointer: "/target" },
    ],
    ..Kind::PLAIN
};

/// The kind of entities that configs of a type are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Target {
    /// Services.
    #[default]
    Service,
    /// Routers.
    Router,
    /// Neither services nor routers.
    Other,
}

impl Word for Target {}

members! {
    /// The members of a config that callers set.
    body ConfigBody;
    /// A config: settings of a service or a router, in the form that its config type describes.
    detail ConfigDetail with Base;

    /// The config type.
    Shown config_type: EntityRef;
    /// The config type of the config. Set when the config is created.
    Create config_type_id: String => "config-types", shown "The id of the config type.";
    /// The settings, which must fit the schema of the config type.
    Both data: JsonMap, shown;
    /// The name of the config; unique among configs.
    Both name: String, shown "The name of the config.";
    /// Labels of the config.
    Optional tags: Tags;
}

members! {
    /// The members of a config type that callers set.
    body ConfigTypeBody;
    /// A config type: a schema for configs.
    detail ConfigTypeDetail with Base;

    /// The name of the config type; unique among config types. Tunnelers know config types by their
    /// names.
    Both name: String, shown "The name of the config type.";
    /// The JSON schema that the settings of configs must fit; its type is `object`.
    Optional schema: JsonMap,
        shown "The JSON schema that the settings of configs must fit; null if there is none." as Option<JsonMap>;
    /// Labels of the config type.
    Optional tags: Tags;
    /// The kind of entities that configs of this type are for. Set when the config type is created.
    Optional target: Target, shown "The kind of entities that configs of this type are for.";
}
