//! Dials `tcp:host:port` and `udp:host:port` for circuits (protocol: data-plane 11).

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::net::{TcpStream, UdpSocket, lookup_host};
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
) -> Result<PeerData, RouteFailure> {
    let address: Address = egress
        .destination
        .parse()
        .map_err(|error: weft_wire::AddressError| misconfigured(error.to_string()))?;
    let connected = match address.scheme {
        Scheme::Tcp => Connected::Tcp(connect_tcp(&address.host, address.port, timeout).await?),
        Scheme::Udp => Connected::Udp(connect_udp(&address.host, address.port, timeout).await?),
        other => return Err(misconfigured(format!("{other}: addresses cannot be dialed here"))),
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

/// Connects to the first address of a host that answers.
pub(crate) async fn connect_tcp(
    host: &str,
    port: u16,
    timeout: Duration,
) -> Result<TcpStream, RouteFailure> {
    let target = format!("{}:{port}", bracketed(host));
    let connecting = async {
        let addresses = resolve(host, port).await?;
        let mut last = None;
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        let error = last.unwrap_or_else(|| io::ErrorKind::NotFound.into());
        Err(io_failure(&format!("cannot connect to tcp:{target}"), &error))
    };
    let stream = tokio::time::timeout(timeout, connecting).await.map_err(|_| RouteFailure {
        code: RouteErrorCode::DialTimedOut,
        message: format!("tcp:{target} did not answer in {timeout:?}"),
    })??;
    // An application's small writes are not held back; the connection works without it.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// A UDP socket that talks to the first address of a host.
pub(crate) async fn connect_udp(
    host: &str,
    port: u16,
    timeout: Duration,
) -> Result<UdpSocket, RouteFailure> {
    let resolving = tokio::time::timeout(timeout, resolve(host, port)).await;
    let addresses = resolving.map_err(|_| dns(host, "no answer in time"))??;
    let address = addresses.first().ok_or_else(|| dns(host, "no such host"))?;
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let what = format!("cannot open a socket to udp:{address}");
    let socket = UdpSocket::bind(any).await.map_err(|error| io_failure(&what, &error))?;
    socket.connect(address).await.map_err(|error| io_failure(&what, &error))?;
    Ok(socket)
}

async fn resolve(host: &str, port: u16) -> Result<Vec<std::net::SocketAddr>, RouteFailure> {
    let found = lookup_host((host, port)).await.map_err(|error| dns(host, &error.to_string()))?;
    Ok(found.collect())
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
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
        let refused = connect_tcp("127.0.0.1", port, long).await.unwrap_err();
        assert_eq!(refused.code, RouteErrorCode::ConnectionRefused);
        // A label is too long: that is known without asking any server.
        let name = format!("{}.invalid", "x".repeat(64));
        let unknown = connect_tcp(&name, 1, long).await.unwrap_err();
        assert_eq!(unknown.code, RouteErrorCode::DnsFailed, "{unknown}");
    }
}
