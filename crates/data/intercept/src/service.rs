//! The traffic that a service claims, read with suspicion: an administrator of the network writes
//! services, and need not be an administrator of this machine.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use ipnet::IpNet;

use crate::ports::{self, Range};

/// Most addresses, ranges of ports and sources of one service.
const MOST_ENTRIES: usize = 1_000;

/// A protocol over IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// A service whose traffic is intercepted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// The unique id of the service.
    pub id: String,
    /// The name of the service.
    pub name: String,
    /// The protocols that are intercepted.
    pub protocols: Vec<Protocol>,
    /// The destinations: IP addresses, networks, host names, `*.domain` or `*`.
    pub addresses: Vec<String>,
    /// The first and the last port of each range.
    pub ports: Vec<(u16, u16)>,
    /// The clients that are intercepted: IP addresses and networks. Empty means all.
    pub sources: Vec<String>,
    /// The arguments for a program that diverts packets.
    pub diverted: Diverted,
}

/// The arguments of a service for a program that diverts packets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diverted {
    /// The id of the service in its network.
    pub id: String,
    /// The interfaces over which its packets are diverted; `None` if the program chooses.
    pub interfaces: Option<Vec<String>>,
}

/// An entry of a service that is not intercepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotIntercepted {
    /// The name of the service.
    pub service: String,
    /// The entry.
    pub entry: String,
    /// The reason.
    pub why: Cow<'static, str>,
}

impl fmt::Display for NotIntercepted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names and entries come from the network: control characters are escaped.
        write!(out, "service {:?}: {:?} {}", self.service, self.entry, self.why)
    }
}

/// An address of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Net(IpNet),
    Name(Arc<str>),
    /// The names below this domain.
    Under(Arc<str>),
    Every,
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(net) => write!(out, "{net}"),
            Self::Name(name) => out.write_str(name),
            Self::Under(domain) => write!(out, "*.{domain}"),
            Self::Every => out.write_str("*"),
        }
    }
}

/// Networks of the clients that are intercepted, without overlaps and in order; `None` means all.
pub(crate) type Sources = Option<Arc<[IpNet]>>;

/// A service in the form that the tables use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) id: Arc<str>,
    pub(crate) name: String,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) ports: Vec<Range>,
    /// The ranges as the service has them; the narrowest one counts when several services claim a
    /// port.
    pub(crate) ranges: Vec<Range>,
    pub(crate) sources: Sources,
}

impl Plan {
    /// Reads a service. Entries with a mistake, and those that no service may claim, are left out
    /// and returned as problems.
    pub(crate) fn read(service: &Service, names: IpNet) -> (Self, Vec<NotIntercepted>) {
        let mut problems = Vec::new();
        let mut problem = |entry: &str, why| {
            let entry = entry.chars().take(300).collect();
            problems.push(NotIntercepted {
                service: service.name.clone(),
                entry,
                why: Cow::Borrowed(why),
            });
        };
        let mut addresses = Vec::new();
        for text in service.addresses.iter().take(MOST_ENTRIES) {
            match Address::read(text, names) {
                Ok(address) if addresses.contains(&address) => {}
                Ok(address) => addresses.push(address),
                Err(why) => problem(text, why),
            }
        }
        let mut ranges = Vec::new();
        for &(low, high) in service.ports.iter().take(MOST_ENTRIES) {
            if low > high || high == 0 {
                problem(&format!("{low}-{high}"), "is not a range of ports");
            } else {
                ranges.push((low.max(1), high));
            }
        }
        let sources = match read_sources(&service.sources, &mut problem) {
            Ok(sources) => sources,
            // A list without a valid entry must not mean all clients.
            Err(()) => {
                addresses.clear();
                None
            }
        };
        let lists = [service.addresses.len(), service.ports.len(), service.sources.len()];
        if lists.into_iter().any(|entries| entries > MOST_ENTRIES) {
            problem(
                "",
                "has more than 1000 addresses, ranges of ports or sources; the rest is left out",
            );
        }
        let mut protocols = service.protocols.clone();
        protocols.sort_unstable();
        protocols.dedup();
        let plan = Self {
            id: service.id.as_str().into(),
            name: service.name.clone(),
            protocols,
            addresses,
            ports: ports::merged(ranges.iter().copied()),
            ranges,
            sources,
        };
        (plan, problems)
    }

    /// True if a client's address is intercepted.
    pub(crate) fn admits(&self, source: IpAddr) -> bool {
        self.sources.as_ref().is_none_or(|nets| nets.iter().any(|net| net.contains(&source)))
    }

    /// How well a client's packet fits, apart from the destination's address: the width of the
    /// narrowest range with the port, then the number of free bits in the narrowest source network.
    /// `None` if it does not fit.
    pub(crate) fn fit(&self, protocol: Protocol, source: IpAddr, port: u16) -> Option<(u16, u8)> {
        if !self.protocols.contains(&protocol) {
            return None;
        }
        let width = ports::narrowest(&self.ranges, port)?;
        let free = match &self.sources {
            None => u8::MAX,
            Some(sources) => {
                let net = sources.iter().find(|net| net.contains(&source))?;
                net.max_prefix_len() - net.prefix_len()
            }
        };
        Some((width, free))
    }
}

fn read_sources(
    entries: &[String],
    problem: &mut impl FnMut(&str, &'static str),
) -> Result<Sources, ()> {
    if entries.is_empty() {
        return Ok(None);
    }
    let mut nets = Vec::new();
    for text in entries.iter().take(MOST_ENTRIES) {
        match net(text) {
            Some(net) => nets.push(net),
            None => problem(text, "is not an IP address or a network, so that no client has it"),
        }
    }
    if nets.is_empty() {
        problem("", "allows no source: nothing of it is intercepted");
        return Err(());
    }
    let mut nets = IpNet::aggregate(&nets);
    nets.sort();
    Ok(Some(nets.into()))
}

/// Reads an IP address or a network.
fn net(text: &str) -> Option<IpNet> {
    let net = match text.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address.to_canonical()),
        Err(_) => text.parse::<IpNet>().ok()?.trunc(),
    };
    // IPv4 addresses written as IPv6 arrive as IPv4.
    match net {
        IpNet::V6(v6) if v6.prefix_len() >= 96 => match v6.network().to_ipv4_mapped() {
            Some(v4) => ipnet::Ipv4Net::new(v4, v6.prefix_len() - 96).ok().map(IpNet::V4),
            None => Some(net),
        },
        _ => Some(net),
    }
}

/// Networks that no service may claim.
const OURS: [(IpAddr, u8, &str); 9] = [
    (v4(0, 0), 8, "stands for this machine, which is not intercepted"),
    (v4(127, 0), 8, "is this machine itself (loopback), which is not intercepted"),
    (v4(224, 0), 4, "is for multicast, which is not intercepted"),
    (v4(240, 0), 4, "is reserved"),
    (v6(0, 0, 0), 128, "stands for this machine, which is not intercepted"),
    (v6(0, 0, 1), 128, "is this machine itself (loopback), which is not intercepted"),
    (v6(0, 0xffff, 0), 96, "is IPv4 written as IPv6"),
    (v6(0xfe80, 0, 0), 10, "belongs to one interface (link-local), which is not intercepted"),
    (v6(0xff00, 0, 0), 8, "is for multicast, which is not intercepted"),
];

const fn v4(first: u8, second: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(first, second, 0, 0))
}

const fn v6(first: u16, sixth: u16, last: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, sixth, 0, last))
}

impl Address {
    fn read(text: &str, names: IpNet) -> Result<Self, &'static str> {
        if text == "*" {
            return Ok(Self::Every);
        }
        if let Some(domain) = text.strip_prefix("*.") {
            return hostname(domain).map(|name| Self::Under(name.into()));
        }
        if let Some(net) = net(text) {
            let inside = |other: IpNet| other.contains(&net);
            for (address, bits, why) in OURS {
                if IpNet::new(address, bits).is_ok_and(inside) {
                    return Err(why);
                }
            }
            if inside(names) {
                return Err("lies in dnsSvcIpRange, whose addresses belong to host names");
            }
            return Ok(Self::Net(net));
        }
        hostname(text).map(|name| Self::Name(name.into()))
    }
}

/// The name of a host in the form for look-ups: lower case, ASCII, without the dot at its end.
pub(crate) fn hostname(text: &str) -> Result<String, &'static str> {
    // Checked first: a longer text has no valid form.
    if text.len() > 1024 {
        return Err("is too long for a host name");
    }
    let text = text.strip_suffix('.').unwrap_or(text);
    let name = if text.is_ascii() {
        text.to_ascii_lowercase()
    } else {
        idna::domain_to_ascii(text).map_err(|_| "is no host name")?
    };
    if name.is_empty() || name.len() > 253 {
        return Err("is not a host name: these have 1 to 253 characters");
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.split('.').all(|label| (1..=63).contains(&label.len()) && label.chars().all(legal)) {
        return Err(
            "is not a host name, an IP address or a network: labels have 1 to 63 letters, digits, \
             - and _",
        );
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    // Programs take such names for addresses and ask no DNS server.
    if last.chars().all(|c| c.is_ascii_digit()) || last.starts_with("0x") {
        return Err("is neither an IP address nor a network, and no host name ends in a number");
    }
    if last == "localhost" {
        return Err("is this machine itself, which is not intercepted");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(addresses: &[&str]) -> (Vec<Address>, Vec<NotIntercepted>) {
        let service = Service {
            name: "web".into(),
            protocols: vec![Protocol::Tcp],
            addresses: addresses.iter().map(|&text| text.to_owned()).collect(),
            ports: vec![(80, 80)],
            ..Service::default()
        };
        let (plan, problems) = Plan::read(&service, "100.64.0.1/10".parse().unwrap());
        (plan.addresses, problems)
    }

    #[test]
    fn addresses_are_what_they_look_like() {
        let (addresses, problems) = read(&[
            "10.1.2.3",
            "10.1.2.3/16",
            "WEB.Corp.example.",
            "*.corp.example",
            "*",
            "fd00::1",
            "::ffff:10.9.0.0/112",
            "bücher.example",
            "0.0.0.0/0",
            "web.corp.example",
        ]);
        assert_eq!(problems, []);
        let net = |text: &str| Address::Net(text.parse().unwrap());
        assert_eq!(
            addresses,
            [
                net("10.1.2.3/32"),
                net("10.1.0.0/16"),
                Address::Name("web.corp.example".into()),
                Address::Under("corp.example".into()),
                Address::Every,
                net("fd00::1/128"),
                net("10.9.0.0/16"),
                Address::Name("xn--bcher-kva.example".into()),
                net("0.0.0.0/0"),
            ]
        );
    }

    #[test]
    fn what_is_not_for_a_service_to_take_is_left_alone_and_told() {
        let long = "x".repeat(64);
        let odd = [
            "127.0.0.1",
            "127.0.0.0/8",
            "0.0.0.0",
            "::1",
            "::",
            "224.0.0.1",
            "255.255.255.255",
            "fe80::1",
            "ff02::1",
            "100.64.0.9",
            "100.65.0.0/16",
            "::ffff:127.0.0.1",
            "1.2.3.4/56",
            "127.1",
            "0x7f000001",
            "2130706433",
            "localhost",
            "a.localhost",
            "*.localhost",
            "",
            "a..b",
            "web\n.example",
            "we b",
            "*web.example",
            "web;drop",
            "\u{202e}moc",
            "-\"}-",
            &long,
            "web.*",
            "$(id)",
            "a/b",
        ];
        let (addresses, problems) = read(&odd);
        assert_eq!(addresses, []);
        assert_eq!(problems.len(), odd.len(), "{problems:?}");
        assert!(problems.iter().all(|problem| !problem.to_string().contains('\n')));
    }

    #[test]
    fn a_list_of_sources_of_which_nothing_is_left_is_not_everybody() {
        let service = Service {
            name: "web".into(),
            protocols: vec![Protocol::Tcp],
            addresses: vec!["10.0.0.1".into()],
            ports: vec![(80, 80), (9, 3), (0, 0)],
            sources: vec!["printer.corp.example".into()],
            ..Service::default()
        };
        let (plan, problems) = Plan::read(&service, "100.64.0.1/10".parse().unwrap());
        assert_eq!(plan.addresses, []);
        assert_eq!(plan.ports, [(80, 80)]);
        assert_eq!(problems.len(), 4, "{problems:?}");
    }
}
