//! The destinations and ports in the firewall's sets, without overlaps.
//!
//! Services may claim the same networks, nested networks and overlapping ports. The firewall's sets take no
//! overlaps, so that a network keeps only those ports that no wider network has. A change concerns the network
//! itself and the networks inside it.

use std::collections::BTreeMap;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::ports::{Range, merged, subtracted};

/// First address of a network, and its prefix length. In this order, networks inside follow it.
type Key = (u128, u8);

/// The destinations of one address family and protocol.
#[derive(Debug)]
pub(crate) struct Cover {
    v6: bool,
    nets: BTreeMap<Key, Ports>,
    /// The number of networks of each prefix length.
    lengths: BTreeMap<u8, usize>,
}

#[derive(Debug, Default)]
struct Ports {
    /// Claimed ranges of ports, with the number of claims.
    claimed: BTreeMap<Range, usize>,
    all: Vec<Range>,
    /// The ranges that no wider network has.
    shown: Vec<Range>,
}

/// A network with ports that was added or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) net: IpNet,
    pub(crate) ports: Range,
    pub(crate) added: bool,
}

impl Cover {
    pub(crate) fn new(v6: bool) -> Self {
        Self { v6, nets: BTreeMap::new(), lengths: BTreeMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nets.is_empty()
    }

    fn bits(&self) -> u8 {
        if self.v6 { 128 } else { 32 }
    }

    fn mask(&self, length: u8) -> u128 {
        let all = if self.v6 { u128::MAX } else { u128::from(u32::MAX) };
        let free = u32::from(self.bits() - length);
        if free >= 128 { 0 } else { (all >> free) << free }
    }

    fn net(&self, (start, length): Key) -> Option<IpNet> {
        if self.v6 {
            Ipv6Net::new(start.into(), length).ok().map(IpNet::V6)
        } else {
            Ipv4Net::new((start as u32).into(), length).ok().map(IpNet::V4)
        }
    }

    /// Adds or removes one claim to ports of a network. `None` if that adds more than `room`
    /// networks with ports: then nothing is changed.
    pub(crate) fn change(
        &mut self,
        net: IpNet,
        ranges: &[Range],
        claim: bool,
        room: usize,
    ) -> Option<Vec<Change>> {
        let changes = self.step(net, ranges, claim, room);
        if changes.is_none() {
            self.step(net, ranges, !claim, usize::MAX);
        }
        changes
    }

    /// As [`Self::change`], but leaves a part of the change in place if there is no room.
    fn step(
        &mut self,
        net: IpNet,
        ranges: &[Range],
        claim: bool,
        room: usize,
    ) -> Option<Vec<Change>> {
        let key = match net {
            IpNet::V4(net) => (u128::from(net.network().to_bits()), net.prefix_len()),
            IpNet::V6(net) => (net.network().to_bits(), net.prefix_len()),
        };
        if !self.nets.contains_key(&key) {
            *self.lengths.entry(key.1).or_default() += 1;
        }
        let ports = self.nets.entry(key).or_default();
        for range in ranges {
            let count = ports.claimed.entry(*range).or_default();
            *count = if claim { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                ports.claimed.remove(range);
            }
        }
        let all = merged(ports.claimed.keys().copied());
        let same = all == ports.all;
        ports.all = all;
        let mut changes = Vec::new();
        if !same {
            let end = key.0 | (self.mask(self.bits()) & !self.mask(key.1));
            let inside: Vec<Key> = self.nets.range(key..=(end, 128)).map(|(key, _)| *key).collect();
            let (mut come, mut gone, mut seen) = (0, 0, 0);
            for inner in inside {
                self.show(inner, &mut changes);
                for change in changes.iter().skip(seen) {
                    *if change.added { &mut come } else { &mut gone } += 1;
                }
                seen = changes.len();
                if come > room.saturating_add(gone) {
                    return None;
                }
            }
        }
        if self.nets.get(&key).is_some_and(|ports| ports.claimed.is_empty()) {
            self.nets.remove(&key);
            if let Some(count) = self.lengths.get_mut(&key.1) {
                *count -= 1;
                if *count == 0 {
                    self.lengths.remove(&key.1);
                }
            }
        }
        Some(changes)
    }

    /// Computes again which ports a network keeps.
    fn show(&mut self, key: Key, changes: &mut Vec<Change>) {
        let wider = self.lengths.keys().take_while(|length| **length < key.1);
        let wider =
            wider.filter_map(|length| self.nets.get(&(key.0 & self.mask(*length), *length)));
        let wider = merged(wider.flat_map(|ports| ports.all.iter().copied()));
        let Some(net) = self.net(key) else { return };
        let Some(ports) = self.nets.get_mut(&key) else { return };
        let shown = subtracted(&ports.all, &wider);
        let gone = ports.shown.iter().filter(|range| !shown.contains(range));
        changes.extend(gone.map(|range| Change { net, ports: *range, added: false }));
        let new = shown.iter().filter(|range| !ports.shown.contains(range));
        changes.extend(new.map(|range| Change { net, ports: *range, added: true }));
        ports.shown = shown;
    }

    /// All networks with the ports that they keep.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (IpNet, Range)> {
        self.nets.iter().flat_map(|(key, ports)| {
            let net = self.net(*key);
            ports.shown.iter().filter_map(move |range| Some((net?, *range)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    struct Claim {
        net: IpNet,
        ports: Vec<Range>,
    }

    fn claim(v6: bool) -> impl Strategy<Value = Claim> {
        // Few addresses and ports, so that claims meet.
        let net = (0_u8..8, 0_u8..=3).prop_map(move |(host, free)| {
            let net = if v6 {
                IpNet::new(std::net::Ipv6Addr::from(u128::from(host)).into(), 128 - free)
            } else {
                IpNet::new([10, 0, 0, host].into(), if free == 3 { 0 } else { 32 - free })
            };
            net.unwrap().trunc()
        });
        let ports = proptest::collection::vec((1_u16..12, 0_u16..4), 1..3);
        (net, ports).prop_map(|(net, ports)| Claim {
            net,
            ports: merged(ports.into_iter().map(|(low, more)| (low, low + more))),
        })
    }

    fn has(shown: &HashSet<(IpNet, Range)>, host: IpNet, port: u16) -> usize {
        let having = |(net, ports): &&(IpNet, Range)| {
            net.contains(&host) && (ports.0..=ports.1).contains(&port)
        };
        shown.iter().filter(having).count()
    }

    fn holds(v6: bool, claims: &[Claim], keep: usize) {
        let mut cover = Cover::new(v6);
        let mut shown: HashSet<(IpNet, Range)> = HashSet::new();
        let mut apply = |changes: Vec<Change>| {
            for change in changes.iter().filter(|change| !change.added) {
                assert!(shown.remove(&(change.net, change.ports)), "{change:?} was not there");
            }
            for change in changes.iter().filter(|change| change.added) {
                assert!(shown.insert((change.net, change.ports)), "{change:?} was there");
            }
            shown.clone()
        };
        for claim in claims {
            // A claim for which there is no room leaves nothing behind.
            if let Some(changes) = cover.change(claim.net, &claim.ports, true, 0) {
                apply(changes.clone());
                let back = cover.change(claim.net, &claim.ports, false, usize::MAX).unwrap();
                apply(back);
            }
            apply(cover.change(claim.net, &claim.ports, true, usize::MAX).unwrap());
        }
        let (gone, kept) = claims.split_at(claims.len().min(keep));
        for claim in gone {
            apply(cover.change(claim.net, &claim.ports, false, usize::MAX).unwrap());
        }
        let shown = apply(Vec::new());
        assert_eq!(shown, cover.shown().collect());
        for host in 0..10 {
            let address: std::net::IpAddr = if v6 {
                std::net::Ipv6Addr::from(host as u128).into()
            } else {
                [10, 0, 0, host].into()
            };
            let host = IpNet::from(address);
            for port in 1..16 {
                let claimed = kept.iter().any(|claim| {
                    claim.net.contains(&host)
                        && claim.ports.iter().any(|(low, high)| (*low..=*high).contains(&port))
                });
                assert_eq!(has(&shown, host, port), usize::from(claimed), "{host} {port}");
            }
        }
        for claim in kept {
            cover.change(claim.net, &claim.ports, false, usize::MAX).unwrap();
        }
        assert!(cover.is_empty() && cover.lengths.is_empty());
    }

    proptest! {
        #[test]
        fn what_is_shown_is_what_is_claimed_without_overlaps(
            claims in proptest::collection::vec(claim(false), 0..12), keep in 0_usize..12,
        ) {
            holds(false, &claims, keep);
        }

        #[test]
        fn the_same_of_ipv6(
            claims in proptest::collection::vec(claim(true), 0..12), keep in 0_usize..12,
        ) {
            holds(true, &claims, keep);
        }
    }
}
