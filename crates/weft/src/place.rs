//! Addresses of a new controller or router: where it listens, and the address that others are told.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_config::HostPort;

use crate::failure::{Failure, Result};

/// The name of this machine for itself.
pub(crate) const LOCALHOST: &str = "localhost";

/// An address to listen at.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListenAddress {
    /// The socket.
    pub(crate) bind: HostPort,
    /// Address that clients are told.
    pub(crate) advertise: HostPort,
}

impl ListenAddress {
    /// The address with this port, for the host that an option names.
    pub(crate) fn of(option: &str, host: &str, port: u16) -> Result<Self> {
        let host = check_host(option, host)?;
        let bind = HostPort { host: bind_host(&host).to_string(), port };
        Ok(Self { bind, advertise: HostPort { host, port } })
    }
}

/// The host that an option names, as it is written in files: a name in small letters, or an address
/// without brackets.
pub(crate) fn check_host(option: &str, host: &str) -> Result<String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_name = |text: &str| {
        !text.is_empty()
            && text.len() <= 253
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    match bare.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => Err(Failure::usage(format!(
            "{option} {host}: name the address at which others reach this machine"
        ))),
        Ok(_) => Ok(bare.to_owned()),
        Err(_) if is_name(bare) => Ok(bare.to_ascii_lowercase()),
        Err(_) => {
            Err(Failure::usage(format!("{option} {host}: neither a host name nor an IP address")))
        }
    }
}

/// The address to listen on: loopback if only this machine can reach the advertised host, else all
/// addresses.
pub(crate) fn bind_host(host: &str) -> IpAddr {
    match host.parse::<IpAddr>() {
        Ok(address) if address.is_loopback() => address,
        Ok(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        Err(_) if host == LOCALHOST => Ipv4Addr::LOCALHOST.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// True for hosts that mean every machine itself: `localhost` and loopback addresses.
pub(crate) fn is_own(host: &str) -> bool {
    host == LOCALHOST || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
