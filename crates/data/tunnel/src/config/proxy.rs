//! A port of this machine that leads to a service: `proxy.v1` (docs/protocol/tunnel.md 3.7).

use std::net::{IpAddr, Ipv4Addr};

use serde::Deserialize;

use super::part;
use super::written::{ConfigError, Configs, Result, written};
use crate::Protocol;

pub(super) const PROXY_V1: &str = "proxy.v1";

/// A port of this machine that leads to a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProxyPort {
    /// The port.
    pub port: u16,
    /// The protocols; at least one.
    pub protocols: Vec<Protocol>,
    /// The address to listen on, if the config sets one.
    pub at: Option<ListenAt>,
}

/// An address of this machine to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAt {
    /// An IP address.
    Address(IpAddr),
    /// The first address of an interface, by its name.
    Interface(String),
}

#[derive(Deserialize)]
struct ProxyV1 {
    port: u16,
    protocols: Vec<Protocol>,
    binding: Option<String>,
}

impl ProxyPort {
    /// Reads the port of a service; `None` if its configs name none.
    ///
    /// # Errors
    /// When the config has a mistake.
    pub fn read(configs: &Configs) -> Result<Option<Self>> {
        let Some(config) = written::<ProxyV1>(configs, PROXY_V1)? else { return Ok(None) };
        if config.port == 0 {
            return Err(ConfigError::new(PROXY_V1, "port", "must be between 1 and 65535"));
        }
        let mut protocols = part::inhabited(PROXY_V1, "protocols", config.protocols)?;
        protocols.sort_unstable_by_key(|protocol| protocol.name());
        protocols.dedup();
        let at = config.binding.filter(|text| !text.is_empty());
        Ok(Some(Self { port: config.port, protocols, at: at.as_deref().map(ListenAt::parse) }))
    }
}

impl ListenAt {
    /// Every address of IPv4.
    pub const ANY: Self = Self::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    /// The loopback address, for this machine only.
    pub const HERE: Self = Self::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));

    /// Reads an address, which may be in brackets, or otherwise the name of an interface.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        bare.parse().map_or_else(|_| Self::Interface(text.to_owned()), Self::Address)
    }
}

impl std::fmt::Display for ListenAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Interface(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<ProxyPort>> {
        ProxyPort::read(&[("proxy.v1".to_owned(), text.to_owned())].into())
    }

    #[test]
    fn a_port_is_read() {
        let port = read(r#"{"port":80,"protocols":["udp","tcp","tcp"],"binding":"eth0"}"#);
        let port = port.unwrap().unwrap();
        assert_eq!(port.protocols, [Protocol::Tcp, Protocol::Udp]);
        assert_eq!(port.at, Some(ListenAt::Interface("eth0".into())));
        let port = read(r#"{"port":80,"protocols":["udp"],"binding":"0.0.0.0"}"#);
        assert_eq!(port.unwrap().unwrap().at, Some(ListenAt::ANY));
        for text in ["::1", "[::1]"] {
            assert_eq!(ListenAt::parse(text), ListenAt::Address("::1".parse().unwrap()));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let problem = |text: &str| read(text).unwrap_err().to_string();
        let wrong = problem(r#"{"port":0,"protocols":["udp"]}"#);
        assert_eq!(wrong, "proxy.v1: port: must be between 1 and 65535");
        let wrong = problem(r#"{"port":1,"protocols":[]}"#);
        assert_eq!(wrong, "proxy.v1: protocols: must name at least one");
        assert!(problem(r#"{"port":70000,"protocols":[]}"#).starts_with("proxy.v1: port:"));
    }
}
