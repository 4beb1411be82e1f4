//! The ports of a network, which are held until all of them are known.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, TcpListener};

use weft_config::HostPort;

use crate::failure::{Failure, Result};
use crate::place::{ListenAddress, bind_host, check_host, is_own};

/// The host of the controllers, if a router has the same; none for `localhost` and loopback addresses.
pub(super) fn shared_name<'a>(
    host: &str,
    mut routers: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let is_shared = routers.any(|router| router == host);
    (is_shared && !is_own(host)).then(|| host.to_owned()).into_iter().collect()
}

/// Tries to find a free port before the system chooses one.
const TRIES: usize = 64;
/// The first port that is chosen.
const FIRST_FREE: u16 = 10_000;
/// The first port that the system gives to connections, if it does not tell.
const FIRST_OF_CONNECTIONS: u16 = 32_768;

/// Listens at a free port that the system gives to no connection: the network keeps the port, and any program's connection
/// could have taken it while no part of the network listens there.
fn free_port(bind: IpAddr) -> io::Result<TcpListener> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok();
    let end = range.and_then(|range| range.split_whitespace().next()?.parse().ok());
    let ports = FIRST_FREE..end.unwrap_or(FIRST_OF_CONNECTIONS);
    let tried = (0..TRIES).filter(|_| !ports.is_empty()).find_map(|_| {
        let port = rand::random_range(ports.clone());
        TcpListener::bind((bind, port)).ok()
    });
    tried.map_or_else(|| TcpListener::bind((bind, 0)), Ok)
}

/// A port, with the option that it came from.
pub(super) struct Port {
    pub(super) option: &'static str,
    pub(super) wanted: u16,
}

impl Port {
    /// Checks that the port is free, or finds a free one for port 0. Returns the socket, too, which
    /// holds the port.
    pub(super) fn listen(
        &self,
        host_option: &str,
        host: &str,
    ) -> Result<(ListenAddress, TcpListener)> {
        let host = check_host(host_option, host)?;
        let bind = bind_host(&host);
        let socket = match self.wanted {
            0 => free_port(bind),
            wanted => TcpListener::bind((bind, wanted)),
        };
        let socket = socket.map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::AddrInUse => "another program uses it",
                io::ErrorKind::PermissionDenied => {
                    "it takes more rights; ports from 1024 on do not"
                }
                _ => return Failure::new(format!("cannot listen at {bind}: {error}")),
            };
            Failure::new(format!(
                "port {} cannot be used: {hint}. Choose another with {}; 0 picks a free one",
                self.wanted, self.option
            ))
        })?;
        let port = socket.local_addr().map_err(Failure::new)?.port();
        let address = ListenAddress {
            bind: HostPort { host: bind.to_string(), port },
            advertise: HostPort { host, port },
        };
        Ok((address, socket))
    }
}

/// The ports of a network. Each port that was found is held by its socket until all ports are known, so
/// that no port is found twice.
#[derive(Default)]
pub(super) struct Sockets {
    held: Vec<TcpListener>,
    ports: BTreeSet<u16>,
}

impl Sockets {
    /// Holds the socket of an address.
    pub(super) fn hold(
        &mut self,
        (address, socket): (ListenAddress, TcpListener),
    ) -> ListenAddress {
        self.held.push(socket);
        self.ports.insert(address.bind.port);
        address
    }

    /// Reserves a port of an existing part of the network that does not run now.
    pub(super) fn reserve(&mut self, port: u16) {
        self.ports.insert(port);
    }

    /// Returns the address of one of several routers or controllers. Number 1 has the first port, number 2 the next
    /// one, and so on; 0 stands for any free port. A port that is taken is an error if an option chose the
    /// first port; otherwise a free port takes its place.
    pub(super) fn near(
        &mut self,
        option: &'static str,
        (first, is_chosen): (u16, bool),
        number: u8,
        host_option: &str,
        host: &str,
    ) -> Result<ListenAddress> {
        let wanted = match first {
            0 => 0,
            first => first.checked_add(u16::from(number) - 1).unwrap_or_default(),
        };
        let found = match self.ports.contains(&wanted) {
            true => Err(Failure::new(format!(
                "port {wanted} is already that of another part of this network. Choose another with {option}; \
                 0 picks free ones"
            ))),
            false => Port { option, wanted }.listen(host_option, host),
        };
        match found {
            Err(_) if !is_chosen => self.free(option, host_option, host),
            Ok((address, _)) if self.ports.contains(&address.bind.port) => {
                self.free(option, host_option, host)
            }
            found => Ok(self.hold(found?)),
        }
    }

    /// An address at a free port that the network does not use.
    fn free(
        &mut self,
        option: &'static str,
        host_option: &str,
        host: &str,
    ) -> Result<ListenAddress> {
        // A port that is in the plan already is kept open, so that the system offers another one.
        let mut others = Vec::new();
        loop {
            let (address, socket) = Port { option, wanted: 0 }.listen(host_option, host)?;
            if !self.ports.contains(&address.bind.port) {
                return Ok(self.hold((address, socket)));
            }
            others.push(socket);
        }
    }
}
