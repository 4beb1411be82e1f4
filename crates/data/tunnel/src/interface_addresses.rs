//! The addresses of this machine's interfaces, for ports that are bound to an interface. They change while the
//! ports are open: with every network that a machine joins.

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::config::ListenAt;

/// Interfaces by name, each with one of its addresses.
pub(crate) type Addresses = Vec<(String, IpAddr)>;

/// The addresses of all interfaces at one moment.
#[derive(Debug)]
pub(crate) struct InterfaceAddresses(io::Result<Addresses>);

impl InterfaceAddresses {
    /// The present addresses of this machine.
    pub(crate) fn of_system() -> io::Result<Addresses> {
        let all = if_addrs::get_if_addrs()?;
        Ok(all.into_iter().map(|one| (one.ip(), one.name)).map(|(ip, name)| (name, ip)).collect())
    }

    /// Asks for the addresses if one of the ports is bound to an interface.
    pub(crate) fn read<'a>(
        ports: impl IntoIterator<Item = &'a ListenAt>,
        ask: impl FnOnce() -> io::Result<Addresses>,
    ) -> Self {
        let mut ports = ports.into_iter();
        let is_needed = ports.any(|at| matches!(at, ListenAt::Interface(_)));
        Self(if is_needed { ask() } else { Ok(Vec::new()) })
    }

    /// The address to open a port at.
    pub(crate) fn address(&self, at: &ListenAt) -> io::Result<IpAddr> {
        let name = match at {
            ListenAt::Address(address) => return Ok(*address),
            ListenAt::Interface(name) => name,
        };
        let all = self
            .0
            .as_ref()
            .map_err(|problem| io::Error::new(problem.kind(), problem.to_string()))?;
        of_interface(all, name).next().ok_or_else(|| {
            let usable = all.iter().filter(|(_, address)| is_usable(address));
            let mut known: Vec<&str> = usable.map(|(name, _)| name.as_str()).collect();
            known.sort_unstable();
            known.dedup();
            let message = format!(
                "`{name}` is neither an address nor an interface that has one beside fe80::/10; there are {}",
                known.join(", ")
            );
            io::Error::new(io::ErrorKind::AddrNotAvailable, message)
        })
    }

    /// True if a port that is open at this address is where it should be. A port stays while the addresses
    /// are not known.
    pub(crate) fn still(&self, at: &ListenAt, open: SocketAddr) -> bool {
        match (at, &self.0) {
            (ListenAt::Interface(name), Ok(all)) => {
                of_interface(all, name).any(|one| one == open.ip())
            }
            (ListenAt::Interface(_), Err(_)) | (ListenAt::Address(_), _) => true,
        }
    }
}

/// The addresses of an interface at which a port may be: those of IPv4, or without any those of IPv6.
fn of_interface<'a>(all: &'a Addresses, name: &'a str) -> impl Iterator<Item = IpAddr> + 'a {
    let of_it = move || all.iter().filter(move |one| one.0 == name).map(|one| one.1);
    let has_v4 = of_it().any(|address| address.is_ipv4());
    of_it().filter(move |address| is_usable(address) && address.is_ipv4() == has_v4)
}

/// False for link-local addresses of IPv6: a socket needs more than the address there.
fn is_usable(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(address) => !address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(all: &[(&str, &str)]) -> InterfaceAddresses {
        let all = all.iter().map(|(name, address)| ((*name).into(), address.parse().unwrap()));
        InterfaceAddresses(Ok(all.collect()))
    }

    #[test]
    fn a_port_is_at_the_first_address_of_its_interface_while_that_has_it() {
        let wlan = ListenAt::Interface("wlan0".into());
        let both = read(&[
            ("lo", "127.0.0.1"),
            ("wlan0", "fe80::1"),
            ("wlan0", "2001:db8::1"),
            ("wlan0", "10.0.0.1"),
            ("wlan0", "10.0.0.2"),
        ]);
        let at = |address: &str| SocketAddr::new(address.parse().unwrap(), 80);
        assert_eq!(both.address(&wlan).unwrap(), IpAddr::from([10, 0, 0, 1]));
        assert!(both.still(&wlan, at("10.0.0.2")) && !both.still(&wlan, at("2001:db8::1")));
        let v6 = read(&[("wlan0", "fe80::1"), ("wlan0", "2001:db8::1"), ("eth0", "10.0.0.1")]);
        assert_eq!(v6.address(&wlan).unwrap(), at("2001:db8::1").ip());
        assert!(v6.still(&wlan, at("2001:db8::1")) && !v6.still(&wlan, at("10.0.0.1")));
        let none = read(&[("wlan0", "fe80::1"), ("lo", "127.0.0.1"), ("lo", "::1")]);
        let problem = none.address(&wlan).unwrap_err().to_string();
        assert!(problem.contains("`wlan0`") && problem.ends_with("there are lo"), "{problem}");
        assert!(!none.still(&wlan, at("10.0.0.1")));
    }

    #[test]
    fn interfaces_are_asked_for_only_where_a_port_names_one() {
        let unknown = || Err(io::Error::other("no answer"));
        let (here, wlan) = (ListenAt::HERE, ListenAt::Interface("wlan0".into()));
        let at = SocketAddr::from(([10, 0, 0, 1], 80));
        let none = InterfaceAddresses::read([&here], || panic!("nobody needs them"));
        assert!(none.address(&here).is_ok() && none.still(&here, at));
        let failed = InterfaceAddresses::read([&here, &wlan], unknown);
        assert_eq!(failed.address(&wlan).unwrap_err().to_string(), "no answer");
        assert!(failed.still(&wlan, at), "the port stays");
    }
}
