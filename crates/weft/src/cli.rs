//! The command line: the arguments of every command, as clap parses them.
//!
//! Commands with arguments of their own are declared here. `create`, `list`, `show`, `update`,
//! `delete` and the actions on entities are built from the tables of kinds in [`crate::entity`], so
//! that a new kind needs nothing here.

mod agents;
mod authorities;
mod cluster;
mod codes;
mod documents;
mod identities;
mod imports;
mod insight;
mod keys;
mod logins;
mod printing;
mod programs;
mod proofs;
mod signers;
mod tunnels;

use std::ffi::OsString;

pub(crate) use agents::{
    AgentArgs, AgentClusterCommand, AgentCommand, AgentControllerCommand, AgentOptions,
    AgentRouterCommand, ChosenProcess,
};
pub(crate) use authorities::{CaAddArgs, CaArgs, CaCommand};
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
pub(crate) use cluster::{ClusterArgs, ClusterCommand};
pub(crate) use codes::CodeSource;
pub(crate) use documents::{
    ApplyArgs, CallArgs, DiffArgs, DocumentForm, DocumentFormat, ExportArgs,
};
pub(crate) use identities::{
    EnrollArgs, JwtArgs, JwtOf, OverrideArgs, OverrideCommand, PasswordArgs, SecondFactorArgs,
};
pub(crate) use imports::{CompareArgs, ImportArgs, ImportRequest};
pub(crate) use insight::{InspectArgs, TopologyArgs, UnprovenArgs, WhyArgs, WhyPathArgs};
pub(crate) use keys::{KeysArgs, KeysCommand};
pub(crate) use logins::{LoginArgs, LoginsArgs, LogoutArgs, StatusArgs, UseArgs};
pub(crate) use printing::Output;
pub(crate) use programs::{
    ControllerCommand, ControllerConfigArgs, ControllerJoinArgs, ControllerMoveArgs,
    ControllerRestoreArgs, DatabaseArgs, DatabaseCommand, QuickstartArgs, RouterCommand,
    RouterConfigArgs, RouterSort, TraceShowArgs, Variables, WithParentArgs,
};
pub(crate) use proofs::{TrafficArgs, VerifyCaArgs, VerifyCommand};
pub(crate) use signers::{SignerAddArgs, SignerArgs, SignerCommand, SignerTestArgs};
pub(crate) use tunnels::{
    Clients, DialArgs, DnsUnanswered, DnsUpstreams, HostArgs, HostPrecedence, IdentityLogin,
    Intercepting, PortsAt, Running, TracerouteArgs, TunnelCommand, TunnelProxyArgs, TunnelRunArgs,
    TunnelStatusArgs,
};

use crate::entity::{self, action};
use crate::output::{self, Format};
use crate::session::LoginChoice;
use crate::{arguments, build};

/// The commands that do not depend on the kinds of entities.
#[derive(Debug, Parser)]
#[command(
    name = "weft",
    version = build::line(),
    about = "A zero-trust overlay network: controller, router and the operator's commands",
    long_about = "weft lets applications reach services by name, with no open port on the underlay.\n\
                  A controller decides who may reach what; routers carry the data.\n\n\
                  New here? `weft quickstart` brings up a whole network on this machine and says \
                  what to try next.",
    after_help = "Exit status: 0 done, 1 failed, 2 the command line or a configuration file was wrong, 3 not logged in or \
                  not allowed,\n  4 no such entity, 5 refused, 6 the controller is not there or \
                  busy, 8 there are differences\n  (`weft diff --exit-code`, `weft controller import --compare`), 130 interrupted.\n\
                  Settings (--output, --login, --config-dir) may stand anywhere. A value may begin \
                  with a dash,\n  as in --cert-pem \"$(cat ca.pem)\"; one that looks like a flag \
                  follows an equals sign: --name=--x.\n\
                  Logging: set RUST_LOG, for instance RUST_LOG=weft_router=debug,info.\n\
                  Completion: `weft completions --help`.",
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Fixed,
}

/// Commands with arguments of their own.
#[derive(Debug, Subcommand)]
pub(crate) enum Fixed {
    /// Bring up a controller and edge routers on this machine, ready to use
    ///
    /// In an empty folder the command makes the certificates, writes the files of the controller and
    /// of each router, creates the administrator, starts the controller, enrolls and starts the
    /// routers, and proves the network with a self-check. Started again with the same folder, the
    /// command runs the same network, with all that was changed in it.
    ///
    /// With --routers there are several routers, each a process of its own with links to all others.
    /// A router that ends is started again; all routers end with this command.
    ///
    /// With --controllers there are several controllers, each a process of its own, too. They share the network in
    /// etcd, which this command starts and ends; its program has to be installed.
    Quickstart(QuickstartArgs),
    /// Set up, run, check or restore a controller
    #[command(subcommand)]
    Controller(ControllerCommand),
    /// List the controllers of a network, let further ones in, or take one out
    Cluster(ClusterArgs),
    /// Enroll, run or check a router, or write a file for a new one
    #[command(subcommand)]
    Router(RouterCommand),
    /// Let programs without an SDK use services, or host them, as an identity
    #[command(subcommand)]
    Tunnel(TunnelCommand),
    /// Connect standard input and output with a service
    Dial(DialArgs),
    /// Host an application of this machine as a service, until Ctrl-C
    Host(HostArgs),
    /// Show the hops between an identity and a host of a service, each with its round-trip time
    ///
    /// Dials the service, asks the first hop on the way for its name, then the second, and so on
    /// to the host, and closes the connection. The application that the host connects to sees a
    /// connection without data.
    Traceroute(TracerouteArgs),
    /// Log in to a controller; later commands use this login
    Login(LoginArgs),
    /// End a saved login and forget it
    Logout(LogoutArgs),
    /// List the saved logins
    Logins(LoginsArgs),
    /// Make another saved login the current one
    Use(UseArgs),
    /// Say which identity is logged in at which controller, and how large the network is
    Status(StatusArgs),
    /// Say why an identity can, or cannot, reach a service, and what would help
    #[command(alias = "advise")]
    Why(WhyArgs),
    /// List who could not use a service that demands that both ends prove who they are
    ///
    /// Terminators and service sessions of clients that have named no key of an end: SDKs of
    /// OpenZiti, old programs, and bindings of routers.
    Unproven(UnprovenArgs),
    /// Draw the mesh: routers, links and their costs
    ///
    /// Up to 12 routers are drawn, or shown as a table of the costs between them where the drawing
    /// would be too dense; with more routers, only tables of routers and links are shown.
    Topology(TopologyArgs),
    /// Say over which path a dial goes now, and why not over another
    ///
    /// Shows the chosen terminator and path, the cost of each step, up to three other paths, and
    /// why the other terminators are not chosen.
    WhyPath(WhyPathArgs),
    /// Turn an enrollment token into an identity file
    Enroll(EnrollArgs),
    /// Set up a second factor (TOTP) of an identity: an authenticator app whose codes its logins need
    ///
    /// Shows the URL for the app and the recovery codes, and asks for a code of the app, which completes the second
    /// factor.
    SecondFactor(SecondFactorArgs),
    /// Show the enrollment token of an identity, a router, an authority or the network
    Jwt(JwtArgs),
    /// Change one's own password, or set that of another identity
    Password(PasswordArgs),
    /// Give an identity a config for a service in place of the service's own
    Override(OverrideArgs),
    /// Make a CA of an authority of one's own, and prove that one holds its key
    Ca(CaArgs),
    /// Make a signer of an identity provider, or test a token of one
    Signer(SignerArgs),
    /// Prove that a network works, or that one holds the key of a certificate authority
    #[command(subcommand)]
    Verify(VerifyCommand),
    /// List the keys that sign tokens, or have another one sign
    Keys(KeysArgs),
    /// Take a snapshot of the controller's database, or check and repair it
    Database(DatabaseArgs),
    /// Ask controllers and routers about their inner state
    Inspect(InspectArgs),
    /// Ask the controllers, routers and tunnelers that run on this machine, without a login
    ///
    /// Each of them listens at a socket that only its own user and root can open. The processes of OpenZiti have the same
    /// socket, and are asked in the same way; `ziti agent` asks those of weft.
    Agent(AgentArgs),
    /// Write the network as a YAML file, for git
    Export(ExportArgs),
    /// Say what files would change, and who would gain or lose access to what
    Diff(DiffArgs),
    /// Change the network so that it is as files say: all changes at once, or none
    Apply(ApplyArgs),
    /// Call any operation of any API by its id
    Call(CallArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Say which release this is, and of which commit it was built
    Version(VersionArgs),
    /// Become another program that is told to stop when the parent process ends
    #[command(hide = true)]
    WithParent(WithParentArgs),
}

/// Arguments of `weft completions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  echo 'source <(weft completions bash)' >> ~/.bashrc\n  \
                  echo 'source <(weft completions zsh)' >> ~/.zshrc\n  \
                  weft completions fish > ~/.config/fish/completions/weft.fish\n\n\
                  The script asks weft itself, which knows the names in the network while somebody \
                  is\nlogged in. With --static it only knows commands and flags, and asks nobody.")]
pub(crate) struct CompletionsArgs {
    /// The shell to write for
    pub(crate) shell: clap_complete::Shell,
    /// Write a script that knows only commands and flags, and never asks weft
    #[arg(long = "static")]
    pub(crate) fixed: bool,
}

/// Arguments of `weft version`.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    #[command(flatten)]
    pub(crate) output: Output,
}

/// A parsed command line.
pub(crate) enum Asked {
    /// A command with arguments of its own.
    Fixed(Box<Fixed>),
    /// A command over a kind of entity.
    Entity(Box<entity::Request>),
    /// An action on an entity.
    Action(Box<action::ActionRequest>),
    /// Showing the messages in a trace file.
    TraceShow(Box<TraceShowArgs>),
}

/// The whole command line, as `--help` and the completions show it.
pub(crate) fn command() -> Command {
    let built = entity::commands().into_iter().chain(action::verbs());
    let whole = built.fold(Cli::command(), Command::subcommand);
    // `trace` is also the action that traces entities of some kinds.
    whole.mut_subcommand(TRACE, |trace| {
        trace.subcommand(TraceShowArgs::augment_args(Command::new(SHOW)))
    })
}

/// The command line as the shell completes it. Settings may come before the name of a command, as
/// [`arguments::settle`] says; the parser itself knows settings behind the name only.
pub(crate) fn command_to_complete() -> Command {
    let settings = LoginChoice::augment_args(Command::new("weft")).arg(Format::arg());
    let settings = settings.get_arguments().cloned().map(|setting| setting.global(false));
    command().args(settings)
}

/// The word for traces, and the word for showing a trace file.
const TRACE: &str = "trace";
const SHOW: &str = "show";

/// Commands that run for months. They are parsed separately, because building all commands would
/// take memory for as long as they run.
#[derive(Debug, Parser)]
#[command(name = "weft", disable_help_flag = true, disable_help_subcommand = true)]
enum Staying {
    /// See [`Fixed::Controller`].
    #[command(subcommand)]
    Controller(ControllerCommand),
    /// See [`Fixed::Router`].
    #[command(subcommand)]
    Router(RouterCommand),
}

/// The command, if it is one that runs for months.
fn staying(words: &[OsString]) -> Option<Fixed> {
    let is = |at: usize, word: &str| words.get(at).is_some_and(|given| given == word);
    if !(is(1, "controller") || is(1, "router")) || !is(2, "run") {
        return None;
    }
    // Errors are reported by parsing the whole command line.
    Some(match Staying::try_parse_from(words).ok()? {
        Staying::Controller(command) => Fixed::Controller(command),
        Staying::Router(command) => Fixed::Router(command),
    })
}

/// Reads the command line. Wrong usage and `--help` end the process as clap does it.
pub(crate) fn parse() -> Asked {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(program) = staying(&words) {
        return Asked::Fixed(Box::new(program));
    }
    let mut command = command();
    // Commands inherit flags from outer ones when they are built.
    command.build();
    let settled = arguments::settle(&command, words.iter().cloned());
    let matches = match command.try_get_matches_from_mut(&settled.words) {
        Ok(matches) => matches,
        Err(error) => leave(&arguments::suggest(&command, &words, settled.explain(error))),
    };
    if let Some((name, rest)) = matches.subcommand() {
        if let (TRACE, Some((SHOW, shown))) = (name, rest.subcommand()) {
            return match TraceShowArgs::from_arg_matches(shown) {
                Ok(args) => Asked::TraceShow(Box::new(args)),
                Err(error) => leave(&error),
            };
        }
        if let Some(request) = entity::Request::from_matches(name, rest) {
            return Asked::Entity(Box::new(request));
        }
        if let Some(request) = action::ActionRequest::from_matches(name, rest) {
            return Asked::Action(Box::new(request));
        }
    }
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => Asked::Fixed(Box::new(cli.command)),
        Err(error) => leave(&error),
    }
}

/// Prints help or a mistake of the command line, and ends the process.
fn leave(error: &clap::Error) -> ! {
    use std::io::{ErrorKind, Write as _, stdout};
    let status = match error.print().and_then(|()| stdout().flush()) {
        Err(failed) if failed.kind() != ErrorKind::BrokenPipe => {
            output::note(format_args!("weft: cannot print: {failed}"));
            1
        }
        _ => error.exit_code(),
    };
    std::process::exit(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_whole() {
        command().debug_assert();
        command_to_complete().debug_assert();
    }

    #[test]
    fn programs_that_stay_are_read_without_the_other_commands() {
        let read = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            staying(&words)
        };
        let Some(Fixed::Router(RouterCommand::Run { file, grace, log, .. })) =
            read("weft router run --grace 3 r.yaml --log-format json")
        else {
            panic!("a router that runs");
        };
        assert_eq!((file.to_str(), grace), (Some("r.yaml"), 3));
        assert_eq!(log.log_format, crate::log::LogFormat::Json);
        assert!(read("weft controller run c.yaml").is_some());
        // Errors and help of these lines come from parsing the whole command line.
        for line in ["weft router run", "weft router run --help", "weft router enroll r.yaml"] {
            assert!(read(line).is_none(), "{line}");
        }
    }

    /// What the environment has counts as given, whoever put it there.
    #[test]
    fn a_password_of_the_environment_is_in_the_way_of_nothing() {
        for line in [
            "login ctrl.example --browser -p secret",
            "login ctrl.example --device -p secret",
            "login ctrl.example --ext-jwt token.jwt -p secret",
            "login --identity me.json -p secret",
            "enroll ca.jwt --cert cert.pem --key key.pem --new-password secret",
        ] {
            let words = ["weft"].into_iter().chain(line.split(' '));
            Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn no_two_commands_have_the_same_name() {
        let command = command();
        let mut names: Vec<&str> = command
            .get_subcommands()
            .flat_map(|sub| std::iter::once(sub.get_name()).chain(sub.get_all_aliases()))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn every_command_says_what_it_is_for() {
        fn walk(command: &Command, settings: &str) {
            for sub in command.get_subcommands() {
                let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
                let name = sub.get_name();
                assert!(!about.is_empty() && about != settings, "{name}: {about}");
                walk(sub, settings);
            }
        }
        let settings = LoginChoice::augment_args(Command::new("x"));
        walk(&command(), &settings.get_about().unwrap().to_string());
    }
}
