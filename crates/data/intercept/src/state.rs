//! Everything that is intercepted, and the changes of the firewall that follow. Pure: calls and
//! `now` in, changes out.

mod changes;
#[cfg(target_os = "linux")]
mod diversions;
mod means;
mod naming;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;

pub(crate) use self::changes::{Changes, EVERYBODY, Element, Group, Revision};
pub(crate) use self::naming::Naming;
use crate::cover::Cover;
use crate::names::{Names, NoAddress};
use crate::options::Limits;
use crate::service::{Address, NotIntercepted, Plan, Protocol, Service, Sources, hostname};
use crate::table::{ClaimTable, is_under};

/// A service as it was given, and as it was read.
#[derive(Debug)]
struct InstalledService {
    service: Service,
    plan: Arc<Plan>,
    /// The order of addition: later services have higher numbers.
    order: u64,
}

#[derive(Debug)]
struct Members {
    group: Group,
    plans: usize,
}

/// Everything that is intercepted.
#[derive(Debug)]
pub(crate) struct State {
    revision: Revision,
    limits: Limits,
    range: IpNet,
    /// Names that no service gets: those of controllers.
    kept: HashSet<String>,
    plans: HashMap<Arc<str>, InstalledService>,
    table: ClaimTable,
    names: Names,
    groups: HashMap<Sources, Members>,
    next_group: Group,
    covers: HashMap<(Group, Protocol, bool), Cover>,
    /// The elements of the firewall: networks with ports, and sources of groups.
    elements: usize,
    /// True if a network with ports is an element for each source of its group.
    per_source: bool,
    /// True if names are in a hosts file only.
    no_wildcards: bool,
    /// True if a program diverts packets in place of the firewall.
    diverted: bool,
    added: u64,
    dropped: Vec<NotIntercepted>,
    routes: HashMap<IpNet, usize>,
    /// The services that claim each name with an address, and the names of each service.
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
            revision: 0,
            names: Names::new(range, limits.names),
            limits,
            range: range.trunc(),
            kept: kept.into_iter().filter_map(|name| hostname(&name).ok()).collect(),
            plans: HashMap::new(),
            table: ClaimTable::default(),
            groups: HashMap::new(),
            next_group: EVERYBODY + 1,
            covers: HashMap::new(),
            elements: 0,
            per_source: false,
            no_wildcards: false,
            diverted: false,
            added: 0,
            dropped: Vec::new(),
            routes: HashMap::new(),
            claims: HashMap::new(),
            claimed: HashMap::new(),
        }
    }

    /// For a firewall without sets: each source of a group is a rule for each of its networks.
    pub(crate) fn per_source(self, per_source: bool) -> Self {
        Self { per_source, ..self }
    }

    /// Begins a change, with a revision of its own.
    pub(crate) fn begin(&mut self) {
        self.revision += 1;
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    /// True if this service is intercepted in this form.
    pub(crate) fn has(&self, service: &Service) -> bool {
        self.plans.get(service.id.as_str()).is_some_and(|installed| installed.service == *service)
    }

    /// True if there is a service with this id.
    pub(crate) fn intercepts(&self, id: &str) -> bool {
        self.plans.contains_key(id)
    }

    pub(crate) fn ids(&self) -> Vec<Arc<str>> {
        self.plans.keys().map(Arc::clone).collect()
    }

    /// Intercepts a service, in place of an earlier one with its id. A service that does not fit
    /// into the firewall's tables is not intercepted at all.
    pub(crate) fn add(
        &mut self,
        service: &Service,
        now: Instant,
    ) -> (Changes, Vec<NotIntercepted>) {
        let (mut plan, mut problems) = Plan::read(service, self.range);
        let mut problem = |entry: &str, why: Cow<'static, str>| {
            let (service, entry) = (service.name.clone(), entry.to_owned());
            problems.push(NotIntercepted { service, entry, why });
        };
        let taken = |address: &Address| matches!(address, Address::Name(name) if self.kept.contains(&**name));
        if plan.addresses.iter().any(taken) {
            problem("", "names a controller of this network, which is not intercepted".into());
            plan.addresses.retain(|address| !taken(address));
        }
        let stranger = self.unspeakable(&service.diverted);
        plan.addresses.retain(|address| {
            let why = stranger.or_else(|| self.impossible(address));
            if let Some(why) = why.filter(|_| stranger.is_none()) {
                problem(&address.to_string(), why.into());
            }
            why.is_none()
        });
        if let Some(why) = stranger {
            problem("", why.into());
        }
        // Names that the service keeps also keep their addresses, because clients know them.
        let staying = self.staying(&plan);
        for name in &staying {
            let _ = self.names.hold(name, now);
        }
        let mut changes = self.remove(&service.id, now);
        if let Some(why) = self.refusal(&plan) {
            problem("", why);
        } else {
            plan.addresses.retain(|address| match address {
                Address::Name(name) => match self.names.hold(name, now) {
                    Ok(_) => true,
                    Err(NoAddress::Exhausted | NoAddress::TooMany) => {
                        problem(name, "gets no address: dnsSvcIpRange has no more".into());
                        false
                    }
                },
                Address::Net(_) | Address::Under(_) | Address::Every => true,
            });
            match self.put_in(service, &Arc::new(plan)) {
                Some(change) => changes.then(change),
                None => problem("", self.too_large().into()),
            }
        }
        for name in &staying {
            self.names.release(name);
            self.forget_unclaimed(name, now);
        }
        (changes, problems)
    }

    /// Names with an address that a service keeps with another plan.
    fn staying(&self, plan: &Plan) -> Vec<Arc<str>> {
        let has = |name: &Arc<str>| {
            plan.addresses.iter().any(|address| match address {
                Address::Name(own) => own == name,
                Address::Under(domain) => is_under(name, domain),
                Address::Every => true,
                Address::Net(_) => false,
            })
        };
        let claimed = self.claimed.get(&plan.id).into_iter().flatten();
        claimed.filter(|name| has(name)).map(Arc::clone).collect()
    }

    /// Why a service is not intercepted, as far as that can be known beforehand.
    fn refusal(&self, plan: &Plan) -> Option<Cow<'static, str>> {
        let Limits { services, groups, .. } = self.limits;
        if self.plans.len() >= services {
            return Some(format!("exceeds the limit of {services} services").into());
        }
        let known = plan.sources.is_none() || self.groups.contains_key(&plan.sources);
        (!known && self.groups.len() >= groups).then(|| {
            format!(
                "has a list of allowed sources that exceeds the limit of {groups} different ones"
            )
            .into()
        })
    }

    fn too_large(&self) -> String {
        let most = self.limits.elements;
        format!(
            "would make the firewall's tables too large: at most {most} networks with ports and \
             allowed sources, of all services"
        )
    }

    /// Adds a service whose names are held; `None` if it does not fit: then nothing of it stays.
    fn put_in(&mut self, service: &Service, plan: &Arc<Plan>) -> Option<Changes> {
        let mut changes = Changes::default();
        self.join(plan, &mut changes);
        self.table.insert(plan);
        self.added += 1;
        let installed = InstalledService {
            service: service.clone(),
            plan: Arc::clone(plan),
            order: self.added,
        };
        self.plans.insert(Arc::clone(&plan.id), installed);
        let (mut names, mut covered) = (HashSet::new(), Vec::new());
        let mut fits = self.elements <= self.limits.elements;
        for address in &plan.addresses {
            match address {
                Address::Net(net) => {
                    fits = fits && self.cover(plan, *net, true, &mut changes);
                    if !fits {
                        break;
                    }
                    covered.push(*net);
                    let count = self.routes.entry(*net).or_default();
                    *count += 1;
                    if *count == 1 {
                        changes.then(Changes { new_routes: [*net].into(), ..Changes::default() });
                    }
                }
                Address::Name(name) => drop(names.insert(Arc::clone(name))),
                Address::Under(domain) => {
                    let under = self.names.names().filter(|name| is_under(name, domain));
                    names.extend(under.map(Arc::clone));
                }
                Address::Every => names.extend(self.names.names().map(Arc::clone)),
            }
        }
        if fits && names.iter().all(|name| self.claim(plan, name, &mut changes)) {
            return Some(changes);
        }
        // No client was told the addresses of names that are removed here.
        changes.then(self.take_out(plan, &covered, None));
        debug_assert!(changes.is_empty(), "{changes:?}");
        None
    }

    /// Stops intercepting a service. If the ports that it covered for others do not fit without it,
    /// the services added last are removed, too ([`Self::take_dropped`]).
    pub(crate) fn remove(&mut self, id: &str, now: Instant) -> Changes {
        let mut changes = Changes::default();
        let mut next = self.plans.get(id).map(|installed| Arc::clone(&installed.plan));
        while let Some(plan) = next.take() {
            let nets = plan.addresses.iter().filter_map(|address| match address {
                Address::Net(net) => Some(*net),
                _ => None,
            });
            changes.then(self.take_out(&plan, &nets.collect::<Vec<_>>(), Some(now)));
            if self.elements > self.limits.elements {
                let last = self.plans.values().max_by_key(|installed| installed.order);
                next = last.map(|installed| Arc::clone(&installed.plan));
            }
            if let Some(plan) = &next {
                let (service, why) = (plan.name.clone(), self.too_large().into());
                self.dropped.push(NotIntercepted { service, entry: String::new(), why });
            }
        }
        changes
    }

    /// Services that were removed because another one was.
    pub(crate) fn take_dropped(&mut self) -> Vec<NotIntercepted> {
        std::mem::take(&mut self.dropped)
    }

    /// Removes a service that covers these networks and claims names.
    fn take_out(&mut self, plan: &Arc<Plan>, covered: &[IpNet], now: Option<Instant>) -> Changes {
        let mut changes = Changes::default();
        self.plans.remove(&plan.id);
        self.table.remove(plan);
        let mut names = self.claimed.remove(&plan.id).unwrap_or_default();
        for name in &names {
            self.unclaim(plan, name, &mut changes);
        }
        for net in covered {
            self.cover(plan, *net, false, &mut changes);
            if let Some(count) = self.routes.get_mut(net) {
                *count -= 1;
                if *count == 0 {
                    self.routes.remove(net);
                    changes.then(Changes { gone_routes: [*net].into(), ..Changes::default() });
                }
            }
        }
        for address in &plan.addresses {
            if let Address::Name(name) = address {
                self.names.release(name);
                names.insert(Arc::clone(name));
            }
        }
        for name in &names {
            self.forget_unclaimed(name, now);
        }
        self.leave(plan, &mut changes);
        changes
    }

    /// The service of a client that connects to an address, and the name of that address.
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

    /// The changes for a firewall without any elements.
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

    /// The numbers of services, of names with an address, and of elements of the firewall.
    pub(crate) fn sizes(&self) -> (usize, usize, usize) {
        (self.plans.len(), self.names.len(), self.elements)
    }

    fn group_of(&self, sources: &Sources) -> Group {
        self.groups.get(sources).map_or(EVERYBODY, |members| members.group)
    }

    fn join(&mut self, plan: &Plan, changes: &mut Changes) {
        let Some(sources) = &plan.sources else { return };
        let next = &mut self.next_group;
        let (elements, per_source) = (&mut self.elements, self.per_source);
        let members = self.groups.entry(plan.sources.clone()).or_insert_with(|| {
            let group = *next;
            *next += 1;
            *elements += if per_source { 0 } else { sources.len() };
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
            let sources = plan.sources.as_ref().filter(|_| !self.per_source);
            self.elements -= sources.map_or(0, |sources| sources.len());
            changes.then(Changes { gone_groups, ..Changes::default() });
        }
    }

    /// Adds or removes one claim to a network; true if there is room.
    fn cover(&mut self, plan: &Plan, net: IpNet, claim: bool, changes: &mut Changes) -> bool {
        let v6 = matches!(net, IpNet::V6(_));
        let of_family = |source: &&IpNet| matches!(source, IpNet::V6(_)) == v6;
        // Clients of the other family never connect to this network.
        let weight = match &plan.sources {
            None => 1,
            Some(sources) => match sources.iter().filter(of_family).count() {
                0 => return true,
                count if self.per_source => count,
                _ => 1,
            },
        };
        for (done, &protocol) in plan.protocols.iter().enumerate() {
            let room = match claim {
                true => self.limits.elements.saturating_sub(self.elements) / weight,
                false => usize::MAX,
            };
            if !self.cover_one(plan, net, protocol, (claim, room, weight), changes) {
                for &protocol in plan.protocols.iter().take(done) {
                    let back = (false, usize::MAX, weight);
                    self.cover_one(plan, net, protocol, back, changes);
                }
                return false;
            }
        }
        true
    }

    fn cover_one(
        &mut self,
        plan: &Plan,
        net: IpNet,
        protocol: Protocol,
        (claim, room, weight): (bool, usize, usize),
        changes: &mut Changes,
    ) -> bool {
        let group = self.group_of(&plan.sources);
        let key = (group, protocol, matches!(net, IpNet::V6(_)));
        let cover = self.covers.entry(key).or_insert_with(|| Cover::new(key.2));
        let outcome = cover.change(net, &plan.ports, claim, room);
        if cover.is_empty() {
            self.covers.remove(&key);
        }
        let Some(outcome) = outcome else { return false };
        let mut step = Changes::default();
        for change in outcome {
            let element = Element { group, protocol, net: change.net, ports: change.ports };
            if change.added {
                self.elements += weight;
                step.new.insert(element);
            } else {
                self.elements -= weight;
                step.gone.insert(element);
            }
        }
        changes.then(step);
        true
    }
}

#[cfg(test)]
mod tests;
