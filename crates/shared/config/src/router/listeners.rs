//! Listeners for clients: `listeners` (docs/protocol/config.md 5.5, 5.6).

use std::time::Duration;

use weft_wire::{Address, Scheme};

use crate::address::{self, HostPort};
use crate::channel_options::ChannelOptions;
use crate::router::ingress::{self, IngressListener};
use crate::router::tunnel::TunnelOptions;
use crate::section::Section;
use crate::xgress_options::XgressOptions;

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

/// The bindings that `listeners` may name.
const LISTENER_WORDS: [&str; 6] =
    ["edge", "tunnel", "transport", "transport_udp", "proxy", "proxy_udp"];

/// Reads `listeners`. With the section `edge` one of them must be for SDKs.
pub(super) fn read(root: &Section<'_>, edge: bool) -> Vec<Listener> {
    if edge && !root.has("listeners") {
        let text = "section [listeners] is required to be an array: with `edge` it has a listener for SDKs";
        root.problem_beside("listeners", "edge", text);
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
        if binding == "edge" && !edge {
            let text = "a listener for SDKs needs the section `edge`, which is missing";
            section.problem("binding", text);
        }
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
