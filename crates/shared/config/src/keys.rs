//! The table of a router's keys: made by reading a file that has every section, so that it shows
//! the facts of the getters.

use std::path::Path;

use crate::RouterConfig;
use crate::facts::{KeyFact, section_of};

/// One key that a router's file may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Its path, with `[]` for any element of a list.
    pub key: String,
    /// The type of its values.
    pub kind: &'static str,
    /// The value that is used if the file does not have the key; empty = none.
    pub default: String,
    /// The bounds of the values, or the allowed words; empty = any value.
    pub allowed: String,
    /// The bindings with this key; empty = all.
    pub bindings: Vec<&'static str>,
}

/// A file with every section and one listener and dialer of each binding. The number of a listener
/// or dialer in its list determines the binding of its keys.
pub(crate) const WHOLE: &str = "
v: 3
identity: {cert: a, key: b, alt_server_certs: [{server_cert: c}]}
ctrl: {endpoint: 'tls:c:1', listeners: [{bind: 'tls:c:1'}]}
link:
  dialers: [{binding: transport}]
  listeners: [{binding: transport, bind: 'tls:l:1'}]
dialers:
  - {binding: transport}
  - {binding: transport_udp}
  - {binding: edge}
  - {binding: edge_transport}
  - {binding: tunnel}
listeners:
  - {binding: edge, address: 'tls:e:1', options: {advertise: 'e:1'}}
  - {binding: tunnel}
  - {binding: transport, address: 'tls:t:1'}
  - {binding: transport_udp, address: 'udp:t:1'}
  - {binding: proxy, address: 'tcp:p:1', service: s}
  - {binding: proxy_udp, address: 'udp:p:1', service: s}
edge: {apiProxy: {listener: 'a:1', upstream: 'b:1'}}
csr: {sans: {}}
proxy: {type: http, address: 'p:1'}
trace: {path: t}
profile: {cpu: {path: c}, memory: {path: m}}
transport: {wss: {identity: {server_cert: a, key: b, ca: c}}}
web:
  - name: w
    identity: {cert: a, server_cert: b, key: c, ca: d}
    bindPoints: [{interface: 'i:1', address: 'a:1'}, {identity: {file: f, service: s}}]
    apis: [{binding: health-checks}]
";
const DIALERS: [&str; 5] = ["transport", "transport_udp", "edge", "edge_transport", "tunnel"];
const LISTENERS: [&str; 6] = ["edge", "tunnel", "transport", "transport_udp", "proxy", "proxy_udp"];

/// Every key of a router's file, in the order of the sections.
///
/// # Panics
/// Never: the text that it reads is constant.
#[must_use]
pub fn router_keys() -> Vec<KeyRow> {
    let none = |_: &str| None;
    let mut out: Vec<KeyRow> = Vec::new();
    let Ok(whole) = RouterConfig::examine(WHOLE, Path::new("router.yml"), &none) else {
        return out;
    };
    for fact in whole.facts.all() {
        let row = row(fact);
        let same = |known: &&mut KeyRow| {
            known.key == row.key
                && known.kind == row.kind
                && known.default == row.default
                && known.allowed == row.allowed
        };
        match out.iter_mut().find(same) {
            Some(known) => known.bindings.extend(row.bindings),
            None => out.push(row),
        }
    }
    out.sort_by_key(|row| section_order(&row.key));
    out
}

impl KeyRow {
    /// The columns of the row in the page on the router's file: key, bindings, type, default,
    /// allowed values.
    #[must_use]
    pub fn cells(&self) -> [String; 5] {
        let plain = |text: &str| text.replace('|', "or");
        let code = |text: &str| match text {
            "" => String::new(),
            text => format!("`{}`", plain(text)),
        };
        let bindings = self.bindings.join(", ");
        [code(&self.key), bindings, self.kind.to_owned(), code(&self.default), plain(&self.allowed)]
    }
}

/// The position of a key's section among the sections, for tables.
#[must_use]
pub fn section_order(key: &str) -> usize {
    const ORDER: [&str; 22] = [
        "v",
        "identity",
        "ctrl",
        "link",
        "dialers",
        "listeners",
        "edge",
        "csr",
        "forwarder",
        "healthChecks",
        "metrics",
        "web",
        "trace",
        "profile",
        "transport",
        "tls",
        "proxy",
        "connectEvents",
        "interfaceDiscovery",
        "managedConfig",
        "enableDebugOps",
        "plugins",
    ];
    let section = section_of(key);
    ORDER.iter().position(|known| *known == section).unwrap_or(ORDER.len())
}

fn row(fact: &KeyFact) -> KeyRow {
    let binding = |list: &str, names: &[&'static str]| {
        let rest = fact.key.strip_prefix(list)?.strip_prefix('[')?;
        let index: usize = rest.split(']').next()?.parse().ok()?;
        names.get(index).copied()
    };
    let binding = binding("listeners", &LISTENERS).or_else(|| binding("dialers", &DIALERS));
    KeyRow {
        key: fact.general_key(),
        kind: fact.kind,
        default: fact.default.clone(),
        allowed: fact.allowed.clone(),
        bindings: binding.into_iter().collect(),
    }
}
