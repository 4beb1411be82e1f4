//! Where clients are accepted: ports of the machine, and addresses and names of services
//! (docs/protocol/tunnel.md 2, 5.3, 5.5).

use std::sync::Arc;

use weft_config::router::{
    DnsUnanswerable, DnsUpstreamMode, ProxyProtocol, TunnelMode, TunnelOptions,
};
use weft_tunnel::config::ListenAt;
use weft_tunnel::{
    InterceptOptions, Interceptable, NamedPort, PortWanted, Protocol, Service, Unanswerable,
    UpstreamMode,
};

use crate::seam::TunnelService;

/// Longest name of an interceptor, in bytes.
const MAX_NAME: usize = 20;

/// The ports for services (docs/protocol/tunnel.md 2, 5.5).
pub(super) fn ports(options: &TunnelOptions, services: &[Arc<TunnelService>]) -> Vec<PortWanted> {
    let usual = match options.mode {
        TunnelMode::Host => return Vec::new(),
        TunnelMode::Proxy => ListenAt::ANY,
        TunnelMode::Tproxy(_) => ListenAt::HERE,
    };
    let named: Vec<NamedPort> = options
        .services
        .iter()
        .map(|named| NamedPort {
            service: named.name.clone(),
            port: named.port,
            protocol: match named.protocol {
                ProxyProtocol::Tcp => Protocol::Tcp,
                ProxyProtocol::Udp => Protocol::Udp,
            },
        })
        .collect();
    let dialed = services.iter().filter(|service| service.can_dial);
    let wanted = dialed.flat_map(|service| {
        PortWanted::of(&known(service), &service.configs, &service.identity, &named, &usual)
    });
    wanted.collect()
}

/// The options of interception, if traffic is to be intercepted.
pub(crate) fn interception(
    options: &TunnelOptions,
    router: &str,
    controllers: Vec<(String, u16)>,
) -> Option<InterceptOptions> {
    let TunnelMode::Tproxy(diverter) = &options.mode else { return None };
    Some(InterceptOptions {
        name: name_of(router),
        resolver: options.resolver.clone(),
        diverter: diverter.clone(),
        names: (options.dns_range.address, options.dns_range.prefix),
        upstream: options.dns_upstream.clone(),
        upstream_mode: match options.dns_upstream_mode {
            DnsUpstreamMode::Parallel => UpstreamMode::Parallel,
            DnsUpstreamMode::Serial => UpstreamMode::Serial,
            DnsUpstreamMode::Failover => UpstreamMode::Failover,
            DnsUpstreamMode::Random => UpstreamMode::Random,
        },
        unanswerable: Some(match options.dns_unanswerable {
            DnsUnanswerable::Refused => Unanswerable::Refused,
            DnsUnanswerable::Servfail => Unanswerable::Servfail,
            DnsUnanswerable::Timeout => Unanswerable::Timeout,
        }),
        private_domains: options.dns_private_domains.clone(),
        interfaces: options.lan_interfaces.clone(),
        udp_idle: options.udp_idle_timeout,
        udp_check: options.udp_check_interval,
        controllers,
    })
}

/// The name of a router's rules: always the same, so that the router finds its rules after a crash.
fn name_of(router: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let mut name: String = "router-".chars().chain(router.chars().map(legal)).collect();
    name.truncate(MAX_NAME);
    name
}

/// The services that may be intercepted.
pub(super) fn interceptable(services: &[Arc<TunnelService>]) -> Vec<Interceptable<'_>> {
    let dialed = services.iter().filter(|service| service.can_dial);
    let interceptable = dialed.map(|service| Interceptable {
        service: known(service),
        configs: &service.configs,
        identity: &service.identity,
    });
    interceptable.collect()
}

fn known(service: &TunnelService) -> Arc<Service> {
    Arc::new(Service {
        id: service.id.clone(),
        name: service.name.clone(),
        encryption_required: service.encryption_required,
        authenticated_ends: service.authenticated_ends,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(mode: &str) -> TunnelOptions {
        let text = format!(
            "v: 3\nidentity: {{cert: a, server_cert: s, key: b, ca: c}}\nctrl: {{endpoint: 'tls:localhost:1'}}\n\
             listeners: [{{binding: tunnel, options: {{mode: {mode}}}}}]\n"
        );
        let (path, none) = (std::path::Path::new("router.yaml"), |_: &str| None);
        let config = weft_config::RouterConfig::from_str(&text, path, &none).unwrap().config;
        match config.listeners.into_iter().next() {
            Some(weft_config::router::Listener::Tunnel(options)) => *options,
            _ => panic!("a tunnel"),
        }
    }

    #[test]
    fn ports_are_for_what_may_be_dialed() {
        let service = |name: &str, proxy: Option<&str>, can_dial| {
            Arc::new(TunnelService {
                name: name.to_owned(),
                can_dial,
                configs: proxy
                    .map(|text| ("proxy.v1".to_owned(), text.to_owned()))
                    .into_iter()
                    .collect(),
                ..TunnelService::default()
            })
        };
        let own = r#"{"port":99,"protocols":["tcp","udp"]}"#;
        let services = [
            service("a", None, true),
            service("b", Some(own), true),
            service("c", None, false),
            service("d", Some("{"), true),
        ];
        let ports = |mode: &str| -> Vec<(String, Protocol, u16, String)> {
            let wanted = super::ports(&options(mode), &services);
            let shown = |one: PortWanted| {
                (one.route.service.name.clone(), one.protocol, one.port, one.at.to_string())
            };
            wanted.into_iter().map(shown).collect()
        };
        let any = "0.0.0.0".to_owned();
        let expected = [
            ("a".to_owned(), Protocol::Tcp, 7, any.clone()),
            ("a".to_owned(), Protocol::Udp, 8, any.clone()),
            ("b".to_owned(), Protocol::Tcp, 99, any.clone()),
            ("b".to_owned(), Protocol::Udp, 99, any),
        ];
        assert_eq!(ports("proxy, services: ['a:7', 'a:8:udp', 'b:9', 'c:10']"), expected);
        let here: Vec<String> = ports("tproxy").into_iter().map(|(.., at)| at).collect();
        assert_eq!(here, ["127.0.0.1", "127.0.0.1"], "proxy.v1 counts there too");
        assert!(ports("host").is_empty());
    }

    #[test]
    fn only_tproxy_changes_the_machine_and_by_one_name() {
        assert!(interception(&options("host"), "r1", Vec::new()).is_none());
        assert!(interception(&options("proxy"), "r1", Vec::new()).is_none());
        let text = "tproxy:/bin/divert, resolver: ['udp://10.0.0.1:53', 'file:///etc/hosts'], lanIf: [lo], \
                    dnsSvcIpRange: 100.70.0.1/16, dnsUpstreamMode: random, dnsUnanswerable: servfail, \
                    dnsPrivateDomains: [lab.example]";
        let wanted = interception(&options(text), "a.b-c1234567890123", Vec::new()).unwrap();
        assert_eq!(wanted.name, "router-a_b-c12345678");
        assert_eq!(wanted.resolver, ["udp://10.0.0.1:53", "file:///etc/hosts"]);
        assert_eq!(wanted.diverter, Some("/bin/divert".into()));
        assert_eq!(wanted.interfaces, ["lo"]);
        assert_eq!(wanted.private_domains, ["lab.example"]);
        assert_eq!(wanted.names, ([100, 70, 0, 1].into(), 16));
        assert_eq!(wanted.upstream_mode, UpstreamMode::Random);
        assert_eq!(wanted.unanswerable, Some(Unanswerable::Servfail));
    }
}
