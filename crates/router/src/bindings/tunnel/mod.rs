//! The tunneler of the router: its own identity hosts what it may bind, and takes clients in at ports
//! for what it may dial.
//!
//! ```text
//!  access: services ─┬─ may be hosted ──> configs ──> terminators (control)      [`hosting`]
//!                    └─ may be dialed ──> configs ──> ports of this machine
//!  route with binding `tunnel` ──> host of that terminator ──> application       [`hosting`]
//!  client at a port ──> circuit (control) ──> end of the circuit ──> its socket  [`carry`]
//! ```

mod carry;
mod hosting;

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use tokio_util::sync::CancellationToken;
use weft_config::router::{ProxyProtocol, TunnelMode, TunnelOptions};
use weft_tunnel::{
    Carrier, NamedPort, PortWanted, Ports, Protocol, Service, UdpTimes, config::ListenAt,
};
use weft_xgress::Options;

use self::{carry::CircuitCarrier, hosting::Hosting};
use crate::{
    forwarder::{Circuit, Forwarder},
    seam::{Access, Control, Egress, PeerData, RouteFailure, TunnelService},
};

/// Ports that could not be listened at are tried again so often.
const RETRY: Duration = Duration::from_secs(30);

/// The tunneler of the router.
pub(crate) struct TunnelBinding {
    access: Arc<dyn Access>,
    hosting: Arc<Hosting>,
    carrier: Arc<CircuitCarrier>,
}

impl TunnelBinding {
    pub(crate) fn new(
        forwarder: &Arc<Forwarder>,
        control: &Arc<dyn Control>,
        access: Arc<dyn Access>,
        hosted: Options,
        dialed: Options,
        peer_timeout: Option<Duration>,
    ) -> Arc<Self> {
        let hosting =
            Hosting::new(Arc::clone(forwarder), Arc::clone(control), hosted, peer_timeout);
        let carrier = CircuitCarrier::new(Arc::clone(forwarder), Arc::clone(control), dialed);
        Arc::new(Self { access, hosting, carrier })
    }

    /// Does what the router's identity may, until cancelled.
    pub(crate) async fn run(self: Arc<Self>, options: TunnelOptions, stop: CancellationToken) {
        let times = UdpTimes::of(options.udp_idle_timeout, options.udp_check_interval);
        let carrier: Arc<dyn Carrier> = self.carrier.clone();
        let ports = Ports::new(carrier, times);
        let mut services = self.access.tunnel_services();
        let mut retry = tokio::time::interval(RETRY);
        let mut known = Arc::default();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                next = services.next() => match next {
                    Some(next) => known = next,
                    None => break,
                },
                _ = retry.tick(), if ports.any_failed() => {}
            }
            self.hosting.host(&known);
            ports.set(wanted_ports(&options, &known)).await;
        }
        // Also what was begun while others ended it.
        self.host_nothing();
        ports.set(Vec::new()).await;
    }

    /// Ends all that is hosted.
    pub(crate) fn host_nothing(self: &Arc<Self>) {
        self.hosting.host(&[]);
    }

    /// Whether a terminator is hosted here.
    pub(crate) fn hosts(&self, terminator: &str) -> bool {
        self.hosting.hosts(terminator)
    }

    /// Dials the application of a terminator and registers the end of the circuit.
    pub(crate) async fn dial(
        &self,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
    ) -> Result<PeerData, RouteFailure> {
        self.hosting.dial(circuit, egress, timeout).await
    }
}

/// The ports that services are wanted at (protocol: tunnel 2, 5.5).
fn wanted_ports(options: &TunnelOptions, services: &[TunnelService]) -> Vec<PortWanted> {
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
        let known = Arc::new(Service {
            id: service.id.clone(),
            name: service.name.clone(),
            encryption_required: service.encryption_required,
        });
        PortWanted::of(&known, &service.configs, &service.identity, &named, &usual)
    });
    wanted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(mode: &str) -> TunnelOptions {
        let text = format!(
            "v: 3\nidentity: {{cert: a, key: b, ca: c}}\nctrl: {{endpoint: 'tls:localhost:1'}}\n\
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
        let service = |name: &str, proxy: Option<&str>, can_dial| TunnelService {
            name: name.to_owned(),
            can_dial,
            configs: proxy
                .map(|text| ("proxy.v1".to_owned(), text.to_owned()))
                .into_iter()
                .collect(),
            ..TunnelService::default()
        };
        let own = r#"{"port":99,"protocols":["tcp","udp"]}"#;
        let services = [
            service("a", None, true),
            service("b", Some(own), true),
            service("c", None, false),
            service("d", Some("{"), true),
        ];
        let ports = |mode: &str| -> Vec<(String, Protocol, u16, String)> {
            let wanted = wanted_ports(&options(mode), &services);
            let shown = |one: PortWanted| {
                (one.way.service.name.clone(), one.protocol, one.port, one.at.to_string())
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
}
