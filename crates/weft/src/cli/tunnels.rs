//! Commands that connect programs with the network: tunnelers, and single connections.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::printing::Output;

/// Subcommands of `weft tunnel`.
#[derive(Debug, Subcommand)]
pub(crate) enum TunnelCommand {
    /// Host services and take clients in, as the configs of the services say
    ///
    /// Services that the identity may bind are hosted as their host.v1 or host.v2 says. For the
    /// services that it may dial, programs of this machine use the names and addresses in
    /// intercept.v1; services with a proxy.v1 are offered at that port. Interception changes the
    /// firewall, routes and DNS (docs/interception.md) and needs root; --no-intercept does without.
    /// Changes of services, configs and policies are followed. Ctrl-C stops taking new connections,
    /// waits a moment for those that are there, takes everything out of the system, and ends; a
    /// second one ends at once.
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
    /// Host services as their configs say, and take no clients in
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
    /// Clients of the port reach the service; nothing else on this machine changes.
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
    pub(crate) intercept: Intercepting,
}

/// Settings of interception.
#[derive(Debug, Args)]
pub(crate) struct Intercepting {
    /// Change nothing on this machine: hosts, and offers services with a proxy.v1; needs no root
    #[arg(long)]
    pub(crate) no_intercept: bool,
    /// Name of this tunneler, `weft_NAME` in the firewall; it distinguishes tunnelers of one
    /// machine
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
    /// Host names get addresses of this range; the address itself becomes this machine's
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
    /// How several DNS servers are used
    #[arg(
        long,
        visible_alias = "dnsUpstreamMode",
        value_name = "WHICH",
        value_enum,
        default_value_t
    )]
    pub(crate) dns_upstream_mode: DnsUpstreams,
    /// Answer to DNS questions that have none [default: refused]
    #[arg(long, visible_alias = "dnsUnanswerable", value_name = "WHICH", value_enum)]
    pub(crate) dns_unanswerable: Option<DnsUnanswered>,
    /// Interfaces whose traffic is intercepted too, `*` for all
    #[arg(long, visible_alias = "lanIf", value_name = "NAME", num_args = 1..)]
    pub(crate) interface: Vec<String>,
    /// A program that diverts packets, in place of rules of the firewall
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
    pub(crate) running: Running,
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
    pub(crate) running: Running,
}

/// Settings of every tunneler.
#[derive(Debug, Args)]
pub(crate) struct Running {
    /// Address or interface of this machine for ports whose configs name none
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) bind: String,
    /// How often services are looked at, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 15,
        value_parser = clap::value_parser!(u32).range(1..=300)
    )]
    pub(crate) refresh: u32,
    /// How long connections may go on after Ctrl-C, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(0..=3600)
    )]
    pub(crate) drain: u32,
    /// A conversation in datagrams ends after so many seconds without any
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 300,
        value_parser = clap::value_parser!(u32).range(5..=86_400)
    )]
    pub(crate) udp_idle: u32,
    /// Where `weft tunnel status` asks [default: a file of its own in the user's runtime folder]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
}

/// Arguments of `weft tunnel status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weft tunnel status\n  weft tunnel status --watch\n  \
                  weft tunnel status --output json")]
pub(crate) struct TunnelStatusArgs {
    /// Show it again every so many seconds, until q or Ctrl-C [default: 2]
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u32).range(1..=3600)
    )]
    pub(crate) watch: Option<u32>,
    /// The socket of one tunneler [default: all that this user runs here]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Arguments of `weft dial`.
#[derive(Debug, Args)]
#[command(
    after_help = "Standard input goes to the service, what it answers to standard output, byte \
                  for byte. The end of\nstandard input ends that direction only; the command ends when \
                  the service has said all.\n\nExamples:\n  \
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
    /// Instance of the service to dial, if its hosts have instance names
    #[arg(long, visible_alias = "terminator", value_name = "INSTANCE")]
    pub(crate) instance: Option<String>,
    /// Address that the host connects to, if the service forwards addresses or ports
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) to: Option<String>,
    /// How long the dial may take, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 15,
        value_parser = clap::value_parser!(u32).range(1..=3600)
    )]
    pub(crate) timeout: u32,
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
    /// Name of this instance, by which dialers can ask for it
    #[arg(long, visible_alias = "terminator", value_name = "INSTANCE", default_value = "")]
    pub(crate) instance: String,
    /// Cost: cheaper hosts are preferred
    #[arg(long, value_name = "COST", default_value_t = 0)]
    pub(crate) cost: u16,
    /// Precedence; it counts before cost
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub(crate) precedence: HostPrecedence,
    /// How long connections may go on after Ctrl-C, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(0..=3600)
    )]
    pub(crate) drain: u32,
}

/// Arguments of `weft traceroute`.
#[derive(Debug, Args)]
#[command(after_help = "Kinds of hops:\n  \
                  forwarder          a router; `weft list edge-routers` has its id\n  \
                  xgress/edge        a router at an SDK whose flow control it has; the first is at this \
                  command\n  \
                  xgress/tunnel      a router that connects to the application by itself; so do other \
                  xgress/...\n  \
                  sdk/...            the SDK of the host, `rust` is weft's\n\n\
                  The time is that from here to the hop and back. An application that the host \
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
    /// Instance of the service to dial, if its hosts have instance names
    #[arg(long, visible_alias = "terminator", value_name = "INSTANCE")]
    pub(crate) instance: Option<String>,
    /// Most hops that are asked
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 30,
        value_parser = clap::value_parser!(u32).range(1..=255)
    )]
    pub(crate) hops: u32,
    /// How long the dial, and each hop, may take, in seconds
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
