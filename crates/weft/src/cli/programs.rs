//! Commands for networks, controllers and routers, and for a controller's database.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weft_config::HostPort;

use super::agents::AgentOptions;
use super::imports::ImportCommand;
use super::printing::Output;
use crate::check::Purpose;
use crate::failure::Result;
use crate::log::LogArgs;
use crate::session::LoginChoice;

/// How values of variables of the environment are printed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Variables {
    /// Show the values of variables of the environment that the file names; whoever wrote the file may
    /// have named secrets of yours. `check` looks up the hosts that they name then
    #[arg(long)]
    pub(crate) show_variables: bool,
}

impl Variables {
    /// The purpose of a check of the file.
    pub(crate) fn purpose(self) -> Purpose {
        if self.show_variables { Purpose::Advice } else { Purpose::AdviceOnForeign }
    }
}

/// Arguments of `weft quickstart`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft quickstart --home ./w1\n  \
                  weft quickstart --home ./w3 --routers 3      then: weft topology --watch\n  \
                  weft quickstart --home ./c3 --controllers 3 --routers 3      needs etcd")]
pub(crate) struct QuickstartArgs {
    /// Folder for keys, configuration files and the database [default: weft/quickstart in the user's
    /// data folder, ~/.local/share on Linux]
    #[arg(long, value_name = "DIR", env = "WEFT_HOME")]
    pub(crate) home: Option<PathBuf>,
    /// Number of routers, 1 to 9. A network that exists may get more routers, but not fewer
    /// [default: as many as the network has, 1 in a new one]
    #[arg(long, value_name = "COUNT", value_parser = one_to_nine)]
    pub(crate) routers: Option<u8>,
    /// Number of controllers, 1 to 9. Several share the network in etcd, which the command starts, too. A network that
    /// was made with several may get more, but not fewer; one that was made with one keeps one [default: as many as the
    /// network has, 1 in a new one]
    #[arg(long, value_name = "COUNT", value_parser = one_to_nine)]
    pub(crate) controllers: Option<u8>,
    /// Program of etcd, for several controllers [default: `etcd` on the PATH]
    #[arg(long, value_name = "FILE", env = "WEFT_ETCD")]
    pub(crate) etcd_program: Option<PathBuf>,
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
    /// Port of the controller, for its APIs and for routers; 0 picks a free one [default: 1280]. The second controller
    /// has the next port, and so on
    #[arg(long, value_name = "PORT", help_heading = "For new controllers")]
    pub(crate) ctrl_port: Option<u16>,
    /// Port of etcd for the controllers; the port behind it is the one for other members. 0 picks free ones
    /// [default: 2379]
    #[arg(long, value_name = "PORT", help_heading = "Only at creation")]
    pub(crate) etcd_port: Option<u16>,
    /// Port at which clients reach the first router; the second router has the next port, and so on.
    /// 0 picks free ports [default: 3022]
    #[arg(long, value_name = "PORT", help_heading = "For new routers")]
    pub(crate) router_port: Option<u16>,
    /// Port at which other routers reach the first router; the second router has the next port, and so
    /// on. 0 picks free ports [default: 10080; a lone router has such a port only if this is given]
    #[arg(long, value_name = "PORT", help_heading = "For new routers")]
    pub(crate) link_port: Option<u16>,
    /// Host name or address by which clients and routers reach the controller
    /// [default: localhost]
    #[arg(long, value_name = "HOST", help_heading = "Only at creation")]
    pub(crate) ctrl_address: Option<String>,
    /// Host name or address by which clients reach the routers [default: localhost]
    #[arg(long, value_name = "HOST", help_heading = "Only at creation")]
    pub(crate) router_address: Option<String>,
}

/// Arguments of the hidden command `weft with-parent`.
#[derive(Debug, Args)]
pub(crate) struct WithParentArgs {
    /// Process id of the parent
    pub(crate) parent: u32,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}

fn one_to_nine(text: &str) -> Result<u8, String> {
    let count = text.parse().ok().filter(|count| (1..=9).contains(count));
    count.ok_or_else(|| "a number from 1 to 9 is wanted".to_owned())
}

/// Subcommands of `weft controller`.
#[derive(Debug, Subcommand)]
pub(crate) enum ControllerCommand {
    /// Make the certificates and a commented configuration file of a new controller
    ///
    /// The folder gets controller.yaml and, in pki/, a root, below it a signer for the certificates of
    /// identities and routers, and the controller's key and certificate, which names the addresses of
    /// --address and the controller's SPIFFE id. The database will be there, too. Nothing that exists is
    /// replaced. `weft quickstart` makes the same for a network on one machine, and starts it.
    #[command(after_help = "Example, a controller for other machines:\n  \
                      weft controller config --home ./ctrl --address ctrl.example\n  \
                      weft controller init ./ctrl/controller.yaml     asks for the administrator's password\n  \
                      weft controller run ./ctrl/controller.yaml\n\n\
                      Two controllers of one network, which they share in etcd (docs/cluster.md):\n  \
                      weft controller config --home ./one --address one.example --etcd https://etcd.example:2379\n  \
                      weft controller config --home ./two --address two.example --member-of ./one --name two")]
    Config(ControllerConfigArgs),
    /// Renew the certificate of a controller that `weft controller config` made
    ///
    /// The certificate lasts a year. The new one has the same key and names; a controller that runs uses
    /// it within 1 s. `weft quickstart` renews its own when it starts within 60 days of the end. A
    /// controller that moves gets the new host by --address; docs/running.md has the other steps.
    #[command(after_help = "Examples:\n  weft controller renew --home ./ctrl\n  \
                      weft controller renew --home ./ctrl --address new.example")]
    Renew {
        /// Folder of the controller's files
        #[arg(long, value_name = "DIR")]
        home: PathBuf,
        /// Further host name or IP address that the certificate names; may be given several times
        #[arg(long, value_name = "HOST")]
        address: Vec<String>,
    },
    /// Create the database, with an administrator
    Init {
        /// The controller's configuration file; `weft controller config` writes one
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
    /// Make the folder of a further controller, with an invitation of one that runs
    ///
    /// Several controllers share a network in etcd (docs/cluster.md). `weft cluster invite NAME` at one of them prints a
    /// token; this command asks that controller for what all share, and for the certificate of an authority of its own.
    /// No private key leaves either machine.
    #[command(
        after_help = "Example:\n  weft controller join two.token --home ./two --address two.example\n  \
                      weft controller run ./two/controller.yaml"
    )]
    Join(ControllerJoinArgs),
    /// Take a controller that is stopped out of the lists of its network
    ///
    /// Clients and routers are not told of it any more. Its tokens are good until they end. It comes back when it runs
    /// again.
    #[command(
        after_help = "Example:\n  systemctl stop weft-controller\n  weft controller leave controller.yaml"
    )]
    Leave {
        /// The controller's configuration file
        file: PathBuf,
    },
    /// Move the network of a controller that is stopped into etcd, or back into its file
    ///
    /// In etcd several controllers share the network (docs/cluster.md). Rights, sessions, keys and the revision go on, so
    /// that routers keep their circuits and nobody logs in again. With --etcd the file gets a section `cluster`; with
    /// --to-file it loses it, and etcd everything of the network. A move that was interrupted is made again.
    #[command(
        after_help = "Examples:\n  weft controller move controller.yaml --etcd https://etcd1.example:2379 --etcd-ca etcd-ca.pem\n  \
                      weft controller move controller.yaml --to-file"
    )]
    Move(ControllerMoveArgs),
    /// Run the controller until it is told to stop
    ///
    /// SIGHUP: the controller reads its identity files and the levels of its log again. SIGTERM or
    /// Ctrl-C: the controller stops once the requests under way are answered; a second signal ends the
    /// process at once.
    Run {
        /// The controller's configuration file
        file: PathBuf,
        /// Listen at 127.0.0.1 only, at the ports of the file, and dial no router: for a look at an imported
        /// network, while OpenZiti's controller runs
        #[arg(long)]
        offline: bool,
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        agent: AgentOptions,
        /// Stop when standard input ends, as it does when the process that holds its other end has
        /// ended
        #[arg(long, hide = true)]
        exit_with_parent: bool,
    },
    /// Report everything that is wrong with a controller's file, and start nothing
    ///
    /// The exit status is 2 if there is a mistake. `weft controller run` makes the same checks, and also
    /// checks that the ports are free. Values of variables of the environment that the file names are not
    /// shown.
    Check {
        /// The controller's configuration file
        file: PathBuf,
        #[command(flatten)]
        variables: Variables,
        #[command(flatten)]
        output: Output,
    },
    /// Print every value that is in effect with a controller's file, and where it comes from
    ///
    /// A value comes from the file (its line is shown), from a variable of the environment (its name is
    /// shown), or is a default.
    #[command(after_help = "Example:\n  weft controller explain controller.yaml")]
    Explain {
        /// The controller's configuration file
        file: PathBuf,
        #[command(flatten)]
        variables: Variables,
        #[command(flatten)]
        output: Output,
    },
    /// Set the password of a login while the controller is stopped, if nobody can log in
    ///
    /// The new password is asked for at the terminal, or read from WEFT_NEW_PASSWORD. The login is unlocked
    /// and its identity enabled; sessions that began with the former password end, and the next run of the
    /// controller tells of the change in its log. While somebody can log in, `weft password --identity
    /// NAME` does the same without a stop.
    #[command(after_help = "Example:\n  systemctl stop weft-controller\n  \
                      weft controller password controller.yaml --username admin\n  \
                      systemctl start weft-controller")]
    Password {
        /// The controller's configuration file
        file: PathBuf,
        /// User name of the login, an administrator's or another one
        #[arg(long, short = 'u', value_name = "NAME", default_value = "admin")]
        username: String,
    },
    /// Take over the network of a controller of OpenZiti, or tell what would be taken
    ///
    /// Reads the file of a controller of OpenZiti 1.6, 2.0 or 2.1 that is stopped, its database, keys and
    /// certificates, and makes a folder with a controller of weft: its file, its store, and copies of keys and
    /// certificates. All identities and routers stay enrolled. What weft cannot keep is told first, and the
    /// numbers of entities are compared at the end. OpenZiti's files stay as they are.
    ///
    /// The folder is made as a whole or not at all. The same import again does nothing.
    ///
    /// With --since, nothing is imported: what changed in that folder since the import is printed, with what it would mean
    /// if OpenZiti's controller ran again.
    ///
    /// With --compare, nothing is imported: the controller of OpenZiti that runs, and that of weft with what was
    /// imported, are asked the same questions, and what they answer otherwise is printed. The exit status is 8 if there
    /// are differences that docs/differences.md does not list.
    #[command(after_help = "Examples:\n  weft controller import ctrl.yaml --dry-run\n  \
                      weft controller import ctrl.yaml --output /var/lib/weft\n  \
                      weft controller import ctrl.yaml --since /var/lib/weft    before the way back\n  \
                      ziti fabric db snapshot                     a copy, while the controller runs\n  \
                      weft controller import ctrl.yaml --database ctrl.db-20260102-030405 --output copy\n  \
                      weft login https://old.example:1280 --name original   a login at OpenZiti's controller\n  \
                      weft login https://new.example:1280                   and one at weft's, which is used\n  \
                      weft controller import --compare original")]
    Import(ImportCommand),
    /// Replace the network with a snapshot
    ///
    /// What is lost by it is listed first. All clients log in again, and routers fetch the whole data model. The
    /// controller must not run. The snapshot is checked as a whole first; the replaced database is kept beside it.
    ///
    /// A network that several controllers share is replaced in etcd; none of them may run, and each takes everything
    /// anew when it starts. With --from-etcd, the network goes on from what etcd has now, after it was put back to an
    /// older state: what was lost counts for nobody then, neither for controllers nor for routers.
    #[command(
        after_help = "Examples:\n  weft controller restore controller.yaml ctrl.db-20260102-030405\n  \
                      weft controller restore controller.yaml ctrl.db-20260102-030405 --dry-run   what would be lost\n  \
                      weft controller restore controller.yaml --from-etcd     etcd was put back to an older state"
    )]
    Restore(ControllerRestoreArgs),
}

/// Arguments of `weft controller restore`.
#[derive(Debug, Args)]
pub(crate) struct ControllerRestoreArgs {
    /// The controller's configuration file
    pub(crate) file: PathBuf,
    /// File of the snapshot, as `weft database snapshot` writes it, or the copy of another controller
    #[arg(value_name = "SNAPSHOT", required_unless_present = "from_etcd")]
    pub(crate) snapshot: Option<PathBuf>,
    /// Go on from what etcd has now
    #[arg(long, conflicts_with = "snapshot")]
    pub(crate) from_etcd: bool,
    /// List what would be lost, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Arguments of `weft controller move`.
#[derive(Debug, Args)]
pub(crate) struct ControllerMoveArgs {
    /// The controller's configuration file
    pub(crate) file: PathBuf,
    /// Into etcd: the URL of a member of etcd; several times for several members
    #[arg(long, value_name = "URL", conflicts_with = "to_file")]
    pub(crate) etcd: Vec<String>,
    /// File with the authorities of etcd's certificates
    #[arg(long, value_name = "FILE", requires = "etcd")]
    pub(crate) etcd_ca: Option<PathBuf>,
    /// Out of etcd, into the file that `db` names; all other controllers must be stopped
    #[arg(long)]
    pub(crate) to_file: bool,
}

/// Arguments of `weft controller join`.
#[derive(Debug, Args)]
pub(crate) struct ControllerJoinArgs {
    /// File with the token that `weft cluster invite` has printed
    pub(crate) token: PathBuf,
    /// Folder for the files, which is made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) home: PathBuf,
    /// Host name or IP address by which clients and routers reach the controller; with several, the
    /// certificate names all of them, and clients and routers are told the first
    #[arg(long, value_name = "HOST", required = true)]
    pub(crate) address: Vec<String>,
    /// Port of the controller, for its APIs and for routers
    #[arg(long, value_name = "PORT", default_value_t = 1280,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
}

/// Arguments of `weft controller config`.
#[derive(Debug, Args)]
pub(crate) struct ControllerConfigArgs {
    /// Folder for the files, which is made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) home: PathBuf,
    /// Host name or IP address by which clients and routers reach the controller; with several, the
    /// certificate names all of them, and clients and routers are told the first
    #[arg(long, value_name = "HOST", required = true)]
    pub(crate) address: Vec<String>,
    /// Port of the controller, for its APIs and for routers
    #[arg(long, value_name = "PORT", default_value_t = 1280,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Let a router on this machine have the controller's names in its certificate, too; without this
    /// its enrollment with such a name is refused
    #[arg(long)]
    pub(crate) router_beside: bool,
    /// The controller will be one of several, which share their network in etcd: the URL of a member of etcd
    #[arg(long, value_name = "URL", conflicts_with = "member_of")]
    pub(crate) etcd: Vec<String>,
    /// File with the authorities of etcd's certificates
    #[arg(long, value_name = "FILE", requires = "etcd")]
    pub(crate) etcd_ca: Option<PathBuf>,
    /// The controller joins the network of another one, which was made with --etcd: the folder of that one, with the key of
    /// the network's root
    #[arg(long, value_name = "DIR", requires = "name")]
    pub(crate) member_of: Option<PathBuf>,
    /// Name of the controller in its certificate; of several controllers each has another one
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// Subcommands of `weft router`.
#[derive(Debug, Subcommand)]
pub(crate) enum RouterCommand {
    /// Turn an enrollment token into the keys and certificates that the file names
    #[command(after_help = "Examples:\n  \
                      weft create edge-router paris -o paris.jwt    the controller's side\n  \
                      weft router enroll paris.yaml --jwt paris.jwt")]
    Enroll {
        /// The router's configuration file
        file: PathBuf,
        /// File with the enrollment token
        #[arg(long, short = 'j', value_name = "TOKENFILE")]
        jwt: PathBuf,
    },
    /// Run the router until it is told to stop
    ///
    /// SIGHUP: the router reads its identity files and the levels of its log again. SIGTERM or Ctrl-C:
    /// the router takes no new circuits, gives the present ones some time to end (--grace), and stops;
    /// a second signal ends the process at once.
    Run {
        /// The router's configuration file
        file: PathBuf,
        /// Longest time that circuits may go on after the router was told to stop, in seconds, at most
        /// 86400
        #[arg(long, value_name = "SECONDS", default_value_t = 10,
              value_parser = clap::value_parser!(u64).range(..=86_400))]
        grace: u64,
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        agent: AgentOptions,
        /// Let `weft agent router` cut the connections to controllers and close links, for tests
        #[arg(long, help_heading = "Agent")]
        debug_ops: bool,
        /// Stop when standard input ends, as it does when the process that holds its other end has
        /// ended
        #[arg(long, hide = true)]
        exit_with_parent: bool,
    },
    /// Report everything that is wrong with a router's file, and start nothing
    ///
    /// Checked are the names of keys, their values and bounds, and the things that the file names: keys
    /// and certificates, addresses, interfaces, folders. The exit status is 2 if there is a mistake.
    /// `weft router run` makes the same checks, and also checks that the ports are free. Values of
    /// variables of the environment that the file names are not shown.
    #[command(after_help = "Example:\n  weft router check router.yaml --output json")]
    Check {
        /// The router's configuration file
        file: PathBuf,
        #[command(flatten)]
        variables: Variables,
        #[command(flatten)]
        output: Output,
    },
    /// Print every value that is in effect with a router's file, and where it comes from
    ///
    /// A value comes from the file (its line is shown), from a variable of the environment (its name is
    /// shown), or is a default.
    #[command(after_help = "Example:\n  weft router explain router.yaml")]
    Explain {
        /// The router's configuration file
        file: PathBuf,
        #[command(flatten)]
        variables: Variables,
        #[command(flatten)]
        output: Output,
    },
    /// Write a configuration file with comments for a new router
    ///
    /// The paths in the file are absolute: keys and certificates will be in the folder of the file, or in
    /// the present folder if the file is printed. Change the paths when the file moves.
    #[command(
        after_help = "Examples:\n  weft router config --name paris --controller ctrl.example:1280 \
                      --address paris.example --out paris.yaml\n  \
                      weft router config gateway --lan-interface eth1 > gateway.yaml"
    )]
    Config(RouterConfigArgs),
}

/// Arguments of `weft router config`.
#[derive(Debug, Args)]
pub(crate) struct RouterConfigArgs {
    /// The sort of router
    #[arg(value_enum, default_value_t)]
    pub(crate) sort: RouterSort,
    /// Name of the router, and of the files of its keys and certificates
    #[arg(long, value_name = "NAME", default_value = "router")]
    pub(crate) name: String,
    /// Address of the controller
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:1280")]
    pub(crate) controller: HostPort,
    /// Host name or address by which clients and other routers reach the router
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    pub(crate) address: String,
    /// Port at which clients connect to the router
    #[arg(long, value_name = "PORT", default_value_t = 3022)]
    pub(crate) port: u16,
    /// Port at which other routers connect to the router
    #[arg(long, value_name = "PORT", default_value_t = 10_080)]
    pub(crate) link_port: u16,
    /// For a gateway: interface of the network whose traffic is intercepted, for instance eth1
    /// [default: only programs of the router's own machine]
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) lan_interface: Option<String>,
    /// Write to this file, which must not exist, instead of standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Sorts of routers that `weft router config` writes files for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum RouterSort {
    /// A router that clients and other routers connect to
    #[default]
    Edge,
    /// A router that only clients of its own network connect to, and that dials the other routers
    Private,
    /// A private router that also intercepts traffic for services, of its machine or of a network
    /// behind it (Linux)
    Gateway,
}

/// Show the messages in the trace file of a controller or router (`trace.path` in its configuration)
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft trace show router.trace --peer 'link from'\n  \
                  weft trace show ctrl.trace --type Route --type 1022 -o json")]
pub(crate) struct TraceShowArgs {
    /// The trace file
    pub(crate) file: PathBuf,
    /// Only channels whose name or address contains a match of this regular expression
    #[arg(long, value_name = "PATTERN")]
    pub(crate) peer: Option<String>,
    /// Only messages of this type, by name or number; may be given several times
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kind: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Arguments of `weft database`.
#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    #[command(subcommand)]
    pub(crate) command: DatabaseCommand,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) session: LoginChoice,
}

/// Subcommands of `weft database`.
#[derive(Debug, Subcommand)]
pub(crate) enum DatabaseCommand {
    /// Write a snapshot, on the controller's machine
    Snapshot {
        /// File of the snapshot, on the controller's machine [default: a file beside the database, with
        /// the time in its name]
        path: Option<String>,
    },
    /// Look for faults and show the progress; the exit status is 5 if faults are left
    Check {
        /// Repair the faults
        #[arg(long)]
        fix: bool,
        /// Do not wait for the end of the check
        #[arg(long)]
        no_wait: bool,
    },
    /// Show the findings of the running or last check
    Status,
}
