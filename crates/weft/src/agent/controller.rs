//! The agent of a controller.

use async_trait::async_trait;
use prost::Message as _;
use tokio::runtime::Handle;
use weft_agent::messages::{InitRequest, ListedMember, MemberList, content_type, header};
use weft_agent::{AgentReply, AgentRequest, AppInfo, AppKind, Application};
use weft_controller::{Controller, Failure};
use weft_wire::Message;

use super::process;
use crate::build;

/// A controller with an agent.
pub(super) struct ControllerAgent {
    controller: Controller,
    info: AppInfo,
    runtimes: Vec<Handle>,
}

/// The answer about the controllers of a network that has one. Scripts know its first words.
const ALONE: &str =
    "controller not running in clustered mode: it shares its network with no other one";

impl ControllerAgent {
    pub(super) fn new(controller: Controller, alias: &str) -> Self {
        let info = AppInfo {
            id: controller.kernel().settings().id.clone(),
            kind: AppKind::Controller.name().to_owned(),
            alias: alias.to_owned(),
            version: build::of_controller().version,
            ..AppInfo::default()
        };
        Self { controller, info, runtimes: process::own_runtime() }
    }

    async fn snapshot(&self, message: &Message) -> Result<String, String> {
        let path = message.headers.get_str(header::FILE).unwrap_or_default();
        let written = self.controller.snapshot_to(path).await.map_err(text)?;
        Ok(written.display().to_string())
    }

    fn members(&self) -> AgentReply {
        if !self.controller.auth().is_member() {
            return AgentReply::outcome(Err(ALONE.to_owned()));
        }
        let members = match self.controller.members() {
            Ok(members) => members,
            Err(failure) => return AgentReply::outcome(Err(text(failure))),
        };
        let members = members.into_iter().map(|it| ListedMember {
            id: it.id,
            address: it.address,
            is_voter: it.voter,
            is_leader: it.leader,
            version: it.version,
            is_connected: it.connected,
            is_preferred_leader: false,
        });
        let body = MemberList { members: members.collect() }.encode_to_vec();
        Message::new(content_type::MEMBERS, body).into()
    }

    /// Makes the administrator. A controller of weft runs only with one, so that there is nothing to make, unless
    /// somebody has deleted it since.
    async fn init(&self, message: &Message) -> Result<String, String> {
        if self.controller.has_default_admin() {
            return Err(
                "already initialized: there is an administrator, nothing changed".to_owned()
            );
        }
        let InitRequest { username, password, name } =
            InitRequest::decode(&*message.body).map_err(|error| error.to_string())?;
        self.controller.init_admin(&name, &username, &password).await.map_err(text)?;
        Ok("success".to_owned())
    }
}

/// A failure for people.
fn text(failure: Failure) -> String {
    failure.to_string()
}

#[async_trait]
impl Application for ControllerAgent {
    fn kind(&self) -> AppKind {
        AppKind::Controller
    }

    fn info(&self) -> AppInfo {
        self.info.clone()
    }

    async fn answer(&self, request: &AgentRequest) -> Result<String, String> {
        process::answer(AppKind::Controller, &self.runtimes, request)
    }

    async fn answer_message(&self, message: &Message) -> AgentReply {
        if let Some(names) = process::inspected(message) {
            let values = match names {
                Ok(names) => self.controller.inspect_own(names).await.map_err(text),
                Err(problem) => Err(problem),
            };
            return process::inspection(values);
        }
        match message.content_type {
            content_type::SNAPSHOT => AgentReply::outcome(self.snapshot(message).await),
            content_type::LIST_MEMBERS => self.members(),
            content_type::INIT => AgentReply::outcome(self.init(message).await),
            _ => process::elsewhere_by_message(AppKind::Controller, message),
        }
    }
}
