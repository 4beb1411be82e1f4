//! All that is intercepted, and what the firewall has to be told when it changes. Pure: calls and
//! `now` in, changes out.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Instant,
};

use ipnet::IpNet;

use crate::{
    cover::Cover,
    names::{Names, NoAddress},
    options::Limits,
    ports::Range,
    service::{Address, Plan, Problem, Protocol, Service, Sources, hostname},
    table::{Table, is_under},
};

/// Services with the same allowed sources. Number 0 has those that allow all; no number is used
/// twice.
pub(crate) type Group = u32;

/// Services that allow all clients.
pub(crate) const EVERYBODY: Group = 0;

/// Packets that are intercepted: of a group's sources, to a network and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Element {
    pub(crate) group: Group,
    pub(crate) protocol: Protocol,
    pub(crate) net: IpNet,
    pub(crate) ports: Range,
}

/// What has to change in the firewall.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) gone: BTreeSet<Element>,
    pub(crate) new: BTreeSet<Element>,
    pub(crate) new_groups: Vec<(Group, Arc<[IpNet]>)>,
    pub(crate) gone_groups: Vec<Group>,
    /// Networks that need a route where there is none.
    pub(crate) new_routes: BTreeSet<IpNet>,
    pub(crate) gone_routes: BTreeSet<IpNet>,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These, then others.
    pub(crate) fn then(&mut self, later: Self) {
        fn merge<T: Ord>(
            (gone, new): (&mut BTreeSet<T>, &mut BTreeSet<T>),
            later: (BTreeSet<T>, BTreeSet<T>),
        ) {
            for item in later.0 {
                if !new.remove(&item) {
                    gone.insert(item);
                }
            }
            for item in later.1 {
                if !gone.remove(&item) {
                    new.insert(item);
                }
            }
        }
        merge((&mut self.gone, &mut self.new), (later.gone, later.new));
        merge((&mut self.gone_routes, &mut self.new_routes), (later.gone_routes, later.new_routes));
        for gone in later.gone_groups {
            let before = self.new_groups.len();
            self.new_groups.retain(|(group, _)| *group != gone);
            if self.new_groups.len() == before {
                self.gone_groups.push(gone);
            }
        }
        self.new_groups.extend(later.new_groups);
    }
}

/// A service, as it was given and as it was read.
#[derive(Debug)]
struct Known {
    service: Service,
    plan: Arc<Plan>,
}

#[derive(Debug)]
struct Members {
    group: Group,
    plans: usize,
}

/// What a DNS server does with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    Known(IpAddr),
    /// It gets an address when somebody asks for one.
    Wild,
    Unknown,
}

/// All that is intercepted.
#[derive(Debug)]
pub(crate) struct State {
    limits: Limits,
    range: IpNet,
    /// Names that are nobody's to take: those of controllers.
    kept: HashSet<String>,
    plans: HashMap<Arc<str>, Known>,
    table: Table,
    names: Names,
    groups: HashMap<Sources, Members>,
    next_group: Group,
    covers: HashMap<(Group, Protocol, bool), Cover>,
    elements: usize,
    routes: HashMap<IpNet, usize>,
    /// Services that claim each name that has an address, and the other way round.
    claims: HashMap<Arc<str>, HashSet<Arc<str>>>,
    claimed: HashMap<Arc<str>, HashSet<Arc<str>>>,
}

impl State {
    pub(crate) fn new(
        range: IpNet,
        limits: Limits,
        kept: impl IntoIterator<Item = String>,
    ) -> Self {
        Self {
            names: Names::new(range, limits.names),
            limits,
            range: range.trunc(),
            kept: kept.into_iter().filter_map(|name| hostname(&name).ok()).collect(),
            plans: HashMap::new(),
            table: Table::default(),
            groups: HashMap::new(),
            next_group: EVERYBODY + 1,
            covers: HashMap::new(),
            elements: 0,
            routes: HashMap::new(),
            claims: HashMap::new(),
            claimed: HashMap::new(),
        }
    }

    /// Whether a service is intercepted as it is.
    pub(crate) fn has(&self, service: &Service) -> bool {
        self.plans.get(service.id.as_str()).is_some_and(|known| known.service == *service)
    }

    /// Whether there is a service of this id.
    pub(crate) fn intercepts(&self, id: &str) -> bool {
        self.plans.contains_key(id)
    }

    pub(crate) fn ids(&self) -> Vec<Arc<str>> {
        self.plans.keys().map(Arc::clone).collect()
    }

    /// Intercepts a service from now on, in place of what had its id.
    pub(crate) fn add(&mut self, service: &Service, now: Instant) -> (Changes, Vec<Problem>) {
        let mut changes = self.remove(&service.id, now);
        let (mut plan, mut problems) = Plan::read(service, self.range);
        let mut problem = |entry: &str, why| {
            let (service, entry) = (service.name.clone(), entry.to_owned());
            problems.push(Problem { service, entry, why });
        };
        let taken = |address: &Address| matches!(address, Address::Name(name) if self.kept.contains(&**name));
        if plan.addresses.iter().any(taken) {
            problem("", "names a controller of this network, which is not intercepted");
            plan.addresses.retain(|address| !taken(address));
        }
        let group = self.groups.contains_key(&plan.sources);
        if self.plans.len() >= self.limits.services {
            problem("", "is one service too many");
            return (changes, problems);
        }
        if self.elements + plan.addresses.len() * plan.ports.len() > self.limits.elements {
            problem("", "would make the firewall's tables too large");
            return (changes, problems);
        }
        if plan.sources.is_some() && !group && self.groups.len() >= self.limits.groups {
            problem("", "has yet another list of allowed sources, and there are too many");
            return (changes, problems);
        }
        let mut held = Vec::new();
        plan.addresses.retain(|address| match address {
            Address::Name(name) => match self.names.hold(name, now) {
                Ok(_) => {
                    held.push(Arc::clone(name));
                    true
                }
                Err(NoAddress::Exhausted | NoAddress::TooMany) => {
                    problem(name, "gets no address: dnsSvcIpRange has no more");
                    false
                }
            },
            Address::Net(_) | Address::Under(_) | Address::Every => true,
        });
        let plan = Arc::new(plan);
        self.join(&plan, &mut changes);
        self.table.insert(&plan);
        let known = Known { service: service.clone(), plan: Arc::clone(&plan) };
        self.plans.insert(Arc::clone(&plan.id), known);
        let mut names: HashSet<Arc<str>> = held.into_iter().collect();
        for address in &plan.addresses {
            match address {
                Address::Net(net) => {
                    self.cover(&plan, *net, true, &mut changes);
                    let count = self.routes.entry(*net).or_default();
                    *count += 1;
                    if *count == 1 {
                        changes.then(Changes { new_routes: [*net].into(), ..Changes::default() });
                    }
                }
                Address::Name(_) => {}
                Address::Under(domain) => {
                    let under = self.names.names().filter(|name| is_under(name, domain));
                    names.extend(under.map(Arc::clone));
                }
                Address::Every => names.extend(self.names.names().map(Arc::clone)),
            }
        }
        for name in names {
            self.claim(&plan, &name, &mut changes);
        }
        (changes, problems)
    }

    /// Intercepts a service no longer.
    pub(crate) fn remove(&mut self, id: &str, now: Instant) -> Changes {
        let mut changes = Changes::default();
        let Some(Known { plan, .. }) = self.plans.remove(id) else { return changes };
        self.table.remove(&plan);
        let claimed = self.claimed.remove(id).unwrap_or_default();
        for name in &claimed {
            self.unclaim(&plan, name, &mut changes);
        }
        for address in &plan.addresses {
            match address {
                Address::Net(net) => {
                    self.cover(&plan, *net, false, &mut changes);
                    if let Some(count) = self.routes.get_mut(net) {
                        *count -= 1;
                        if *count == 0 {
                            self.routes.remove(net);
                            changes
                                .then(Changes { gone_routes: [*net].into(), ..Changes::default() });
                        }
                    }
                }
                Address::Name(name) => {
                    self.names.release(name);
                }
                Address::Under(_) | Address::Every => {}
            }
        }
        // Names that no service has any more are nobody's.
        for name in claimed.iter().filter(|name| !self.claims.contains_key(*name)) {
            self.names.forget(name, now);
        }
        self.leave(&plan, &mut changes);
        changes
    }

    /// What a DNS server does with a name, which may be written in any way.
    pub(crate) fn naming(&self, name: &str) -> Naming {
        if let Some(address) = self.names.address_of(name) {
            return Naming::Known(address);
        }
        let wild = self.table.is_wild(name) && !self.kept.contains(name);
        if wild && hostname(name).is_ok_and(|normal| normal == name) {
            return Naming::Wild;
        }
        Naming::Unknown
    }

    /// The address of a name that a client asks for; the firewall has to know it before the client
    /// does.
    pub(crate) fn assign(
        &mut self,
        name: &str,
        now: Instant,
    ) -> Result<(IpAddr, Changes), NoAddress> {
        let mut changes = Changes::default();
        if self.elements >= self.limits.elements {
            return Err(NoAddress::TooMany);
        }
        if self.names.is_full() {
            changes = self.sweep(now);
        }
        let name: Arc<str> = name.into();
        let known = self.names.address_of(&name).is_some();
        let address = self.names.assign(&name, now)?;
        if !known {
            let plans: Vec<_> = self.table.claiming(&name).flatten().map(Arc::clone).collect();
            for plan in plans {
                self.claim(&plan, &name, &mut changes);
            }
        }
        Ok((address, changes))
    }

    /// Gives back what nobody used for long.
    pub(crate) fn sweep(&mut self, now: Instant) -> Changes {
        let mut changes = Changes::default();
        for name in self.names.unused_names(now) {
            for id in self.claims.get(&name).cloned().unwrap_or_default() {
                if let Some(plan) = self.plans.get(&id).map(|known| Arc::clone(&known.plan)) {
                    if let Some(claimed) = self.claimed.get_mut(&id) {
                        claimed.remove(&name);
                    }
                    self.unclaim(&plan, &name, &mut changes);
                }
            }
            self.names.forget(&name, now);
        }
        changes
    }

    /// Whose a client is that goes to an address: the service, and the address's name.
    pub(crate) fn find(
        &mut self,
        protocol: Protocol,
        source: IpAddr,
        destination: SocketAddr,
        now: Instant,
    ) -> Option<(Arc<Plan>, Option<Arc<str>>)> {
        let name = self.names.name_of(destination.ip(), now);
        let plan = self.table.find(protocol, source, destination, name.as_deref())?;
        Some((Arc::clone(plan), name))
    }

    /// What a firewall needs that knows nothing.
    pub(crate) fn everything(&self) -> Changes {
        let mut all =
            Changes { new_routes: self.routes.keys().copied().collect(), ..Changes::default() };
        for (&(group, protocol, _), cover) in &self.covers {
            let elements =
                cover.shown().map(|(net, ports)| Element { group, protocol, net, ports });
            all.new.extend(elements);
        }
        let groups = self.groups.iter();
        all.new_groups = groups
            .filter_map(|(sources, members)| Some((members.group, Arc::clone(sources.as_ref()?))))
            .collect();
        all
    }

    /// Services, names with an address, and elements of the firewall.
    pub(crate) fn sizes(&self) -> (usize, usize, usize) {
        (self.plans.len(), self.names.len(), self.elements)
    }

    fn group_of(&self, sources: &Sources) -> Group {
        self.groups.get(sources).map_or(EVERYBODY, |members| members.group)
    }

    fn join(&mut self, plan: &Plan, changes: &mut Changes) {
        let Some(sources) = &plan.sources else { return };
        let next = &mut self.next_group;
        let members = self.groups.entry(plan.sources.clone()).or_insert_with(|| {
            let group = *next;
            *next += 1;
            changes.new_groups.push((group, Arc::clone(sources)));
            Members { group, plans: 0 }
        });
        members.plans += 1;
    }

    fn leave(&mut self, plan: &Plan, changes: &mut Changes) {
        let Some(members) = self.groups.get_mut(&plan.sources) else { return };
        members.plans -= 1;
        if members.plans == 0 {
            let gone_groups = vec![members.group];
            self.groups.remove(&plan.sources);
            changes.then(Changes { gone_groups, ..Changes::default() });
        }
    }

    fn claim(&mut self, plan: &Arc<Plan>, name: &Arc<str>, changes: &mut Changes) {
        let claims = self.claims.entry(Arc::clone(name)).or_default();
        if !claims.insert(Arc::clone(&plan.id)) {
            return;
        }
        self.claimed.entry(Arc::clone(&plan.id)).or_default().insert(Arc::clone(name));
        if let Some(address) = self.names.address_of(name) {
            self.cover(plan, address.into(), true, changes);
        }
    }

    /// The other way; the caller takes the name from the service's.
    fn unclaim(&mut self, plan: &Plan, name: &Arc<str>, changes: &mut Changes) {
        if let Some(claims) = self.claims.get_mut(name) {
            claims.remove(&plan.id);
            if claims.is_empty() {
                self.claims.remove(name);
            }
        }
        if let Some(address) = self.names.address_of(name) {
            self.cover(plan, address.into(), false, changes);
        }
    }

    fn cover(&mut self, plan: &Plan, net: IpNet, claim: bool, changes: &mut Changes) {
        let group = self.group_of(&plan.sources);
        let v6 = matches!(net, IpNet::V6(_));
        // No client of the other family ever goes there.
        let reachable = |sources: &Arc<[IpNet]>| {
            sources.iter().any(|source| matches!(source, IpNet::V6(_)) == v6)
        };
        if !plan.sources.as_ref().is_none_or(reachable) {
            return;
        }
        for &protocol in &plan.protocols {
            let key = (group, protocol, v6);
            let cover = self.covers.entry(key).or_insert_with(|| Cover::new(v6));
            let mut step = Changes::default();
            for change in cover.change(net, &plan.ports, claim) {
                let element = Element { group, protocol, net: change.net, ports: change.ports };
                if change.added {
                    self.elements += 1;
                    step.new.insert(element);
                } else {
                    self.elements -= 1;
                    step.gone.insert(element);
                }
            }
            if cover.is_empty() {
                self.covers.remove(&key);
            }
            changes.then(step);
        }
    }
}

#[cfg(test)]
mod tests;
