//! Opens the UDP sockets on which connections over DTLS are accepted and dialed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::runtime;

use super::options::DatagramOptions;

/// Opens a socket that listens at `host:port`. An empty host means all addresses of the machine.
pub(super) async fn listen(
    bind: &str,
    options: &DatagramOptions,
    on: Option<&runtime::Handle>,
) -> io::Result<UdpSocket> {
    let addresses = match bind.strip_prefix(':').and_then(|port| port.parse::<u16>().ok()) {
        Some(port) => {
            vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]
        }
        None => tokio::net::lookup_host(bind).await?.collect::<Vec<SocketAddr>>(),
    };
    let _entered = on.map(runtime::Handle::enter);
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in addresses {
        match open(address, options) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Opens a socket that only receives from `remote`.
pub(super) async fn connect(
    remote: SocketAddr,
    from: Option<IpAddr>,
    options: &DatagramOptions,
) -> io::Result<UdpSocket> {
    let any = match remote {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = open((from.unwrap_or(any), 0).into(), options)?;
    crate::socket::mark(&socket)?;
    socket.connect(remote).await?;
    Ok(socket)
}

fn open(address: SocketAddr, options: &DatagramOptions) -> io::Result<UdpSocket> {
    let socket = std::net::UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    let buffers = SockRef::from(&socket);
    for (set, bytes) in [
        (buffers.set_send_buffer_size(options.write_buffer as usize), options.write_buffer),
        (buffers.set_recv_buffer_size(options.read_buffer as usize), options.read_buffer),
    ] {
        if let Err(error) = set {
            tracing::debug!(%error, bytes, "the system does not set the buffer of a UDP socket");
        }
    }
    UdpSocket::from_std(socket)
}
