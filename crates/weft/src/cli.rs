//! The command line: what can be said, and what each thing means.
//!
//! Commands with a shape of their own are written here. `create`, `list`, `show`, `update`,
//! `delete` and the actions on entities are built from the tables of kinds in [`crate::entity`], so
//! that a new kind needs nothing here.

use std::path::PathBuf;

use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};

use crate::{
    arguments, build,
    entity::{self, action, complete},
    output::Format,
    session::{LoginFolder, Session},
};

/// The part of the command line that is the same for every kind of entity.
#[derive(Debug, Parser)]
#[command(
    name = "weft",
    version = build::line(),
    about = "A zero-trust overlay network: controller, router and the operator's commands",
    long_about = "weft lets applications reach services by name, with no open port on the underlay.\n\
                  A controller decides who may reach what; routers carry the data.\n\n\
                  New here? `weft quickstart` brings up a whole network on this machine and says \
                  what to try next.",
    after_help = "Exit status: 0 done, 1 failed, 2 the command line was wrong, 3 not logged in or \
                  not allowed,\n  4 no such entity, 5 refused, 6 the controller is not there or \
                  busy, 8 there are differences\n  (`weft diff --exit-code`), 130 interrupted.\n\
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

/// Commands with a shape of their own.
#[derive(Debug, Subcommand)]
pub(crate) enum Fixed {
    /// Bring up a controller and edge routers on this machine, ready to use
    ///
    /// In an empty home it makes the certificates, writes a controller and a router file, creates
    /// the administrator, starts both, enrolls the router and proves the network with a
    /// self-check. Started again on the same home it resumes with everything kept.
    ///
    /// With --routers it starts several, each a process of its own that links with all others. A
    /// process that ends is started again; all of them end with this command.
    Quickstart(QuickstartArgs),
    /// Initialize or run a controller
    #[command(subcommand)]
    Controller(ControllerCommand),
    /// Enroll or run a router
    #[command(subcommand)]
    Router(RouterCommand),
    /// Log in to a controller; later commands use this login
    Login(LoginArgs),
    /// End a saved login and forget it
    Logout(LogoutArgs),
    /// List the saved logins
    Logins(LoginsArgs),
    /// Make another saved login the current one
    Use(UseArgs),
    /// Say who is logged in where, and how large the network is
    Status(StatusArgs),
    /// Say why an identity can, or cannot, reach a service, and what would help
    #[command(visible_alias = "advise")]
    Why(WhyArgs),
    /// Draw the mesh: routers, links and what they cost
    ///
    /// Up to 12 routers are drawn, or shown as a table of who costs what to whom where the drawing
    /// would be too dense; beyond that there are tables of routers and links alone.
    Topology(TopologyArgs),
    /// Say over which path a dial goes now, and why not over another
    ///
    /// Shows the terminator and the path that are chosen, what each step costs, up to three other
    /// paths, and what is against the other terminators.
    WhyPath(WhyPathArgs),
    /// Turn an enrollment token into an identity file
    Enroll(EnrollArgs),
    /// Show the enrollment token of an identity, a router, an authority or the network
    Jwt(JwtArgs),
    /// Change one's own password, or set that of another identity
    Password(PasswordArgs),
    /// Give an identity other configs for a service than everybody sees
    Override(OverrideArgs),
    /// Prove that a network works, or that a certificate authority is one's own
    #[command(subcommand)]
    Verify(VerifyCommand),
    /// Take a snapshot of the controller's database, or check and repair it
    Database(DatabaseArgs),
    /// Ask controllers and routers about their inner state
    Inspect(InspectArgs),
    /// Write the network as a YAML file, for git
    Export(ExportArgs),
    /// Say what files would change, and who would gain or lose access to what
    Diff(DiffArgs),
    /// Make the network as files say: all of it, or nothing
    Apply(ApplyArgs),
    /// Call any operation of any API by its id
    Call(CallArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Say which release this is, and of which commit it was built
    Version(VersionArgs),
}

/// Where `quickstart` keeps the network, who administers it and where it listens.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft quickstart --home ./w1\n  \
                  weft quickstart --home ./w3 --routers 3      then: weft topology --watch")]
pub(crate) struct QuickstartArgs {
    /// Folder for everything: keys, files, database [default: the user's data folder]
    #[arg(long, value_name = "DIR", env = "WEFT_HOME")]
    pub(crate) home: Option<PathBuf>,
    /// How many routers, 1 to 9; a network gets more of them, but not fewer
    /// [default: as many as there are, 1 in a new network]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=9))]
    pub(crate) routers: Option<u8>,
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
    /// Port of the edge router, further ones have those behind it; 0 picks free ones
    /// [default: 3022]
    #[arg(long, value_name = "PORT", help_heading = "Only at creation")]
    pub(crate) router_port: Option<u16>,
    /// Port for links of the first router, further ones have those behind it; 0 picks free ones
    /// [default: 10080]
    #[arg(long, value_name = "PORT", help_heading = "Only at creation")]
    pub(crate) link_port: Option<u16>,
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
    /// Put a snapshot of the database in the place of the database
    ///
    /// The controller must not run. The snapshot is checked as a whole first; the database that was
    /// there is kept beside it. Everybody logs in anew, and routers take the whole data model.
    #[command(
        after_help = "Example:\n  weft controller restore controller.yaml ctrl.db-20260102-030405"
    )]
    Restore {
        /// The controller's configuration file
        file: PathBuf,
        /// The snapshot
        #[arg(value_name = "SNAPSHOT")]
        snapshot: PathBuf,
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
        /// Stop when standard input ends, which is when the process ends that holds its other end
        #[arg(long, hide = true)]
        exit_with_parent: bool,
    },
}

/// How a command prints what it found.
#[derive(Debug, Args, Clone, Copy)]
pub(crate) struct Output {
    /// How to print; names in JSON and YAML do not change
    #[arg(
        long,
        short = 'o',
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        help_heading = "Settings",
        global = true
    )]
    output: Format,
}

impl Output {
    /// The format.
    pub(crate) fn format(self) -> Format {
        self.output
    }
}

/// Who logs in where.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft login ctrl.example:1280 --username admin\n  \
                  weft login --identity laptop.json\n  \
                  weft login prod.example:1280 --name prod\n\n\
                  A login by certificate is renewed by itself when it has ended.")]
pub(crate) struct LoginArgs {
    /// The controller: https://host:port, or host:port [default: the one the identity file names,
    /// or https://localhost:1280]
    #[arg(value_name = "URL", env = "WEFT_CTRL_URL", hide_env = true)]
    pub(crate) url: Option<String>,
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
    /// Log in with the certificate of this identity file, as `weft enroll` writes it
    #[arg(
        long,
        short = 'i',
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["cert", "token"]
    )]
    pub(crate) identity: Option<PathBuf>,
    /// Log in with this certificate (PEM, its chain behind it)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Use a session that was made elsewhere
    #[arg(long, value_name = "TOKEN", env = "WEFT_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// What to call this login [default: the controller's host and port]
    #[arg(long, short = 'n', value_name = "LOGIN")]
    pub(crate) name: Option<String>,
    /// Certificates to trust; without them they are fetched from the controller and shown
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca: Option<PathBuf>,
    /// Trust the fetched certificates without asking
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) folder: LoginFolder,
}

/// Which login to end.
#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The login [default: the current one]
    #[arg(value_name = "LOGIN", add = complete::logins())]
    pub(crate) name: Option<String>,
    /// All of them
    #[arg(long, conflicts_with = "name")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) folder: LoginFolder,
}

/// How to list the logins.
#[derive(Debug, Args)]
pub(crate) struct LoginsArgs {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) folder: LoginFolder,
}

/// Which login to make the current one.
#[derive(Debug, Args)]
pub(crate) struct UseArgs {
    /// The login
    #[arg(value_name = "LOGIN", add = complete::logins())]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) folder: LoginFolder,
}

/// How to say who is logged in.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// Which identity and which service.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  weft why laptop web")]
pub(crate) struct WhyArgs {
    /// Name or id of the identity
    #[arg(value_name = "IDENTITY", add = complete::names("identities", ""))]
    pub(crate) identity: String,
    /// Name or id of the service
    #[arg(value_name = "SERVICE", add = complete::names("services", ""))]
    pub(crate) service: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// How to draw the mesh.
#[derive(Debug, Args)]
#[command(
    after_help = "A path costs what its links cost, and at least 10 for each router that it enters. \
                  A link costs\nits static cost and the latencies that both ends measured, in \
                  milliseconds.\n\nExamples:\n  weft topology\n  weft topology --watch 5\n  \
                  weft topology --svg mesh.svg\n  weft update link ID --static-cost 20    go around \
                  a link\n  weft update link ID --down              do not use it at all"
)]
pub(crate) struct TopologyArgs {
    /// Draw it again every so many seconds, until q or Ctrl-C [default: 2]
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u32).range(1..=3600),
        conflicts_with = "svg"
    )]
    pub(crate) watch: Option<u32>,
    /// Write it as a picture (SVG) to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// Which dial to explain.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft why-path laptop web\n  \
                  weft why-path laptop web --via paris\n  \
                  weft why-path paris web          what a router's own tunneler would dial\n\n\
                  A line of the answer:\n  \
                  cost 40 = 34 path + 4 terminator + 2 experience (1 circuit); precedence default\n\
                  The terminator with the best precedence (required, default, failed) is dialed, \
                  among several\nof it the cheapest; `weft update terminator ID --cost 20` or \
                  `--precedence required` changes that,\n`weft update link ID --static-cost 20` \
                  changes the path.")]
pub(crate) struct WhyPathArgs {
    /// Name or id of the identity that dials, or of a router
    #[arg(value_name = "FROM", add = complete::names("identities", ""))]
    pub(crate) from: String,
    /// Name or id of the service
    #[arg(value_name = "SERVICE", add = complete::names("services", ""))]
    pub(crate) service: String,
    /// Explain what happens over this router, by name or id
    #[arg(long, value_name = "ROUTER", add = complete::names("edge-routers", ""))]
    pub(crate) via: Option<String>,
    /// The instance of the service that is dialed
    #[arg(long, value_name = "INSTANCE")]
    pub(crate) instance: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// Whose enrollment token.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft jwt identity laptop -o laptop.jwt\n  weft jwt network")]
pub(crate) struct JwtArgs {
    #[command(subcommand)]
    pub(crate) of: JwtOf,
    /// Write it to this file instead of printing it
    #[arg(long, short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath, global = true)]
    pub(crate) out: Option<PathBuf>,
    /// Overwrite a file that exists
    #[arg(long, global = true)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// What has an enrollment token.
#[derive(Debug, Subcommand)]
pub(crate) enum JwtOf {
    /// Of an identity that is not enrolled yet
    Identity {
        /// Name or id
        #[arg(value_name = "NAME", add = complete::names("identities", ""))]
        which: String,
    },
    /// Of an edge router that is not enrolled yet
    EdgeRouter {
        /// Name or id
        #[arg(value_name = "NAME", add = complete::names("edge-routers", ""))]
        which: String,
    },
    /// Of a transit router that is not enrolled yet
    TransitRouter {
        /// Name or id
        #[arg(value_name = "NAME", add = complete::names("transit-routers", ""))]
        which: String,
    },
    /// Of an enrollment
    Enrollment {
        /// Id
        #[arg(value_name = "ID")]
        which: String,
    },
    /// Of a certificate authority whose identities enroll by themselves
    Ca {
        /// Name or id
        #[arg(value_name = "NAME", add = complete::names("cas", ""))]
        which: String,
    },
    /// Of the whole network
    Network,
}

/// Whose password, and which.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft password                    one's own\n  \
                  weft password --identity alice   that of another, who gets one if there is none")]
pub(crate) struct PasswordArgs {
    /// Name or id of an identity [default: who is logged in]
    #[arg(long, short = 'i', value_name = "NAME", add = complete::names("identities", ""))]
    pub(crate) identity: Option<String>,
    /// The login name it goes with
    #[arg(long, short = 'u', value_name = "NAME", requires = "identity")]
    pub(crate) username: Option<String>,
    /// One's own password as it is; asked for when absent
    #[arg(long, value_name = "PASSWORD", env = "WEFT_PASSWORD", hide_env_values = true)]
    pub(crate) current_password: Option<String>,
    /// The password as it shall be; asked for when absent
    #[arg(long, value_name = "PASSWORD", env = "WEFT_NEW_PASSWORD", hide_env_values = true)]
    pub(crate) new_password: Option<String>,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// Configs of one identity alone.
#[derive(Debug, Args)]
pub(crate) struct OverrideArgs {
    #[command(subcommand)]
    pub(crate) command: OverrideCommand,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// What to do with the configs of one identity alone.
#[derive(Debug, Subcommand)]
pub(crate) enum OverrideCommand {
    /// Show them
    List {
        /// Name or id of the identity
        #[arg(value_name = "IDENTITY", add = complete::names("identities", ""))]
        identity: String,
    },
    /// Let the identity see a config for a service instead of the service's own of that type
    Set {
        /// Name or id of the identity
        #[arg(value_name = "IDENTITY", add = complete::names("identities", ""))]
        identity: String,
        /// Name or id of the service
        #[arg(value_name = "SERVICE", add = complete::names("services", ""))]
        service: String,
        /// Name or id of the config
        #[arg(value_name = "CONFIG", add = complete::names("configs", ""))]
        config: String,
    },
    /// Let it see the service's own again
    Remove {
        /// Name or id of the identity
        #[arg(value_name = "IDENTITY", add = complete::names("identities", ""))]
        identity: String,
        /// Name or id of the service
        #[arg(value_name = "SERVICE", add = complete::names("services", ""))]
        service: String,
        /// Name or id of the config
        #[arg(value_name = "CONFIG", add = complete::names("configs", ""))]
        config: String,
    },
}

/// The controller's database.
#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    #[command(subcommand)]
    pub(crate) command: DatabaseCommand,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// What to do with the database.
#[derive(Debug, Subcommand)]
pub(crate) enum DatabaseCommand {
    /// Write a snapshot, on the controller's machine
    Snapshot {
        /// Where to [default: beside the database]
        path: Option<String>,
    },
    /// Look for faults and tell how it goes; status 5 if some are left
    Check {
        /// Repair what is found
        #[arg(long)]
        fix: bool,
        /// Do not wait for the end
        #[arg(long)]
        no_wait: bool,
    },
    /// What the running, or the last, check found
    Status,
}

/// Whom to ask what.
#[derive(Debug, Args)]
#[command(after_help = "Controllers know: config, connected-routers, data-model-index, \
                  identity-connection-statuses,\n  metrics, stackdump, terminator-costs.\n\
                  Routers know: circuit:ID, ert-terminators, links, router-circuits, \
                  router-controllers,\n  router-data-model-index, router-drops, sdk-terminators.\n\
                  Routers of OpenZiti know more.\n\nExample:\n  \
                  weft inspect links --of 'router-.*'")]
pub(crate) struct InspectArgs {
    /// What to ask for: config, connected-routers, router-circuits, sdk-terminators, ...
    #[arg(value_name = "VALUE", required = true)]
    pub(crate) values: Vec<String>,
    /// Those whose id matches this regular expression
    #[arg(long, value_name = "REGEX", default_value = ".*")]
    pub(crate) of: String,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// Which part of the network to write where.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft export -o network.yaml\n  \
                  weft export --kinds services,configs,service-policies\n\n\
                  Passwords, certificates, enrollments and terminators are not in it.")]
pub(crate) struct ExportArgs {
    /// Only these kinds [default: all that files can hold]
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    pub(crate) kinds: Vec<String>,
    /// Write to this file [default: standard output]
    #[arg(long, short = 'o', value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,
    /// How to write it
    #[arg(
        long = "output",
        value_name = "FORMAT",
        value_enum,
        default_value = "yaml",
        help_heading = "Settings"
    )]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// What to compare.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weft diff network.yaml\n  weft diff network/ --prune --exit-code\n\n\
                  Access is compared by the service policies; posture checks are not looked at."
)]
pub(crate) struct DiffArgs {
    /// Files, folders of them, or `-` for standard input; all of them are one document
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<String>,
    /// As if what is in the sections of the files and not named there were deleted
    #[arg(long)]
    pub(crate) prune: bool,
    /// End with status 8 if there are differences
    #[arg(long)]
    pub(crate) exit_code: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// What to apply, and how.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft apply network.yaml\n  \
                  weft apply network.yaml --yes --tokens ./tokens\n  \
                  weft apply network.yaml --yes --expect \"$(weft diff network.yaml --output json | jq -r .plan)\"\n\n\
                  What an entity does not say gets its default. Entities that are not named stay, unless \
                  --prune is given.")]
pub(crate) struct ApplyArgs {
    /// Files, folders of them, or `-` for standard input; all of them are one document
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::AnyPath)]
    pub(crate) files: Vec<String>,
    /// Delete what is in the sections of the files and not named there
    #[arg(long)]
    pub(crate) prune: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Only say what would change, as `weft diff` does
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Only if this is still the plan that `weft diff` printed, or this the network's revision
    #[arg(long, value_name = "PLAN|REVISION")]
    pub(crate) expect: Option<String>,
    /// Write the enrollment tokens of new identities and routers to this folder
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) tokens: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// Which operation, with what.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft call listSummary\n  \
                  weft call listServices --query 'filter=name contains \"web\"'\n  \
                  weft call detailSpecBody edge-management")]
pub(crate) struct CallArgs {
    /// Id of the operation, as the API descriptions have it
    #[arg(value_name = "OPERATION", add = complete::operations())]
    pub(crate) operation: String,
    /// The ids in its path, in order
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Which API, where several have an operation of this id
    #[arg(long, value_name = "API", value_parser = ["management", "client", "fabric", "weft"])]
    pub(crate) api: Option<String>,
    /// A query parameter
    #[arg(long, short = 'q', value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) query: Vec<(String, String)>,
    /// The body, or the file after an `@`
    #[arg(long, short = 'd', value_name = "BODY|@FILE", value_parser = bytes)]
    pub(crate) data: Option<Bytes>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: Session,
}

/// The body of a call.
#[derive(Debug, Clone)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is wanted")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn bytes(text: &str) -> Result<Bytes, String> {
    match text.strip_prefix('@') {
        Some(path) => std::fs::read(path).map(Bytes).map_err(|error| format!("{path}: {error}")),
        None => Ok(Bytes(text.as_bytes().to_vec())),
    }
}

/// For which shell.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  echo 'source <(weft completions bash)' >> ~/.bashrc\n  \
                  echo 'source <(weft completions zsh)' >> ~/.zshrc\n  \
                  weft completions fish > ~/.config/fish/completions/weft.fish\n\n\
                  The script asks weft itself, which knows the names in the network while somebody \
                  is\nlogged in. With --static it only knows commands and flags, and asks nobody.")]
pub(crate) struct CompletionsArgs {
    /// The shell to write for
    pub(crate) shell: clap_complete::Shell,
    /// A script that does not ask weft, and knows no names of the network
    #[arg(long = "static")]
    pub(crate) fixed: bool,
}

/// How to say which release this is.
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    #[command(flatten)]
    pub(crate) output: Output,
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
    /// Prove to the controller that one has the key of a certificate authority
    Ca(VerifyCaArgs),
}

/// Which authority, and the proof.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weft verify ca partner --ca-cert partner.pem --ca-key partner.key\n  \
                  weft verify ca partner --cert proof.pem\n\n\
                  The proof is a certificate of the authority whose common name is the verification \
                  token that\n`weft show ca NAME` shows. With the key at hand it is made here; the \
                  key is not sent."
)]
pub(crate) struct VerifyCaArgs {
    /// Name or id of the authority
    #[arg(value_name = "NAME", add = complete::names("cas", ""))]
    pub(crate) which: String,
    /// The certificate that proves it (PEM)
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "ca_cert",
        required_unless_present = "ca_cert"
    )]
    pub(crate) cert: Option<PathBuf>,
    /// Certificate of the authority (PEM), to make the proof here
    #[arg(long, value_name = "FILE", requires = "ca_key")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// Key of the authority (PEM)
    #[arg(long, value_name = "FILE", requires = "ca_cert")]
    pub(crate) ca_key: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) session: Session,
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
    pub(crate) session: Session,
}

/// What was asked for.
pub(crate) enum Asked {
    /// A command with a shape of its own.
    Fixed(Box<Fixed>),
    /// A command over a kind of entity.
    Entity(Box<entity::Request>),
    /// An action on an entity.
    Action(Box<action::ActionRequest>),
}

/// The whole command line, as `--help` and the completions show it.
pub(crate) fn command() -> Command {
    let built = entity::commands().into_iter().chain(action::verbs());
    built.fold(Cli::command(), Command::subcommand)
}

/// Reads the command line. Wrong usage and `--help` end the process as clap does it.
pub(crate) fn parse() -> Asked {
    let mut command = command();
    // Commands know the flags they have from those above them once they are built.
    command.build();
    let settled = arguments::settle(&command, std::env::args_os());
    let matches = match command.try_get_matches_from(&settled.words) {
        Ok(matches) => matches,
        Err(error) => settled.explain(error).exit(),
    };
    if let Some((name, rest)) = matches.subcommand() {
        if let Some(request) = entity::Request::from_matches(name, rest) {
            return Asked::Entity(Box::new(request));
        }
        if let Some(request) = action::ActionRequest::from_matches(name, rest) {
            return Asked::Action(Box::new(request));
        }
    }
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => Asked::Fixed(Box::new(cli.command)),
        Err(error) => error.exit(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_whole() {
        command().debug_assert();
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
        let settings = Session::augment_args(Command::new("x"));
        walk(&command(), &settings.get_about().unwrap().to_string());
    }
}
