//! A service, with the identity's rights.

use std::collections::BTreeMap;

use weft_contract::entity::DialBind;
use weft_contract::resource::service::ServiceDetail;

/// A service that the identity may use. Tests of applications begin with the default, which nobody may use.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Service {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// True if this identity may dial it.
    pub can_dial: bool,
    /// True if this identity may host it.
    pub can_bind: bool,
    /// True if its data is encrypted from end to end.
    pub encrypted: bool,
    /// True if both ends of its connections must prove who they are.
    pub authenticated: bool,
    /// Its configs by the name of their type; only of the types that were asked for.
    pub configs: BTreeMap<String, serde_json::Map<String, serde_json::Value>>,
}

impl Service {
    pub(crate) fn of(detail: &ServiceDetail) -> Self {
        let configs = detail.config.iter().map(|(name, data)| (name.clone(), data.clone()));
        Self {
            id: detail.base.id.clone(),
            name: detail.name.clone(),
            can_dial: detail.permissions.contains(&DialBind::Dial),
            can_bind: detail.permissions.contains(&DialBind::Bind),
            encrypted: detail.encryption_required,
            authenticated: detail.authenticated_ends,
            configs: configs.collect(),
        }
    }
}
