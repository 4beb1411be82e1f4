//! Addresses for names: each intercepted host name has an address of a range, for as long as a
//! service or a client needs it.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;

use crate::state::Revision;

/// The time to live in answers to clients.
pub(crate) const TTL: Duration = Duration::from_secs(60);
/// How long an address that was given back is not assigned while there are others: clients may
/// still use it for its former name.
const QUARANTINE: Duration = Duration::from_secs(3 * TTL.as_secs());
/// The time without use after which a name below a wildcard is given back.
const UNUSED: Duration = Duration::from_secs(3600);
/// The time without use after which such a name is given back while all places for names are taken.
const UNUSED_WHEN_FULL: Duration = Duration::from_secs(10 * TTL.as_secs());

/// Why a name was not assigned an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoAddress {
    #[error("every address of dnsSvcIpRange is in use")]
    Exhausted,
    #[error("too many names are in use")]
    TooMany,
}

#[derive(Debug)]
struct Named {
    address: IpAddr,
    /// The number of services that have the name in their lists.
    held: usize,
    used: Instant,
    /// The revision of the state in which a service claimed the name last.
    claimed: Revision,
}

/// Names and their addresses.
#[derive(Debug)]
pub(crate) struct Names {
    range: IpNet,
    next: Option<IpAddr>,
    /// Addresses that were given back, the oldest first.
    free: VecDeque<(IpAddr, Option<Instant>)>,
    by_name: HashMap<Arc<str>, Named>,
    by_address: HashMap<IpAddr, Arc<str>>,
    most: usize,
}

impl Names {
    /// Names for a range; the address of the range itself stays this machine's.
    pub(crate) fn new(range: IpNet, most: usize) -> Self {
        let mut names = Self {
            range,
            next: Some(range.addr()),
            free: VecDeque::new(),
            by_name: HashMap::new(),
            by_address: HashMap::new(),
            most,
        };
        names.step();
        names
    }

    fn step(&mut self) {
        let next: Option<IpAddr> = match self.next {
            Some(IpAddr::V4(at)) => {
                at.to_bits().checked_add(1).map(|bits| Ipv4Addr::from(bits).into())
            }
            Some(IpAddr::V6(at)) => {
                at.to_bits().checked_add(1).map(|bits| Ipv6Addr::from(bits).into())
            }
            None => None,
        };
        let last = self.range.broadcast();
        self.next =
            next.filter(|next| self.range.contains(next) && (last.is_ipv6() || *next != last));
    }

    /// The address of a name in a service's list. Each call needs its [`Self::release`].
    pub(crate) fn hold(&mut self, name: &Arc<str>, now: Instant) -> Result<IpAddr, NoAddress> {
        let address = self.address_for(name, now, usize::MAX)?;
        if let Some(named) = self.by_name.get_mut(name) {
            named.held += 1;
        }
        Ok(address)
    }

    /// The address of a name that a client asks for.
    pub(crate) fn assign(&mut self, name: &Arc<str>, now: Instant) -> Result<IpAddr, NoAddress> {
        self.address_for(name, now, self.most)
    }

    fn address_for(
        &mut self,
        name: &Arc<str>,
        now: Instant,
        most: usize,
    ) -> Result<IpAddr, NoAddress> {
        if let Some(named) = self.by_name.get_mut(name) {
            named.used = now;
            return Ok(named.address);
        }
        if self.by_name.len() >= most {
            return Err(NoAddress::TooMany);
        }
        let address = self.unused(now).ok_or(NoAddress::Exhausted)?;
        self.by_name.insert(Arc::clone(name), Named { address, held: 0, used: now, claimed: 0 });
        self.by_address.insert(address, Arc::clone(name));
        Ok(address)
    }

    fn unused(&mut self, now: Instant) -> Option<IpAddr> {
        let rested = |(_, since): &(IpAddr, Option<Instant>)| {
            since.is_none_or(|since| now.duration_since(since) >= QUARANTINE)
        };
        if self.next.is_none() || self.free.front().is_some_and(rested) {
            return self.free.pop_front().map(|(address, _)| address);
        }
        let address = self.next;
        self.step();
        address
    }

    /// A service no longer has the name. The name keeps its address until it is forgotten.
    pub(crate) fn release(&mut self, name: &str) {
        if let Some(named) = self.by_name.get_mut(name) {
            named.held = named.held.saturating_sub(1);
        }
    }

    /// True if a service has the name in its list.
    pub(crate) fn is_held(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|named| named.held > 0)
    }

    /// Gives a name's address back; `since` is `None` if no client was told the address.
    pub(crate) fn forget(&mut self, name: &str, since: impl Into<Option<Instant>>) {
        if let Some(named) = self.by_name.remove(name) {
            self.by_address.remove(&named.address);
            match since.into() {
                Some(since) => self.free.push_back((named.address, Some(since))),
                None => self.free.push_front((named.address, None)),
            }
        }
    }

    /// Names below wildcards without use for a while; the while is shorter when there is little
    /// room.
    pub(crate) fn unused_names(&self, now: Instant) -> Vec<Arc<str>> {
        let limit = if self.by_name.len() >= self.most { UNUSED_WHEN_FULL } else { UNUSED };
        let unused = |named: &Named| named.held == 0 && now.duration_since(named.used) >= limit;
        self.by_name
            .iter()
            .filter(|(_, named)| unused(named))
            .map(|(name, _)| Arc::clone(name))
            .collect()
    }

    /// Notes that clients use the names of these addresses now.
    pub(crate) fn touch(&mut self, addresses: impl IntoIterator<Item = IpAddr>, now: Instant) {
        for address in addresses {
            let name = self.by_address.get(&address);
            if let Some(named) = name.and_then(|name| self.by_name.get_mut(name)) {
                named.used = named.used.max(now);
            }
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.by_name.len() >= self.most
    }

    /// Notes that a service claims the name as of this revision of the state.
    pub(crate) fn claim(&mut self, name: &str, revision: Revision) {
        if let Some(named) = self.by_name.get_mut(name) {
            named.claimed = revision;
        }
    }

    /// The address of a name, and the revision of the state that the firewall needs for it.
    pub(crate) fn claimed(&self, name: &str) -> Option<(IpAddr, Revision)> {
        self.by_name.get(name).map(|named| (named.address, named.claimed))
    }

    pub(crate) fn address_of(&self, name: &str) -> Option<IpAddr> {
        self.by_name.get(name).map(|named| named.address)
    }

    /// The name of an address that a client connects to now.
    pub(crate) fn name_of(&mut self, address: IpAddr, now: Instant) -> Option<Arc<str>> {
        self.touch([address], now);
        self.by_address.get(&address).map(Arc::clone)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_name.keys()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(range: &str, most: usize) -> Names {
        Names::new(range.parse().unwrap(), most)
    }

    #[test]
    fn names_get_one_address_each_and_share_it() {
        let (mut names, now) = (names("100.64.0.1/10", 10), Instant::now());
        let [a, b] = ["a", "b"].map(Arc::<str>::from);
        assert_eq!(names.hold(&a, now).unwrap(), IpAddr::from([100, 64, 0, 2]));
        assert_eq!(names.assign(&b, now).unwrap(), IpAddr::from([100, 64, 0, 3]));
        assert_eq!(names.hold(&a, now).unwrap(), IpAddr::from([100, 64, 0, 2]));
        let later = now + UNUSED;
        names.release("a");
        assert_eq!(names.unused_names(later), std::slice::from_ref(&b));
        names.release("a");
        assert_eq!(names.unused_names(later).len(), 2);
        assert_eq!(names.name_of([100, 64, 0, 3].into(), now).as_deref(), Some("b"));
    }

    #[test]
    fn addresses_are_used_again_in_order_and_not_at_once() {
        let (mut names, start) = (names("10.0.0.1/29", 10), Instant::now());
        let own: Vec<Arc<str>> = ["a", "b", "c", "d", "e", "f"].map(Arc::from).into();
        let first = names.assign(&own[0], start).unwrap();
        names.forget("a", start);
        let second = names.assign(&own[1], start).unwrap();
        assert_ne!(second, first, "clients may still take it for the other name");
        names.forget("b", start);
        let later = start + QUARANTINE;
        assert_eq!(names.assign(&own[2], later).unwrap(), first);
        assert_eq!(names.assign(&own[3], later).unwrap(), second);
        // Of 8 addresses, the network's, our own and the broadcast address are given to no name.
        let more: Vec<_> = (0..4).map(|i| names.assign(&format!("m{i}").into(), later)).collect();
        assert_eq!(more.iter().filter(|got| got.is_ok()).count(), 3);
        assert_eq!(more[3], Err(NoAddress::Exhausted));
        names.forget("m0", later);
        assert!(names.assign(&own[4], later).is_ok(), "none is left: quarantine ends");
    }

    #[test]
    fn names_that_clients_make_up_are_bounded_and_go() {
        let (mut names, start) = (names("100.64.0.1/10", 2), Instant::now());
        let [a, b, c] = ["a", "b", "c"].map(Arc::<str>::from);
        names.assign(&a, start).unwrap();
        names.hold(&b, start).unwrap();
        assert_eq!(names.assign(&c, start), Err(NoAddress::TooMany));
        assert!(names.hold(&c, start).is_ok(), "a service's own names are not theirs to take");
        assert_eq!(names.unused_names(start + UNUSED_WHEN_FULL), [a]);
    }

    #[test]
    fn ranges_of_ipv6_work_alike() {
        let (mut names, now) = (names("fd00:1::1/127", 10), Instant::now());
        assert_eq!(names.assign(&"a".into(), now), Err(NoAddress::Exhausted));
        let mut wide = Names::new("fd00:1::1/64".parse().unwrap(), 10);
        assert_eq!(wide.assign(&"a".into(), now).unwrap(), "fd00:1::2".parse::<IpAddr>().unwrap());
    }
}
