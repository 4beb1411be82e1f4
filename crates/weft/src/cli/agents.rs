//! The arguments of `weft agent`, and those of programs with an agent.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use weft_agent::{Level, Place};

use super::printing::Output;

/// The agent of a controller, router or tunneler.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Agent")]
pub(crate) struct AgentOptions {
    /// Whether users of this machine may ask this process with `weft agent` or `ziti agent`: its own user, and root
    #[arg(
        long = "cli-agent",
        visible_alias = "cliagent",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    pub(crate) enabled: bool,
    /// Socket of the agent, as unix:/run/weft/agent.sock [default: gops-agent.PID.sock in $TMPDIR or /tmp]
    #[arg(long = "cli-agent-addr", value_name = "ADDRESS", value_parser = place)]
    pub(crate) address: Option<Place>,
    /// Another name of this process for `weft agent --app-alias`
    #[arg(long = "cli-agent-alias", value_name = "NAME", default_value = "")]
    pub(crate) alias: String,
}

/// The place of a socket: `unix:/path`.
fn place(text: &str) -> Result<Place, String> {
    match text.split_once(':') {
        Some(("unix", path)) if !path.is_empty() => Ok(Place::At(path.into())),
        Some(("tcp", _)) => Err(
            "any user of the machine could connect to a port, so that the agent has none: give \
                                 unix:/path"
                .to_owned(),
        ),
        _ => Err("give unix:/path".to_owned()),
    }
}

/// Arguments of `weft agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(subcommand)]
    pub(crate) command: AgentCommand,
    #[command(flatten)]
    pub(crate) process: ChosenProcess,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// The choice of a process, of which one must be left.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Process")]
pub(crate) struct ChosenProcess {
    /// Process id
    #[arg(long, short = 'p', value_name = "PID", global = true)]
    pub(crate) pid: Option<u32>,
    /// Name of the program, such as weft or ziti
    #[arg(long, short = 'n', value_name = "NAME", global = true)]
    pub(crate) process_name: Option<String>,
    /// Id of the controller or router
    #[arg(long, short = 'i', value_name = "ID", global = true)]
    pub(crate) app_id: Option<String>,
    /// controller, router or tunnel
    #[arg(long, short = 't', value_name = "TYPE", global = true)]
    pub(crate) app_type: Option<String>,
    /// The name that --cli-agent-alias gave the process
    #[arg(long, short = 'a', value_name = "NAME", global = true)]
    pub(crate) app_alias: Option<String>,
    /// Socket of the process, for instance unix:/run/weft/agent.sock
    #[arg(long, value_name = "ADDRESS", global = true, value_parser = socket)]
    pub(crate) app_addr: Option<PathBuf>,
    /// Longest wait for an answer, in seconds, 1 to 600
    #[arg(
        long,
        value_name = "SECONDS",
        global = true,
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=600)
    )]
    pub(crate) timeout: u32,
}

/// The path in `unix:/path`.
fn socket(text: &str) -> Result<PathBuf, String> {
    match text.strip_prefix("unix:").unwrap_or(text) {
        path if path.starts_with('/') || path.starts_with('.') => Ok(path.into()),
        _ => Err("give unix:/path".to_owned()),
    }
}

/// Subcommands of `weft agent`.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// List the processes that can be asked
    List,
    /// Say which release a process is
    Version,
    /// Show the numbers of tasks, threads and open files
    Stats,
    /// Show the threads; of processes of OpenZiti, call stacks
    Stack,
    /// Show the use of memory
    Memstats,
    /// Have the process give back memory that it does not need
    Gc,
    /// Set the level of the log, until the process ends or reads its levels again (SIGHUP)
    #[command(after_help = "Example:\n  weft agent set-log-level debug --app-type router")]
    SetLogLevel {
        /// panic, fatal, error, warn, info, debug or trace
        level: Level,
    },
    /// Set the level of a part of the log
    #[command(
        after_help = "Example:\n  weft agent set-channel-log-level weft_router::link trace --app-type router"
    )]
    SetChannelLogLevel {
        /// A module, such as weft_router::link; of processes of OpenZiti, a channel
        module: String,
        /// panic, fatal, error, warn, info, debug or trace
        level: Level,
    },
    /// Give a part of the log the level of the log again
    ClearChannelLogLevel {
        /// A module; of processes of OpenZiti, a channel
        module: String,
    },
    /// Show inner values of the process; `weft inspect` asks several programs by a controller
    #[command(after_help = "Examples:\n  weft agent inspect links --app-type router\n  \
                  weft agent inspect connected-routers --app-type controller")]
    Inspect {
        /// Names of values
        #[arg(required = true)]
        values: Vec<String>,
    },
    /// Ask a controller
    #[command(subcommand)]
    Controller(AgentControllerCommand),
    /// Ask a controller about those of its network
    #[command(subcommand)]
    Cluster(AgentClusterCommand),
    /// Ask a router
    #[command(subcommand)]
    Router(AgentRouterCommand),
}

/// Subcommands of `weft agent controller`.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentControllerCommand {
    /// Write a snapshot of the database, below the controller's folder for snapshots
    SnapshotDb {
        /// File of the snapshot [default: a file beside the database, with the time in its name]
        path: Option<String>,
    },
}

/// Subcommands of `weft agent cluster`.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentClusterCommand {
    /// List the controllers of the network
    List,
}

/// Subcommands of `weft agent router`.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentRouterCommand {
    /// Show the circuits through the router
    DumpRoutes,
    /// Show the links of the router
    DumpLinks,
    /// Have the network use the router's terminators only if there are no others
    Quiesce,
    /// End what `quiesce` has begun
    Dequiesce,
    /// Delete the router from the network, and end it
    Decommission {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
    /// Close a link; the router needs --debug-ops
    ForgetLink {
        /// Id of the link
        link: String,
    },
    /// Cut the connection to a controller, and keep it cut; the router needs --debug-ops
    Disconnect {
        /// Id of the controller [default: all]
        controller: Option<String>,
    },
    /// Let the router connect to a controller again; the router needs --debug-ops
    Reconnect {
        /// Id of the controller [default: all]
        controller: Option<String>,
    },
}
