//! The entries of `NO_PROXY`: hosts that are reached without a proxy.

use std::net::IpAddr;

use ipnet::IpNet;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exception {
    /// Every host.
    All,
    /// The addresses of a network.
    Network(IpNet),
    /// An address, at one port or all.
    Address(IpAddr, Option<u16>),
    /// The hosts of a domain, at one port or all.
    Domain {
        /// The domain, in lower case, without a dot in front.
        name: String,
        /// True if the domain itself is a host of it.
        itself: bool,
        port: Option<u16>,
    },
}

impl Exception {
    /// Reads an entry; `None` if it names nothing.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_lowercase();
        if text == "*" {
            return Some(Self::All);
        }
        if let Ok(network) = text.parse::<IpNet>() {
            return Some(Self::Network(network.trunc()));
        }
        if let Some(address) = address(&text) {
            return Some(Self::Address(address, None));
        }
        let (host, port) = match text.rsplit_once(':') {
            // An entry whose port is none can match nothing.
            Some((host, port)) => (host, Some(port.parse::<u16>().ok()?)),
            None => (text.as_str(), None),
        };
        if let Some(address) = address(host) {
            return Some(Self::Address(address, port));
        }
        let below = host.strip_prefix("*.").or_else(|| host.strip_prefix('.'));
        let name = below.unwrap_or(host);
        // A name with letters of other alphabets is compared in the form that URLs have.
        let name = url::Host::parse(name).ok()?.to_string();
        Some(Self::Domain { name, itself: below.is_none(), port })
    }

    /// True if a host is reached without a proxy by this entry. The host is in lower case; `ip` is the
    /// same host, if it is an address.
    pub(crate) fn covers(&self, host: &str, ip: Option<IpAddr>, port: u16) -> bool {
        let at = |only: &Option<u16>| only.is_none_or(|only| only == port);
        match self {
            Self::All => true,
            Self::Network(network) => ip.is_some_and(|ip| network.contains(&ip)),
            Self::Address(address, only) => ip == Some(*address) && at(only),
            Self::Domain { name, itself, port: only } => {
                let below = host.strip_suffix(name.as_str());
                let fits = match below {
                    Some("") => *itself,
                    Some(below) => below.ends_with('.'),
                    None => false,
                };
                fits && at(only)
            }
        }
    }
}

/// An address, perhaps in brackets.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = inner.unwrap_or(text).parse::<IpAddr>().ok()?;
    Some(address.to_canonical())
}
