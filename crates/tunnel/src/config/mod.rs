//! The configs of services that tunnelers read (docs/protocol/tunnel.md 3).
//!
//! An error about a config names the member that is wrong. Unknown members are ignored: the schema
//! of the config's type has judged them.

mod check;
mod host;
mod intercept;
mod interfaces;
mod part;
mod proxy;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

pub use self::{
    check::{Action, Check, Effect, HttpCheck, Probe, Trigger},
    host::{HostConfig, HttpProxy, Precedence},
    intercept::{Intercept, InterceptAddress},
    part::PortRange,
    proxy::{ListenAt, ProxyPort},
};

/// The config types for tunnelers, to be asked for at a controller.
pub const TYPES: [&str; 7] = [
    intercept::INTERCEPT_V1,
    intercept::CLIENT_V1,
    host::HOST_V1,
    host::HOST_V2,
    host::SERVER_V1,
    proxy::PROXY_V1,
    interfaces::INTERFACES_V1,
];

/// The config types with addresses at which clients are intercepted.
#[cfg(target_os = "linux")]
pub(crate) const INTERCEPTING: [&str; 3] =
    [intercept::INTERCEPT_V1, intercept::CLIENT_V1, interfaces::INTERFACES_V1];
#[cfg(target_os = "linux")]
pub(crate) use self::interfaces::interfaces;

/// The configs of a service: JSON texts by the names of their types.
pub type Configs = BTreeMap<String, String>;

/// A config with a mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{config}: {}{problem}", at(member))]
pub struct ConfigError {
    /// The type of the config.
    pub config: &'static str,
    /// The member, for example `listenOptions.cost`; empty for the config as a whole.
    pub member: String,
    /// The mistake.
    pub problem: String,
}

fn at(member: &str) -> String {
    if member.is_empty() { String::new() } else { format!("{member}: ") }
}

impl ConfigError {
    fn new(config: &'static str, member: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { config, member: member.into(), problem: problem.into() }
    }

    /// This mistake with a longer name: its member is a member of `outer`.
    fn within(mut self, outer: &str) -> Self {
        let dot = if self.member.is_empty() { "" } else { "." };
        self.member = format!("{outer}{dot}{}", self.member);
        self
    }
}

type Result<T> = std::result::Result<T, ConfigError>;

/// The parsed config of a type, if the service has one.
fn written<T: DeserializeOwned>(configs: &Configs, config: &'static str) -> Result<Option<T>> {
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
