//! Networks, and the one form in which addresses are compared.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network in CIDR form; IPv4 inside IPv6 becomes IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Reads `10.0.0.0/8`, `10.1.2.3` or the same in IPv6; `None` for other texts.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once('/') {
            Some((address, bits)) => {
                let address: IpAddr = address.parse().ok()?;
                let bits: u8 = bits.parse().ok()?;
                (bits <= width(address)).then(|| Self::new(address, bits))
            }
            None => text.parse().ok().map(Self::of),
        }
    }

    /// The network with this prefix length that has the address.
    #[must_use]
    pub fn new(address: IpAddr, bits: u8) -> Self {
        match (address, address.to_canonical()) {
            (IpAddr::V6(_), short @ IpAddr::V4(_)) if bits >= 96 => {
                Self { address: short, bits: (bits - 96).min(32) }
            }
            _ => Self { address, bits: bits.min(width(address)) },
        }
    }

    /// The network of one address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self { address, bits: width(address) }
    }

    /// The address with which it was written.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The prefix length.
    #[must_use]
    pub fn prefix(&self) -> u8 {
        self.bits
    }

    /// True for a network of one address.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.bits == width(self.address)
    }

    /// True if an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                (u32::from(network) ^ u32::from(address)) & mask(32, self.bits) as u32 == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                (u128::from(network) ^ u128::from(address)) & mask(128, self.bits) == 0
            }
            _ => false,
        }
    }

    /// The address with its network part replaced by this network's.
    pub(crate) fn graft(&self, address: IpAddr) -> IpAddr {
        match (address, self.address) {
            (IpAddr::V4(address), IpAddr::V4(to)) => {
                let mask = mask(32, self.bits) as u32;
                IpAddr::V4(((u32::from(to) & mask) | (u32::from(address) & !mask)).into())
            }
            (IpAddr::V6(address), IpAddr::V6(to)) => {
                let mask = mask(128, self.bits);
                IpAddr::V6(((u128::from(to) & mask) | (u128::from(address) & !mask)).into())
            }
            _ => address,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// The one form of an address: IPv4 inside IPv6 becomes IPv4, and the unspecified address, which
/// the system dials as this machine, becomes the loopback address.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// The highest `bits` of `width` bits.
fn mask(width: u32, bits: u8) -> u128 {
    let bits = u32::from(bits).min(width);
    let all = if width == 128 { u128::MAX } else { (1 << width) - 1 };
    all & !all.checked_shr(bits).unwrap_or(0)
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn networks_are_read_in_one_form() {
        let shown = |text| Network::parse(text).map(|network| network.to_string());
        assert_eq!(shown("10.1.2.3").as_deref(), Some("10.1.2.3/32"));
        assert_eq!(shown("fd00::/8").as_deref(), Some("fd00::/8"));
        assert_eq!(shown("::ffff:10.0.0.0/104").as_deref(), Some("10.0.0.0/8"));
        for nothing in ["1.2.3.4/56", "", "a", "10.0.0.0/-1", "10.0.0.0/", "/8", "::1/129"] {
            assert_eq!(shown(nothing), None, "{nothing}");
        }
    }

    proptest! {
        #[test]
        fn any_network_has_its_own_address(bits in any::<u8>(), address in any::<u128>()) {
            for address in [IpAddr::V6(address.into()), IpAddr::V4((address as u32).into())] {
                let network = Network::new(address, bits);
                prop_assert!(network.contains(network.address()));
                prop_assert_eq!(Network::parse(&network.to_string()), Some(network));
            }
        }
    }
}
