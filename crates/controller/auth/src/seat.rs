//! The seat of a source in a rotation of sources.

use std::hash::BuildHasher;

use weft_limits::Network;

/// The seat of a source among sources that have turns one after the other. An IPv4 address has one of its own. Whoever
/// has a network of IPv6 can send from any number of sources: all sources of a /48 have three seats together, and those
/// of a /56 two of these ([`Network::shares`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seat {
    network: Network,
    number: u64,
}

impl Seat {
    /// The seat of a source. The secret says which sources of a network have a seat together.
    pub(crate) fn of(source: Network, secret: &impl BuildHasher) -> Self {
        let mut seat = Self { network: source, number: 0 };
        while let Some(network) = seat.network.wider() {
            let seats = network.shares() as u64;
            let first = secret.hash_one(seat.network) % seats;
            seat = Self { network, number: (first + seat.number) % seats };
        }
        seat
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::RandomState;
    use std::net::{IpAddr, Ipv6Addr};

    use super::*;

    #[test]
    fn a_network_of_ipv6_has_as_many_seats_as_shares() {
        let secret = RandomState::new();
        let seat = |address: IpAddr| Seat::of(Network::of(address), &secret);
        let v6 = |third: u16, fourth: u16, host: u16| {
            seat(Ipv6Addr::new(0x2001, 0xdb8, third, fourth, 0, 0, 0, host).into())
        };
        let seats = |sources: &mut dyn Iterator<Item = u16>, third: u16| {
            sources.map(|fourth| v6(third, fourth, 1)).collect::<BTreeSet<_>>()
        };
        let whole = seats(&mut (0..=u16::MAX), 1);
        let part = seats(&mut (0x1200..=0x12ff), 1);
        assert_eq!((whole.len(), part.len()), (3, 2));
        assert!(part.is_subset(&whole) && whole.is_disjoint(&seats(&mut (0..999), 2)));
        assert_eq!(v6(1, 2, 3), v6(1, 2, 4), "one source");
        let [one, mapped, other] = ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"]
            .map(|address| seat(address.parse().unwrap()));
        assert!(one == mapped && one != other);
    }
}
