//! Which networks of `allowedSourceAddresses` become this machine's own.
//!
//! Whoever may change configs of services writes these networks, and all that this machine sends to one of them stays
//! on this machine then. So no network is taken by which the machine would lose its connection to others: a wide one,
//! and one with an address, a gateway or a DNS server of the machine. What the machine's operator has added to the
//! loopback interface himself is used as it is.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Network;

/// The shortest prefix of a network, in IPv4 and in IPv6.
const WIDEST_V4: u8 = 16;
const WIDEST_V6: u8 = 64;
/// The interface to which the networks are added.
const LOOPBACK: &str = "lo";
/// The tables of routes of the system.
const ROUTES_V4: &str = "/proc/net/route";
const ROUTES_V6: &str = "/proc/net/ipv6_route";
/// The files with DNS servers: the one that programs read, and the one of systemd-resolved, which has the servers that it
/// asks.
const DNS: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// The addresses without which a machine reaches nobody.
#[derive(Debug, Default)]
pub(super) struct Machine {
    own: BTreeSet<IpAddr>,
    gateways: BTreeSet<IpAddr>,
    dns: BTreeSet<IpAddr>,
}

impl Machine {
    /// This machine as it is now.
    pub(super) fn now() -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let found = if_addrs::get_if_addrs().unwrap_or_default();
        let own = found.into_iter().filter(|one| one.name != LOOPBACK).map(|one| one.ip());
        let gateways = [gateways_v4(&text(ROUTES_V4)), gateways_v6(&text(ROUTES_V6))].concat();
        let dns = DNS.iter().flat_map(|path| dns_servers(&text(path)));
        Self { own: kept(own), gateways: kept(gateways.into_iter()), dns: kept(dns) }
    }

    /// Why a network cannot become the machine's own.
    pub(super) fn refusal(&self, network: &Network) -> Option<String> {
        let widest = if network.address().is_ipv4() { WIDEST_V4 } else { WIDEST_V6 };
        if network.prefix() < widest {
            return Some(format!(
                "it is wider than /{widest}; if all of it is to be this machine's own, add it: ip address add {network} \
                 dev {LOOPBACK} scope host"
            ));
        }
        let kinds =
            [(&self.own, "an address"), (&self.gateways, "a gateway"), (&self.dns, "a DNS server")];
        kinds.into_iter().find_map(|(addresses, kind)| {
            let found = addresses.iter().find(|address| network.contains(**address))?;
            Some(format!("it has {kind} of this machine, {found}"))
        })
    }

    /// Whether a network is an address that the machine has anyhow.
    pub(super) fn has(&self, network: &Network) -> bool {
        network.is_single() && self.own.contains(&network.address())
    }
}

/// The addresses that lead to other machines or are those of interfaces.
fn kept(addresses: impl Iterator<Item = IpAddr>) -> BTreeSet<IpAddr> {
    let addresses = addresses.map(|address| address.to_canonical());
    addresses.filter(|address| !address.is_loopback() && !address.is_unspecified()).collect()
}

/// The gateways of a table of IPv4 routes, whose third column has the bytes of one in the machine's order.
fn gateways_v4(table: &str) -> Vec<IpAddr> {
    let gateways = table.lines().filter_map(|line| line.split_whitespace().nth(2));
    let gateways = gateways.filter_map(|gateway| u32::from_str_radix(gateway, 16).ok());
    gateways.map(|gateway| Ipv4Addr::from(gateway.to_ne_bytes()).into()).collect()
}

/// The gateways of a table of IPv6 routes, whose fifth column has one.
fn gateways_v6(table: &str) -> Vec<IpAddr> {
    let gateways = table.lines().filter_map(|line| line.split_whitespace().nth(4));
    let gateways = gateways.filter_map(|gateway| u128::from_str_radix(gateway, 16).ok());
    gateways.map(|gateway| Ipv6Addr::from(gateway).into()).collect()
}

/// The servers of a `resolv.conf`.
fn dns_servers(text: &str) -> Vec<IpAddr> {
    let servers = text.lines().filter_map(|line| line.trim().strip_prefix("nameserver"));
    // The address of a link has its interface behind a percent sign.
    servers.filter_map(|server| server.trim().split('%').next()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let routes = "Iface\tDestination\tGateway\tFlags\n\
                      eth0\t00000000\t0100000A\t0003\neth0\t0000000A\t00000000\t0001\n";
        let routes_v6 = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
                         20010db8000000000000000000000001 00000400 00000001 00000000 00000003 eth0\n";
        let resolv =
            "# from DHCP\nnameserver 192.0.2.53\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\n";
        let own = ["10.0.0.7", "2001:db8::7"].map(|own| own.parse().unwrap());
        Machine {
            own: kept(own.into_iter()),
            gateways: kept([gateways_v4(routes), gateways_v6(routes_v6)].concat().into_iter()),
            dns: kept(dns_servers(resolv).into_iter()),
        }
    }

    fn refusal(network: &str) -> Option<String> {
        machine().refusal(&Network::parse(network).unwrap())
    }

    #[test]
    fn no_config_of_a_service_cuts_the_machine_off() {
        for (network, reason) in [
            ("0.0.0.0/0", "wider than /16"),
            ("10.0.0.0/8", "wider than /16"),
            ("172.16.0.0/15", "wider than /16"),
            ("2001:db8:1::/48", "wider than /64"),
            ("10.0.0.0/24", "an address of this machine, 10.0.0.7"),
            ("2001:db8::/64", "an address of this machine, 2001:db8::7"),
            ("10.0.0.0/30", "a gateway of this machine, 10.0.0.1"),
            ("10.0.0.1", "a gateway of this machine, 10.0.0.1"),
            ("2001:db8::1", "a gateway of this machine, 2001:db8::1"),
            ("192.0.2.0/24", "a DNS server of this machine, 192.0.2.53"),
            ("192.0.2.53", "a DNS server of this machine, 192.0.2.53"),
            ("fe80::1", "a DNS server of this machine, fe80::1"),
        ] {
            assert!(refusal(network).is_some_and(|it| it.contains(reason)), "{network}");
        }
        for network in ["10.1.0.0/16", "10.0.0.16/28", "10.0.0.9", "fd00::/64", "192.0.2.54"] {
            assert_eq!(refusal(network), None, "{network}");
        }
    }

    #[test]
    fn an_address_of_the_machine_is_its_own_already() {
        let has = |network: &str| machine().has(&Network::parse(network).unwrap());
        assert!(has("10.0.0.7") && has("2001:db8::7"));
        assert!(!has("10.0.0.7/31") && !has("10.0.0.8"));
    }
}
