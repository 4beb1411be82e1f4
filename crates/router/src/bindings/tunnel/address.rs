//! Where a circuit goes when the dialer says so: application data, what is allowed, translations
//! (protocol: tunnel 4 and 9.1).

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use serde::Deserialize;
use serde_json::Value;

use super::config::{Protocol, generic};
use crate::seam::RouteFailure;

/// Largest application data that is read.
const MAX_APP_DATA: usize = 64 * 1024;

/// Where a circuit goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// What is spoken there.
    pub(crate) protocol: Protocol,
    /// Name or address.
    pub(crate) host: Host,
    /// Port.
    pub(crate) port: u16,
}

/// The host of a target, judged as far as that is possible before its name is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    /// An address, in the one form that it is dialed in.
    Address(IpAddr),
    /// A name, and the addresses that it may lead to.
    Name(String, Reach),
}

/// The addresses that a name may lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Any: the operator has named the host itself, or allowed every name.
    Any,
    /// Any but those of this machine and of the link, unless one of these rules has them. Whoever
    /// holds a domain decides where its names lead.
    Beyond(Vec<AddressRule>),
}

impl Host {
    /// Those of the addresses of this host that may be dialed.
    pub(crate) fn judge(&self, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, RouteFailure> {
        let Self::Name(name, Reach::Beyond(rules)) = self else { return Ok(found) };
        let may = |address: &SocketAddr| {
            let address = canonical(address.ip());
            !is_near(address) || rules.iter().any(|rule| rule.allows_address(address))
        };
        let (dialed, refused): (Vec<_>, Vec<_>) = found.into_iter().partition(may);
        match refused.first().filter(|_| dialed.is_empty()) {
            None => Ok(dialed),
            Some(near) => Err(generic(format!(
                "address '{name}' is not in allowed addresses: it leads to {}, which has to be \
                 allowed by itself",
                near.ip()
            ))),
        }
    }
}

/// What the dialer says about where it wants to go: a JSON object of texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AppData(BTreeMap<String, Value>);

impl AppData {
    /// Reads application data; none is an empty object.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, RouteFailure> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        if text.len() > MAX_APP_DATA {
            return Err(generic(format!("application data of {} bytes is too large", text.len())));
        }
        serde_json::from_slice(text)
            .map(Self)
            .map_err(|error| generic(format!("application data is no JSON object: {error}")))
    }

    /// A text that must be there.
    pub(crate) fn required(&self, key: &str) -> Result<&str, RouteFailure> {
        self.text(key)?.ok_or_else(|| generic(format!("{key} required but not provided")))
    }

    fn text(&self, key: &str) -> Result<Option<&str>, RouteFailure> {
        match self.0.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(generic(format!("{key} in the application data is no text"))),
        }
    }

    /// The host the dialer names, if it is allowed: its name before its IP address. What is an
    /// address is judged as one, wherever and however it is written.
    pub(crate) fn host(
        &self,
        allowed: &[AddressRule],
        translations: &[Translation],
    ) -> Result<Host, RouteFailure> {
        let refused = |text: &str| {
            generic(format!("address '{}' is not in allowed addresses", text.escape_debug()))
        };
        let (text, named) = match self.text("dst_hostname")? {
            Some(name) => (name, true),
            None => (self.required("dst_ip")?, false),
        };
        match Written::parse(text) {
            Some(Written::Address(address)) => {
                if !allowed.iter().any(|rule| rule.allows_address(address)) {
                    return Err(refused(text));
                }
                Ok(Host::Address(translate(address, translations)))
            }
            Some(Written::Name(name)) if named => {
                let reach = reach(allowed, &name).ok_or_else(|| refused(text))?;
                Ok(Host::Name(name, reach))
            }
            None if named => Err(refused(text)),
            _ => Err(generic(format!("dst_ip '{}' is no IP address", text.escape_debug()))),
        }
    }
}

/// What a text names.
enum Written {
    /// An address in any of the forms that resolvers take for one.
    Address(IpAddr),
    /// A name: lower case, ASCII, without a dot at its end.
    Name(String),
}

impl Written {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Some(Self::Address(canonical(address.into())));
        }
        match url::Host::parse(text).ok()? {
            url::Host::Ipv4(address) => Some(Self::Address(canonical(address.into()))),
            url::Host::Ipv6(address) => Some(Self::Address(canonical(address.into()))),
            url::Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                let usual = |one: u8| one.is_ascii_alphanumeric() || b"-_.".contains(&one);
                let is_name = !name.is_empty() && name.bytes().all(usual);
                is_name.then(|| Self::Name(name.to_owned()))
            }
        }
    }
}

/// The one form of an address: IPv4 in IPv6 is IPv4, and "unspecified", which the system dials as
/// this machine, is this machine.
fn canonical(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// Whether an address is this machine, something on its link (where clouds keep the secrets of
/// their machines), or many at once.
fn is_near(address: IpAddr) -> bool {
    address.is_loopback()
        || address.is_multicast()
        || match address {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        }
}

/// Where a name may lead, if it is allowed.
fn reach(allowed: &[AddressRule], name: &str) -> Option<Reach> {
    let mut reach = None;
    for rule in allowed {
        match rule {
            AddressRule::AnyName => return Some(Reach::Any),
            AddressRule::Name(known) if known == name => return Some(Reach::Any),
            AddressRule::Domain(domain) if is_in(name, domain) => {
                // The names of this machine (RFC 6761, 6.3).
                if is_in(domain, "localhost") {
                    return Some(Reach::Any);
                }
                reach = Some(());
            }
            _ => {}
        }
    }
    let networks = allowed.iter().filter(|rule| matches!(rule, AddressRule::Network(..)));
    reach.map(|()| Reach::Beyond(networks.cloned().collect()))
}

/// Whether a name is a domain, or in it.
fn is_in(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|front| front.is_empty() || front.ends_with('.'))
}

/// What may be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AddressRule {
    /// Any name.
    AnyName,
    /// A domain and everything in it; lower case, without the star and the dot.
    Domain(String),
    /// One name; lower case.
    Name(String),
    /// A network.
    Network(IpAddr, u8),
}

impl AddressRule {
    /// Reads a rule; one that means nothing is left out.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::AnyName);
        }
        let rule = if let Some(domain) = text.strip_prefix("*.") {
            match Written::parse(domain) {
                Some(Written::Name(domain)) => Some(Self::Domain(domain)),
                _ => None,
            }
        } else if let Some((address, bits)) = text.split_once('/') {
            network(address, bits)
        } else {
            Written::parse(text).map(|written| match written {
                Written::Address(address) => Self::Network(address, width(address)),
                Written::Name(name) => Self::Name(name),
            })
        };
        if rule.is_none() {
            tracing::warn!(
                rule = ?text,
                "an allowed address is skipped: write *, *.domain, a name, an address or a network \
                 (10.0.0.0/8)"
            );
        }
        rule
    }

    fn allows_address(&self, address: IpAddr) -> bool {
        matches!(self, Self::Network(network, bits) if contains(*network, *bits, address))
    }
}

/// A network in CIDR form.
fn network(address: &str, bits: &str) -> Option<AddressRule> {
    let address: IpAddr = address.parse().ok()?;
    let bits: u8 = bits.parse().ok()?;
    if bits > width(address) {
        return None;
    }
    let (address, bits) = canonical_network(address, bits);
    Some(AddressRule::Network(address, bits))
}

/// A network of IPv4 in IPv6 is one of IPv4.
fn canonical_network(address: IpAddr, bits: u8) -> (IpAddr, u8) {
    match (address, address.to_canonical()) {
        (IpAddr::V6(_), short @ IpAddr::V4(_)) if bits >= 96 => (short, bits - 96),
        _ => (address, bits),
    }
}

/// Replaces the network part of an address.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Translation {
    /// The network as dialers know it.
    from: IpAddr,
    /// The network as it is here.
    to: IpAddr,
    /// Bits of the network.
    prefix_length: u8,
}

impl Translation {
    /// The same between addresses in the form that they are dialed in.
    pub(crate) fn canonical(self) -> Self {
        let (from, prefix_length) = canonical_network(self.from, self.prefix_length);
        let (to, _) = canonical_network(self.to, self.prefix_length);
        Self { from, to, prefix_length }
    }
}

/// The address after the most precise translation that fits.
fn translate(address: IpAddr, translations: &[Translation]) -> IpAddr {
    let fits = |rule: &&Translation| contains(rule.from, rule.prefix_length, address);
    let best = translations.iter().filter(fits).max_by_key(|rule| rule.prefix_length);
    let Some(rule) = best else { return address };
    match (address, rule.to) {
        (IpAddr::V4(address), IpAddr::V4(to)) => {
            let mask = mask(32, rule.prefix_length) as u32;
            IpAddr::V4(((u32::from(to) & mask) | (u32::from(address) & !mask)).into())
        }
        (IpAddr::V6(address), IpAddr::V6(to)) => {
            let mask = mask(128, rule.prefix_length);
            IpAddr::V6(((u128::from(to) & mask) | (u128::from(address) & !mask)).into())
        }
        _ => address,
    }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (u32::from(network) ^ u32::from(address)) & mask(32, bits) as u32 == 0
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (u128::from(network) ^ u128::from(address)) & mask(128, bits) == 0
        }
        _ => false,
    }
}

/// The highest `bits` of `width` bits.
fn mask(width: u32, bits: u8) -> u128 {
    let bits = u32::from(bits).min(width);
    let all = if width == 128 { u128::MAX } else { (1 << width) - 1 };
    all & !all.checked_shr(bits).unwrap_or(0)
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(from: &str, to: &str, bits: u8) -> Translation {
        Translation { from: from.parse().unwrap(), to: to.parse().unwrap(), prefix_length: bits }
    }

    #[test]
    fn translations() {
        // tunnel 9.1
        let rules = [rule("192.168.0.0", "10.0.1.0", 24), rule("192.168.1.4", "1.2.3.4", 32)];
        let after = |text: &str| translate(text.parse().unwrap(), &rules).to_string();
        assert_eq!(after("192.168.0.3"), "10.0.1.3");
        assert_eq!(after("192.168.1.4"), "1.2.3.4");
        assert_eq!(after("192.168.10.3"), "192.168.10.3");
    }

    fn rules(texts: &[&str]) -> Vec<AddressRule> {
        texts.iter().map(|text| AddressRule::parse(text).unwrap()).collect()
    }

    fn host(allowed: &[&str], key: &str, text: &str) -> Result<Host, RouteFailure> {
        let data = AppData([(key.to_owned(), text.into())].into());
        data.host(&rules(allowed), &[])
    }

    fn named(allowed: &[&str], name: &str) -> Result<Host, RouteFailure> {
        host(allowed, "dst_hostname", name)
    }

    fn address(text: &str) -> Host {
        Host::Address(text.parse().unwrap())
    }

    #[test]
    fn names_and_networks_are_allowed_by_rules_of_their_kind() {
        assert!(named(&["*.Corp.example"], "a.b.corp.EXAMPLE").is_ok());
        assert!(named(&["*.corp.example"], "corp.example.").is_ok());
        assert!(named(&["*.corp.example"], "evilcorp.example").is_err());
        assert!(named(&["web"], "WEB").is_ok() && named(&["web"], "web.corp.example").is_err());
        assert!(named(&["*"], "x").is_ok() && host(&["*"], "dst_ip", "1.2.3.4").is_err());
        let by_address = |rule, text| host(&[rule], "dst_ip", text);
        assert!(by_address("10.0.0.0/8", "10.9.8.7").is_ok());
        assert!(by_address("10.0.0.0/8", "11.0.0.1").is_err());
        assert!(by_address("0.0.0.0/0", "11.0.0.1").is_ok());
        assert!(by_address("fd00::/8", "fd12::1").is_ok());
        assert!(named(&["10.0.0.0/8"], "localhost").is_err(), "a name is allowed as a name");
        for nothing in ["*x", "*.", "1.2.3.4/56", "a b", "", "*.1", "10.0.0.0/-1", "1.2.3.4.5"] {
            assert_eq!(AddressRule::parse(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn an_address_is_judged_as_one_however_it_is_written() {
        let forms = [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "127.0.0.1.",
            "::ffff:127.0.0.1",
            "::FFFF:7f00:1",
            "[::ffff:127.0.0.1]",
            "0.0.0.0",
            "0",
            "::ffff:0:0",
            "１２７.0.0.1",
            "%31%32%37.1",
        ];
        for form in forms {
            for key in ["dst_hostname", "dst_ip"] {
                for allowed in [&["*"][..], &["::/0", "*.corp.example"], &["10.0.0.0/8"]] {
                    let refused = host(allowed, key, form).unwrap_err();
                    assert!(refused.message.contains("is not in allowed addresses"), "{refused}");
                }
                for allowed in ["127.0.0.0/8", "::ffff:127.0.0.0/104", "127.1"] {
                    assert_eq!(host(&[allowed], key, form).unwrap(), address("127.0.0.1"));
                }
            }
        }
        assert_eq!(host(&["::1"], "dst_ip", "::").unwrap(), address("::1"));
        for no_host in ["", " 127.0.0.1", "127.0.0.1 ", "fe80::1%lo", "a/b", "1.2.3.256", "a\0b"] {
            assert!(named(&["*"], no_host).is_err(), "{no_host:?}");
        }
    }

    #[test]
    fn a_name_of_a_domain_does_not_lead_to_this_machine() {
        let at = |text: &str| SocketAddr::new(text.parse().unwrap(), 80);
        let domain = &["*.corp.example"][..];
        let judge = |allowed: &[&str], name: &str, found: &[&str]| {
            let found = found.iter().map(|text| at(text)).collect();
            named(allowed, name).unwrap().judge(found)
        };
        let near = [
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
        ];
        for found in near {
            let refused = judge(domain, "evil.corp.example", &[found]).unwrap_err();
            assert!(refused.message.contains("it leads to"), "{refused}");
        }
        // Of several addresses the others are dialed.
        let some = judge(domain, "a.corp.example", &["::1", "10.1.2.3"]).unwrap();
        assert_eq!(some, [at("10.1.2.3")]);
        // Who allows the address, or the very name, means it.
        let both = ["*.corp.example", "127.0.0.0/8"];
        assert!(judge(&both, "a.corp.example", &["::ffff:127.0.0.1"]).is_ok());
        assert!(judge(&["a.corp.example"], "a.corp.example", &["127.0.0.1"]).is_ok());
        assert!(judge(&["*"], "a.corp.example", &["127.0.0.1"]).is_ok());
        assert!(judge(&["*.localhost"], "a.localhost", &["127.0.0.1"]).is_ok());
    }

    #[test]
    fn translations_know_addresses_in_either_form() {
        let rules = [rule("::ffff:10.0.0.0", "::ffff:192.168.0.0", 112).canonical()];
        let after = translate(canonical("::ffff:10.0.3.4".parse().unwrap()), &rules);
        assert_eq!(after.to_string(), "192.168.3.4");
    }

    #[test]
    fn texts_that_are_none_are_refused() {
        let data = AppData::parse(br#"{"dst_port":443}"#).unwrap();
        assert!(data.required("dst_port").is_err());
        assert!(AppData::parse(b"[]").is_err());
        assert!(AppData::parse(&vec![b' '; MAX_APP_DATA + 1]).is_err());
    }

    proptest! {
        #[test]
        fn any_data_is_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = AppData::parse(&text);
        }

        #[test]
        fn any_rule_is_read(text in ".{0,40}", bits in any::<u8>(), address in any::<u128>()) {
            let _ = AddressRule::parse(&text);
            let _ = Written::parse(&text);
            let _ = contains(IpAddr::V6(address.into()), bits, IpAddr::V6(0.into()));
            let _ = contains(IpAddr::V4((address as u32).into()), bits, IpAddr::V4(0.into()));
        }
    }
}
