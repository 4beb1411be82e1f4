//! The command line: what can be said, and what each thing means.
//!
//! Commands with a shape of their own are written here. `create`, `list`, `show`, `update` and
//! `delete` are built from the table of kinds in [`crate::entity`], so that a new kind needs one
//! row there and nothing here.

use std::path::PathBuf;

use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::entity;

/// The part of the command line that is the same for every kind of entity.
#[derive(Debug, Parser)]
#[command(
    name = "weft",
    version,
    about = "A zero-trust overlay network: controller, router and the operator's commands",
    long_about = "weft lets applications reach services by name, with no open port on the underlay.\n\
                  A controller decides who may reach what; routers carry the data.\n\n\
                  New here? `weft quickstart` brings up a whole network on this machine and says \
                  what to try next.",
    after_help = "Exit status: 0 done, 1 failed, 2 the command line was wrong, 3 not logged in, \
                  130 interrupted.\n\
                  Logging: set RUST_LOG, for instance RUST_LOG=weft_router=debug,info.",
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Fixed,
}

/// Commands with a shape of their own.
#[derive(Debug, Subcommand)]
pub(crate) enum Fixed {
    /// Bring up a controller and an edge router on this machine, ready to use
    ///
    /// In an empty home it makes the certificates, writes a controller and a router file, creates
    /// the administrator, starts both, enrolls the router and proves the network with a
    /// self-check. Started again on the same home it resumes with everything kept.
    Quickstart(QuickstartArgs),
    /// Initialize or run a controller
    #[command(subcommand)]
    Controller(ControllerCommand),
    /// Enroll or run a router
    #[command(subcommand)]
    Router(RouterCommand),
    /// Log in to a controller; later commands use this login
    Login(LoginArgs),
    /// Forget the saved login
    Logout(LoginHome),
    /// Turn an enrollment token into an identity file
    Enroll(EnrollArgs),
    /// Prove that a network works
    #[command(subcommand)]
    Verify(VerifyCommand),
    /// Print a completion script for a shell
    ///
    /// For bash: weft completions bash > /etc/bash_completion.d/weft
    Completions {
        /// The shell to write for
        shell: clap_complete::Shell,
    },
}

/// Where `quickstart` keeps the network, who administers it and where it listens.
#[derive(Debug, Args)]
pub(crate) struct QuickstartArgs {
    /// Folder for everything: keys, files, database [default: the user's data folder]
    #[arg(long, value_name = "DIR", env = "WEFT_HOME")]
    pub(crate) home: Option<PathBuf>,
    /// Name of the administrator [default: admin]
    #[arg(long, value_name = "NAME", help_heading = "Only at creation")]
    pub(crate) username: Option<String>,
    /// Password of the administrator; without it one is made up and printed once
    #[arg(
        long,
        value_name = "PASSWORD",
        env = "WEFT_PASSWORD",
        hide_env_values = true,
        help_heading = "Only at creation"
    )]
    pub(crate) password: Option<String>,
    /// Port of the controller (APIs and control plane); 0 picks a free one [default: 1280]
    #[arg(long, value_name = "PORT", help_heading = "Only at creation")]
    pub(crate) ctrl_port: Option<u16>,
    /// Port of the edge router; 0 picks a free one [default: 3022]
    #[arg(long, value_name = "PORT", help_heading = "Only at creation")]
    pub(crate) router_port: Option<u16>,
    /// Host name or address under which clients and routers reach the controller
    /// [default: localhost]
    #[arg(long, value_name = "HOST", help_heading = "Only at creation")]
    pub(crate) ctrl_address: Option<String>,
    /// Host name or address under which clients reach the router [default: localhost]
    #[arg(long, value_name = "HOST", help_heading = "Only at creation")]
    pub(crate) router_address: Option<String>,
}

/// What can be done with a controller of one's own.
#[derive(Debug, Subcommand)]
pub(crate) enum ControllerCommand {
    /// Create the database and the administrator named on the command line
    Init {
        /// The controller's configuration file
        file: PathBuf,
        /// Name of the administrator
        #[arg(long, short = 'u', value_name = "NAME", default_value = "admin")]
        username: String,
        /// Password of the administrator; asked for when absent
        #[arg(
            long,
            short = 'p',
            value_name = "PASSWORD",
            env = "WEFT_PASSWORD",
            hide_env_values = true
        )]
        password: Option<String>,
        /// Name of the administrator's identity
        #[arg(long, short = 'n', value_name = "TEXT", default_value = "Default Admin")]
        name: String,
    },
    /// Run the controller until it is told to stop
    Run {
        /// The controller's configuration file
        file: PathBuf,
    },
}

/// What can be done with a router of one's own.
#[derive(Debug, Subcommand)]
pub(crate) enum RouterCommand {
    /// Turn an enrollment token into the keys and certificates that the file names
    Enroll {
        /// The router's configuration file
        file: PathBuf,
        /// File with the enrollment token
        #[arg(long, short = 'j', value_name = "TOKENFILE")]
        jwt: PathBuf,
    },
    /// Run the router until it is told to stop
    Run {
        /// The router's configuration file
        file: PathBuf,
    },
}

/// Where saved logins lie.
#[derive(Debug, Args, Clone)]
pub(crate) struct LoginHome {
    /// Folder of saved logins [default: the user's configuration folder]
    #[arg(long, value_name = "DIR", env = "WEFT_CONFIG_DIR", global = true)]
    pub(crate) config_dir: Option<PathBuf>,
}

/// Who logs in where.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The controller: https://host:port, or host:port
    #[arg(value_name = "URL", default_value = "https://localhost:1280", env = "WEFT_CTRL_URL")]
    pub(crate) url: String,
    /// User name
    #[arg(long, short = 'u', value_name = "NAME", default_value = "admin", env = "WEFT_USERNAME")]
    pub(crate) username: String,
    /// Password; asked for when absent
    #[arg(
        long,
        short = 'p',
        value_name = "PASSWORD",
        env = "WEFT_PASSWORD",
        hide_env_values = true
    )]
    pub(crate) password: Option<String>,
    /// Certificates to trust; without them they are fetched from the controller and shown
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Trust the fetched certificates without asking
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) home: LoginHome,
}

/// Which token to enroll, and where the identity goes.
#[derive(Debug, Args)]
pub(crate) struct EnrollArgs {
    /// File with the enrollment token
    #[arg(value_name = "TOKENFILE")]
    pub(crate) jwt: PathBuf,
    /// Identity file to write [default: the token file with the ending .json]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Overwrite an identity file that exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// What can be verified.
#[derive(Debug, Subcommand)]
pub(crate) enum VerifyCommand {
    /// Move data both ways through a throw-away service and measure
    ///
    /// Makes a service, a hosting and a dialing identity, moves data through the overlay with
    /// checksums, prints throughput and round-trip time and removes what it made, also after
    /// Ctrl-C.
    Traffic(TrafficArgs),
}

/// How much traffic to make.
#[derive(Debug, Args)]
pub(crate) struct TrafficArgs {
    /// Data to move in each direction, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    pub(crate) size: u32,
    /// Round trips to time
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) pings: u32,
    /// Seconds to wait for anything before giving up
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) timeout: u32,
    /// Print the figures as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) home: LoginHome,
}

/// What was asked for.
pub(crate) enum Asked {
    /// A command with a shape of its own.
    Fixed(Fixed),
    /// A command over a kind of entity.
    Entity(entity::Request),
}

/// The whole command line, as `--help` and the completions show it.
pub(crate) fn command() -> Command {
    entity::commands().into_iter().fold(Cli::command(), Command::subcommand)
}

/// Reads the command line. Wrong usage and `--help` end the process as clap does it.
pub(crate) fn parse() -> Asked {
    let matches = command().get_matches();
    if let Some((name, rest)) = matches.subcommand()
        && let Some(request) = entity::Request::from_matches(name, rest)
    {
        return Asked::Entity(request);
    }
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => Asked::Fixed(cli.command),
        Err(error) => error.exit(),
    }
}
