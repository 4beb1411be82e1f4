//! Host configs: `host.v1`, `host.v2` and `ziti-tunneler-server.v1` (protocol: tunnel 3.4 to 3.6).

use std::{str::FromStr, time::Duration};

use serde::Deserialize;

use super::address::{AddressRule, AppData, Host, Reach, Target, Translation};
use crate::seam::{HostedService, Precedence, RouteErrorCode, RouteFailure};

/// How long connecting to an application may take unless the config says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the application speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

impl FromStr for Protocol {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "udp" => Ok(Self::Udp),
            _ => Err(()),
        }
    }
}

/// Where one part of the address comes from.
#[derive(Clone, Debug, PartialEq)]
enum Part<T, Allowed> {
    /// From the config.
    Fixed(T),
    /// From the dialer, within bounds.
    Forward(Allowed),
}

/// One terminator's config.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostConfig {
    protocol: Part<Protocol, Vec<Protocol>>,
    address: Part<String, Vec<AddressRule>>,
    translations: Vec<Translation>,
    port: Part<u16, Vec<PortRange>>,
    /// How long connecting may take.
    pub(crate) connect_timeout: Duration,
    cost: Option<u16>,
    precedence: Option<Precedence>,
    instance: String,
}

/// Ports from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct PortRange {
    low: u16,
    high: u16,
}

/// `host.v1` as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HostV1 {
    protocol: Option<Protocol>,
    forward_protocol: bool,
    allowed_protocols: Vec<Protocol>,
    address: Option<String>,
    forward_address: bool,
    allowed_addresses: Vec<String>,
    forward_address_translations: Vec<Translation>,
    port: Option<u16>,
    forward_port: bool,
    allowed_port_ranges: Vec<PortRange>,
    listen_options: ListenOptions,
    proxy: Option<serde_json::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListenOptions {
    connect_timeout: Option<String>,
    connect_timeout_seconds: Option<u32>,
    identity: Option<String>,
    bind_using_edge_identity: bool,
    cost: Option<u16>,
    precedence: Option<String>,
}

/// `host.v2` as it is written.
#[derive(Debug, Deserialize)]
struct HostV2 {
    terminators: Vec<HostV1>,
}

/// `ziti-tunneler-server.v1` as it is written.
#[derive(Debug, Deserialize)]
struct ServerV1 {
    hostname: String,
    port: u16,
    protocol: Option<Protocol>,
}

/// The terminators that a service's configs describe; none if it has no host config. `host.v2`
/// comes before `host.v1` before the oldest form.
pub(crate) fn read(service: &HostedService) -> Result<Vec<HostConfig>, String> {
    let of_type = |name: &str| service.configs.get(name);
    if let Some(text) = of_type("host.v2") {
        let config: HostV2 = parse("host.v2", text)?;
        return config.terminators.into_iter().map(HostConfig::from_v1).collect();
    }
    if let Some(text) = of_type("host.v1") {
        return Ok(vec![HostConfig::from_v1(parse("host.v1", text)?)?]);
    }
    if let Some(text) = of_type("ziti-tunneler-server.v1") {
        let config: ServerV1 = parse("ziti-tunneler-server.v1", text)?;
        let v1 = HostV1 {
            protocol: Some(config.protocol.unwrap_or(Protocol::Tcp)),
            address: Some(config.hostname),
            port: Some(config.port),
            ..HostV1::default()
        };
        return Ok(vec![HostConfig::from_v1(v1)?]);
    }
    Ok(Vec::new())
}

fn parse<'a, T: Deserialize<'a>>(name: &str, text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("{name}: {error}"))
}

impl HostConfig {
    fn from_v1(v1: HostV1) -> Result<Self, String> {
        if v1.proxy.is_some() {
            return Err("host.v1: proxy: dialing through a proxy is not offered".to_owned());
        }
        let options = v1.listen_options;
        Ok(Self {
            protocol: part("protocol", v1.protocol, v1.forward_protocol, v1.allowed_protocols)?,
            address: part(
                "address",
                v1.address,
                v1.forward_address,
                v1.allowed_addresses.iter().filter_map(|text| AddressRule::parse(text)).collect(),
            )?,
            translations: v1
                .forward_address_translations
                .into_iter()
                .map(Translation::canonical)
                .collect(),
            port: part("port", v1.port, v1.forward_port, v1.allowed_port_ranges)?,
            connect_timeout: options.connect_timeout()?,
            cost: options.cost,
            precedence: match options.precedence.as_deref() {
                Some("default") => Some(Precedence::Default),
                Some("required") => Some(Precedence::Required),
                Some("failed") => Some(Precedence::Failed),
                Some(other) => return Err(format!("listenOptions.precedence: {other} is none")),
                None => None,
            },
            instance: if options.bind_using_edge_identity {
                TEMPLATE_NAME.to_owned()
            } else {
                options.identity.unwrap_or_default()
            },
        })
    }

    /// Cost of the terminator: what the identity says of this service, else the config, else what
    /// the identity says of all (protocol: tunnel 9.3).
    pub(crate) fn cost(&self, service: &HostedService) -> u16 {
        service.hosting.cost.or(self.cost).unwrap_or(service.hosting.default_cost)
    }

    /// Preference of the terminator, in the same order.
    pub(crate) fn precedence(&self, service: &HostedService) -> Precedence {
        let hosting = &service.hosting;
        hosting.precedence.or(self.precedence).unwrap_or(hosting.default_precedence)
    }

    /// Instance of the terminator.
    pub(crate) fn instance(&self, service: &HostedService) -> String {
        self.instance.replace(TEMPLATE_NAME, &service.host_name)
    }

    /// Where a circuit with this application data goes (protocol: tunnel 9.1).
    pub(crate) fn target(&self, data: &AppData) -> Result<Target, RouteFailure> {
        let protocol = match &self.protocol {
            Part::Fixed(protocol) => *protocol,
            Part::Forward(allowed) => {
                let asked = data.required("dst_protocol")?;
                let known = Protocol::from_str(asked).ok().filter(|known| allowed.contains(known));
                known.ok_or_else(|| {
                    let asked = asked.escape_debug();
                    generic(format!("protocol '{asked}' is not in allowed protocols"))
                })?
            }
        };
        let host = match &self.address {
            Part::Fixed(address) => Host::Name(address.clone(), Reach::Any),
            Part::Forward(allowed) => data.host(allowed, &self.translations)?,
        };
        let port = match &self.port {
            Part::Fixed(port) => *port,
            Part::Forward(ranges) => {
                let asked = data.required("dst_port")?;
                let refused = || RouteFailure {
                    code: RouteErrorCode::PortNotAllowed,
                    message: format!("port {} is not in allowed port ranges", asked.escape_debug()),
                };
                let port: u16 = asked.parse().map_err(|_| refused())?;
                let inside = |range: &PortRange| (range.low..=range.high).contains(&port);
                if !ranges.iter().any(inside) {
                    return Err(refused());
                }
                port
            }
        };
        Ok(Target { protocol, host, port })
    }
}

/// Stands for the name of the router's identity.
const TEMPLATE_NAME: &str = "$tunneler_id.name";

fn part<T, A>(
    name: &str,
    fixed: Option<T>,
    forward: bool,
    allowed: Vec<A>,
) -> Result<Part<T, Vec<A>>, String> {
    if forward {
        if allowed.is_empty() {
            return Err(format!("the {name} is forwarded, but nothing is allowed"));
        }
        return Ok(Part::Forward(allowed));
    }
    fixed.map(Part::Fixed).ok_or_else(|| format!("{name} is missing"))
}

impl ListenOptions {
    fn connect_timeout(&self) -> Result<Duration, String> {
        if let Some(text) = &self.connect_timeout {
            let parsed = weft_config::parse_duration(text)
                .map_err(|error| format!("listenOptions.connectTimeout: {error}"))?;
            if parsed.negative || parsed.length.is_zero() {
                return Err("listenOptions.connectTimeout: must be more than nothing".to_owned());
            }
            return Ok(parsed.length);
        }
        let seconds = self.connect_timeout_seconds.filter(|seconds| *seconds > 0);
        Ok(seconds.map_or(CONNECT_TIMEOUT, |seconds| Duration::from_secs(u64::from(seconds))))
    }
}

pub(super) fn generic(message: String) -> RouteFailure {
    RouteFailure { code: RouteErrorCode::Generic, message }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn service(kind: &str, text: &str) -> HostedService {
        HostedService {
            id: "s".into(),
            name: "web".into(),
            encryption_required: true,
            configs: BTreeMap::from([(kind.to_owned(), text.to_owned())]),
            ..HostedService::default()
        }
    }

    fn one(text: &str) -> HostConfig {
        read(&service("host.v1", text)).unwrap().remove(0)
    }

    #[test]
    fn a_fixed_address_needs_nothing_of_the_dialer() {
        let config = one(r#"{"protocol":"tcp","address":"localhost","port":8080,
            "listenOptions":{"cost":10,"precedence":"required","connectTimeout":"3s"}}"#);
        let target = config.target(&AppData::parse(b"").unwrap()).unwrap();
        let host = Host::Name("localhost".into(), Reach::Any);
        let expected = Target { protocol: Protocol::Tcp, host, port: 8080 };
        assert_eq!(target, expected);
        assert_eq!(config.connect_timeout, Duration::from_secs(3));
        let mut service = service("host.v1", "{}");
        service.hosting.default_cost = 3;
        assert_eq!(config.cost(&service), 10);
        assert_eq!(config.precedence(&service), Precedence::Required);
        service.hosting.cost = Some(4);
        assert_eq!(config.cost(&service), 4);
    }

    #[test]
    fn what_is_forwarded_stays_in_bounds() {
        let config = one(r#"{"forwardProtocol":true,"allowedProtocols":["tcp"],
            "forwardAddress":true,"allowedAddresses":["*.corp.example","10.20.0.0/16"],
            "forwardPort":true,"allowedPortRanges":[{"low":440,"high":450}]}"#);
        let target = |text: &str| config.target(&AppData::parse(text.as_bytes()).unwrap());
        let good =
            target(r#"{"dst_protocol":"tcp","dst_hostname":"web.corp.example","dst_port":"443"}"#);
        assert!(matches!(good.unwrap().host, Host::Name(name, _) if name == "web.corp.example"));
        let port = target(r#"{"dst_protocol":"tcp","dst_ip":"10.20.0.9","dst_port":"80"}"#);
        assert_eq!(port.unwrap_err().code, RouteErrorCode::PortNotAllowed);
        let wrapped = target(r#"{"dst_protocol":"tcp","dst_ip":"10.20.0.9","dst_port":"65979"}"#);
        assert_eq!(wrapped.unwrap_err().code, RouteErrorCode::PortNotAllowed);
        let udp = target(r#"{"dst_protocol":"udp","dst_ip":"10.20.0.9","dst_port":"443"}"#);
        assert!(udp.unwrap_err().message.contains("is not in allowed protocols"));
        let address = target(r#"{"dst_protocol":"tcp","dst_ip":"10.21.0.9","dst_port":"443"}"#);
        assert!(address.unwrap_err().message.contains("is not in allowed addresses"));
    }

    #[test]
    fn incomplete_configs_host_nothing_and_say_why() {
        let problem = read(&service("host.v1", r#"{"protocol":"tcp","port":1}"#)).unwrap_err();
        assert_eq!(problem, "address is missing");
        let problem =
            read(&service("host.v1", r#"{"protocol":"tcp","address":"a","forwardPort":true}"#));
        assert!(problem.unwrap_err().contains("nothing is allowed"));
        assert!(read(&service("host.v1", "{")).is_err());
        assert!(read(&service("intercept.v1", "{}")).unwrap().is_empty());
    }

    #[test]
    fn other_forms_are_read() {
        let old =
            read(&service("ziti-tunneler-server.v1", r#"{"hostname":"h","port":5}"#)).unwrap();
        let target = old[0].target(&AppData::parse(b"{}").unwrap()).unwrap();
        assert_eq!((target.protocol, target.port), (Protocol::Tcp, 5));
        let two = r#"{"terminators":[{"protocol":"tcp","address":"a","port":1},
            {"protocol":"udp","address":"b","port":2}]}"#;
        assert_eq!(read(&service("host.v2", two)).unwrap().len(), 2);
    }
}
