//! Makes the state of a tunneler from its services, ports and hosts.

use weft_sdk::Service;
use weft_tunnel::Intercept;

use super::Tunneler;
use super::reading::configs_of;
use crate::{HostState, HostingStatus, PortStatus, ServiceStatus, Status};

impl Tunneler {
    /// The present state.
    #[must_use]
    pub fn status(&self) -> Status {
        let ports = self.ports.states();
        let known = self.state.lock();
        let service = |service: &Service| ServiceStatus {
            name: service.name.clone(),
            can_dial: service.can_dial,
            can_bind: service.can_bind,
            encrypted: service.encrypted,
            unavailable: known.unavailable.get(&service.name).map(|&why| why.to_owned()),
            ports: ports
                .iter()
                .filter(|port| port.service == service.name)
                .map(|port| PortStatus {
                    protocol: port.protocol.to_string(),
                    address: port.listening.as_ref().ok().map(ToString::to_string),
                    problem: port.listening.as_ref().err().cloned(),
                })
                .collect(),
            intercepted: match &self.party {
                Some(_) if service.can_dial => intercepted(service),
                _ => Vec::new(),
            },
            problems: {
                let own = known.problems.iter().filter(|(name, _)| *name == service.name);
                own.map(|(_, why)| why.clone()).collect()
            },
            hosting: {
                let hosts = known.hosts.iter().filter(|((id, _), _)| *id == service.id);
                let hosted = hosts.map(|(_, host)| hosting(host.hosted.state()));
                let read = known.read.get(&service.id);
                let unhosted = read.and_then(|read| read.unhosted.clone());
                let unhosted = unhosted
                    .map(|why| HostingStatus { problem: Some(why), ..HostingStatus::default() });
                hosted.chain(unhosted).collect()
            },
            dialed: self.dialed.of(&service.name).counters(),
            hosted: self.hosted.of(&service.name).counters(),
        };
        let mut services: Vec<ServiceStatus> = known.services.iter().map(service).collect();
        let gone = known.unavailable.iter();
        let gone = gone.filter(|(name, _)| !known.services.iter().any(|one| one.name == **name));
        services.extend(gone.map(|(name, why)| ServiceStatus {
            name: name.clone(),
            unavailable: Some((*why).to_owned()),
            dialed: self.dialed.of(name).counters(),
            ..ServiceStatus::default()
        }));
        services.sort_by(|one, other| one.name.cmp(&other.name));
        let stale = || self.endpoint.problem().map(|problem| weft_sdk::chain(&problem));
        Status {
            identity: self.endpoint.identity_name(),
            problem: known.problem.clone().or_else(stale),
            routers: self.endpoint.connected_routers(),
            services,
        }
    }
}

fn hosting(state: HostState) -> HostingStatus {
    HostingStatus {
        terminators: state.terminators,
        cost: state.terms.cost,
        precedence: state.terms.precedence.name().to_owned(),
        problem: state.problem,
        refused: state.refused,
    }
}

/// The addresses at which a service's clients are intercepted, `<protocol>:<address>:<ports>`: the
/// first 16, and the number of the others.
fn intercepted(service: &Service) -> Vec<String> {
    const SHOWN: usize = 16;
    let Ok(Some(intercept)) = Intercept::read(&configs_of(service)) else { return Vec::new() };
    intercept.first_addresses(SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_addresses_of_a_service_are_made() {
        let config = |addresses: usize, ranges: usize| {
            let addresses: Vec<_> = (0..addresses).map(|at| format!("a{at}.test")).collect();
            let range = |at: usize| serde_json::json!({"low": 1 + at, "high": 1 + at});
            let data = serde_json::json!({
                "protocols": ["tcp", "udp"],
                "addresses": addresses,
                "portRanges": (0..ranges).map(range).collect::<Vec<_>>(),
            });
            let configs = [("intercept.v1".to_owned(), data.to_string())].into_iter().collect();
            Intercept::read(&configs).unwrap().unwrap().first_addresses(16)
        };
        assert_eq!(config(1, 1), ["tcp:a0.test:1", "udp:a0.test:1"]);
        assert_eq!(config(2, 4).len(), 16);
        let shown = config(60_000, 60_000);
        assert_eq!((shown.len(), &*shown[1]), (17, "udp:a0.test:1"));
        assert_eq!(shown[16], "7199999984 more");
    }
}
