//! Config types and configs: settings of services and routers.

use std::sync::Arc;

use prost::Enumeration;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::{Base, Link, OnDelete, Record};
use crate::choice::Choice;
use crate::row::row;
use crate::{Id, JsonMap, Kind};

/// Entities that configs of a type are for. The target of a type never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(i32)]
pub enum ConfigTarget {
    /// Services.
    Service = 0,
    /// Routers.
    Router = 1,
    /// Other entities.
    Other = 2,
}

impl Choice for ConfigTarget {}

row! {
    /// A config type (docs/protocol/management-api.md 7.3).
    pub struct ConfigType {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// JSON schema of the configs; an empty one accepts every object.
        3 => pub schema: JsonMap,
        /// Entities that configs of this type are for.
        4 => pub target: ConfigTarget,
    }
}

impl Record for ConfigType {
    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }
}

row! {
    /// A config.
    pub struct Config {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// Config type, which never changes.
        3 => pub config_type_id: Id,
        /// Data, valid by the schema of the type.
        4 => pub data: JsonMap,
    }
}

impl Record for Config {
    const LINKS: &'static [Link] = &[Link::new("configTypeId", Kind::ConfigType, OnDelete::Refuse)];

    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        each(0, &self.config_type_id);
    }
}
