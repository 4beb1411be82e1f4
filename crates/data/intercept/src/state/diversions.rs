//! The calls for programs that divert packets, and the names for hosts files.

use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net};

use super::{InstalledService, State};
use crate::firewall::{Diversion, Diversions};
use crate::hosts_file::Names;
use crate::service::Address;

/// Most calls of a program that diverts: each of them is a process.
const MOST: usize = 8_192;

impl State {
    /// The names in services' lists, with their addresses, in order.
    pub(crate) fn held(&self) -> Names {
        let held = self.names.names().filter(|name| self.names.is_held(name));
        let mut names: Names = held
            .filter_map(|name| Some((self.names.address_of(name)?, Arc::clone(name))))
            .collect();
        names.sort_by(|one, other| one.1.cmp(&other.1));
        names
    }

    /// The calls for a program, and the names of services that have no room. A combination that
    /// several services claim is called for the first one.
    pub(crate) fn diversions(&self) -> (Diversions, Vec<String>) {
        let mut known: Vec<&InstalledService> = self.plans.values().collect();
        known.sort_by_key(|known| known.order);
        let (mut all, mut left) = (Diversions::new(), Vec::new());
        for known in known {
            let Some(own) = self.diversions_of(known, MOST - all.len()) else {
                left.push(known.service.name.clone());
                continue;
            };
            let id: Arc<str> = known.service.diverted.id.as_str().into();
            for diversion in own {
                all.entry(diversion).or_insert_with(|| Arc::clone(&id));
            }
        }
        (all, left)
    }

    fn diversions_of(&self, known: &InstalledService, most: usize) -> Option<Vec<Diversion>> {
        let plan = &known.plan;
        let nets = plan.addresses.iter().filter_map(|address| match address {
            Address::Net(IpNet::V4(net)) => Some(*net),
            _ => None,
        });
        let names = self.claimed.get(&plan.id).into_iter().flatten();
        let named = names.filter_map(|name| match self.names.address_of(name)?.into() {
            IpNet::V4(net) => Some(net),
            IpNet::V6(_) => None,
        });
        let nets: Vec<Ipv4Net> = nets.chain(named).collect();
        let sources: Vec<Ipv4Net> = match &plan.sources {
            None => vec![Diversion::ANY],
            Some(sources) => {
                let v4 = |net: &IpNet| match net {
                    IpNet::V4(net) => Some(*net),
                    IpNet::V6(_) => None,
                };
                sources.iter().filter_map(v4).collect()
            }
        };
        let interfaces: Vec<Option<Arc<str>>> = match &known.service.diverted.interfaces {
            None => vec![None],
            Some(names) => names.iter().map(|name| Some(name.as_str().into())).collect(),
        };
        let lists = [plan.protocols.len(), plan.ranges.len(), sources.len(), interfaces.len()];
        let count = lists.into_iter().fold(nets.len(), usize::saturating_mul);
        if count > most {
            return None;
        }
        let mut all = Vec::with_capacity(count);
        for &net in &nets {
            for &protocol in &plan.protocols {
                for &ports in &plan.ranges {
                    for &source in &sources {
                        all.extend(interfaces.iter().map(|interface| Diversion {
                            net,
                            protocol,
                            source,
                            ports,
                            interface: interface.clone(),
                        }));
                    }
                }
            }
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::options::Limits;
    use crate::service::{Diverted, Protocol, Service};

    fn service(id: &str, addresses: &[&str]) -> Service {
        Service {
            id: format!("0/{id}"),
            name: id.into(),
            protocols: vec![Protocol::Tcp],
            addresses: addresses.iter().map(|&text| text.to_owned()).collect(),
            ports: vec![(80, 80)],
            sources: Vec::new(),
            diverted: Diverted { id: id.into(), interfaces: None },
        }
    }

    fn state() -> State {
        State::new("100.64.0.1/10".parse().unwrap(), Limits::default(), [])
    }

    fn told(state: &State) -> Vec<String> {
        let (all, _) = state.diversions();
        let shown = |(one, id): (Diversion, Arc<str>)| {
            let interface = one.interface.as_deref().unwrap_or("-");
            format!("{id} {} {} {:?} {interface}", one.net, one.source, one.ports)
        };
        all.into_iter().map(shown).collect()
    }

    #[test]
    fn each_service_is_told_once_and_what_two_claim_is_the_first_ones() {
        let (mut state, now) = (state().without(false, true), Instant::now());
        let mut first = service(
            "one",
            &["10.0.0.0/8", "web.example", "*.wild.example", "fd00::1", "0.0.0.0/0"],
        );
        first.diverted.interfaces = Some(vec!["eth0".into(), "eth1".into()]);
        first.ports = vec![(80, 80)];
        let (_, problems) = state.add(&first, now);
        assert_eq!(problems.len(), 2, "{problems:?}");
        let mut second = service("two", &["10.0.0.0/8", "web.example"]);
        second.sources = vec!["192.168.0.0/16".into()];
        assert_eq!(state.add(&second, now).1, []);
        let third = service("three", &["web.example"]);
        assert_eq!(state.add(&third, now).1, []);
        state.assign("a.wild.example", now, std::collections::HashSet::new).0.unwrap();
        assert_eq!(
            told(&state),
            [
                "one 10.0.0.0/8 0.0.0.0/0 (80, 80) eth0",
                "one 10.0.0.0/8 0.0.0.0/0 (80, 80) eth1",
                "two 10.0.0.0/8 192.168.0.0/16 (80, 80) -",
                "three 100.64.0.2/32 0.0.0.0/0 (80, 80) -",
                "one 100.64.0.2/32 0.0.0.0/0 (80, 80) eth0",
                "one 100.64.0.2/32 0.0.0.0/0 (80, 80) eth1",
                "two 100.64.0.2/32 192.168.0.0/16 (80, 80) -",
                "one 100.64.0.3/32 0.0.0.0/0 (80, 80) eth0",
                "one 100.64.0.3/32 0.0.0.0/0 (80, 80) eth1",
            ]
        );
        let fourth = service("four", &["web.example"]);
        state.add(&fourth, now);
        assert!(told(&state).iter().all(|one| !one.starts_with("four")));
        state.remove("0/three", now);
        assert!(told(&state).iter().any(|one| one.starts_with("four")), "it is next");
    }

    #[test]
    fn what_a_program_cannot_be_told_or_is_too_much_is_left_out() {
        let (mut state, now) = (state().without(false, true), Instant::now());
        let mut wide = service("wide", &["10.0.0.0/8"]);
        wide.sources = (0..100).map(|last| format!("192.168.0.{}", 2 * last)).collect();
        wide.ports = (1..100).map(|port| (10 * port, 10 * port)).collect();
        assert_eq!(state.add(&wide, now).1, []);
        assert_eq!(state.add(&service("small", &["10.1.0.1"]), now).1, []);
        let (all, left) = state.diversions();
        assert_eq!((all.len(), left), (1, vec!["wide".to_owned()]));
        for interface in ["-x", "", "a b", "a/b", "sixteen-long-one"] {
            let mut wrong = service("wrong", &["10.2.0.1"]);
            wrong.diverted.interfaces = Some(vec![interface.into()]);
            assert_eq!(state.add(&wrong, now).1.len(), 1, "{interface}");
        }
        assert_eq!(state.add(&service("a b", &["10.2.0.1"]), now).1.len(), 1);
        assert_eq!(state.diversions().0.len(), 1);
    }

    #[test]
    fn a_hosts_file_gets_names_and_no_wildcards() {
        let (mut state, now) = (state().without(true, false), Instant::now());
        let (_, problems) =
            state.add(&service("s", &["web.example", "*.wild.example", "*", "10.0.0.1"]), now);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].to_string().contains("hosts file"), "{}", problems[0]);
        state.add(&service("t", &["a.example"]), now);
        let held = |state: &State| -> Vec<String> {
            state.held().into_iter().map(|(address, name)| format!("{address} {name}")).collect()
        };
        assert_eq!(held(&state), ["100.64.0.3 a.example", "100.64.0.2 web.example"]);
        state.remove("0/s", now);
        assert_eq!(held(&state), ["100.64.0.3 a.example"]);
    }
}
