//! Dials `tcp:host:port` and `udp:host:port` for circuits (protocol: data-plane 11).

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    net::{TcpStream, UdpSocket, lookup_host},
    time::Instant,
};
use weft_wire::{Address, Scheme};
use weft_xgress::{Options, Role};

use super::socket;
use crate::{
    forwarder::{App, Circuit, Forwarder, LocalEnd},
    seam::{Egress, PeerData, RouteErrorCode, RouteFailure},
};

/// Peer data: our address towards the application, as `host:port`.
const LOCAL_ADDRESS: u32 = 1110;
/// Peer data: the application's address, as `host:port`.
const REMOTE_ADDRESS: u32 = 1111;

/// A socket to an application.
pub(crate) enum Connected {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl Connected {
    /// What the dialer is told of it.
    pub(crate) fn peer_data(&self) -> PeerData {
        let (local, remote) = match self {
            Self::Tcp(stream) => (stream.local_addr(), stream.peer_addr()),
            Self::Udp(socket) => (socket.local_addr(), socket.peer_addr()),
        };
        [(LOCAL_ADDRESS, local), (REMOTE_ADDRESS, remote)]
            .into_iter()
            .filter_map(|(key, address)| Some((key, Bytes::from(address.ok()?.to_string()))))
            .collect()
    }
}

/// Dials the address that a terminator names and registers the end of the circuit.
pub(crate) async fn dial(
    forwarder: &Arc<Forwarder>,
    circuit: &Arc<Circuit>,
    egress: &Egress,
    timeout: Duration,
    options: &Options,
    peer_timeout: Option<Duration>,
) -> Result<PeerData, RouteFailure> {
    let address: Address = egress
        .destination
        .parse()
        .map_err(|error: weft_wire::AddressError| misconfigured(error.to_string()))?;
    let datagrams = match address.scheme {
        Scheme::Tcp => false,
        Scheme::Udp => true,
        other => return Err(misconfigured(format!("{other}: addresses cannot be dialed here"))),
    };
    let deadline = Instant::now() + timeout;
    let addresses = resolve(&address.host, address.port, deadline).await?;
    let connected = if datagrams {
        Connected::Udp(connect_udp(&addresses).await?)
    } else {
        Connected::Tcp(connect_tcp(addresses, deadline, peer_timeout).await?)
    };
    let peer_data = connected.peer_data();
    attach(forwarder, circuit, egress, connected, options, None);
    Ok(peer_data)
}

/// Puts a socket behind a new end of the circuit and carries data from now on.
pub(crate) fn attach(
    forwarder: &Arc<Forwarder>,
    circuit: &Arc<Circuit>,
    egress: &Egress,
    connected: Connected,
    options: &Options,
    crypto: Option<socket::Crypto>,
) {
    let datagrams = matches!(connected, Connected::Udp(_));
    let options = Options { datagrams, ..options.clone() };
    let (circuit, role, app) = (Arc::clone(circuit), Role::Terminator, App::socket());
    let end = LocalEnd::start(forwarder, circuit, &egress.address, role, &options, app);
    // Its timer begins: a circuit that is never started ends by itself.
    end.begin();
    match connected {
        Connected::Tcp(stream) => tokio::spawn(socket::carry_tcp(end, stream, crypto)),
        Connected::Udp(udp) => tokio::spawn(socket::carry_udp(end, udp, crypto)),
    };
}

/// Connects to the first of a host's addresses that answers, until a deadline.
pub(crate) async fn connect_tcp(
    addresses: Vec<SocketAddr>,
    deadline: Instant,
    peer_timeout: Option<Duration>,
) -> Result<TcpStream, RouteFailure> {
    let target = addresses.first().map(ToString::to_string).unwrap_or_default();
    let connecting = weft_channel::connect(addresses, None);
    let connected = tokio::time::timeout_at(deadline, connecting).await;
    let stream = connected
        .map_err(|_| RouteFailure {
            code: RouteErrorCode::DialTimedOut,
            message: format!("tcp:{target} did not answer in time"),
        })?
        .and_then(|stream| weft_channel::prepare(&stream, peer_timeout).map(|()| stream));
    stream.map_err(|error| io_failure(&format!("cannot connect to tcp:{target}"), &error))
}

/// A UDP socket that talks to the first of a host's addresses.
pub(crate) async fn connect_udp(addresses: &[SocketAddr]) -> Result<UdpSocket, RouteFailure> {
    let Some(address) = addresses.first() else {
        return Err(dns("the host", "it has no address"));
    };
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let what = format!("cannot open a socket to udp:{address}");
    let socket = UdpSocket::bind(any).await.map_err(|error| io_failure(&what, &error))?;
    socket.connect(address).await.map_err(|error| io_failure(&what, &error))?;
    Ok(socket)
}

/// The addresses of a host, of which there is at least one. They are what is dialed then: a name
/// that is resolved twice may lead somewhere else.
pub(crate) async fn resolve(
    host: &str,
    port: u16,
    deadline: Instant,
) -> Result<Vec<SocketAddr>, RouteFailure> {
    let found = tokio::time::timeout_at(deadline, lookup_host((host, port))).await;
    let found = found.map_err(|_| dns(host, "no answer in time"))?;
    let found: Vec<_> = found.map_err(|error| dns(host, &error.to_string()))?.collect();
    if found.is_empty() { Err(dns(host, "no such host")) } else { Ok(found) }
}

fn dns(host: &str, why: &str) -> RouteFailure {
    let message = format!("cannot resolve {host}: {why}");
    RouteFailure { code: RouteErrorCode::DnsFailed, message }
}

pub(crate) fn misconfigured(message: String) -> RouteFailure {
    RouteFailure { code: RouteErrorCode::MisconfiguredTerminator, message }
}

/// The class of an error of the operating system (protocol: control-plane 13.1).
fn io_failure(what: &str, error: &io::Error) -> RouteFailure {
    // EMFILE, ENFILE and ENOBUFS have no kind of their own.
    const EXHAUSTED: [i32; 3] = [24, 23, 105];
    let code = match error.kind() {
        io::ErrorKind::ConnectionRefused => RouteErrorCode::ConnectionRefused,
        io::ErrorKind::TimedOut => RouteErrorCode::DialTimedOut,
        _ if error.raw_os_error().is_some_and(|code| EXHAUSTED.contains(&code)) => {
            RouteErrorCode::ResourcesUnavailable
        }
        _ => RouteErrorCode::Generic,
    };
    RouteFailure { code, message: format!("{what}: {error}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn failures_have_their_class() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let long = Duration::from_secs(20);
        let at = ([127, 0, 0, 1], port).into();
        let deadline = Instant::now() + long;
        let refused = connect_tcp(vec![at], deadline, None).await.unwrap_err();
        assert_eq!(refused.code, RouteErrorCode::ConnectionRefused);
        // A label is too long: that is known without asking any server.
        let name = format!("{}.invalid", "x".repeat(64));
        let unknown = resolve(&name, 1, deadline).await.unwrap_err();
        assert_eq!(unknown.code, RouteErrorCode::DnsFailed, "{unknown}");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_application_is_given_up_as_the_file_says() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        for patience in [Some(Duration::from_secs(30)), Some(Duration::from_secs(90)), None] {
            let stream = connect_tcp(vec![at], deadline, patience).await.unwrap();
            let socket = socket2::SockRef::from(&stream);
            assert_eq!(socket.tcp_user_timeout().unwrap(), patience);
            assert!(socket.keepalive().unwrap());
        }
    }
}
