//! The agent of tunnelers.

use async_trait::async_trait;
use serde_json::Value;
use tokio::runtime::Handle;
use weft_agent::{AgentReply, AgentRequest, AppInfo, AppKind, Application, threads};
use weft_wire::Message;

use super::process;
use crate::build;

/// Makes the state of all identities.
type State = Box<dyn Fn() -> Value + Send + Sync>;

/// A process of tunnelers with an agent.
pub(super) struct TunnelAgent {
    state: State,
    info: AppInfo,
    runtimes: Vec<Handle>,
}

/// The request for the state of a tunneler.
const DUMP: u8 = 128;

impl TunnelAgent {
    pub(super) fn new(state: State, alias: &str) -> Self {
        let info = AppInfo {
            kind: AppKind::Tunnel.name().to_owned(),
            alias: alias.to_owned(),
            version: build::of_router().version,
            ..AppInfo::default()
        };
        Self { state, info, runtimes: process::own_runtime() }
    }

    fn value(&self, name: &str) -> Option<String> {
        match name.to_ascii_lowercase().as_str() {
            "stackdump" => Some(threads(&self.runtimes)),
            "sdk" => Some((self.state)().to_string()),
            _ => None,
        }
    }
}

#[async_trait]
impl Application for TunnelAgent {
    fn kind(&self) -> AppKind {
        AppKind::Tunnel
    }

    fn info(&self) -> AppInfo {
        self.info.clone()
    }

    async fn answer(&self, request: &AgentRequest) -> Result<String, String> {
        match request {
            AgentRequest::Other(DUMP) => Ok(format!("{:#}\n", (self.state)())),
            request => process::answer(AppKind::Tunnel, &self.runtimes, request),
        }
    }

    async fn answer_message(&self, message: &Message) -> AgentReply {
        match process::inspected(message) {
            Some(names) => process::inspection(names.map(|names| {
                let value = |name: &String| Some((name.clone(), self.value(name)?));
                names.iter().take(16).filter_map(value).collect()
            })),
            None => process::elsewhere_by_message(AppKind::Tunnel, message),
        }
    }
}
