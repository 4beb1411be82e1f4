//! The choice of a service for a client.
//!
//! The more specific match wins, in this order:
//! 1. the destination: the host name itself, then the wildcard with the longest domain, then `*`;
//!    for addresses the network with the longest prefix;
//! 2. the narrowest range of ports that has the port;
//! 3. the narrowest network of allowed sources that has the client; any source comes last;
//! 4. the service whose name comes first.
//!
//! A client whose port or source does not fit a more specific destination goes to the next one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use ipnet::IpNet;

use crate::service::{Address, Plan, Protocol};

/// Services by their claims.
#[derive(Debug, Default)]
pub(crate) struct ClaimTable {
    names: HashMap<Arc<str>, Vec<Arc<Plan>>>,
    under: HashMap<Arc<str>, Vec<Arc<Plan>>>,
    every: Vec<Arc<Plan>>,
    nets: HashMap<IpNet, Vec<Arc<Plan>>>,
    /// The number of networks of each prefix length, longest first; IPv4 and IPv6.
    lengths: [BTreeMap<Reverse<u8>, usize>; 2],
}

impl ClaimTable {
    pub(crate) fn insert(&mut self, plan: &Arc<Plan>) {
        for address in &plan.addresses {
            let plan = Arc::clone(plan);
            match address {
                Address::Name(name) => self.names.entry(Arc::clone(name)).or_default().push(plan),
                Address::Under(name) => self.under.entry(Arc::clone(name)).or_default().push(plan),
                Address::Every => self.every.push(plan),
                Address::Net(net) => {
                    let there = self.nets.entry(*net).or_default();
                    if there.is_empty() {
                        *self.lengths[family(net)].entry(Reverse(net.prefix_len())).or_default() +=
                            1;
                    }
                    there.push(plan);
                }
            }
        }
    }

    pub(crate) fn remove(&mut self, plan: &Plan) {
        for address in &plan.addresses {
            match address {
                Address::Name(name) => take(&mut self.names, name, plan),
                Address::Under(name) => take(&mut self.under, name, plan),
                Address::Every => self.every.retain(|other| other.id != plan.id),
                Address::Net(net) => {
                    take(&mut self.nets, net, plan);
                    if !self.nets.contains_key(net) {
                        let lengths = &mut self.lengths[family(net)];
                        let length = Reverse(net.prefix_len());
                        if let Some(count) = lengths.get_mut(&length) {
                            *count -= 1;
                            if *count == 0 {
                                lengths.remove(&length);
                            }
                        }
                    }
                }
            }
        }
    }

    /// The service for a client that connects to an address, which may belong to a name.
    pub(crate) fn find(
        &self,
        protocol: Protocol,
        source: IpAddr,
        destination: SocketAddr,
        name: Option<&str>,
    ) -> Option<&Arc<Plan>> {
        let best = |plans: &[Arc<Plan>]| {
            let fitting = plans.iter().enumerate().filter_map(|(index, plan)| {
                let fit = plan.fit(protocol, source, destination.port())?;
                Some((fit, &plan.name, index))
            });
            fitting.min().map(|(_, _, index)| index)
        };
        let levels = name.into_iter().flat_map(|name| self.claiming(name));
        let mut levels = levels.chain(self.holding(destination.ip()));
        levels.find_map(|plans| plans.get(best(plans)?))
    }

    /// Services that claim a name, the most specific first.
    pub(crate) fn claiming<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [Arc<Plan>]> {
        let own = self.names.get(name).map(Vec::as_slice);
        let wild = parents(name).filter_map(|parent| self.under.get(parent).map(Vec::as_slice));
        own.into_iter().chain(wild).chain([self.every.as_slice()])
    }

    /// True if a service has a wildcard for a name that has no address yet.
    pub(crate) fn is_wild(&self, name: &str) -> bool {
        !self.every.is_empty() || parents(name).any(|parent| self.under.contains_key(parent))
    }

    /// The service that has a name, or the names below it, by a wildcard: the longest wildcard that
    /// allows the client, and of its services the first one by name.
    pub(crate) fn wildcard_of(&self, name: &str, source: IpAddr) -> Option<&Arc<Plan>> {
        let domains = std::iter::once(name).chain(parents(name));
        let mut wild = domains.filter_map(|domain| self.under.get(domain)).chain([&self.every]);
        wild.find_map(|plans| {
            let admitting = plans.iter().filter(|plan| plan.admits(source));
            admitting.min_by(|one, other| one.name.cmp(&other.name))
        })
    }

    fn holding(&self, address: IpAddr) -> impl Iterator<Item = &[Arc<Plan>]> {
        let lengths = &self.lengths[usize::from(address.is_ipv6())];
        lengths.keys().filter_map(move |Reverse(length)| {
            let net = IpNet::new(address, *length).ok()?.trunc();
            self.nets.get(&net).map(Vec::as_slice)
        })
    }
}

fn family(net: &IpNet) -> usize {
    usize::from(matches!(net, IpNet::V6(_)))
}

fn take<K: std::hash::Hash + Eq>(from: &mut HashMap<K, Vec<Arc<Plan>>>, key: &K, plan: &Plan) {
    if let Some(plans) = from.get_mut(key) {
        plans.retain(|other| other.id != plan.id);
        if plans.is_empty() {
            from.remove(key);
        }
    }
}

/// The domains of a name, the longest first.
fn parents(name: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(name.split_once('.').map(|(_, rest)| rest), |rest| {
        rest.split_once('.').map(|(_, rest)| rest)
    })
}

/// True if the domain of a wildcard has a name.
pub(crate) fn is_under(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Service;

    fn plan(name: &str, address: &str, ports: (u16, u16), sources: &[&str]) -> Arc<Plan> {
        let service = Service {
            id: name.into(),
            name: name.into(),
            protocols: vec![Protocol::Tcp],
            addresses: vec![address.into()],
            ports: vec![ports],
            sources: sources.iter().map(|&text| text.to_owned()).collect(),
            ..Service::default()
        };
        let (plan, problems) = Plan::read(&service, "100.64.0.1/10".parse().unwrap());
        assert_eq!(problems, []);
        Arc::new(plan)
    }

    fn find(
        table: &ClaimTable,
        source: &str,
        destination: &str,
        name: Option<&str>,
    ) -> Option<String> {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        table.find(Protocol::Tcp, source, destination, name).map(|plan| plan.name.clone())
    }

    #[test]
    fn hosts_are_asked_by_the_longest_wildcard_that_lets_the_client_in() {
        let mut table = ClaimTable::default();
        for plan in [
            plan("z-corp", "*.corp.example", (1, 9), &[]),
            plan("a-corp", "*.corp.example", (80, 80), &[]),
            plan("lab", "*.lab.corp.example", (1, 9), &["10.1.0.0/16"]),
            plan("one", "one.example", (1, 9), &[]),
        ] {
            table.insert(&plan);
        }
        let of = |table: &ClaimTable, name: &str, source: &str| {
            table.wildcard_of(name, source.parse().unwrap()).map(|plan| plan.name.clone())
        };
        for name in ["corp.example", "_sip._tcp.corp.example", "a.b.corp.example"] {
            assert_eq!(of(&table, name, "10.1.2.3").as_deref(), Some("a-corp"), "{name}");
        }
        assert_eq!(of(&table, "x.lab.corp.example", "10.1.2.3").as_deref(), Some("lab"));
        assert_eq!(of(&table, "x.lab.corp.example", "10.2.2.3").as_deref(), Some("a-corp"));
        for none in ["one.example", "example", "evilcorp.example"] {
            assert_eq!(of(&table, none, "10.1.2.3"), None, "{none}");
        }
        table.insert(&plan("all", "*", (1, 9), &[]));
        assert_eq!(of(&table, "one.example", "10.1.2.3").as_deref(), Some("all"));
    }

    #[test]
    fn the_more_specific_match_wins_and_what_does_not_fit_is_passed_over() {
        let mut table = ClaimTable::default();
        let plans = [
            plan("all", "0.0.0.0/0", (1, 65535), &[]),
            plan("net", "10.0.0.0/8", (1, 1000), &[]),
            plan("host", "10.1.2.3", (80, 80), &[]),
            plan("port", "10.0.0.0/8", (443, 443), &[]),
            plan("guests", "10.0.0.0/8", (443, 443), &["192.168.0.0/16"]),
            plan("guest", "10.0.0.0/8", (443, 443), &["192.168.1.0/24"]),
            plan("b-twin", "10.7.0.0/16", (7, 7), &[]),
            plan("a-twin", "10.7.0.0/16", (7, 7), &[]),
        ];
        for plan in &plans {
            table.insert(plan);
        }
        let to = |destination| find(&table, "172.16.0.1", destination, None);
        assert_eq!(to("10.1.2.3:80").as_deref(), Some("host"));
        assert_eq!(to("10.1.2.3:81").as_deref(), Some("net"));
        assert_eq!(to("10.1.2.3:443").as_deref(), Some("port"));
        assert_eq!(to("10.1.2.3:8080").as_deref(), Some("all"));
        assert_eq!(to("10.7.0.1:7").as_deref(), Some("a-twin"));
        assert_eq!(to("[fd00::1]:80"), None);
        let from = |source| find(&table, source, "10.1.2.3:443", None);
        assert_eq!(from("192.168.2.1").as_deref(), Some("guests"));
        assert_eq!(from("192.168.1.1").as_deref(), Some("guest"));
        let udp = table.find(
            Protocol::Udp,
            "172.16.0.1".parse().unwrap(),
            "10.1.2.3:80".parse().unwrap(),
            None,
        );
        assert!(udp.is_none());
        for plan in &plans {
            table.remove(plan);
        }
        assert!(table.nets.is_empty() && table.lengths.iter().all(BTreeMap::is_empty));
    }

    #[test]
    fn names_go_from_the_longest_to_any() {
        let mut table = ClaimTable::default();
        for plan in [
            plan("every", "*", (1, 65535), &[]),
            plan("corp", "*.corp.example", (1, 1000), &[]),
            plan("lab", "*.lab.corp.example", (80, 80), &[]),
            plan("own", "a.lab.corp.example", (22, 22), &[]),
        ] {
            table.insert(&plan);
        }
        let to = |name, port: u16| find(&table, "::1", &format!("100.64.0.2:{port}"), Some(name));
        assert_eq!(to("a.lab.corp.example", 22).as_deref(), Some("own"));
        assert_eq!(to("a.lab.corp.example", 80).as_deref(), Some("lab"));
        assert_eq!(to("b.a.lab.corp.example", 80).as_deref(), Some("lab"));
        assert_eq!(to("a.lab.corp.example", 81).as_deref(), Some("corp"));
        assert_eq!(to("lab.corp.example", 80).as_deref(), Some("corp"));
        assert_eq!(to("corp.example", 80).as_deref(), Some("every"));
        assert_eq!(to("xcorp.example", 80).as_deref(), Some("every"));
        assert!(is_under("a.b", "b") && !is_under("b", "b") && !is_under("ab", "b"));
        assert!(!is_under(".b", "b"));
    }
}
