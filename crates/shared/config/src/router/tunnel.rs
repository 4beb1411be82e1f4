//! The tunneler of a router: the options of a listener with the binding `tunnel`
//! (docs/protocol/config.md 5.7).

use std::path::PathBuf;
use std::time::Duration;

use crate::controller::Network;
use crate::router::dns;
use crate::section::Section;
use crate::xgress_options::XgressOptions;

/// The tunneler.
#[derive(Debug, Clone, PartialEq)]
pub struct TunnelOptions {
    /// The mode.
    pub mode: TunnelMode,
    /// The DNS server and the hosts file: `udp://host:port` or `file://path`. Empty = no DNS.
    /// Default `udp://127.0.0.1:53`.
    pub resolver: Vec<String>,
    /// The range of addresses for intercepted names. Default `100.64.0.1/10`.
    pub dns_range: Network,
    /// The servers that are asked for other names.
    pub dns_upstream: Vec<String>,
    /// The order in which they are asked.
    pub dns_upstream_mode: DnsUpstreamMode,
    /// The answer for names that cannot be looked up.
    pub dns_unanswerable: DnsUnanswerable,
    /// Domains whose names may lead to addresses of `dns_range`, and to the machine of the router. Only weft has this
    /// key: the original passes all answers on.
    pub dns_private_domains: Vec<String>,
    /// Further interfaces whose traffic is intercepted.
    pub lan_interfaces: Vec<String>,
    /// Services with their ports; empty unless the mode is `proxy`.
    pub services: Vec<ProxiedService>,
    /// Conversations end after this long without datagrams; none = the default of the tunneler.
    pub udp_idle_timeout: Option<Duration>,
    /// The interval at which idle conversations are looked for; none = the default of the tunneler.
    pub udp_check_interval: Option<Duration>,
    /// Flow control of its circuits.
    pub options: XgressOptions,
}

/// A service and its port of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxiedService {
    /// Name of the service.
    pub name: String,
    /// The port.
    pub port: u16,
    /// The protocol.
    pub protocol: ProxyProtocol,
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The mode of the tunneler. Every mode hosts services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TunnelMode {
    /// Hosts only.
    Host,
    /// Intercepts traffic of the system, by a program that diverts it, if one is given.
    Tproxy(Option<PathBuf>),
    /// Listens on ports.
    Proxy,
}

/// The order in which upstream resolvers are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnsUpstreamMode {
    /// All at once, and the first answer counts.
    Parallel,
    /// One after the other.
    Serial,
    /// The first, others when it fails.
    Failover,
    /// A random one.
    Random,
}

/// The answer for names that cannot be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnsUnanswerable {
    /// No answer.
    Timeout,
    /// SERVFAIL.
    Servfail,
    /// REFUSED.
    Refused,
}

impl TunnelOptions {
    pub(super) fn read(section: &Section<'_>) -> Self {
        const UPSTREAM: [(&str, DnsUpstreamMode); 4] = [
            ("parallel", DnsUpstreamMode::Parallel),
            ("serial", DnsUpstreamMode::Serial),
            ("failover", DnsUpstreamMode::Failover),
            ("random", DnsUpstreamMode::Random),
        ];
        const UNANSWERABLE: [(&str, DnsUnanswerable); 3] = [
            ("timeout", DnsUnanswerable::Timeout),
            ("servfail", DnsUnanswerable::Servfail),
            ("refused", DnsUnanswerable::Refused),
        ];
        section.ignore(&["svcPollRate"]);
        let not_empty = |texts: Vec<String>| -> Vec<String> {
            texts.into_iter().filter(|text| !text.is_empty()).collect()
        };
        let mode = mode(section);
        let resolver = section.texts("resolver");
        let files = resolver.iter().filter(|text| text.starts_with("file:"));
        if files.clone().any(|text| !text.starts_with("file:///")) {
            section.problem("resolver", "a hosts file is written as file:///<path>".to_owned());
        }
        if files.count() > 1 {
            section.problem("resolver", "names go into one hosts file only".to_owned());
        }
        section.describe(
            "resolver",
            "list of strings",
            "[udp://127.0.0.1:53]",
            "udp://<address>:<port>, file:///<path>",
        );
        let resolver = not_empty(resolver);
        let upstream = not_empty(section.texts("dnsUpstream"));
        let private = not_empty(section.texts("dnsPrivateDomains"));
        if matches!(mode, TunnelMode::Tproxy(_)) {
            dns::check(section, &resolver, &upstream);
            dns::check_domains(section, &private);
        }
        Self {
            services: services(section, &mode),
            mode,
            resolver: if section.has("resolver") {
                resolver
            } else {
                vec!["udp://127.0.0.1:53".to_owned()]
            },
            dns_range: dns_range(section),
            dns_upstream: upstream,
            dns_upstream_mode: section.choice(
                "dnsUpstreamMode",
                &UPSTREAM,
                DnsUpstreamMode::Parallel,
            ),
            dns_unanswerable: section.choice(
                "dnsUnanswerable",
                &UNANSWERABLE,
                DnsUnanswerable::Refused,
            ),
            dns_private_domains: private,
            lan_interfaces: not_empty(section.texts("lanIf")),
            udp_idle_timeout: section.opt_duration("udpIdleTimeout"),
            udp_check_interval: section.opt_duration("udpCheckInterval"),
            options: XgressOptions::read(section),
        }
    }
}

fn mode(section: &Section<'_>) -> TunnelMode {
    let text = section.text("mode");
    section.describe("mode", "word", "tproxy", "tproxy, tproxy:<path>, host, proxy");
    match text.as_deref() {
        None | Some("tproxy") => TunnelMode::Tproxy(None),
        Some("host") => TunnelMode::Host,
        Some("proxy") => TunnelMode::Proxy,
        Some(text) => match text.strip_prefix("tproxy:") {
            Some(diverter) if diverter.starts_with('/') => {
                TunnelMode::Tproxy(Some(diverter.into()))
            }
            Some(diverter) if !diverter.is_empty() => {
                let text = format!("the program `{diverter}` has to be an absolute path");
                section.problem("mode", text);
                TunnelMode::Host
            }
            _ => {
                let text = format!(
                    "invalid value '{text}' for mode, must be one of [\"tproxy\", \"host\", \"proxy\"]"
                );
                section.unknown_word("mode", text, &["tproxy", "host", "proxy"]);
                TunnelMode::Host
            }
        },
    }
}

fn dns_range(section: &Section<'_>) -> Network {
    let default = Network { address: std::net::Ipv4Addr::new(100, 64, 0, 1).into(), prefix: 10 };
    let text = section.text("dnsSvcIpRange");
    section.describe("dnsSvcIpRange", "CIDR", "100.64.0.1/10", "");
    match text.map(|text| text.parse::<Network>()) {
        Some(Ok(network)) => network,
        Some(Err(reason)) => {
            section.problem(
                "dnsSvcIpRange",
                format!("must be a CIDR such as 100.64.0.1/10: {reason}"),
            );
            default
        }
        None => default,
    }
}

/// `<service>:<port>` or `<service>:<port>:<protocol>`, by default TCP (docs/protocol/tunnel.md 2).
/// Read only in the mode that uses them.
fn services(section: &Section<'_>, mode: &TunnelMode) -> Vec<ProxiedService> {
    let texts = section.texts("services");
    section.describe("services", "list of strings", "[]", "<service>:<port>[:tcp or :udp]");
    if *mode != TunnelMode::Proxy {
        if !texts.is_empty() {
            section.warn("services", "the list has no effect without `mode: proxy`");
        }
        return Vec::new();
    }
    let mut out: Vec<ProxiedService> = Vec::new();
    for text in texts {
        let problem = match service(&text) {
            Ok(service) => {
                let is_same = |one: &&ProxiedService| {
                    (one.port, one.protocol) == (service.port, service.protocol)
                };
                let other = out.iter().find(is_same).map(|other| {
                    let ProxiedService { name, port, .. } = other;
                    format!("port {port} leads to `{name}` already")
                });
                out.push(service);
                other
            }
            Err(problem) => Some(problem.to_owned()),
        };
        if let Some(problem) = problem {
            section.problem("services", format!("`{text}`: {problem}"));
        }
    }
    out
}

fn service(text: &str) -> Result<ProxiedService, &'static str> {
    const FORM: &str = "must be <service>:<port> or <service>:<port>:<protocol>";
    let (front, last) = text.rsplit_once(':').ok_or(FORM)?;
    // A port consists of digits: a last part of letters is the protocol.
    let (front, port, protocol) = match last {
        "tcp" | "udp" => {
            let (name, port) = front.rsplit_once(':').ok_or(FORM)?;
            let protocol = if last == "udp" { ProxyProtocol::Udp } else { ProxyProtocol::Tcp };
            (name, port, protocol)
        }
        word if word.starts_with(|first: char| first.is_ascii_alphabetic()) => {
            return Err("invalid protocol specified, must be tcp or udp");
        }
        port => (front, port, ProxyProtocol::Tcp),
    };
    let port = port.parse().ok().filter(|port| *port != 0);
    let port = port.ok_or("invalid port specified, must be between 1 and 65535")?;
    if front.is_empty() {
        Err(FORM)
    } else {
        Ok(ProxiedService { name: front.into(), port, protocol })
    }
}
