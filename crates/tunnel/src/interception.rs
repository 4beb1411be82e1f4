//! Services taken in wherever programs of this machine and its neighbours use their addresses
//! (protocol: tunnel 5.3).

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use parking_lot::RwLock;
use weft_intercept::{Arrival, Carry, Client as Taken, Interceptor, Problem};

use crate::{
    Aim, Carrier, Client, Configs, Datagrams, Identity, Intercept, InterceptAddress, Protocol,
    Service, UdpTimes, Way,
};

/// A service that clients may be taken in for.
#[derive(Clone, Debug)]
pub struct Interceptable<'a> {
    /// The service.
    pub service: Arc<Service>,
    /// Its configs.
    pub configs: &'a Configs,
    /// Who takes its clients in.
    pub identity: &'a Identity,
}

/// Takes clients of services in, and has them carried.
pub struct Interception {
    interceptor: Interceptor,
    passages: Arc<Passages>,
}

struct Passages {
    /// By the id of the service.
    ways: RwLock<HashMap<String, Arc<Way>>>,
    carrier: Arc<dyn Carrier>,
    times: UdpTimes,
}

impl Interception {
    /// Begins with no service.
    ///
    /// # Errors
    /// When this machine cannot do it, or an option makes no sense.
    pub async fn start(
        options: weft_intercept::Options,
        carrier: Arc<dyn Carrier>,
    ) -> Result<Self, weft_intercept::Error> {
        let times = UdpTimes::of(Some(options.udp_idle), Some(options.udp_check));
        let passages = Arc::new(Passages { ways: RwLock::default(), carrier, times });
        let interceptor = Interceptor::start(options, Arc::clone(&passages) as Arc<_>).await?;
        // What this process connects to itself goes its own way, whatever services claim.
        weft_channel::mark_connections(weft_intercept::OWN_MARK);
        Ok(Self { interceptor, passages })
    }

    /// Takes in clients of those of these services that say where, and of no others. What cannot be
    /// used is told in the log, and given back.
    pub async fn set(&self, services: &[Interceptable<'_>]) -> Vec<Problem> {
        let mut ways = HashMap::new();
        let mut wanted = BTreeMap::new();
        for one in services {
            let name = &one.service.name;
            let read = Intercept::read(one.configs).and_then(|intercept| {
                let way = Way::new(Arc::clone(&one.service), one.configs, one.identity, 0)?;
                Ok(intercept.map(|intercept| (intercept, way)))
            });
            match read {
                Ok(Some((intercept, way))) => {
                    wanted.insert(one.service.id.clone(), claimed(&one.service, &intercept));
                    ways.insert(one.service.id.clone(), Arc::new(way));
                }
                Ok(None) => {}
                Err(problem) => {
                    tracing::warn!(service = %name, %problem, "a service is not intercepted");
                }
            }
        }
        // Clients of new services find their way at once; of old ones until they are gone.
        self.passages.ways.write().extend(ways.clone());
        let wanted: Vec<_> = wanted.into_values().collect();
        let problems = self.interceptor.set_services(&wanted).await;
        *self.passages.ways.write() = ways;
        problems
    }

    /// Destinations that are left alone from now on: an address, and one port or all.
    pub fn exclude(&self, destinations: impl IntoIterator<Item = (IpAddr, Option<u16>)>) {
        self.interceptor.exclude(destinations);
    }

    /// How much there is.
    #[must_use]
    pub fn counts(&self) -> weft_intercept::Counts {
        self.interceptor.counts()
    }

    /// Takes everything out of the system. Clients that were taken in stay.
    pub async fn stop(self) {
        self.interceptor.stop().await;
    }
}

impl Carry for Passages {
    fn carry(&self, arrival: Arrival, client: Taken) {
        let Some(way) = self.ways.read().get(&*arrival.service).map(Arc::clone) else { return };
        let (local, remote) = (arrival.destination, arrival.source);
        let aim = Aim {
            hostname: arrival.hostname.as_deref().map(str::to_owned),
            address: Some(local.ip()),
            port: local.port(),
        };
        let way = Way { aim: Some(aim), ..(*way).clone() };
        let (client, place) = match client {
            Taken::Tcp(client) => (Client::Tcp(client.stream), Some(client.place)),
            Taken::Udp(session) => (Client::Udp(Datagrams::of(session, self.times)), None),
        };
        let carried = self.carrier.carry(way.call(client, local, remote));
        tokio::spawn(async move {
            if let Err(problem) = carried.await {
                let service = &way.service.name;
                tracing::warn!(%service, client = %remote, %problem, "an intercepted client gets nowhere");
            }
            drop(place);
        });
    }
}

/// What a service claims, as the interceptor takes it.
fn claimed(service: &Service, intercept: &Intercept) -> weft_intercept::Service {
    let addresses = intercept.addresses.iter().map(|address| match address {
        InterceptAddress::Network(network) => format!("{}/{}", network.address(), network.prefix()),
        InterceptAddress::Name(name) => name.clone(),
        InterceptAddress::Domain(domain) => format!("*.{domain}"),
        InterceptAddress::AnyName => "*".to_owned(),
    });
    let protocols = intercept.protocols.iter().map(|protocol| match protocol {
        Protocol::Tcp => weft_intercept::Protocol::Tcp,
        Protocol::Udp => weft_intercept::Protocol::Udp,
    });
    let sources = intercept.allowed_sources.iter().flatten();
    weft_intercept::Service {
        id: service.id.clone(),
        name: service.name.clone(),
        protocols: protocols.collect(),
        addresses: addresses.collect(),
        ports: intercept.port_ranges.iter().map(|range| (range.low, range.high)).collect(),
        sources: sources
            .map(|network| format!("{}/{}", network.address(), network.prefix()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_claim_what_their_configs_say() {
        let config = serde_json::json!({
            "protocols": ["tcp"],
            "addresses": ["web.example", "*.lab.example", "*", "10.1.0.0/16", "fd00::1"],
            "portRanges": [{"low": 80, "high": 90}],
            "allowedSourceAddresses": ["192.168.0.0/16", "10.9.9.9"],
        });
        let configs = Configs::from([("intercept.v1".to_owned(), config.to_string())]);
        let intercept = Intercept::read(&configs).unwrap().unwrap();
        let service = Service { id: "s1".into(), name: "web".into(), ..Service::default() };
        let claimed = claimed(&service, &intercept);
        assert_eq!((claimed.id.as_str(), claimed.name.as_str()), ("s1", "web"));
        assert_eq!(claimed.protocols, [weft_intercept::Protocol::Tcp]);
        let addresses = ["web.example", "*.lab.example", "*", "10.1.0.0/16", "fd00::1/128"];
        assert_eq!(claimed.addresses, addresses);
        assert_eq!(claimed.ports, [(80, 90)]);
        assert_eq!(claimed.sources, ["192.168.0.0/16", "10.9.9.9/32"]);
    }
}
