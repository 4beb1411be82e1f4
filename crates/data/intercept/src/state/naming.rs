//! The names of services: the services that claim each name, and the addresses by which clients reach them.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::{Changes, Revision, State};
use crate::names::NoAddress;
use crate::service::{NotIntercepted, Plan, Service, hostname};

/// The answer of the DNS server for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// The address of the name, and the revision of the state with which the firewall has all packets to it
    /// intercepted.
    Known(IpAddr, Revision),
    /// The name is assigned an address when a client asks for it.
    Wild,
    Unknown,
}

impl State {
    /// Sets the names that no service gets, in place of the earlier ones. Services with one of these
    /// names are read again.
    pub(crate) fn keep(
        &mut self,
        names: impl IntoIterator<Item = String>,
        now: Instant,
    ) -> (Changes, Vec<NotIntercepted>) {
        let kept: HashSet<String> =
            names.into_iter().filter_map(|name| hostname(&name).ok()).collect();
        let before = std::mem::replace(&mut self.kept, kept);
        let differs = |name: &str| self.kept.contains(name) != before.contains(name);
        let names_one = |service: &Service| {
            service.addresses.iter().any(|text| hostname(text).is_ok_and(|name| differs(&name)))
        };
        let named = self.plans.values().filter(|known| names_one(&known.service));
        let named: Vec<Service> = named.map(|known| known.service.clone()).collect();
        let (mut changes, mut problems) = (Changes::default(), Vec::new());
        for service in named {
            let (change, told) = self.add(&service, now);
            changes.then(change);
            problems.extend(told);
        }
        // Names below wildcards that have an address.
        let kept = self.kept.iter().filter(|name| self.names.address_of(name).is_some());
        for name in kept.map(|name| Arc::from(name.as_str())).collect::<Vec<Arc<str>>>() {
            self.give_back(&name, now, &mut changes);
        }
        (changes, problems)
    }

    /// The answer of the DNS server for a name. A client that is told an address uses the name.
    pub(crate) fn naming(&mut self, name: &str, now: Instant) -> Naming {
        if let Some((address, revision)) = self.names.claimed(name) {
            self.names.touch([address], now);
            return Naming::Known(address, revision);
        }
        let wild = self.table.is_wild(name) && !self.kept.contains(name);
        if wild && hostname(name).is_ok_and(|normal| normal == name) {
            return Naming::Wild;
        }
        Naming::Unknown
    }

    /// The service whose host a client may ask for records of a name.
    pub(crate) fn host_of(&self, name: &str, client: IpAddr) -> Option<Arc<str>> {
        let asked = !self.kept.contains(name) && hostname(name).is_ok_and(|normal| normal == name);
        let plan = asked.then(|| self.table.wildcard_of(name, client)).flatten()?;
        Some(Arc::clone(&plan.id))
    }

    /// The address of a name that a client asks for; the firewall has to have it before the client
    /// is answered. `in_use` has the addresses that conversations use: the names of these stay, also if there is no
    /// room for further ones.
    pub(crate) fn assign(
        &mut self,
        name: &str,
        now: Instant,
        in_use: impl FnOnce() -> HashSet<IpAddr>,
    ) -> (Result<IpAddr, NoAddress>, Changes) {
        let mut changes = Changes::default();
        if self.names.is_full() {
            changes = self.sweep(now, in_use);
        }
        let name: Arc<str> = name.into();
        let known = self.names.address_of(&name).is_some();
        let assigned = self.names.assign(&name, now);
        if assigned.is_ok() && !known {
            let plans: Vec<_> = self.table.claiming(&name).flatten().map(Arc::clone).collect();
            if !plans.iter().all(|plan| self.claim(plan, &name, &mut changes)) {
                self.give_back(&name, now, &mut changes);
                return (Err(NoAddress::TooMany), changes);
            }
        }
        (assigned, changes)
    }

    /// Notes that clients use the names of these addresses now.
    pub(crate) fn touch(&mut self, addresses: impl IntoIterator<Item = IpAddr>, now: Instant) {
        self.names.touch(addresses, now);
    }

    /// Gives back names that were not used for long. Conversations use the addresses of `in_use`, which
    /// is called only if there is such a name.
    pub(crate) fn sweep(
        &mut self,
        now: Instant,
        in_use: impl FnOnce() -> HashSet<IpAddr>,
    ) -> Changes {
        let mut changes = Changes::default();
        if self.names.unused_names(now).is_empty() {
            return changes;
        }
        self.names.touch(in_use(), now);
        for name in self.names.unused_names(now) {
            self.give_back(&name, now, &mut changes);
        }
        changes
    }

    /// Removes a name from all services with a wildcard for it, and gives its address back.
    fn give_back(&mut self, name: &Arc<str>, now: Instant, changes: &mut Changes) {
        for id in self.claims.get(name).cloned().unwrap_or_default() {
            if let Some(plan) = self.plans.get(&id).map(|known| Arc::clone(&known.plan)) {
                if let Some(claimed) = self.claimed.get_mut(&id) {
                    claimed.remove(name);
                }
                self.unclaim(&plan, name, changes);
            }
        }
        self.names.forget(name, now);
    }

    /// Claims a name for a service; true if there is room.
    pub(super) fn claim(
        &mut self,
        plan: &Arc<Plan>,
        name: &Arc<str>,
        changes: &mut Changes,
    ) -> bool {
        if self.claims.get(name).is_some_and(|claims| claims.contains(&plan.id)) {
            return true;
        }
        if let Some(address) = self.names.address_of(name)
            && !self.cover(plan, address.into(), true, changes)
        {
            return false;
        }
        self.names.claim(name, self.revision);
        self.claims.entry(Arc::clone(name)).or_default().insert(Arc::clone(&plan.id));
        self.claimed.entry(Arc::clone(&plan.id)).or_default().insert(Arc::clone(name));
        true
    }

    /// Ends the claim; the caller removes the name from the service's.
    pub(super) fn unclaim(&mut self, plan: &Plan, name: &Arc<str>, changes: &mut Changes) {
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

    /// Gives the address of a name back that no service claims any more.
    pub(super) fn forget_unclaimed(&mut self, name: &str, now: impl Into<Option<Instant>>) {
        if !self.claims.contains_key(name) && !self.names.is_held(name) {
            self.names.forget(name, now);
        }
    }
}
