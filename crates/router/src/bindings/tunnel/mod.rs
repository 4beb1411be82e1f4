//! The tunneler in `host` mode: the router itself hosts the services its identity may bind, and
//! dials what their configs say.
//!
//! ```text
//!  access: services that may be hosted -> config -> terminators (control)
//!  route with binding `tunnel` -> host of that terminator -> application's address
//! ```

mod address;
mod config;

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use weft_wire::edge::header;
use weft_xgress::Options;

use self::{
    address::{AppData, Target},
    config::HostConfig,
};
use super::{
    keys,
    socket::Crypto,
    transport::{self, Connected},
};
use crate::{
    forwarder::{Circuit, Forwarder},
    seam::{
        Access, Control, Egress, Host, HostedService, PeerData, RouteErrorCode, RouteFailure,
        TerminatorRequest,
    },
};

/// What the router itself hosts.
pub(crate) struct TunnelBinding {
    forwarder: Arc<Forwarder>,
    control: Arc<dyn Control>,
    access: Arc<dyn Access>,
    options: Options,
    /// How long applications may leave unanswered what they were sent.
    peer_timeout: Option<Duration>,
    /// By terminator id.
    hosted: Mutex<HashMap<String, Arc<Hosted>>>,
}

/// One terminator of a service.
struct Hosted {
    service: HostedService,
    /// Which of the service's terminators.
    index: usize,
    config: HostConfig,
    over: CancellationToken,
}

impl TunnelBinding {
    pub(crate) fn new(
        forwarder: Arc<Forwarder>,
        control: Arc<dyn Control>,
        access: Arc<dyn Access>,
        options: Options,
        peer_timeout: Option<Duration>,
    ) -> Arc<Self> {
        let hosted = Mutex::default();
        Arc::new(Self { forwarder, control, access, options, peer_timeout, hosted })
    }

    /// Hosts what may be hosted, until cancelled.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut services = self.access.hosted_services();
        loop {
            let wanted = tokio::select! {
                () = stop.cancelled() => break,
                wanted = services.next() => wanted,
            };
            let Some(wanted) = wanted else { break };
            self.host(&wanted);
        }
    }

    /// Ends all that is hosted.
    pub(crate) fn host_nothing(self: &Arc<Self>) {
        self.host(&[]);
    }

    /// Whether a terminator is hosted here.
    pub(crate) fn hosts(&self, terminator: &str) -> bool {
        self.hosted.lock().contains_key(terminator)
    }

    /// Makes what is hosted what is wanted: terminators whose service and config stay the same
    /// stay, others come and go.
    fn host(self: &Arc<Self>, wanted: &[HostedService]) {
        let wanted: Vec<Hosted> = wanted.iter().flat_map(terminators_of).collect();
        let mut removed = Vec::new();
        let mut hosted = self.hosted.lock();
        hosted.retain(|id, known| {
            let stays = wanted.iter().any(|wanted| wanted.same_as(known));
            if !stays {
                known.over.cancel();
                removed.push(id.clone());
            }
            stays
        });
        let known: HashSet<(String, usize)> =
            hosted.values().map(|known| (known.service.id.clone(), known.index)).collect();
        for terminator in wanted {
            if known.contains(&(terminator.service.id.clone(), terminator.index)) {
                continue;
            }
            let id = Uuid::new_v4().to_string();
            let terminator = Arc::new(terminator);
            hosted.insert(id.clone(), Arc::clone(&terminator));
            let this = Arc::clone(self);
            tokio::spawn(async move { this.establish(id, terminator).await });
        }
        drop(hosted);
        if !removed.is_empty() {
            self.control.remove_terminators(removed);
        }
    }

    async fn establish(&self, id: String, terminator: Arc<Hosted>) {
        let service = &terminator.service;
        let request = TerminatorRequest {
            id: id.clone(),
            host: Host::Tunnel { service: service.id.clone() },
            instance: terminator.config.instance(service),
            instance_secret: Bytes::new(),
            peer_data: PeerData::new(),
            cost: terminator.config.cost(service),
            precedence: terminator.config.precedence(service),
        };
        let made = tokio::select! {
            made = self.control.create_terminator(request) => made,
            () = terminator.over.cancelled() => return,
        };
        match made {
            Ok(()) => {
                tracing::info!(service = %service.name, terminator = %id, "hosting a service")
            }
            Err(refusal) => {
                tracing::warn!(service = %service.name, %refusal, "a service cannot be hosted");
                // Not tried again before the service, its config or the policies change.
                self.hosted.lock().remove(&id);
            }
        }
    }

    /// Dials the application of a terminator and registers the end of the circuit.
    pub(crate) async fn dial(
        &self,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
    ) -> Result<PeerData, RouteFailure> {
        let terminator = self.hosted.lock().get(&egress.destination).cloned();
        let terminator = terminator.ok_or_else(|| RouteFailure {
            code: RouteErrorCode::InvalidTerminator,
            message: format!("terminator {} is not hosted here", egress.destination),
        })?;
        let data = egress.peer_data.get(&header::APP_DATA.cast_unsigned());
        let app_data = AppData::parse(data.map_or(&[][..], |data| &data[..]))?;
        let target = terminator.config.target(&app_data)?;
        let keys = self.encryption(&terminator, egress)?;
        let timeout = timeout.min(terminator.config.connect_timeout);
        let connected = connect(&target, timeout, self.peer_timeout).await?;
        let mut peer_data = connected.peer_data();
        let crypto = keys.map(|(crypto, told)| {
            peer_data.extend(told);
            crypto
        });
        transport::attach(&self.forwarder, circuit, egress, connected, &self.options, crypto);
        Ok(peer_data)
    }

    /// Keys for the connection, if the dialer brought one; a fresh pair each time.
    fn encryption(
        &self,
        terminator: &Hosted,
        egress: &Egress,
    ) -> Result<Option<(Crypto, PeerData)>, RouteFailure> {
        let keys = keys::answer(&egress.peer_data)?;
        if keys.is_none() && terminator.service.encryption_required {
            return Err(RouteFailure {
                code: RouteErrorCode::Generic,
                message: "the service is encrypted, but the dialer sent no key".into(),
            });
        }
        Ok(keys)
    }
}

/// Connects to what a circuit asks for. What is dialed is what was judged: nothing is resolved
/// again.
async fn connect(
    target: &Target,
    timeout: Duration,
    peer_timeout: Option<Duration>,
) -> Result<Connected, RouteFailure> {
    let deadline = Instant::now() + timeout;
    let found = match &target.host {
        address::Host::Address(address) => vec![SocketAddr::new(*address, target.port)],
        address::Host::Name(name, _) => transport::resolve(name, target.port, deadline).await?,
    };
    let addresses = target.host.judge(found)?;
    Ok(match target.protocol {
        config::Protocol::Tcp => {
            Connected::Tcp(transport::connect_tcp(addresses, deadline, peer_timeout).await?)
        }
        config::Protocol::Udp => Connected::Udp(transport::connect_udp(&addresses).await?),
    })
}

impl Hosted {
    fn same_as(&self, other: &Self) -> bool {
        self.index == other.index && self.service == other.service && self.config == other.config
    }
}

/// The terminators that a service's configs ask for. A config that makes no sense hosts nothing.
fn terminators_of(service: &HostedService) -> Vec<Hosted> {
    match config::read(service) {
        Ok(configs) => configs
            .into_iter()
            .enumerate()
            .map(|(index, config)| Hosted {
                service: service.clone(),
                index,
                config,
                over: CancellationToken::new(),
            })
            .collect(),
        Err(problem) => {
            tracing::warn!(service = %service.name, problem, "a service is not hosted: its config");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a dialer gets that names this host, with a service that allows these.
    async fn dialed(allowed: &str, key: &str, host: &str, port: u16) -> Result<SocketAddr, String> {
        let config = serde_json::json!({
            "protocol": "tcp", "forwardAddress": true, "allowedAddresses": [allowed], "port": port,
        });
        let configs = [("host.v1".to_owned(), config.to_string())].into();
        let service = HostedService { configs, ..HostedService::default() };
        let config = config::read(&service).unwrap().remove(0);
        let data = AppData::parse(serde_json::json!({key: host}).to_string().as_bytes()).unwrap();
        let target = config.target(&data).map_err(|refused| refused.to_string())?;
        let connected = connect(&target, Duration::from_secs(20), None).await;
        match connected.map_err(|refused| refused.to_string())? {
            Connected::Tcp(stream) => Ok(stream.peer_addr().unwrap()),
            Connected::Udp(_) | Connected::Tls(_) => panic!("tcp was asked for"),
        }
    }

    #[tokio::test]
    async fn a_dialer_gets_nowhere_but_where_the_service_allows() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap();
        let dialed = |allowed, key, host| dialed(allowed, key, host, here.port());
        // Every name means every name, and no address that is written like one.
        assert_eq!(dialed("*", "dst_hostname", "localhost").await, Ok(here));
        for form in ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "::ffff:127.0.0.1", "0"] {
            for allowed in ["*", "::/0", "10.0.0.0/8", "*.corp.example"] {
                for key in ["dst_hostname", "dst_ip"] {
                    let refused = dialed(allowed, key, form).await.unwrap_err();
                    assert!(refused.contains("is not in allowed addresses"), "{refused}");
                }
            }
            assert_eq!(dialed("127.0.0.1", "dst_hostname", form).await, Ok(here));
        }
        let refused = dialed("127.0.0.1", "dst_hostname", "localhost").await.unwrap_err();
        assert!(refused.contains("is not in allowed addresses"), "{refused}");
    }
}
