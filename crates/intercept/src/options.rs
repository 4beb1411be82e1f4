//! How to intercept.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use ipnet::IpNet;

/// How to intercept.
#[derive(Debug, Clone)]
pub struct Options {
    /// Tells this interceptor's rules from those of others on the same machine, and is what a later
    /// start knows leftovers by. Letters, digits, `-` and `_`, at most 20.
    pub instance: String,
    /// Where host names get their addresses; its address itself becomes this machine's. Default
    /// `100.64.0.1/10`.
    pub names: IpNet,
    /// The DNS server; none: names get addresses that nobody is told.
    pub dns: Option<DnsOptions>,
    /// Whose traffic is intercepted.
    pub interfaces: Interfaces,
    /// Destinations that are never intercepted: an address, and one port or all. Routers and
    /// controllers belong here.
    pub exclude: Vec<(IpAddr, Option<u16>)>,
    /// Host names that no service gets, `*` included: those of controllers.
    pub keep_names: Vec<String>,
    /// A UDP session without a datagram in either direction ends after this. Default 5 min.
    pub udp_idle: Duration,
    /// How often that is looked at. Default 30 s.
    pub udp_check: Duration,
    /// Bounds.
    pub limits: Limits,
    /// What changes the rules of the system.
    pub firewall: FirewallKind,
    /// A program that diverts packets in their place. It intercepts IPv4 only, and decides itself over
    /// which interfaces.
    pub diverter: Option<PathBuf>,
    /// A hosts file that gets the names that services have, without those below wildcards.
    pub hosts_file: Option<PathBuf>,
    /// Folder for lock files. Default `/run/weft`.
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

/// Whose traffic is intercepted. What this machine's programs send always is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interfaces {
    /// What comes in over these.
    Named(Vec<String>),
    /// Whatever comes in.
    All,
}

/// What changes the rules of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirewallKind {
    /// `nft`, or `iptables` where there is no `nft`.
    Any,
    /// `nft`.
    Nftables,
    /// `iptables` and `ip6tables`.
    Iptables,
}

/// Bounds. What is past them is refused, and told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Services. Default 10,000.
    pub services: usize,
    /// Networks with ports in the firewall, for each protocol, and allowed sources. Default 65,536.
    pub elements: usize,
    /// Different lists of allowed sources; each is a rule. Default 256.
    pub groups: usize,
    /// Names that clients made us give an address, below wildcards. Default 16,384.
    pub names: usize,
    /// TCP connections at a time. Default 16,384.
    pub connections: usize,
    /// TCP connections of one client at a time. Default 8,192.
    pub connections_per_source: usize,
    /// UDP sessions at a time; each is a socket. Default 4,096.
    pub sessions: usize,
    /// UDP sessions of one client at a time. Default 2,048.
    pub sessions_per_source: usize,
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
            sessions: 4_096,
            sessions_per_source: 2_048,
        }
    }
}

/// The DNS server.
#[derive(Debug, Clone)]
pub struct DnsOptions {
    /// Where it listens, over UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// Whom names that are not ours are asked of.
    pub upstream: Vec<Upstream>,
    /// How several of them are used.
    pub mode: UpstreamMode,
    /// What is said where there is no answer.
    pub unanswerable: Unanswerable,
    /// Who is answered, beside this machine, at each of these addresses. At others those are answered
    /// that have a loopback, link-local, RFC 1918, RFC 6598 or unique local address.
    pub clients: BTreeMap<SocketAddr, Vec<IpNet>>,
}

/// A DNS server that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upstream {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it is always asked over TCP.
    pub tcp: bool,
}

/// How several upstreams are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamMode {
    /// All at once; the first good answer counts.
    Parallel,
    /// One after the other, from the first.
    Serial,
    /// One after the other, from the one that answered well last.
    Failover,
    /// One after the other, from any.
    Random,
}

/// What is said where there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswerable {
    /// REFUSED.
    Refused,
    /// SERVFAIL.
    Servfail,
    /// Nothing.
    Timeout,
}
