//! The options of an interceptor.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

/// The options of an interceptor.
#[derive(Debug, Clone)]
pub struct Options {
    /// The name of this interceptor's rules, by which a later start finds leftovers. It has to
    /// differ from those of other interceptors on the machine: letters, digits, `-` and `_`, at most
    /// 20.
    pub instance: String,
    /// The range of addresses for host names; its own address becomes this machine's. Default
    /// `100.64.0.1/10`.
    pub names: IpNet,
    /// The DNS server; without one, names get addresses that no client is told.
    pub dns: Option<DnsOptions>,
    /// The interfaces whose traffic is intercepted.
    pub interfaces: Interfaces,
    /// Destinations that are never intercepted: an address, and one port or all. The addresses of
    /// routers and controllers belong here.
    pub exclude: Vec<(IpAddr, Option<u16>)>,
    /// Host names that no service gets, not even by `*`: those of controllers.
    pub keep_names: Vec<String>,
    /// The time without datagrams in either direction after which a UDP conversation ends. Default 5 min.
    pub udp_idle: Duration,
    /// The interval at which such conversations are looked for. Default 30 s.
    pub udp_check: Duration,
    /// The limits.
    pub limits: Limits,
    /// The program that changes the system's rules.
    pub firewall: FirewallKind,
    /// A program that diverts packets in place of rules. It diverts IPv4 only, and chooses the
    /// interfaces itself.
    pub diverter: Option<PathBuf>,
    /// A hosts file for the names of services, without names below wildcards.
    pub hosts_file: Option<PathBuf>,
    /// The folder for lock files. Default `/run/weft`.
    pub locks: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        let names = ipnet::Ipv4Net::new_assert(std::net::Ipv4Addr::new(100, 64, 0, 1), 10);
        Self {
            instance: "weft".into(),
            names: names.into(),
            dns: None,
            interfaces: Interfaces::Named(Vec::new()),
            exclude: Vec::new(),
            keep_names: Vec::new(),
            udp_idle: Duration::from_secs(300),
            udp_check: Duration::from_secs(30),
            limits: Limits::default(),
            firewall: FirewallKind::Any,
            diverter: None,
            hosts_file: None,
            locks: "/run/weft".into(),
        }
    }
}

/// The interfaces whose traffic is intercepted. Traffic of this machine's programs always is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interfaces {
    /// Packets that come in over these interfaces.
    Named(Vec<String>),
    /// Packets that come in over any interface.
    All,
}

/// The program that changes the system's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirewallKind {
    /// `nft`, or `iptables` if `nft` is not installed.
    Any,
    /// `nft`.
    Nftables,
    /// `iptables` and `ip6tables`.
    Iptables,
}

/// Limits. Claims and conversations above them are refused and reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most services. Default 10,000.
    pub services: usize,
    /// Most networks with ports in the firewall, for each protocol, and allowed sources. Default
    /// 65,536.
    pub elements: usize,
    /// Most different lists of allowed sources; each is a rule. Default 256.
    pub groups: usize,
    /// Most names below wildcards with an address. Default 16,384.
    pub names: usize,
    /// Most TCP connections at once. Default 16,384.
    pub connections: usize,
    /// Most TCP connections of one client at once. Default 8,192.
    pub connections_per_source: usize,
    /// Most UDP conversations at once; each is a socket. Default 4,096.
    pub conversations: usize,
    /// Most UDP conversations of one client at once. Default 2,048.
    pub conversations_per_source: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            services: 10_000,
            elements: 65_536,
            groups: 256,
            names: 16_384,
            connections: 16_384,
            connections_per_source: 8_192,
            conversations: 4_096,
            conversations_per_source: 2_048,
        }
    }
}

/// The options of the DNS server.
#[derive(Debug, Clone)]
pub struct DnsOptions {
    /// The addresses to listen on, over UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// The DNS servers to ask for names that are not of services.
    pub upstream: Vec<Upstream>,
    /// The order in which these are asked.
    pub mode: UpstreamMode,
    /// The answer for names that cannot be looked up.
    pub unanswerable: Unanswerable,
    /// The clients beside this machine that may ask at each of these addresses. At other addresses,
    /// clients may ask that have a loopback, link-local, RFC 1918, RFC 6598 or unique local address.
    pub clients: BTreeMap<SocketAddr, Vec<IpNet>>,
    /// Domains of the own network, in lower case: names in them may rightly lead to any address.
    pub private_domains: Vec<String>,
}

/// A DNS server that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upstream {
    /// Its address.
    pub address: SocketAddr,
    /// True if it is always asked over TCP.
    pub tcp: bool,
}

/// The order in which upstreams are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamMode {
    /// All at once; the first good answer counts.
    Parallel,
    /// One after the other, from the first.
    Serial,
    /// One after the other, from the one that answered well last.
    Failover,
    /// One after the other, from a random one.
    Random,
}

/// The answer for names that cannot be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswerable {
    /// REFUSED.
    Refused,
    /// SERVFAIL.
    Servfail,
    /// No answer.
    Timeout,
}
