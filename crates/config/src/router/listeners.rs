//! Where clients connect and how applications are dialed: `listeners` and `dialers`
//! (protocol: config 5.5 to 5.7).

use std::{path::PathBuf, time::Duration};

use crate::{
    address::{Address, AddressKind, HostPort},
    channel_options::ChannelOptions,
    controller::Network,
    section::{Item, Section},
    xgress_options::XgressOptions,
};

/// How applications are dialed.
#[derive(Debug, Clone, PartialEq)]
pub struct XgressDialer {
    /// Which dialer.
    pub binding: DialerBinding,
    /// Flow control of its circuits.
    pub options: XgressOptions,
}

/// Dialers there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DialerBinding {
    /// TCP, TLS or UDP by the address of the terminator.
    Transport,
    /// UDP.
    TransportUdp,
    /// Hosted by an SDK at this router.
    Edge,
    /// As `transport`, for services of edge identities.
    EdgeTransport,
    /// Hosted by the tunneler of this router.
    Tunnel,
}

/// Where clients connect.
#[derive(Debug, Clone, PartialEq)]
pub enum Listener {
    /// SDKs.
    Edge(EdgeListener),
    /// The tunneler.
    Tunnel(Box<TunnelOptions>),
    /// Programs that speak the fabric's own dial protocol.
    Transport {
        /// Where it listens.
        address: Address,
        /// Whether it is for datagrams (`transport_udp`).
        udp: bool,
        /// Flow control of its circuits.
        options: XgressOptions,
    },
    /// Anybody, for one service.
    Proxy(ProxyListener),
}

/// A listener for SDKs.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeListener {
    /// Where it listens, `tls` or `wss`.
    pub address: Address,
    /// What SDKs are told.
    pub advertise: HostPort,
    /// How long a service session may take to be known. Default 5s.
    pub lookup_session_timeout: Duration,
    /// How long an API session may take to be known. Default 5s.
    pub lookup_api_session_timeout: Duration,
    /// Options of the channels.
    pub channel: ChannelOptions,
    /// Flow control of its circuits.
    pub options: XgressOptions,
}

/// A listener for one service.
#[derive(Debug, Clone, PartialEq)]
pub struct ProxyListener {
    /// Where it listens, as written; also kinds that other addresses do not have.
    pub address: String,
    /// Id of the service.
    pub service: String,
    /// Whether it is for datagrams (`proxy_udp`).
    pub udp: bool,
    /// Flow control of its circuits.
    pub options: XgressOptions,
}

/// The tunneler.
#[derive(Debug, Clone, PartialEq)]
pub struct TunnelOptions {
    /// What it does.
    pub mode: TunnelMode,
    /// Resolvers; `udp://host:port` or `file://path`. Empty = no DNS. Default
    /// `udp://127.0.0.1:53`.
    pub resolver: Vec<String>,
    /// Addresses given to intercepted names. Default `100.64.0.1/10`.
    pub dns_range: Network,
    /// Whom names that are not ours are asked of.
    pub dns_upstream: Vec<String>,
    /// How several of them are used.
    pub dns_upstream_mode: DnsUpstreamMode,
    /// What is answered where there is no answer.
    pub dns_unanswerable: DnsUnanswerable,
    /// Interfaces whose traffic is intercepted too.
    pub lan_interfaces: Vec<String>,
    /// Services and their ports, for `proxy`.
    pub services: Vec<(String, u16)>,
    /// Datagram flows end after so long without traffic; none = built in.
    pub udp_idle_timeout: Option<Duration>,
    /// How often that is looked at; none = built in.
    pub udp_check_interval: Option<Duration>,
    /// Flow control of its circuits.
    pub options: XgressOptions,
}

/// What the tunneler does. Every mode hosts services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TunnelMode {
    /// Hosts only.
    Host,
    /// Intercepts traffic of the system; with a program that diverts it, if one is given.
    Tproxy(Option<PathBuf>),
    /// Listens at ports.
    Proxy,
}

/// How several upstream resolvers are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnsUpstreamMode {
    /// All at once, the first answer wins.
    Parallel,
    /// One after the other.
    Serial,
    /// The first, others when it fails.
    Failover,
    /// Any.
    Random,
}

/// What is answered where there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DnsUnanswerable {
    /// Nothing.
    Timeout,
    /// SERVFAIL.
    Servfail,
    /// REFUSED.
    Refused,
}

/// Reads `dialers`; of several with one binding the last counts.
pub(super) fn read_dialers(root: &Section<'_>) -> Vec<XgressDialer> {
    let mut out: Vec<XgressDialer> = Vec::new();
    for item in root.list("dialers") {
        let Some(section) = item.section() else { continue };
        let binding = section.required_text("binding", "[dialer] must provide [binding]");
        let options = XgressOptions::read_dialer(&section.section("options"));
        let binding = match binding.as_str() {
            "transport" => DialerBinding::Transport,
            "transport_udp" => DialerBinding::TransportUdp,
            "edge" => DialerBinding::Edge,
            "edge_transport" => DialerBinding::EdgeTransport,
            "tunnel" => DialerBinding::Tunnel,
            "proxy" | "proxy_udp" => {
                section.warn("binding", format!("`{binding}` dials nothing, it only listens"));
                continue;
            }
            "" => continue,
            other => {
                let text =
                    format!("error getting xgress factory [{other}], there is no such dialer");
                section.problem("binding", text);
                continue;
            }
        };
        out.retain(|dialer| dialer.binding != binding);
        out.push(XgressDialer { binding, options });
    }
    out
}

/// Reads `listeners`. With `edge` one of them must be for SDKs.
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
        for_sdks |= binding == "edge";
        out.extend(listener(item, &section, &binding));
    }
    if edge && !for_sdks && root.has("listeners") {
        root.problem(
            "listeners",
            "required binding [edge] not found in [listeners], at least one edge binding is required",
        );
    }
    out
}

fn listener(item: &Item<'_>, section: &Section<'_>, binding: &str) -> Option<Listener> {
    let options = section.section("options");
    match binding {
        "edge" => edge_listener(section, &options).map(Listener::Edge),
        "tunnel" => {
            section.ignore(&["address", "bind", "advertise"]);
            Some(Listener::Tunnel(Box::new(TunnelOptions::read(&options))))
        }
        "transport" | "transport_udp" => {
            section.ignore(&["advertise"]);
            let address = parsed(section, &bound(section)?)?;
            let udp = binding == "transport_udp";
            Some(Listener::Transport { address, udp, options: XgressOptions::read(&options) })
        }
        "proxy" | "proxy_udp" => {
            section.ignore(&["advertise"]);
            let address = bound(section);
            let service =
                section.required_text("service", "missing 'service' configuration option");
            let (udp, options) = (binding == "proxy_udp", XgressOptions::read(&options));
            Some(Listener::Proxy(ProxyListener { address: address?, service, udp, options }))
        }
        "" => None,
        other => {
            item.problem(format!(
                "error getting xgress factory [{other}], there is no such listener"
            ));
            section.allow_unknown();
            options.allow_unknown();
            None
        }
    }
}

/// `address`, or `bind` for the same.
fn bound(section: &Section<'_>) -> Option<String> {
    match (section.text("address"), section.text("bind")) {
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
    match text.parse() {
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
        && !matches!(address.kind, AddressKind::Tls | AddressKind::Wss)
    {
        let text = format!("an edge listener speaks tls or wss, not {}", address.kind.name());
        section.problem("address", text);
    }
    let advertise = advertised(section, options);
    let listener = EdgeListener {
        lookup_session_timeout: options.duration("lookupSessionTimeout", Duration::from_secs(5)),
        lookup_api_session_timeout: options
            .duration("lookupApiSessionTimeout", Duration::from_secs(5)),
        channel: ChannelOptions::read(options).with_long_queue(),
        options: XgressOptions::read(options),
        address: address?,
        advertise: advertise?,
    };
    Some(listener)
}

/// `options.advertise`, or `advertise` for the same.
fn advertised(section: &Section<'_>, options: &Section<'_>) -> Option<HostPort> {
    let text = match (options.text("advertise"), section.text("advertise")) {
        (Some(inner), Some(outer)) if inner != outer => {
            let text = "`advertise` and `options.advertise` are the same and differ; keep one";
            section.problem("advertise", text);
            return None;
        }
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) => {
            let text = format!(
                "required value [{}] for edge binding was not found, e.g. router.example:3022",
                section.path_of("options.advertise")
            );
            section.problem("options", text);
            return None;
        }
    };
    // A type in front is tolerated where it changes nothing.
    let bare = text.strip_prefix("tls:").or_else(|| text.strip_prefix("wss:")).unwrap_or(&text);
    match bare.parse() {
        Ok(address) => Some(address),
        Err(reason) => {
            section.problem("options", format!("invalid listeners.binding.advertise: {reason}"));
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
        Self {
            mode: mode(section),
            resolver: if section.has("resolver") {
                not_empty(section.texts("resolver"))
            } else {
                vec!["udp://127.0.0.1:53".to_owned()]
            },
            dns_range: dns_range(section),
            dns_upstream: not_empty(section.texts("dnsUpstream")),
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
            services: services(section),
            udp_idle_timeout: section.opt_duration("udpIdleTimeout"),
            udp_check_interval: section.opt_duration("udpCheckInterval"),
            options: XgressOptions::read(section),
        }
    }
}

fn mode(section: &Section<'_>) -> TunnelMode {
    match section.text("mode").as_deref() {
        None | Some("tproxy") => TunnelMode::Tproxy(None),
        Some("host") => TunnelMode::Host,
        Some("proxy") => TunnelMode::Proxy,
        Some(text) => match text.strip_prefix("tproxy:") {
            Some(diverter) if !diverter.is_empty() => TunnelMode::Tproxy(Some(diverter.into())),
            _ => {
                let text = format!(
                    "invalid value '{text}' for mode, must be one of [\"tproxy\", \"host\", \"proxy\"]"
                );
                section.problem("mode", text);
                TunnelMode::Host
            }
        },
    }
}

fn dns_range(section: &Section<'_>) -> Network {
    let default = Network { address: std::net::Ipv4Addr::new(100, 64, 0, 1).into(), prefix: 10 };
    match section.text("dnsSvcIpRange").map(|text| text.parse::<Network>()) {
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

fn services(section: &Section<'_>) -> Vec<(String, u16)> {
    let mut out = Vec::new();
    for text in section.texts("services") {
        let parsed = text
            .rsplit_once(':')
            .and_then(|(name, port)| Some((name.to_owned(), port.parse().ok()?)))
            .filter(|(name, port)| !name.is_empty() && *port != 0);
        match parsed {
            Some(service) => out.push(service),
            None => section.problem("services", format!("`{text}` is not <service>:<port>")),
        }
    }
    out
}
