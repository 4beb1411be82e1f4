//! The destination of a circuit that the dialer chooses: allowed addresses and ports, and
//! translations (docs/protocol/tunnel.md 9.1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::network::canonical;
use crate::refusal::{cut, shown};
use crate::{AppData, Network, Protocol, Refusal};

/// Longest name that is read, in bytes.
const MAX_NAME: usize = 1024;

/// The destination of a circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitTarget {
    /// The protocol.
    pub protocol: Protocol,
    /// The name or address.
    pub host: TargetHost,
    /// The port.
    pub port: u16,
}

/// The host of a target, judged as far as that is possible before its name is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetHost {
    /// An address, in the one form in which it is dialed.
    Address(IpAddr),
    /// A name, and the addresses that it may have.
    Name(String, Reach),
}

/// The addresses that a name may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Any address: the operator has named the host itself, or allowed every name.
    Any,
    /// Any address but those of this machine and of its link, unless one of these rules allows
    /// them: the owner of a domain decides on the addresses of its names.
    Beyond(Vec<AddressRule>),
}

impl TargetHost {
    /// The addresses of this host that may be dialed.
    pub fn judge(&self, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refusal> {
        match self {
            Self::Name(_, Reach::Beyond(_)) => self.judge_from(found, &own_addresses()),
            _ => Ok(found),
        }
    }

    /// The addresses of this host that may be dialed by a machine with the addresses `own`.
    fn judge_from(
        &self,
        found: Vec<SocketAddr>,
        own: &[IpAddr],
    ) -> Result<Vec<SocketAddr>, Refusal> {
        let Self::Name(name, Reach::Beyond(rules)) = self else { return Ok(found) };
        let may = |address: &SocketAddr| {
            let address = canonical(address.ip());
            let near = is_near(address) || own.contains(&address);
            !near || rules.iter().any(|rule| rule.allows_address(address))
        };
        let (dialed, refused): (Vec<_>, Vec<_>) = found.into_iter().partition(may);
        match refused.first().filter(|_| dialed.is_empty()) {
            None => Ok(dialed),
            Some(near) => Err(Refusal::other(format!(
                "address '{}' is not in allowed addresses: it leads to {}, which has to be \
                 allowed by itself",
                cut(name),
                near.ip()
            ))),
        }
    }
}

impl AppData {
    /// The host that the dialer asks for, if it is allowed: by its name, or else by its IP address.
    /// A name that is written like an address is judged as an address.
    pub fn host(
        &self,
        allowed: &[AddressRule],
        translations: &[Translation],
    ) -> Result<TargetHost, Refusal> {
        let refused = |text: &str| {
            Refusal::other(format!("address '{}' is not in allowed addresses", shown(text)))
        };
        let (text, named) = match self.text("dst_hostname")? {
            Some(name) => (name, true),
            None => (self.required("dst_ip")?, false),
        };
        if text.len() > MAX_NAME {
            return Err(refused(text));
        }
        match Written::parse(text) {
            Some(Written::Address(address)) => {
                if !allowed.iter().any(|rule| rule.allows_address(address)) {
                    return Err(refused(text));
                }
                Ok(TargetHost::Address(translate(address, translations)))
            }
            Some(Written::Name(name)) if named => {
                let reach = reach(allowed, &name).ok_or_else(|| refused(text))?;
                Ok(TargetHost::Name(name, reach))
            }
            None if named => Err(refused(text)),
            _ => Err(Refusal::other(format!("dst_ip '{}' is no IP address", shown(text)))),
        }
    }
}

/// The parsed form of a host.
enum Written {
    /// An address, in any form that resolvers accept.
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

/// Addresses, besides those of the link, at which clouds keep secrets of their machines: AWS,
/// Google, Alibaba, Azure.
const SECRETS: [IpAddr; 4] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

/// The addresses of this machine's interfaces.
fn own_addresses() -> Vec<IpAddr> {
    let found = if_addrs::get_if_addrs().unwrap_or_default();
    found.into_iter().map(|interface| interface.ip()).collect()
}

/// True for loopback and link-local addresses, for those at which clouds keep secrets ([`SECRETS`]),
/// and for multicast and broadcast.
fn is_near(address: IpAddr) -> bool {
    SECRETS.contains(&address)
        || address.is_loopback()
        || address.is_multicast()
        || match address {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        }
}

/// The addresses that an allowed name may have.
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
    let networks = allowed.iter().filter(|rule| matches!(rule, AddressRule::Network(_)));
    reach.map(|()| Reach::Beyond(networks.cloned().collect()))
}

/// A name in the form for look-ups, if the rules allow it.
pub(crate) fn allowed_name(rules: &[AddressRule], text: &str) -> Option<String> {
    if text.len() > MAX_NAME {
        return None;
    }
    match Written::parse(text)? {
        Written::Name(name) => reach(rules, &name).map(|_| name),
        Written::Address(_) => None,
    }
}

/// True if a name is a domain, or inside it.
fn is_in(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|front| front.is_empty() || front.ends_with('.'))
}

/// A rule that allows destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressRule {
    /// Any name.
    AnyName,
    /// A domain and all names inside it; lower case, without the star and the dot.
    Domain(String),
    /// One name; lower case.
    Name(String),
    /// A network.
    Network(Network),
}

impl AddressRule {
    /// Reads a rule; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::AnyName);
        }
        let rule = if let Some(domain) = text.strip_prefix("*.") {
            match Written::parse(domain) {
                Some(Written::Name(domain)) => Some(Self::Domain(domain)),
                _ => None,
            }
        } else if text.contains('/') {
            Network::parse(text).map(Self::Network)
        } else {
            Written::parse(text).map(|written| match written {
                Written::Address(address) => Self::Network(Network::of(address)),
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
        matches!(self, Self::Network(network) if network.contains(address))
    }
}

/// A translation of the network part of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The network that dialers use.
    from: Network,
    /// The network on this side.
    to: Network,
}

impl Translation {
    /// A translation between networks of one family and size.
    #[must_use]
    pub fn new(from: IpAddr, to: IpAddr, prefix: u8) -> Option<Self> {
        let (from, to) = (Network::new(from, prefix), Network::new(to, prefix));
        let alike = from.address().is_ipv4() == to.address().is_ipv4();
        (alike && from.prefix() == to.prefix()).then_some(Self { from, to })
    }
}

/// The address after the matching translation with the longest prefix.
fn translate(address: IpAddr, translations: &[Translation]) -> IpAddr {
    let fits = |rule: &&Translation| rule.from.contains(address);
    let best = translations.iter().filter(fits).max_by_key(|rule| rule.from.prefix());
    best.map_or(address, |rule| rule.to.graft(address))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(from: &str, to: &str, bits: u8) -> Translation {
        Translation::new(from.parse().unwrap(), to.parse().unwrap(), bits).unwrap()
    }

    #[test]
    fn translations() {
        // docs/protocol/tunnel.md 9.1
        let rules = [rule("192.168.0.0", "10.0.1.0", 24), rule("192.168.1.4", "1.2.3.4", 32)];
        let after = |text: &str| translate(text.parse().unwrap(), &rules).to_string();
        assert_eq!(after("192.168.0.3"), "10.0.1.3");
        assert_eq!(after("192.168.1.4"), "1.2.3.4");
        assert_eq!(after("192.168.10.3"), "192.168.10.3");
    }

    fn rules(texts: &[&str]) -> Vec<AddressRule> {
        texts.iter().map(|text| AddressRule::parse(text).unwrap()).collect()
    }

    fn host(allowed: &[&str], key: &str, text: &str) -> Result<TargetHost, Refusal> {
        let data = serde_json::json!({key: text}).to_string();
        let data = AppData::parse(data.as_bytes()).unwrap();
        data.host(&rules(allowed), &[])
    }

    fn named(allowed: &[&str], name: &str) -> Result<TargetHost, Refusal> {
        host(allowed, "dst_hostname", name)
    }

    fn address(text: &str) -> TargetHost {
        TargetHost::Address(text.parse().unwrap())
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
            "fd00:ec2::254",
            "::ffff:100.100.100.200",
            "fe80::1",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
        ];
        for found in near {
            let refused = judge(domain, "evil.corp.example", &[found]).unwrap_err();
            assert!(refused.message.contains("it leads to"), "{refused}");
        }
        // The other addresses of the name are dialed.
        let host = named(domain, "evil.corp.example").unwrap();
        let (own, other) = (IpAddr::from([10, 1, 2, 3]), IpAddr::from([10, 1, 2, 4]));
        let led = |to: IpAddr| host.judge_from(vec![(to, 80).into()], &[own]);
        assert!(led(own).is_err() && led(other).is_ok(), "addresses of this machine's interfaces");
        let some = judge(domain, "a.corp.example", &["::1", "10.1.2.3"]).unwrap();
        assert_eq!(some, [at("10.1.2.3")]);
        // A rule for the address, or for the very name, allows it.
        let both = ["*.corp.example", "127.0.0.0/8"];
        assert!(judge(&both, "a.corp.example", &["::ffff:127.0.0.1"]).is_ok());
        assert!(judge(&["a.corp.example"], "a.corp.example", &["127.0.0.1"]).is_ok());
        assert!(judge(&["*"], "a.corp.example", &["127.0.0.1"]).is_ok());
        assert!(judge(&["*.localhost"], "a.localhost", &["127.0.0.1"]).is_ok());
    }

    #[test]
    fn translations_know_addresses_in_either_form() {
        let rules = [rule("::ffff:10.0.0.0", "::ffff:192.168.0.0", 112)];
        let after = translate(canonical("::ffff:10.0.3.4".parse().unwrap()), &rules);
        assert_eq!(after.to_string(), "192.168.3.4");
    }

    proptest! {
        #[test]
        fn any_rule_is_read(text in ".{0,40}") {
            let _ = AddressRule::parse(&text);
            let _ = Written::parse(&text);
        }
    }
}
