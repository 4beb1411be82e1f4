//! What a program says it is.

use serde::{Deserialize, Serialize};

/// The kind of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppKind {
    /// A controller.
    Controller,
    /// A router.
    Router,
    /// A tunneler.
    Tunnel,
}

impl AppKind {
    /// The number by which a channel is for this kind only.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Controller => 1,
            Self::Router => 2,
            Self::Tunnel => 3,
        }
    }

    /// The name, as [`AppInfo::kind`] has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Router => "router",
            Self::Tunnel => "tunnel",
        }
    }
}

/// What a program is. Empty members are left out, as the original does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppInfo {
    /// Id of the controller or router.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// `controller`, `router` or `tunnel`.
    #[serde(rename = "type", default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// A name that the operator gave.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub alias: String,
    /// The release.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// What the agent can do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agent_capabilities: Vec<String>,
    /// What the program can do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub app_capabilities: Vec<String>,
}

/// The agent takes levels of the log as messages, too.
pub(crate) const LEVELS_BY_MESSAGE: &str = "logging.slog-levels";

impl AppInfo {
    /// The answer to [`AgentRequest::Info`](crate::AgentRequest::Info).
    pub(crate) fn plain(&self) -> String {
        let plain =
            Self { agent_capabilities: Vec::new(), app_capabilities: Vec::new(), ..self.clone() };
        serde_json::to_string(&plain).unwrap_or_default()
    }

    /// The answer to [`AgentRequest::InfoAndCapabilities`](crate::AgentRequest::InfoAndCapabilities).
    pub(crate) fn with_capabilities(&self) -> String {
        let whole = Self { agent_capabilities: vec![LEVELS_BY_MESSAGE.to_owned()], ..self.clone() };
        serde_json::to_string(&whole).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_the_names_of_the_wire() {
        let info = AppInfo {
            id: "r1".to_owned(),
            kind: AppKind::Router.name().to_owned(),
            version: "v2.0.3".to_owned(),
            ..AppInfo::default()
        };
        assert_eq!(info.plain(), r#"{"id":"r1","type":"router","version":"v2.0.3"}"#);
        let with = info.with_capabilities();
        assert!(with.ends_with(r#""agent_capabilities":["logging.slog-levels"]}"#), "{with}");
        assert_eq!(
            serde_json::from_str::<AppInfo>(r#"{"type":"router","x":1}"#).unwrap().kind,
            "router"
        );
    }
}
