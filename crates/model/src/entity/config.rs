//! Config types and configs: what clients and routers are told about a service.

use std::sync::Arc;

use super::{Base, Link, OnDelete, Record, named, record};
use crate::{
    Id, JsonMap, Kind,
    row::{choice, row},
};

choice! {
    /// What configs of a type belong to; never changed.
    pub enum ConfigTarget {
        /// Services.
        Service = 0 "service",
        /// Routers.
        Router = 1 "router",
        /// Neither.
        Other = 2 "other",
    }
}

row! {
    /// A config type (protocol: management-api 7.3).
    pub struct ConfigType {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// The JSON schema of its configs; empty accepts every object.
        3 => pub schema: JsonMap,
        /// What its configs belong to.
        4 => pub target: ConfigTarget,
    }
}

impl Record for ConfigType {
    record!(ConfigType);
    named!();
}

row! {
    /// A config.
    pub struct Config {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// Its type; never changed.
        3 => pub config_type_id: Id,
        /// The data, valid by the schema of the type.
        4 => pub data: JsonMap,
    }
}

impl Record for Config {
    record!(Config);
    named!();

    const LINKS: &'static [Link] = &[Link::new("configTypeId", Kind::ConfigType, OnDelete::Refuse)];

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        each(0, &self.config_type_id);
    }
}
