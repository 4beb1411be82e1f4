//! Configs as JSON texts, and mistakes in them.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

/// The configs of a service: JSON texts by the names of their types.
pub type Configs = BTreeMap<String, String>;

/// Why a config cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{config}: {}{problem}", at(member))]
pub struct ConfigError {
    /// The type of the config.
    pub config: &'static str,
    /// The member, `listenOptions.cost` for example; empty for the config as a whole.
    pub member: String,
    /// The mistake.
    pub problem: String,
}

fn at(member: &str) -> String {
    if member.is_empty() { String::new() } else { format!("{member}: ") }
}

impl ConfigError {
    pub(super) fn new(
        config: &'static str,
        member: impl Into<String>,
        problem: impl Into<String>,
    ) -> Self {
        Self { config, member: member.into(), problem: problem.into() }
    }

    /// The mistake as one of a member of `outer`.
    pub(super) fn within(mut self, outer: &str) -> Self {
        let dot = if self.member.is_empty() { "" } else { "." };
        self.member = format!("{outer}{dot}{}", self.member);
        self
    }
}

pub(super) type Result<T> = std::result::Result<T, ConfigError>;

/// The config of a type as it is written, if the service has one.
pub(super) fn written<T: DeserializeOwned>(
    configs: &Configs,
    config: &'static str,
) -> Result<Option<T>> {
    let Some(text) = configs.get(config) else { return Ok(None) };
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| ConfigError::new(config, "", format!("is no JSON: {error}")))?;
    let read = serde_path_to_error::deserialize(value);
    read.map(Some).map_err(|error| {
        let path = error.path().to_string();
        let member = if path == "." { String::new() } else { path };
        ConfigError::new(config, member, error.into_inner().to_string())
    })
}
