//! The agent of a router.

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use weft_agent::messages::{content_type, header};
use weft_agent::{AgentReply, AgentRequest, AppInfo, AppKind, Application, threads};
use weft_router::RouterOperator;
use weft_wire::Message;

use super::{DebugOps, process};
use crate::build;

/// A router with an agent.
pub(super) struct RouterAgent {
    router: RouterOperator,
    info: AppInfo,
    /// Whether operations for tests are carried out.
    debug_ops: DebugOps,
    stop: CancellationToken,
}

/// The answer to an operation for tests.
const NO_DEBUG: &str = "the router carries this out only if it was started with --debug-ops";

impl RouterAgent {
    pub(super) fn new(
        router: RouterOperator,
        alias: &str,
        debug_ops: DebugOps,
        stop: CancellationToken,
    ) -> Self {
        let info = AppInfo {
            id: router.id().to_owned(),
            kind: AppKind::Router.name().to_owned(),
            alias: alias.to_owned(),
            version: build::of_router().version,
            ..AppInfo::default()
        };
        Self { router, info, debug_ops, stop }
    }

    /// Deletes the router from the network; then the program ends.
    async fn decommission(&self) -> AgentReply {
        let done = self.router.decommission().await;
        let stop = done.is_ok().then(|| self.stop.clone());
        let then = stop.map(|stop| -> Box<dyn FnOnce() + Send> {
            Box::new(move || {
                tracing::warn!("the router was decommissioned by a user of this machine, and ends");
                stop.cancel();
            })
        });
        AgentReply { then, ..AgentReply::outcome(done.map(with_end)) }
    }

    fn forget_link(&self, message: &Message) -> Result<String, String> {
        let link = message.body_str().map_err(|error| error.to_string())?;
        Ok(format!("link removed: {}", self.router.forget_link(link)))
    }

    fn toggle(&self, message: &Message) -> Result<String, String> {
        let controller = message.body_str().map_err(|error| error.to_string())?;
        let is_on = message.headers.get_bool(header::IS_ON).unwrap_or_default();
        let toggled = self.router.set_connected(controller, is_on);
        if toggled.is_empty() {
            return Err(format!("control channel: no controllers matched id [{controller}]"));
        }
        let what = if is_on { "reconnected" } else { "closed" };
        Ok(format!("control channel: {what} ({})", toggled.join(", ")))
    }
}

/// A text with the end of a line: clients print it as it is.
fn with_end(text: String) -> String {
    text + "\n"
}

#[async_trait]
impl Application for RouterAgent {
    fn kind(&self) -> AppKind {
        AppKind::Router
    }

    fn info(&self) -> AppInfo {
        self.info.clone()
    }

    async fn answer(&self, request: &AgentRequest) -> Result<String, String> {
        process::answer(AppKind::Router, self.router.runtimes(), request)
    }

    async fn answer_message(&self, message: &Message) -> AgentReply {
        if let Some(names) = process::inspected(message) {
            let values = names.map(|names| {
                let mut values = self.router.inspect(&names);
                let stacks = names.iter().find(|name| name.eq_ignore_ascii_case("stackdump"));
                values.extend(stacks.map(|name| (name.clone(), threads(self.router.runtimes()))));
                values
            });
            return process::inspection(values);
        }
        let done = match message.content_type {
            content_type::DUMP_ROUTES => Ok(self.router.routes()),
            content_type::DUMP_LINKS => Ok(self.router.links()),
            content_type::QUIESCE => self.router.quiesce().await.map(with_end),
            content_type::DEQUIESCE => self.router.dequiesce().await.map(with_end),
            content_type::DECOMMISSION => return self.decommission().await,
            content_type::FORGET_LINK | content_type::TOGGLE_CONTROLLER
                if self.debug_ops == DebugOps::Refused =>
            {
                Err(NO_DEBUG.to_owned())
            }
            content_type::FORGET_LINK => self.forget_link(message),
            content_type::TOGGLE_CONTROLLER => self.toggle(message),
            _ => return process::elsewhere_by_message(AppKind::Router, message),
        };
        AgentReply::outcome(done)
    }
}
