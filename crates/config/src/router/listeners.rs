//! Listeners for clients and dialers of applications: `listeners` and `dialers`
//! (docs/protocol/config.md 5.5 to 5.7).

use std::{path::PathBuf, time::Duration};

use weft_wire::{Address, Scheme};

use crate::{
    address::{self, HostPort},
    channel_options::ChannelOptions,
    controller::Network,
    router::{
        dns,
        ingress::{self, IngressListener},
    },
    section::Section,
    suggest,
    xgress_options::XgressOptions,
};

/// A dialer of applications.
#[derive(Debug, Clone, PartialEq)]
pub struct XgressDialer {
    /// The binding.
    pub binding: DialerBinding,
    /// Flow control of its circuits.
    pub options: XgressOptions,
}

/// The bindings of dialers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DialerBinding {
    /// TCP, TLS or UDP by the address of the terminator.
    Transport,
    /// UDP.
    TransportUdp,
    /// SDKs that host at this router.
    Edge,
    /// Like `transport`, for services of edge identities.
    EdgeTransport,
    /// The tunneler of this router.
    Tunnel,
}

impl DialerBinding {
    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Transport => "transport",
            Self::TransportUdp => "transport_udp",
            Self::Edge => "edge",
            Self::EdgeTransport => "edge_transport",
            Self::Tunnel => "tunnel",
        }
    }
}

/// A listener for clients.
#[derive(Debug, Clone, PartialEq)]
pub enum Listener {
    /// For SDKs.
    Edge(EdgeListener),
    /// The tunneler.
    Tunnel(Box<TunnelOptions>),
    /// For programs without an SDK.
    Ingress(IngressListener),
}

/// A listener for SDKs.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeListener {
    /// The address to listen on, `tls` or `wss`.
    pub address: Address,
    /// The address that SDKs are told.
    pub advertise: HostPort,
    /// Longest wait for an unknown service session. Default 5s.
    pub lookup_session_timeout: Duration,
    /// Longest wait for an unknown API session. Default 5s.
    pub lookup_api_session_timeout: Duration,
    /// Options of the channels.
    pub channel: ChannelOptions,
    /// Flow control of its circuits.
    pub options: XgressOptions,
}

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
    /// Further interfaces whose traffic is intercepted.
    pub lan_interfaces: Vec<String>,
    /// Services with their ports; empty unless the mode is `proxy`.
    pub services: Vec<ProxiedService>,
    /// Conversations in datagrams end after this long without any; none = the default.
    pub udp_idle_timeout: Option<Duration>,
    /// The interval at which idle conversations are looked for; none = the default.
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

/// Reads `dialers`; of several with one binding the last counts. An unknown binding is no mistake,
/// because no terminator names it (the original accepts any).
pub(super) fn read_dialers(root: &Section<'_>) -> Vec<XgressDialer> {
    let mut out: Vec<XgressDialer> = Vec::new();
    for item in root.list("dialers") {
        let Some(section) = item.section() else { continue };
        let binding = section.required_text("binding", "[dialer] must provide [binding]");
        section.describe("binding", "word", "", DIALER_WORDS.join(", "));
        let options = XgressOptions::read_dialer(&section.section("options"));
        let Some(binding) = dialer_binding(&section, &binding) else { continue };
        out.retain(|dialer| dialer.binding != binding);
        out.push(XgressDialer { binding, options });
    }
    out
}

/// The bindings that `dialers` may name.
const DIALER_WORDS: [&str; 7] =
    ["transport", "transport_udp", "edge", "edge_transport", "tunnel", "proxy", "proxy_udp"];
/// The bindings that `listeners` may name.
const LISTENER_WORDS: [&str; 6] =
    ["edge", "tunnel", "transport", "transport_udp", "proxy", "proxy_udp"];

const DIALERS: [(&str, DialerBinding); 5] = [
    ("transport", DialerBinding::Transport),
    ("transport_udp", DialerBinding::TransportUdp),
    ("edge", DialerBinding::Edge),
    ("edge_transport", DialerBinding::EdgeTransport),
    ("tunnel", DialerBinding::Tunnel),
];

fn dialer_binding(section: &Section<'_>, name: &str) -> Option<DialerBinding> {
    if let Some((_, binding)) = DIALERS.iter().find(|(known, _)| *known == name) {
        return Some(*binding);
    }
    let text = match name {
        "" => return None,
        "udp" => {
            let text = "`udp` is the former name of `transport_udp` and taken as that";
            section.warn("binding", text);
            return Some(DialerBinding::TransportUdp);
        }
        "proxy" | "proxy_udp" => format!("`{name}` dials nothing, it only listens"),
        other => match suggest::nearest(other, DIALERS.iter().map(|(known, _)| *known)) {
            Some(near) => {
                format!("there is no dialer `{other}`, it is ignored; did you mean `{near}`?")
            }
            None => format!("there is no dialer `{other}`, it is ignored"),
        },
    };
    section.warn("binding", text);
    None
}

/// Reads `listeners`. With the section `edge` one of them must be for SDKs.
pub(super) fn read_listeners(root: &Section<'_>, edge: bool) -> Vec<Listener> {
    if edge && !root.has("listeners") {
        root.problem("listeners", "section [listeners] is required to be an array");
        return Vec::new();
    }
    let items = root.list_or("listeners", "section [listeners] is required to be an array");
    let mut for_sdks = false;
    let mut out = Vec::new();
    for item in &items {
        let Some(section) = item.section() else { continue };
        let binding = section.required_text("binding", "[listener] must provide [binding]");
        section.describe("binding", "word", "", LISTENER_WORDS.join(", "));
        for_sdks |= binding == "edge";
        out.extend(listener(&section, &binding));
    }
    if edge && !for_sdks && root.has("listeners") {
        root.problem(
            "listeners",
            "required binding [edge] not found in [listeners], at least one edge binding is required",
        );
    }
    out
}

fn listener(section: &Section<'_>, binding: &str) -> Option<Listener> {
    let options = section.section("options");
    match binding {
        "edge" => edge_listener(section, &options).map(Listener::Edge),
        "tunnel" => {
            section.ignore(&["address", "bind", "advertise"]);
            Some(Listener::Tunnel(Box::new(TunnelOptions::read(&options))))
        }
        "transport" | "transport_udp" | "proxy" | "proxy_udp" => {
            ingress::read(section, &options, binding, bound(section)).map(Listener::Ingress)
        }
        "" => None,
        other => {
            let hint = former_listener(other);
            let text =
                format!("error getting xgress factory [{other}], there is no such listener{hint}");
            section.unknown_word("binding", text, &LISTENER_WORDS);
            section.allow_unknown();
            options.allow_unknown();
            None
        }
    }
}

/// The replacement of a listener of older releases.
fn former_listener(name: &str) -> &'static str {
    match name {
        "udp" => "; it is called `transport_udp` now",
        "edge_wss" => "; use `edge` with an address such as wss:0.0.0.0:3023",
        _ => "",
    }
}

/// `address`, or otherwise `bind`.
fn bound(section: &Section<'_>) -> Option<String> {
    let (address, bind) = (section.text("address"), section.text("bind"));
    section.describe("address", "address", "", "this or bind");
    section.describe("bind", "address", "", "the same as address");
    match (address, bind) {
        (Some(address), Some(bind)) if address != bind => {
            section.problem("bind", "`bind` and `address` are the same and differ; keep one");
            None
        }
        (Some(address), _) | (None, Some(address)) => Some(address),
        (None, None) => {
            if !section.has("address") && !section.has("bind") {
                section.problem("address", "required value [address] not found");
            }
            None
        }
    }
}

fn parsed(section: &Section<'_>, text: &str) -> Option<Address> {
    match address::parse(text) {
        Ok(address) => Some(address),
        Err(reason) => {
            section.problem("address", reason);
            None
        }
    }
}

fn edge_listener(section: &Section<'_>, options: &Section<'_>) -> Option<EdgeListener> {
    options.ignore(&["getSessionTimeout"]);
    let address = bound(section).and_then(|text| parsed(section, &text));
    if let Some(address) = &address
        && !matches!(address.scheme, Scheme::Tls | Scheme::Wss)
    {
        let hint = match address.scheme {
            Scheme::Ws => "; browsers need TLS, use wss",
            _ => "",
        };
        let scheme = address.scheme;
        let text = format!("an edge listener speaks tls or wss, not {scheme}{hint}");
        section.problem("address", text);
    }
    let advertise = advertised(section, options);
    let listener = EdgeListener {
        lookup_session_timeout: options.duration("lookupSessionTimeout", Duration::from_secs(5)),
        lookup_api_session_timeout: options
            .duration("lookupApiSessionTimeout", Duration::from_secs(5)),
        channel: ChannelOptions::read_long(options),
        options: XgressOptions::read(options),
        address: address?,
        advertise: advertise?,
    };
    Some(listener)
}

/// `options.advertise`, or otherwise `advertise`.
fn advertised(section: &Section<'_>, options: &Section<'_>) -> Option<HostPort> {
    let (inner, outer) = (options.text("advertise"), section.text("advertise"));
    options.describe("advertise", "host:port", "", "required");
    section.describe("advertise", "host:port", "", "the same as options.advertise");
    let (text, place) = match (inner, outer) {
        (Some(inner), Some(outer)) if inner != outer => {
            let text = "`advertise` and `options.advertise` are the same and differ; keep one";
            section.problem("advertise", text);
            return None;
        }
        (Some(text), _) => (text, options),
        (None, Some(text)) => (text, section),
        (None, None) if options.has("advertise") || section.has("advertise") => return None,
        (None, None) => {
            let text = format!(
                "required value [{}] for edge binding was not found, e.g. router.example:3022",
                section.path_of("options.advertise")
            );
            section.problem("options", text);
            return None;
        }
    };
    // A protocol before the host is accepted where it changes nothing.
    let bare = text.strip_prefix("tls:").or_else(|| text.strip_prefix("wss:")).unwrap_or(&text);
    match bare.parse() {
        Ok(address) => Some(address),
        Err(reason) => {
            place.problem("advertise", format!("invalid listeners.binding.advertise: {reason}"));
            None
        }
    }
}

impl TunnelOptions {
    fn read(section: &Section<'_>) -> Self {
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
        if matches!(mode, TunnelMode::Tproxy(_)) {
            dns::check(section, &resolver, &upstream);
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
    let mut out = Vec::new();
    for text in texts {
        match service(&text) {
            Ok(service) => out.push(service),
            Err(problem) => section.problem("services", format!("`{text}`: {problem}")),
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
