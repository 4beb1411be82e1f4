//! The names of network interfaces, which go into the keys of links, and their addresses.

use std::net::IpAddr;

use weft_config::router::{LinkConfig, LinkListener};

/// The interface that has an address.
fn interface_of(address: IpAddr) -> Option<String> {
    let all = if_addrs::get_if_addrs().ok()?;
    all.into_iter().find(|one| one.ip() == address).map(|one| one.name)
}

/// The name of a listener in the key of a link; empty if no interface has its address.
pub(super) fn listener_binding(listener: &LinkListener) -> String {
    if let Some(name) = &listener.bind_interface {
        return name.clone();
    }
    let address: Option<IpAddr> = listener.bind.host.parse().ok();
    address.filter(|address| !address.is_unspecified()).and_then(interface_of).unwrap_or_default()
}

/// The name of each dialer in the key of a link. The only dialer takes the name of the only
/// listener, so that a link has the same key on both sides (docs/protocol/data-plane.md 2.2).
pub(super) fn dialer_bindings(config: &LinkConfig) -> Vec<String> {
    if let ([dialer], [listener]) = (config.dialers.as_slice(), config.listeners.as_slice())
        && dialer.bind.is_none()
    {
        return vec![listener_binding(listener)];
    }
    let name = |bind: &String| match bind.parse() {
        Ok(address) => interface_of(address).unwrap_or_default(),
        Err(_) => bind.clone(),
    };
    config.dialers.iter().map(|one| one.bind.as_ref().map(name).unwrap_or_default()).collect()
}

/// The address to dial from; `bind` is an address, or the name of an interface.
pub(crate) fn address_of(bind: &str) -> Option<IpAddr> {
    if let Ok(address) = bind.parse() {
        return Some(address);
    }
    let mut all: Vec<_> =
        if_addrs::get_if_addrs().ok()?.into_iter().filter(|one| one.name == bind).collect();
    // IPv4 addresses first, because more routers are reached over IPv4.
    all.sort_by_key(|one| one.ip().is_ipv6());
    all.first().map(if_addrs::Interface::ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_by_address_and_by_name() {
        let name = interface_of("127.0.0.1".parse().unwrap()).unwrap();
        assert_eq!(address_of(&name).unwrap().to_string(), "127.0.0.1");
        assert_eq!(address_of("10.1.2.3").unwrap().to_string(), "10.1.2.3");
        assert_eq!(address_of("no such interface"), None);
    }
}
