//! The addresses at which clients of a service are intercepted: `intercept.v1` and
//! `ziti-tunneler-client.v1` (docs/protocol/tunnel.md 3.2, 3.3).

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use super::part::{self, PortRange};
use super::written::{ConfigError, Configs, Result, written};
use crate::{AddressRule, Network, Protocol};

pub(super) const INTERCEPT_V1: &str = "intercept.v1";
pub(super) const CLIENT_V1: &str = "ziti-tunneler-client.v1";

/// Time limit of a dial if there are `dialOptions` without one, in seconds.
const CONNECT_SECONDS: u32 = 15;

/// Addresses, protocols and ports of a service for its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intercept {
    /// The protocols; at least one.
    pub protocols: Vec<Protocol>,
    /// The addresses; at least one.
    pub addresses: Vec<InterceptAddress>,
    /// The ranges of ports; at least one.
    pub port_ranges: Vec<PortRange>,
    /// Time limit of a dial, if the config sets one.
    pub connect_timeout: Option<Duration>,
    /// The template of the instance to dial; empty for any.
    pub identity: String,
    /// The template of the address that the host is asked to connect from; empty for none.
    pub source_ip: String,
    /// The clients that are intercepted; `None` means all.
    pub allowed_sources: Option<Vec<Network>>,
    /// The entries of its lists that are left out.
    pub left_out: Vec<ConfigError>,
}

/// An address of a service for its clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InterceptAddress {
    /// An address, or all addresses of a network.
    Network(Network),
    /// A name; lower case.
    Name(String),
    /// Every name inside a domain, without the domain itself; lower case, without the star and the
    /// dot.
    Domain(String),
    /// Every name.
    AnyName,
}

impl fmt::Display for InterceptAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) if network.is_single() => write!(f, "{}", network.address()),
            Self::Network(network) => write!(f, "{network}"),
            Self::Name(name) => f.write_str(name),
            Self::Domain(domain) => write!(f, "*.{domain}"),
            Self::AnyName => f.write_str("*"),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InterceptV1 {
    protocols: Vec<Protocol>,
    addresses: Vec<String>,
    port_ranges: Vec<PortRange>,
    dial_options: Option<DialOptions>,
    source_ip: Option<String>,
    allowed_source_addresses: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DialOptions {
    connect_timeout_seconds: Option<u32>,
    identity: Option<String>,
}

#[derive(Deserialize)]
struct ClientV1 {
    hostname: String,
    port: u16,
}

impl Intercept {
    /// Reads the addresses of a service for its clients; `None` without such a config.
    /// `intercept.v1` comes before the older form.
    ///
    /// # Errors
    /// When the config has a mistake.
    pub fn read(configs: &Configs) -> Result<Option<Self>> {
        if let Some(config) = written::<InterceptV1>(configs, INTERCEPT_V1)? {
            return Self::from_v1(config).map(Some);
        }
        let Some(config) = written::<ClientV1>(configs, CLIENT_V1)? else { return Ok(None) };
        Ok(Some(Self {
            protocols: vec![Protocol::Tcp, Protocol::Udp],
            addresses: addresses(CLIENT_V1, "hostname", vec![config.hostname])?,
            port_ranges: vec![PortRange::of(config.port)],
            connect_timeout: None,
            identity: String::new(),
            source_ip: String::new(),
            allowed_sources: None,
            left_out: Vec::new(),
        }))
    }

    /// The addresses as operators read them, `<protocol>:<address>:<ports>`: the first ones, and the number of the
    /// others.
    #[must_use]
    pub fn first_addresses(&self, most: usize) -> Vec<String> {
        let Self { addresses, port_ranges, protocols, .. } = self;
        let all = addresses.iter().flat_map(|address| {
            let of_range = move |range| {
                let address = address.to_string();
                // As before a port, an IPv6 address or network has brackets.
                let shown = if address.contains(':') { format!("[{address}]") } else { address };
                protocols.iter().map(move |protocol| format!("{protocol}:{shown}:{range}"))
            };
            port_ranges.iter().flat_map(of_range)
        });
        let mut shown: Vec<_> = all.take(most).collect();
        let of_one = port_ranges.len().saturating_mul(protocols.len());
        let count = addresses.len().saturating_mul(of_one);
        if count > shown.len() {
            shown.push(format!("{} more", count - shown.len()));
        }
        shown
    }

    fn from_v1(config: InterceptV1) -> Result<Self> {
        let dial = config.dial_options;
        let seconds = dial.as_ref().map(|dial| match dial.connect_timeout_seconds {
            None | Some(0) => CONNECT_SECONDS,
            Some(seconds) => seconds,
        });
        let (allowed_sources, left_out) = match config.allowed_source_addresses {
            None => (None, Vec::new()),
            Some(texts) => {
                let (networks, left_out) = clients(&texts)?;
                (Some(networks), left_out)
            }
        };
        Ok(Self {
            protocols: part::inhabited(INTERCEPT_V1, "protocols", config.protocols)?,
            addresses: addresses(INTERCEPT_V1, "addresses", config.addresses)?,
            port_ranges: part::inhabited(INTERCEPT_V1, "portRanges", config.port_ranges)?,
            connect_timeout: seconds.map(|seconds| Duration::from_secs(u64::from(seconds))),
            identity: dial.and_then(|dial| dial.identity).unwrap_or_default(),
            source_ip: config.source_ip.unwrap_or_default(),
            allowed_sources,
            left_out,
        })
    }

    /// True if clients at this address are intercepted.
    #[must_use]
    pub fn takes(&self, source: std::net::IpAddr) -> bool {
        let source = source.to_canonical();
        let within = |known: &Vec<Network>| known.iter().any(|network| network.contains(source));
        self.allowed_sources.as_ref().is_none_or(within)
    }
}

impl InterceptAddress {
    /// Reads an address; `None` for any other text, which the reader of the config leaves out with a
    /// warning.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(match AddressRule::parse(text)? {
            AddressRule::AnyName => Self::AnyName,
            AddressRule::Domain(domain) => Self::Domain(domain),
            AddressRule::Name(name) => Self::Name(name),
            AddressRule::Network(network) => Self::Network(network),
        })
    }
}

/// Networks and addresses of clients, at least one, and the entries that are none: clients are known by
/// their addresses only.
fn clients(texts: &[String]) -> Result<(Vec<Network>, Vec<ConfigError>)> {
    const MEMBER: &str = "allowedSourceAddresses";
    let (mut networks, mut left_out) = (Vec::new(), Vec::new());
    for (index, text) in texts.iter().enumerate() {
        match Network::parse(text.trim()) {
            Some(network) => networks.push(network),
            None => {
                let problem = format!(
                    "`{text}` is left out: it is neither an address nor a network (10.0.0.0/8)"
                );
                left_out.push(ConfigError::new(
                    INTERCEPT_V1,
                    format!("{MEMBER}[{index}]"),
                    problem,
                ));
            }
        }
    }
    Ok((part::inhabited(INTERCEPT_V1, MEMBER, networks)?, left_out))
}

fn addresses(
    config: &'static str,
    member: &str,
    texts: Vec<String>,
) -> Result<Vec<InterceptAddress>> {
    let read = texts.iter().filter_map(|text| InterceptAddress::parse(text)).collect();
    part::inhabited(config, member, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: &str, text: &str) -> Result<Option<Intercept>> {
        Intercept::read(&[(kind.to_owned(), text.to_owned())].into())
    }

    #[test]
    fn a_whole_config_is_read() {
        let text = r#"{"protocols":["tcp","udp"],"addresses":["*.Corp.example","10.20.0.0/16","web",
            "fd00::1","*"],"portRanges":[{"low":443,"high":450}],"sourceIp":"$src_ip:$src_port",
            "allowedSourceAddresses":["10.0.0.0/8"],
            "dialOptions":{"identity":"$dst_hostname","connectTimeoutSeconds":15}}"#;
        let config = read("intercept.v1", text).unwrap().unwrap();
        let network = |text| InterceptAddress::Network(Network::parse(text).unwrap());
        let expected = [
            InterceptAddress::Domain("corp.example".into()),
            network("10.20.0.0/16"),
            InterceptAddress::Name("web".into()),
            network("fd00::1"),
            InterceptAddress::AnyName,
        ];
        assert_eq!(config.addresses, expected);
        assert_eq!(config.connect_timeout, Some(Duration::from_secs(15)));
        assert!(config.port_ranges.iter().any(|range| range.contains(450)));
        assert!(config.takes("::ffff:10.1.1.1".parse().unwrap()));
        assert!(!config.takes("11.1.1.1".parse().unwrap()));
        assert_eq!((config.identity.as_str(), config.source_ip.len()), ("$dst_hostname", 17));
    }

    #[test]
    fn what_is_no_client_is_left_out() {
        let text = r#"{"protocols":["tcp"],"addresses":["a"],"portRanges":[{"low":1,"high":1}],
            "allowedSourceAddresses":["10.0.0.0/8","home","*.lab"]}"#;
        let config = read("intercept.v1", text).unwrap().unwrap();
        assert_eq!(config.allowed_sources, Some(vec![Network::parse("10.0.0.0/8").unwrap()]));
        let told: Vec<_> = config.left_out.iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), 2);
        assert!(told[0].starts_with("intercept.v1: allowedSourceAddresses[1]: `home`"), "{told:?}");
    }

    #[test]
    fn a_dial_has_the_time_that_the_schema_says() {
        let dial = |options: &str| {
            let text = format!(
                r#"{{"protocols":["tcp"],"addresses":["a"],"portRanges":[{{"low":1,"high":1}}]{options}}}"#
            );
            let read = read("intercept.v1", &text).unwrap().unwrap();
            read.connect_timeout.map(|limit| limit.as_secs())
        };
        assert_eq!(dial(""), None);
        assert_eq!(dial(r#","dialOptions":{}"#), Some(15));
        assert_eq!(dial(r#","dialOptions":{"identity":"x"}"#), Some(15));
        assert_eq!(dial(r#","dialOptions":{"connectTimeoutSeconds":0}"#), Some(15));
        assert_eq!(dial(r#","dialOptions":{"connectTimeoutSeconds":30}"#), Some(30));
    }

    #[test]
    fn the_older_form_is_read() {
        let config = read("ziti-tunneler-client.v1", r#"{"hostname":"web","port":80}"#);
        let config = config.unwrap().unwrap();
        assert_eq!(config.protocols, [Protocol::Tcp, Protocol::Udp]);
        assert_eq!(config.port_ranges, [PortRange::of(80)]);
        assert_eq!(read("host.v1", "{}"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let problem = |text: &str| read("intercept.v1", text).unwrap_err().to_string();
        let wrong = problem(r#"{"protocols":["tcp"],"addresses":["a"],"portRanges":[{"low":1}]}"#);
        assert_eq!(wrong, "intercept.v1: portRanges[0]: missing field `high`");
        let wrong = problem(r#"{"protocols":["sctp"],"addresses":["a"],"portRanges":[]}"#);
        assert!(wrong.starts_with("intercept.v1: protocols[0]: unknown variant `sctp`"), "{wrong}");
        let wrong = problem(r#"{"protocols":["tcp"],"addresses":["a b"],"portRanges":[]}"#);
        assert_eq!(wrong, "intercept.v1: addresses: must name at least one");
        // A list without any address of a client does not mean every client.
        let wrong = problem(
            r#"{"protocols":["tcp"],"addresses":["a"],"portRanges":[{"low":1,"high":1}],
                "allowedSourceAddresses":["home"]}"#,
        );
        assert_eq!(wrong, "intercept.v1: allowedSourceAddresses: must name at least one");
        assert!(problem("{").starts_with("intercept.v1: is no JSON"));
    }
}
