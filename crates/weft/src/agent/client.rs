//! `weft agent`: asks the processes of this machine.

use std::path::PathBuf;
use std::time::Duration;

use prost::Message as _;
use serde_json::{Value, json};
use weft_agent::messages::{MemberList, content_type, header};
use weft_agent::{
    AgentChannel, AgentRequest, AppKind, AskError, LocalProcess, ask, folder, processes,
    remove_stale,
};
use weft_wire::ctrl::{InspectRequest, InspectResponse};
use weft_wire::{Message, Outcome, ProtoBody as _};

use crate::ask::confirm;
use crate::cli::{
    AgentArgs, AgentClusterCommand, AgentCommand, AgentControllerCommand, AgentRouterCommand,
    ChosenProcess,
};
use crate::failure::{Failure, Result};
use crate::output::{self, Format, printable};

/// Runs the command.
pub(super) async fn run(args: AgentArgs) -> Result<()> {
    let (chosen, format) = (&args.process, args.output.format());
    let request = match args.command {
        AgentCommand::List => return list(format).await,
        AgentCommand::Inspect { values } => return inspect(chosen, values, format).await,
        AgentCommand::Controller(command) => return controller(chosen, command).await,
        AgentCommand::Cluster(AgentClusterCommand::List) => return members(chosen, format).await,
        AgentCommand::Router(command) => return router(chosen, command).await,
        AgentCommand::Version => return version(chosen).await,
        AgentCommand::Stats => AgentRequest::Stats,
        AgentCommand::Stack => AgentRequest::Stacks,
        AgentCommand::Memstats => AgentRequest::Memory,
        AgentCommand::Gc => AgentRequest::Collect,
        AgentCommand::SetLogLevel { level } => AgentRequest::SetLevel(level),
        AgentCommand::SetChannelLogLevel { module, level } => {
            AgentRequest::SetModuleLevel(module, level)
        }
        AgentCommand::ClearChannelLogLevel { module } => AgentRequest::ClearModuleLevel(module),
    };
    let answer = chosen.ask(&request).await?;
    output::print(&with_end(&answer));
    Ok(())
}

/// A text of a process for the terminal, with the end of its last line.
fn with_end(text: &str) -> String {
    let shown = printable::lines(text);
    if shown.is_empty() || shown.ends_with('\n') { shown } else { shown + "\n" }
}

/// The processes of this user; of all users for root.
async fn found() -> Result<Vec<LocalProcess>> {
    let folder = folder();
    remove_stale(&folder);
    let found = processes(&folder).await;
    found.map_err(|error| Failure::new(format!("{}: {error}", folder.display())))
}

async fn list(format: Format) -> Result<()> {
    let shown = |process: &LocalProcess| {
        let (info, problem) = match &process.info {
            Ok(info) => (info.clone(), ""),
            Err(problem) => (weft_agent::AppInfo::default(), problem.as_str()),
        };
        json!({
            "pid": process.pid, "program": process.program, "type": info.kind, "id": info.id,
            "version": info.version, "alias": info.alias, "socket": process.socket, "problem": problem,
        })
    };
    let all: Vec<Value> = found().await?.iter().map(shown).collect();
    let members = ["pid", "program", "type", "id", "version", "alias", "problem"];
    output::list(format, all, &members, "no process that this user may ask runs on this machine");
    Ok(())
}

/// The release, of its own or of the program that it is compatible with.
async fn version(chosen: &ChosenProcess) -> Result<()> {
    let answer = chosen.ask(&AgentRequest::Info).await?;
    let info: weft_agent::AppInfo = serde_json::from_str(&answer)
        .map_err(|error| Failure::new(format!("the process does not say what it is: {error}")))?;
    let built = chosen.ask(&AgentRequest::Version).await?;
    let (kind, version) = (printable::line(&info.kind), printable::line(&info.version));
    output::line(format_args!("{kind} {version}, {}", printable::line(built.trim_end())));
    Ok(())
}

async fn inspect(chosen: &ChosenProcess, values: Vec<String>, format: Format) -> Result<()> {
    let request = InspectRequest { requested_values: values };
    let reply = chosen.request(0, request.to_message()).await?;
    let read = InspectResponse::from_message(&reply);
    let response =
        read.map_err(|error| Failure::new(format!("the answer is not understood: {error}")))?;
    if !response.success {
        return Err(Failure::refused(printable::line(&response.errors.join("; "))));
    }
    if format == Format::Table {
        for value in &response.values {
            let read = serde_json::from_str::<Value>(&value.value);
            let text = read.map_or_else(|_| value.value.clone(), |value| format!("{value:#}"));
            output::line(printable::line(&value.name));
            output::print(&with_end(&text));
        }
        return Ok(());
    }
    let named = response.values.iter().map(|it| {
        let value =
            serde_json::from_str(&it.value).unwrap_or_else(|_| Value::from(it.value.as_str()));
        (it.name.clone(), value)
    });
    output::value(format, &Value::Object(named.collect()), String::new);
    Ok(())
}

async fn controller(chosen: &ChosenProcess, command: AgentControllerCommand) -> Result<()> {
    let AgentControllerCommand::SnapshotDb { path } = command;
    let mut message = Message::new(content_type::SNAPSHOT, "");
    if let Some(path) = path {
        message.headers.set_str(header::FILE, &path);
    }
    say(&chosen.request(AppKind::Controller.number(), message).await?)
}

async fn members(chosen: &ChosenProcess, format: Format) -> Result<()> {
    let message = Message::new(content_type::LIST_MEMBERS, "");
    let reply = chosen.request(AppKind::Controller.number(), message).await?;
    if reply.content_type != content_type::MEMBERS {
        return say(&reply);
    }
    let read = MemberList::decode(&*reply.body);
    let list =
        read.map_err(|error| Failure::new(format!("the answer is not understood: {error}")))?;
    let shown = list.members.into_iter().map(|it| {
        json!({
            "id": it.id, "address": it.address, "version": it.version, "leads": it.is_leader,
            "votes": it.is_voter, "connected": it.is_connected,
        })
    });
    let members = ["id", "address", "version", "leads", "votes", "connected"];
    output::list(format, shown.collect(), &members, "the network has no controllers");
    Ok(())
}

async fn router(chosen: &ChosenProcess, command: AgentRouterCommand) -> Result<()> {
    let toggle = |controller: Option<String>, is_on| {
        let mut message =
            Message::new(content_type::TOGGLE_CONTROLLER, controller.unwrap_or_default());
        message.headers.set_bool(header::IS_ON, is_on);
        message
    };
    let message = match command {
        AgentRouterCommand::DumpRoutes => Message::new(content_type::DUMP_ROUTES, ""),
        AgentRouterCommand::DumpLinks => Message::new(content_type::DUMP_LINKS, ""),
        AgentRouterCommand::Quiesce => Message::new(content_type::QUIESCE, ""),
        AgentRouterCommand::Dequiesce => Message::new(content_type::DEQUIESCE, ""),
        AgentRouterCommand::Decommission { yes } => {
            let question = "delete the router from its network, and end it?";
            if !yes && !confirm(question, "give --yes").await? {
                return Err(Failure::new("not done"));
            }
            Message::new(content_type::DECOMMISSION, "")
        }
        AgentRouterCommand::ForgetLink { link } => Message::new(content_type::FORGET_LINK, link),
        AgentRouterCommand::Disconnect { controller } => toggle(controller, false),
        AgentRouterCommand::Reconnect { controller } => toggle(controller, true),
    };
    say(&chosen.request(AppKind::Router.number(), message).await?)
}

/// Prints the text of a reply, or fails with it.
fn say(reply: &Message) -> Result<()> {
    let read = Outcome::from_message(reply);
    let outcome =
        read.map_err(|error| Failure::new(format!("the answer is not understood: {error}")))?;
    if !outcome.success {
        return Err(Failure::refused(printable::line(outcome.text.trim_end())));
    }
    let text = if outcome.text.is_empty() { "success" } else { &outcome.text };
    output::print(&with_end(text));
    Ok(())
}

impl ChosenProcess {
    fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }

    /// Sends a request to the process that is meant, and returns its text.
    async fn ask(&self, request: &AgentRequest) -> Result<String> {
        let socket = self.socket().await?;
        let answer = ask(&socket, request, self.patience()).await;
        let answer = answer.map_err(|problem| silent(&socket, &problem))?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Sends a message to the process that is meant, and returns its reply.
    async fn request(&self, app: u8, message: Message) -> Result<Message> {
        let socket = self.socket().await?;
        let mut channel = AgentChannel::open(&socket, app, self.patience())
            .await
            .map_err(|problem| silent(&socket, &problem))?;
        channel.request(message).await.map_err(|problem| silent(&socket, &problem))
    }

    /// The socket of the one process that is meant.
    async fn socket(&self) -> Result<PathBuf> {
        if let Some(socket) = &self.app_addr {
            return Ok(socket.clone());
        }
        let meant: Vec<LocalProcess> =
            found().await?.into_iter().filter(|it| self.means(it)).collect();
        match &meant[..] {
            [process] => Ok(process.socket.clone()),
            [] => Err(Failure::not_found("no such process, or none that this user may ask")
                .and("hint: `weft agent list` lists them; root sees those of all users")),
            several => {
                let ids: Vec<String> = several.iter().map(|it| it.pid.to_string()).collect();
                let text = format!("several processes are meant: {}", ids.join(", "));
                Err(Failure::usage(text).and("hint: choose one, by --pid, --app-type or --app-id"))
            }
        }
    }

    fn means(&self, process: &LocalProcess) -> bool {
        let is =
            |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|it| it == value);
        let Ok(info) = &process.info else { return self.pid == Some(process.pid) };
        self.pid.is_none_or(|pid| pid == process.pid)
            && is(&self.process_name, &process.program)
            && is(&self.app_id, &info.id)
            && is(&self.app_type, &info.kind)
            && is(&self.app_alias, &info.alias)
    }
}

/// The failure to ask a process.
fn silent(socket: &std::path::Path, problem: &AskError) -> Failure {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    let socket = socket.display();
    match problem {
        AskError::Refused(text) => Failure::refused(printable::line(text)),
        // A process closes the connection when it gets what is for another type of process.
        AskError::Io(error)
            if matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) =>
        {
            Failure::refused(format!("{socket}: the process has closed the connection"))
                .and("hint: `weft agent list` shows its type; --app-type chooses another process")
        }
        problem => Failure::unreachable(format!("{socket}: {problem}")),
    }
}

#[cfg(test)]
mod tests {
    use weft_agent::AppInfo;

    use super::*;

    #[test]
    fn a_process_is_chosen_by_what_it_is() {
        let info = |kind: &str, id: &str| AppInfo {
            kind: kind.into(),
            id: id.into(),
            ..AppInfo::default()
        };
        let process =
            |pid, info| LocalProcess { pid, program: "weft".into(), socket: "/s".into(), info };
        let router = process(7, Ok(info("router", "r1")));
        let broken = process(8, Err("it said nothing".into()));
        let means = |chosen: ChosenProcess| (chosen.means(&router), chosen.means(&broken));
        assert_eq!(means(ChosenProcess::default()), (true, false));
        assert_eq!(means(ChosenProcess { pid: Some(8), ..Default::default() }), (false, true));
        let of_kind =
            |kind: &str| ChosenProcess { app_type: Some(kind.into()), ..Default::default() };
        assert_eq!(means(of_kind("router")), (true, false));
        assert_eq!(means(of_kind("controller")), (false, false));
        let by_id = ChosenProcess { app_id: Some("r1".into()), ..of_kind("router") };
        assert_eq!(means(by_id), (true, false));
        let by_name = ChosenProcess { process_name: Some("ziti".into()), ..Default::default() };
        assert_eq!(means(by_name), (false, false));
    }
}
