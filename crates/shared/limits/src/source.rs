//! The source that an address belongs to, and the networks around it.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::quota::Quota;

/// The source of an address: one IPv4 address (IPv4-mapped IPv6 addresses count as IPv4), or an
/// IPv6 /64 network, from which one site can draw addresses freely.
#[must_use]
pub fn source_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(masked(address, 64)),
    }
}

fn masked(address: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let rest = u128::MAX.checked_shr(u32::from(bits)).unwrap_or_default();
    (u128::from(address) & !rest).into()
}

/// How long a holder of a place keeps it although another one of its own source wants one. Honest clients may share an
/// address with a peer that takes many places, so this time is shorter than the one for other sources.
pub const SAFE: Duration = Duration::from_millis(250);

/// A network that somebody may own as a whole: an IPv4 address, or a /64, /56 or /48 of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    bits: u8,
    address: IpAddr,
}

/// Bits of the IPv6 networks that are given to one customer, largest network first.
const GIVEN: [u8; 3] = [48, 56, 64];
/// A source has used little of its share while it has not used more than the share divided by this number.
const LITTLE: usize = 16;
/// The share divided by this number is kept, in a network of many sources, for those that have used little.
const KEPT: usize = 2;

impl Network {
    /// How many times the share of a source the network may have: a /56 has 256 sources and a /48 has 65,536, which
    /// often are one customer's. So that they cannot take everything, they have twice and three times a source's share.
    #[must_use]
    pub fn shares(self) -> usize {
        match self.bits {
            48 => 3,
            56 => 2,
            _ => 1,
        }
    }

    /// The network of an address from which one site can draw addresses freely: its [source](source_of).
    #[must_use]
    pub fn of(peer: IpAddr) -> Self {
        let address = source_of(peer);
        Self { bits: if address.is_ipv4() { 32 } else { 64 }, address }
    }

    /// The next larger network that somebody may own as a whole.
    #[must_use]
    pub fn wider(&self) -> Option<Self> {
        let IpAddr::V6(address) = self.address else { return None };
        let bits = *GIVEN.iter().rev().find(|bits| **bits < self.bits)?;
        Some(Self { bits, address: masked(address, bits).into() })
    }

    /// What the network may have used before one of its sources may use more, where a source has this `share` and this one
    /// has used `own` of it. The last half of a share is kept for sources that have used little, so that a few sources that
    /// take all they can do not shut out the others of their network.
    #[must_use]
    pub fn room(self, share: usize, own: usize) -> usize {
        let all = share.saturating_mul(self.shares());
        match self.shares() > 1 && own > share / LITTLE {
            true => all - share / KEPT,
            false => all,
        }
    }
}

/// The networks that an address lies in, largest first; the last one is its [source](source_of).
pub fn networks_of(peer: IpAddr) -> impl DoubleEndedIterator<Item = Network> + Clone {
    let (address, given) = match peer.to_canonical() {
        IpAddr::V4(address) => (IpAddr::V4(address), &[32][..]),
        IpAddr::V6(address) => (IpAddr::V6(address), &GIVEN[..]),
    };
    given.iter().map(move |bits| Network {
        bits: *bits,
        address: match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(address) => IpAddr::V6(masked(address, *bits)),
        },
    })
}

impl<H> Quota<Network, H> {
    /// A quota of so many places, of which each source has at most `each`, and the networks around a source as many
    /// [times](Network::shares) that as they may.
    #[must_use]
    pub fn of_networks(total: usize, each: usize) -> Self {
        let room = |network: &Network, each: usize, _| each.saturating_mul(network.shares());
        Self::nested(total, each, Network::wider, room)
    }

    /// The same; of each network, the last half of a share is kept for those of its sources that have
    /// [used little](Network::room).
    #[must_use]
    pub fn keeping_room(total: usize, each: usize) -> Self {
        Self::nested(total, each, Network::wider, |network, each, own| network.room(each, own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_one_source() {
        let [a, b, c] = ["2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1"]
            .map(|text| source_of(text.parse().unwrap()));
        assert_eq!(a, b);
        assert_ne!(a, c);
        let mapped = source_of("::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(mapped, "192.0.2.1".parse::<IpAddr>().unwrap());
        assert_ne!(mapped, source_of("192.0.2.2".parse().unwrap()));
    }

    #[test]
    fn sources_lie_in_networks_that_one_customer_may_have() {
        let of = |text: &str| networks_of(text.parse().unwrap()).collect::<Vec<_>>();
        let [own, same_56, same_48, other] =
            ["2001:db8::1", "2001:db8:0:ff::1", "2001:db8:0:100::1", "2001:db8:1::1"].map(of);
        let common = |other: &[Network]| own.iter().filter(|it| other.contains(it)).count();
        assert_eq!((common(&same_56), common(&same_48), common(&other)), (2, 1, 0));
        assert_eq!(own.iter().map(|it| it.shares()).collect::<Vec<_>>(), [3, 2, 1]);
        let around = |text: &str| {
            let smallest = Some(Network::of(text.parse().unwrap()));
            std::iter::successors(smallest, Network::wider).collect::<Vec<_>>()
        };
        for text in ["2001:db8::1", "2001:db8:0:ff::1", "192.0.2.1", "::ffff:192.0.2.1"] {
            assert_eq!(around(text), of(text).into_iter().rev().collect::<Vec<_>>());
        }
        // A source with much of its share leaves half a share of the networks around it.
        let rooms = |own_use: usize| own.iter().map(|it| it.room(100, own_use)).collect::<Vec<_>>();
        assert_eq!((rooms(6), rooms(7)), (vec![300, 200, 100], vec![250, 150, 100]));
        let mapped = of("::ffff:192.0.2.1");
        assert_eq!((mapped.len(), &mapped), (1, &of("192.0.2.1")));
    }
}
