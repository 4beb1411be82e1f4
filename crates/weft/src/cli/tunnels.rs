//! Commands that connect programs with the network: tunnelers, and single connections.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::agents::AgentOptions;
use super::codes::CodeSource;
use super::printing::Output;
use crate::log::LogArgs;

/// Subcommands of `weft tunnel`.
#[derive(Debug, Subcommand)]
pub(crate) enum TunnelCommand {
    /// Host services, and let programs of this machine use services, as the configs of the services say
    ///
    /// Services that the identity may bind are hosted as their host.v1 or host.v2 says. Services that
    /// the identity may dial are reached by the names and addresses in their intercept.v1, and at the
    /// ports in their proxy.v1. Interception changes the firewall, routes and DNS of this machine
    /// (docs/interception.md) and needs root; with --no-intercept nothing is intercepted. Changes of
    /// services, configs and policies are followed. After Ctrl-C, SIGTERM, or the close of its terminal
    /// the command takes no new connections, waits for the present ones (--drain), removes its changes
    /// of this machine, and ends; after a second signal it waits for no connection, and a third one ends
    /// it at once. Without a terminal, SIGHUP makes it read the levels of the log again (--log-levels).
    #[command(
        after_help = "A folder stands for all identity files (.json) and tokens (.jwt) in it. A \
                  token is enrolled and the\nidentity written beside it: laptop.jwt becomes \
                  laptop.json, which is used from then on.\n\nExamples:\n  \
                  weft tunnel run --identity laptop.json\n  \
                  weft tunnel run --identity laptop.json --dns-upstream udp://192.168.1.1:53\n  \
                  weft tunnel run --identity gateway.json --interface eth1 \
                  --resolver udp://192.168.7.1:53\n  \
                  weft tunnel run --identity laptop.jwt server.json --no-intercept"
    )]
    Run(TunnelInterceptArgs),
    /// Host services as their configs say; programs of this machine use none
    #[command(
        after_help = "A folder stands for all identity files (.json) and tokens (.jwt) in it. A \
                  token is enrolled and the\nidentity written beside it: laptop.jwt becomes \
                  laptop.json, which is used from then on.\n\nExamples:\n  \
                  weft tunnel run-host --identity server.json\n  \
                  weft tunnel run-host --identity /etc/weft/identities"
    )]
    RunHost(TunnelRunArgs),
    /// Offer services at ports of this machine; needs no privileges and no configs
    ///
    /// A program that connects to the port reaches the service; nothing else on this machine changes.
    Proxy(TunnelProxyArgs),
    /// Show what the tunnelers on this machine do: services, connections, rates
    Status(TunnelStatusArgs),
}

/// Arguments of `weft tunnel run`.
#[derive(Debug, Args)]
pub(crate) struct TunnelInterceptArgs {
    #[command(flatten)]
    pub(crate) run: TunnelRunArgs,
    #[command(flatten)]
    pub(crate) clients: Clients,
}

/// Settings for clients of `weft tunnel run`.
#[derive(Debug, Args)]
pub(crate) struct Clients {
    #[command(flatten)]
    pub(crate) at: PortsAt,
    #[command(flatten)]
    pub(crate) intercept: Intercepting,
}

/// Settings of interception.
#[derive(Debug, Args)]
pub(crate) struct Intercepting {
    /// Change nothing on this machine: host services, and offer those with a proxy.v1 at their ports;
    /// needs no root
    #[arg(long)]
    pub(crate) no_intercept: bool,
    /// Name that tells this tunneler from others of the machine, `weft_NAME` in the firewall: 1 to 20
    /// letters, digits, `-` and `_`
    #[arg(long, value_name = "NAME", default_value = "tunnel")]
    pub(crate) name: String,
    /// Where the DNS server of this command listens, udp://ADDRESS:PORT, or a hosts file into which
    /// the names of services are written, file:///PATH; "" for neither
    #[arg(
        long,
        short = 'r',
        value_name = "URL",
        num_args = 1..,
        default_value = "udp://127.0.0.1:53"
    )]
    pub(crate) resolver: Vec<String>,
    /// Range of the addresses that host names of services get. The address before the slash is added
    /// to this machine
    #[arg(
        long,
        visible_alias = "dnsSvcIpRange",
        value_name = "CIDR",
        default_value = "100.64.0.1/10"
    )]
    pub(crate) dns_range: String,
    /// DNS servers that are asked for names that no service has, udp://HOST:PORT or tcp://HOST:PORT
    /// [default: none, such questions are answered as --dns-unanswerable says]
    #[arg(long, visible_alias = "dnsUpstream", value_name = "URL", num_args = 1..)]
    pub(crate) dns_upstream: Vec<String>,
    /// The order in which several DNS servers are asked
    #[arg(
        long,
        visible_alias = "dnsUpstreamMode",
        value_name = "WHICH",
        value_enum,
        default_value_t
    )]
    pub(crate) dns_upstream_mode: DnsUpstreams,
    /// Answer to questions that the DNS server of this command cannot answer [default: refused]
    #[arg(long, visible_alias = "dnsUnanswerable", value_name = "WHICH", value_enum)]
    pub(crate) dns_unanswerable: Option<DnsUnanswered>,
    /// Domains of your own network whose names rightly lead to addresses of --dns-range, or to this
    /// machine; such addresses are left out of answers about other names [default: none]
    #[arg(long, visible_alias = "dnsPrivateDomains", value_name = "DOMAIN", num_args = 1..)]
    pub(crate) dns_private_domain: Vec<String>,
    /// Interfaces, for instance eth1, whose traffic is intercepted like that of this machine; `*` for
    /// all [default: none]
    #[arg(long, visible_alias = "lanIf", value_name = "NAME", num_args = 1..)]
    pub(crate) interface: Vec<String>,
    /// Program that diverts packets, in place of rules of the firewall (docs/interception.md)
    #[arg(long, value_name = "PATH")]
    pub(crate) diverter: Option<PathBuf>,
}

/// Use of several DNS servers.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum DnsUpstreams {
    /// All at once, the first good answer counts
    #[default]
    Parallel,
    /// One after the other, from the first
    Serial,
    /// One after the other, from the one that answered well last
    Failover,
    /// One after the other, from any
    Random,
}

/// Answer of a DNS server that has none.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DnsUnanswered {
    /// REFUSED
    Refused,
    /// SERVFAIL
    Servfail,
    /// No answer
    Timeout,
}

/// Arguments of `weft tunnel run` and `run-host`.
#[derive(Debug, Args)]
pub(crate) struct TunnelRunArgs {
    /// Identity files, enrollment tokens (.jwt) or folders of them
    #[arg(
        long,
        short = 'i',
        value_name = "FILE",
        num_args = 1..,
        required = true,
        env = "WEFT_IDENTITY",
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) identity: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) login: IdentityLogin,
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(flatten)]
    pub(crate) agent: AgentOptions,
}

/// Settings of the login of an identity.
#[derive(Clone, Debug, Args)]
pub(crate) struct IdentityLogin {
    #[command(flatten)]
    pub(crate) codes: CodeSource,
    /// File with the token of an external JWT signer that the controller asks for as second factor, for instance
    /// company=/run/tokens/weft; somebody else renews it. At a terminal a person logs in without it
    #[arg(long, value_name = "SIGNER=FILE", env = "WEFT_SECOND_TOKEN", hide_env_values = true)]
    pub(crate) second_token: Vec<SecondToken>,
    /// Keep the certificate in the identity file: by default it is renewed there before it ends, and when an
    /// administrator asks for it
    #[arg(long)]
    pub(crate) no_renew: bool,
}

/// The file with the token of an external JWT signer, which is a second factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SecondToken {
    pub(crate) signer: String,
    pub(crate) file: PathBuf,
}

impl FromStr for SecondToken {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((signer, file)) if !signer.is_empty() && !file.is_empty() => {
                Ok(Self { signer: signer.to_owned(), file: file.into() })
            }
            _ => Err("give the name of the external JWT signer and a file, SIGNER=FILE".to_owned()),
        }
    }
}

/// Arguments of `weft tunnel proxy`.
#[derive(Debug, Args)]
#[command(after_help = "Port 0 takes a free one; which one is printed.\n\nExamples:\n  \
                  weft tunnel proxy --identity laptop.json web:8080      then: curl localhost:8080\n  \
                  weft tunnel proxy --identity laptop.json dns:5353:udp db:5432\n  \
                  weft tunnel proxy --identity laptop.json --bind 0.0.0.0 web:8080")]
pub(crate) struct TunnelProxyArgs {
    /// A service and the port of this machine that leads to it, for instance web:8080; with :udp
    /// behind the port for datagrams, dns:5353:udp
    #[arg(value_name = "SERVICE:PORT", required = true)]
    pub(crate) ports: Vec<String>,
    /// Identity file, or an enrollment token (.jwt)
    #[arg(long, short = 'i', value_name = "FILE", env = "WEFT_IDENTITY", value_hint = ValueHint::FilePath)]
    pub(crate) identity: PathBuf,
    #[command(flatten)]
    pub(crate) login: IdentityLogin,
    #[command(flatten)]
    pub(crate) at: PortsAt,
    #[command(flatten)]
    pub(crate) running: Running,
}

/// The place of ports that lead to services.
#[derive(Debug, Args)]
pub(crate) struct PortsAt {
    /// Address of this machine, or name of an interface, at which ports are opened. A proxy.v1 may name
    /// another one for its port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) bind: String,
}

/// Settings of every tunneler.
#[derive(Debug, Args)]
pub(crate) struct Running {
    /// Interval at which the controller is asked for changes of services, in seconds, 1 to 300
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 15,
        value_parser = clap::value_parser!(u32).range(1..=300)
    )]
    pub(crate) refresh: u32,
    /// Longest time that connections may go on after Ctrl-C, in seconds, at most 3600
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(0..=3600)
    )]
    pub(crate) drain: u32,
    #[command(flatten)]
    pub(crate) silence: Silence,
    /// Socket at which `weft tunnel status` asks this command [default: a file of its own in the user's
    /// runtime folder]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
}

/// The end of conversations in datagrams.
#[derive(Debug, Args)]
pub(crate) struct Silence {
    /// Silence after which a conversation in datagrams (UDP) ends, in seconds, 5 to 86400. With a hosted
    /// application it may last twice as long
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 300,
        value_parser = clap::value_parser!(u32).range(5..=86_400)
    )]
    pub(crate) udp_idle: u32,
}

/// Arguments of `weft tunnel status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft tunnel status\n  weft tunnel status --watch\n  \
                  weft tunnel status --output json")]
pub(crate) struct TunnelStatusArgs {
    /// Show the state again at this interval, in seconds, 1 to 3600, until q or Ctrl-C [without a value:
    /// 2]
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u32).range(1..=3600)
    )]
    pub(crate) watch: Option<u32>,
    /// Socket of one tunneler, its --socket [default: all tunnelers that this user runs on this machine]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Arguments of `weft dial`.
#[derive(Debug, Args)]
#[command(
    after_help = "Standard input goes to the service, the service's answer to standard output, byte \
                  for byte. The end of\nstandard input ends that direction only, and the end of the \
                  answer closes standard output. The command ends\nwhen both directions have ended, or \
                  the service has closed.\n\nExamples:\n  \
                  weft dial web --identity laptop.json < request.txt\n  \
                  ssh -o ProxyCommand='weft dial ssh -i laptop.json' me@anything\n  \
                  ssh -o ProxyCommand='weft dial office -i laptop.json --to %h:%p' me@host.office"
)]
pub(crate) struct DialArgs {
    /// Name of the service
    #[arg(value_name = "SERVICE")]
    pub(crate) service: String,
    /// Identity file, or an enrollment token (.jwt)
    #[arg(long, short = 'i', value_name = "FILE", env = "WEFT_IDENTITY", value_hint = ValueHint::FilePath)]
    pub(crate) identity: PathBuf,
    #[command(flatten)]
    pub(crate) login: IdentityLogin,
    /// Instance of the service to dial, if its hosts have instance names
    #[arg(long, visible_alias = "terminator", value_name = "INSTANCE")]
    pub(crate) instance: Option<String>,
    /// Address that the host connects to, if the service forwards addresses or ports
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) to: Option<String>,
    /// Longest time for the dial, in seconds, 1 to 3600
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 15,
        value_parser = clap::value_parser!(u32).range(1..=3600)
    )]
    pub(crate) timeout: u32,
    /// Say on standard error who is at the other end, and whether that was proved
    #[arg(long, short = 'v')]
    pub(crate) verbose: bool,
}

/// Arguments of `weft host`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
                  weft host web 8000 --identity server.json              localhost, TCP\n  \
                  weft host db db.internal:5432 --identity server.json\n  \
                  weft host dns udp:127.0.0.1:53 --identity server.json")]
pub(crate) struct HostArgs {
    /// Name of the service
    #[arg(value_name = "SERVICE")]
    pub(crate) service: String,
    /// The application: PORT of this machine, HOST:PORT, or udp:HOST:PORT for datagrams
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: String,
    /// Identity file, or an enrollment token (.jwt)
    #[arg(long, short = 'i', value_name = "FILE", env = "WEFT_IDENTITY", value_hint = ValueHint::FilePath)]
    pub(crate) identity: PathBuf,
    #[command(flatten)]
    pub(crate) login: IdentityLogin,
    /// Name of this instance, by which dialers can ask for it
    #[arg(long, visible_alias = "terminator", value_name = "INSTANCE", default_value = "")]
    pub(crate) instance: String,
    /// Cost of this host, 0 to 65535: of hosts with the same precedence, cheaper ones are preferred
    #[arg(long, value_name = "COST", default_value_t = 0)]
    pub(crate) cost: u16,
    /// Precedence of this host; precedence counts before cost
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub(crate) precedence: HostPrecedence,
    /// Longest time that connections may go on after Ctrl-C, in seconds, at most 3600
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(0..=3600)
    )]
    pub(crate) drain: u32,
    #[command(flatten)]
    pub(crate) silence: Silence,
}

/// Arguments of `weft traceroute`.
#[derive(Debug, Args)]
#[command(after_help = "Kinds of hops:\n  \
                  forwarder          a router; `weft list edge-routers` has its id\n  \
                  xgress/edge        a router that does the flow control for an SDK; the first hop is \
                  that of this command\n  \
                  xgress/tunnel      a router that connects to the application by itself; so do other \
                  xgress/...\n  \
                  sdk/...            the SDK of the host, `rust` is weft's\n\n\
                  A time is that from here to the hop and back. An application that the host \
                  connects to is no hop.\nSDKs in C do not answer; routers of weft answer in their \
                  place, those of OpenZiti do not.\nBehind routers of OpenZiti before 2.1, no SDK \
                  with flow control of its own answers.\n\nExamples:\n  \
                  weft traceroute web --identity laptop.json\n  \
                  weft traceroute web --identity laptop.json --output json | jq -r '.[].id'\n\n\
                  `weft why-path laptop web` says why the way is this one.")]
pub(crate) struct TracerouteArgs {
    /// Name of the service
    #[arg(value_name = "SERVICE")]
    pub(crate) service: String,
    /// Identity file, or an enrollment token (.jwt)
    #[arg(long, short = 'i', value_name = "FILE", env = "WEFT_IDENTITY", value_hint = ValueHint::FilePath)]
    pub(crate) identity: PathBuf,
    #[command(flatten)]
    pub(crate) login: IdentityLogin,
    /// Instance of the service to dial, if its hosts have instance names
    #[arg(long, visible_alias = "terminator", value_name = "INSTANCE")]
    pub(crate) instance: Option<String>,
    /// Most hops that are asked, 1 to 255
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 30,
        value_parser = clap::value_parser!(u32).range(1..=255)
    )]
    pub(crate) hops: u32,
    /// Longest time for the dial, and for the answer of each hop, in seconds, 1 to 3600
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 15,
        value_parser = clap::value_parser!(u32).range(1..=3600)
    )]
    pub(crate) timeout: u32,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Precedence of a host.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum HostPrecedence {
    /// Like any other host
    #[default]
    Default,
    /// Before all other hosts
    Required,
    /// Only when there is no other host
    Failed,
}
