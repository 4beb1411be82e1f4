//! The config types that a client asks for, in a request or for a session.

use std::collections::{BTreeMap, BTreeSet};

use weft_contract::JsonMap;
use weft_contract::resource::service::ALL_CONFIG_TYPES;
use weft_kernel::convert;
use weft_kernel::view::View;
use weft_model::Id;
use weft_model::entity::{Config, ConfigType, Identity, Service};

/// Most config types of one request; further ones are ignored.
const MAX_CONFIG_TYPES: usize = 256;
/// Most names of one request that are looked up, so that unknown names cost a bounded time.
const MAX_CONFIG_WORDS: usize = 4096;

/// The config types that a request or a session asks for.
#[derive(Debug, Clone, Default)]
pub struct WantedConfigs {
    all: bool,
    types: BTreeSet<Id>,
}

impl WantedConfigs {
    /// Reads ids and names of config types. Unknown names are ignored; `all` means every type
    /// (docs/protocol/auth.md 9.1). Repeated names count once, so that repetition takes no memory.
    pub fn of<'t>(view: View<'_>, texts: impl IntoIterator<Item = &'t str>) -> Self {
        let mut wanted = Self::default();
        let texts = texts.into_iter().flat_map(|text| text.split(',')).map(str::trim);
        for text in texts.take(MAX_CONFIG_WORDS) {
            if text == ALL_CONFIG_TYPES {
                return Self { all: true, types: BTreeSet::new() };
            }
            if wanted.types.len() < MAX_CONFIG_TYPES
                && let Some(found) = view.snapshot().by_id_or_name::<ConfigType>(text)
            {
                wanted.types.insert(found.base.id.clone());
            }
        }
        wanted
    }

    /// The config types that a session keeps.
    pub fn kept(types: Vec<Id>) -> Self {
        let all = types.iter().any(|id| *id == ALL_CONFIG_TYPES);
        Self { all, types: types.into_iter().take(MAX_CONFIG_TYPES).collect() }
    }

    fn wants(&self, of: &Id) -> bool {
        self.all || self.types.contains(of)
    }

    /// The ids for a session to keep; `all` stays a word.
    pub(crate) fn into_ids(self) -> Vec<Id> {
        match self.all {
            true => vec![Id::new(ALL_CONFIG_TYPES)],
            false => self.types.into_iter().collect(),
        }
    }

    /// The config data of a service for an identity, by name of the config type: the service's own
    /// configs, each replaced by the identity's override of its type.
    pub fn data(
        &self,
        view: View<'_>,
        identity: Option<&Identity>,
        service: &Service,
    ) -> BTreeMap<String, JsonMap> {
        if !self.all && self.types.is_empty() {
            return BTreeMap::new();
        }
        let overrides = identity.and_then(|identity| {
            identity.service_configs.get(service.base.id.as_str()).map(|own| &own.configs)
        });
        let overrides = overrides.into_iter().flat_map(|configs| configs.values());
        let mut found = BTreeMap::new();
        for id in service.configs.iter().chain(overrides) {
            let Some(config) = view.get::<Config>(id.as_str()) else { continue };
            if !self.wants(&config.config_type_id) {
                continue;
            }
            if let Some(of_type) = view.get::<ConfigType>(config.config_type_id.as_str()) {
                found.insert(of_type.name.to_string(), convert::json(&config.data));
            }
        }
        found
    }
}
