//! The source that an address belongs to.

use std::net::IpAddr;

/// The source of an address: one IPv4 address (IPv4-mapped IPv6 addresses count as IPv4), or an
/// IPv6 /64 network, from which one site can draw addresses freely.
#[must_use]
pub fn source_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
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
}
