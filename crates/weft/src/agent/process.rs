//! The answers of agents that do not depend on the kind of program: the process, its log, and what weft has elsewhere.

use std::fs;

use tokio::runtime::Handle;
use weft_agent::messages::content_type;
use weft_agent::{AgentReply, AgentRequest, AppKind, threads};
use weft_wire::ctrl::inspect_response::InspectValue;
use weft_wire::ctrl::{InspectRequest, InspectResponse, content_type as ctrl};
use weft_wire::{Message, ProtoBody as _};

use crate::{build, log};

/// The answer to a request that every program answers.
pub(super) fn answer(
    kind: AppKind,
    runtimes: &[Handle],
    request: &AgentRequest,
) -> Result<String, String> {
    match request {
        AgentRequest::Stacks => Ok(threads(runtimes)),
        AgentRequest::Collect => Ok(give_back()),
        AgentRequest::Memory => memory(),
        AgentRequest::Version => Ok(format!("weft {}\n", build::line())),
        AgentRequest::Stats => Ok(stats(runtimes)),
        AgentRequest::SetLevel(level) => {
            let before = log::set_level(*level)?;
            Ok(format!("log level set from {before} to {}\n", level.name()))
        }
        AgentRequest::SetModuleLevel(module, level) => {
            let before = log::set_module_level(module, Some(*level))?;
            let to = level.name();
            let hint = hint(module);
            Ok(format!("log level for channel {module} set from {before} to {to}{hint}\n"))
        }
        AgentRequest::ClearModuleLevel(module) => {
            let before = log::set_module_level(module, None)?;
            Ok(format!("log level for channel {module} cleared, was {before}\n"))
        }
        AgentRequest::HeapProfile | AgentRequest::HeapDump(_) => {
            Err(elsewhere(kind, "profile.memory"))
        }
        AgentRequest::CpuProfile | AgentRequest::Trace => Err(elsewhere(kind, "profile.cpu")),
        AgentRequest::Program => {
            Err("weft does not send its program: /proc/PID/exe leads to it\n".to_owned())
        }
        AgentRequest::SetCollector(_) => {
            Err("weft has no garbage collector; `weft agent gc` has it give back free memory\n"
                .to_owned())
        }
        AgentRequest::Custom { .. } => {
            Err("weft has no such operation; `weft list api-sessions` lists the sessions\n"
                .to_owned())
        }
        // Closed without an answer, as clients of later releases expect it.
        AgentRequest::Other(_)
        | AgentRequest::Info
        | AgentRequest::InfoAndCapabilities
        | AgentRequest::Channel(_) => Ok(String::new()),
    }
}

/// Notes that a module is probably none of weft's.
fn hint(module: &str) -> &'static str {
    let is_module = module.starts_with("weft") || module.contains("::");
    if is_module { "" } else { "; parts of weft's log are modules, such as weft_router::link" }
}

/// Where profiles are made.
fn elsewhere(kind: AppKind, section: &str) -> String {
    match kind {
        AppKind::Tunnel => {
            "weft makes no profiles of tunnelers; the system's tools do (perf, heaptrack)\n"
                .to_owned()
        }
        AppKind::Controller | AppKind::Router => format!(
            "weft writes profiles into files: {section} in its configuration (docs/running.md, Traces and profiles)\n"
        ),
    }
}

/// Gives free memory back to the system.
fn give_back() -> String {
    #[cfg(target_os = "linux")]
    {
        let (less, left) = weft_unsafe_pages::release_heap();
        format!("ok: {less} bytes given back, {left} bytes left\n")
    }
    #[cfg(not(target_os = "linux"))]
    "ok\n".to_owned()
}

fn stats(runtimes: &[Handle]) -> String {
    let sum = |of: fn(&Handle) -> usize| runtimes.iter().map(of).sum::<usize>();
    let tasks = sum(|runtime| runtime.metrics().num_alive_tasks());
    let workers = sum(|runtime| runtime.metrics().num_workers());
    let entries = |folder: &str| fs::read_dir(folder).ok().map(Iterator::count);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let shown = |count: Option<usize>| count.map_or("unknown".to_owned(), |it| it.to_string());
    format!(
        "tasks: {tasks}\nOS threads: {}\nworker threads: {workers}\nnum CPU: {cores}\nopen files: {}\n",
        shown(entries("/proc/self/task")),
        shown(entries("/proc/self/fd")),
    )
}

/// The use of memory, as the system counts it.
fn memory() -> Result<String, String> {
    let unknown = |_| "this system does not tell a process the use of its memory\n".to_owned();
    let status = fs::read_to_string("/proc/self/status").map_err(unknown)?;
    let names = [
        ("resident", "VmRSS"),
        ("most-resident", "VmHWM"),
        ("own", "RssAnon"),
        ("files", "RssFile"),
        ("swapped", "VmSwap"),
        ("reserved", "VmSize"),
    ];
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    let lines = names.iter().filter_map(|(name, key)| {
        let bytes = of(key)?.saturating_mul(1024);
        Some(format!("{name}: {bytes} bytes\n"))
    });
    Ok(lines.collect())
}

/// The reply to a message that no program of weft carries out in this way: what to use.
pub(super) fn elsewhere_by_message(kind: AppKind, message: &Message) -> AgentReply {
    let text = match (message.content_type, kind) {
        (content_type::ADD_MEMBER, AppKind::Controller) => {
            "controllers of weft join by themselves: `weft cluster invite NAME` prints what `weft controller join` needs"
        }
        (content_type::REMOVE_MEMBER, AppKind::Controller) => {
            "`weft cluster remove NAME` takes a controller out of the network"
        }
        (content_type::TRANSFER_LEADERSHIP, AppKind::Controller) => {
            "the controller that has been alive for the longest time leads: restart it, and another one leads"
        }
        (content_type::BEGIN_WITH_DATABASE | content_type::RESTORE, AppKind::Controller) => {
            "weft does not read a database of OpenZiti while it runs: stop it and use `weft controller import`; \
             `weft controller restore` restores a snapshot of weft"
        }
        (content_type::ROUTE | content_type::UNROUTE, AppKind::Router) => {
            "routes of weft are made by controllers only: `weft delete circuit ID` ends a circuit"
        }
        (other, kind) => {
            let kind = kind.name();
            let text = format!(
                "weft's agent of a {kind} has no operation {other}; `weft --help` lists the commands"
            );
            return AgentReply::outcome(Err(text));
        }
    };
    AgentReply::outcome(Err(text.to_owned()))
}

/// The names that an inspection asks for.
pub(super) fn inspected(message: &Message) -> Option<Result<Vec<String>, String>> {
    (message.content_type == ctrl::INSPECT_REQUEST).then(|| {
        let request = InspectRequest::from_message(message).map_err(|error| error.to_string())?;
        Ok(request.requested_values)
    })
}

/// The reply to an inspection.
pub(super) fn inspection(values: Result<Vec<(String, String)>, String>) -> AgentReply {
    let response = match values {
        Ok(values) => InspectResponse {
            success: true,
            errors: Vec::new(),
            values: values.into_iter().map(|(name, value)| InspectValue { name, value }).collect(),
        },
        Err(problem) => {
            InspectResponse { success: false, errors: vec![problem], values: Vec::new() }
        }
    };
    response.to_message().into()
}

/// The runtime of the program.
pub(super) fn own_runtime() -> Vec<Handle> {
    Handle::try_current().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_process_tells_of_itself() {
        let answer = |request| answer(AppKind::Router, &own_runtime(), &request);
        let stats = answer(AgentRequest::Stats).unwrap();
        assert!(stats.starts_with("tasks: ") && stats.contains("\nnum CPU: "), "{stats}");
        assert!(answer(AgentRequest::Version).unwrap().contains(build::RELEASE));
        assert!(answer(AgentRequest::Stacks).unwrap().contains("runtime: 1 workers"));
        assert_eq!(answer(AgentRequest::Other(0x77)), Ok(String::new()));
        assert!(answer(AgentRequest::CpuProfile).unwrap_err().contains("profile.cpu"));
        if cfg!(target_os = "linux") {
            let memory = answer(AgentRequest::Memory).unwrap();
            assert!(memory.starts_with("resident: ") && memory.ends_with(" bytes\n"), "{memory}");
        }
    }
}
