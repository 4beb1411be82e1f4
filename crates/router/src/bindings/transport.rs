//! Dials the address of a terminator: `tcp:host:port`, `tls:host:port`, `udp:host:port`
//! (docs/protocol/data-plane.md 11).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::{TlsConnector, TlsStream};
use weft_tunnel::{AppDatagrams, DialingIdentity, Refusal, RefusalCause};
use weft_wire::ctrl::peer_data_key::{
    DIALER_IDENTITY_ID, TERMINATOR_LOCAL_ADDRESS, TERMINATOR_REMOTE_ADDRESS,
};
use weft_wire::payload::hop_type;
use weft_wire::{Address, Scheme, host_port};
use weft_xgress::{Options, Role};

use super::keys;
use super::socket::{self, Datagrams, Stream};
use crate::forwarder::{App, Circuit, Forwarder};
use crate::seam::{Egress, PeerData, RouteError, RouteErrorCode};

/// A socket to an application.
pub(crate) enum Connected {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Udp(AppDatagrams),
    /// No socket: this process answers questions for DNS records.
    Resolver(weft_tunnel::Datagrams),
}

impl Connected {
    /// The headers for the dialer.
    pub(crate) fn peer_data(&self) -> PeerData {
        let of = |stream: &TcpStream| (stream.local_addr(), stream.peer_addr());
        let (local, remote) = match self {
            Self::Tcp(stream) => of(stream),
            Self::Tls(stream) => of(stream.get_ref().0),
            Self::Udp(socket) => socket.addresses(),
            Self::Resolver(_) => return PeerData::new(),
        };
        [(TERMINATOR_LOCAL_ADDRESS, local), (TERMINATOR_REMOTE_ADDRESS, remote)]
            .into_iter()
            .filter_map(|(key, address)| Some((key, Bytes::from(address.ok()?.to_string()))))
            .collect()
    }
}

/// The options of one dialer.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    /// Flow control of its circuits.
    pub(crate) end: Options,
    /// Time limit for reaching the application; of this limit and the controller's the shorter one
    /// counts.
    pub(crate) connect_timeout: Option<Duration>,
    /// How long applications may leave sent data unacknowledged.
    pub(crate) peer_timeout: Option<Duration>,
    /// TLS for `tls:` applications: the trusted authorities and the client certificate.
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
}

/// The parts of a terminator's address.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    protocol: Protocol,
    host: String,
    port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Tls,
    /// Over either address family, or over one: `true` is IPv4.
    Udp(Option<bool>),
}

impl Target {
    fn parse(binding: &str, text: &str) -> Result<Self, RouteError> {
        let family = [("udp4:", true), ("udp6:", false)];
        let of_family = family.iter().find_map(|(name, v4)| Some((text.strip_prefix(name)?, *v4)));
        let (address, v4) = match of_family {
            Some((rest, v4)) => (format!("udp:{rest}").parse::<Address>(), Some(v4)),
            None => (text.parse(), None),
        };
        let address = address.map_err(|error| misconfigured(error.to_string()))?;
        let protocol = match address.scheme {
            Scheme::Udp => Protocol::Udp(v4),
            _ if matches!(binding, "transport_udp" | "udp") => {
                let text = format!("binding {binding} dials udp: addresses only, not {text}");
                return Err(misconfigured(text));
            }
            Scheme::Tcp => Protocol::Tcp,
            Scheme::Tls => Protocol::Tls,
            other => {
                return Err(misconfigured(format!("{other}: addresses cannot be dialed here")));
            }
        };
        Ok(Self { protocol, host: address.host, port: address.port })
    }

    async fn connect(
        &self,
        identity: &DialingIdentity,
        dialer: &Dialer,
        deadline: Instant,
    ) -> Result<Connected, RouteError> {
        let addresses = weft_tunnel::resolve(identity, &self.host, self.port, deadline).await;
        let addresses = addresses.map_err(not_connected)?;
        match self.protocol {
            Protocol::Udp(v4) => {
                let fits = |one: &SocketAddr| v4.is_none_or(|v4| one.is_ipv4() == v4);
                let addresses = addresses.into_iter().filter(fits).collect();
                AppDatagrams::connect(addresses, None).map(Connected::Udp).map_err(not_connected)
            }
            Protocol::Tcp => {
                let connecting = connect_tcp(addresses, deadline, dialer.peer_timeout);
                Ok(Connected::Tcp(connecting.await?))
            }
            Protocol::Tls => {
                let stream = connect_tcp(addresses, deadline, dialer.peer_timeout).await?;
                let shaking = self.shake(stream, dialer);
                let shaken = tokio::time::timeout_at(deadline, shaking).await;
                shaken.map_err(|_| RouteError {
                    code: RouteErrorCode::DialTimedOut,
                    text: format!(
                        "tls:{} did not answer in time",
                        host_port(&self.host, self.port)
                    ),
                })?
            }
        }
    }

    /// The TLS handshake with the application. The router shows its own certificate; that of the
    /// application must lead to an authority that the router trusts.
    async fn shake(&self, stream: TcpStream, dialer: &Dialer) -> Result<Connected, RouteError> {
        let what = format!("cannot speak TLS with tls:{}", host_port(&self.host, self.port));
        let Some(tls) = &dialer.tls else {
            return Err(misconfigured(format!("{what}: the router has no TLS settings")));
        };
        let name = ServerName::try_from(self.host.clone())
            .map_err(|_| misconfigured(format!("{what}: the host is no server name")))?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
        let stream = stream.map_err(|error| io_failure(&what, &error))?;
        Ok(Connected::Tls(Box::new(TlsStream::from(stream))))
    }
}

/// Dials the address that a terminator names and registers the end of the circuit.
pub(crate) async fn dial(
    forwarder: &Arc<Forwarder>,
    circuit: &Arc<Circuit>,
    egress: &Egress,
    timeout: Duration,
    dialer: &Dialer,
) -> Result<PeerData, RouteError> {
    let target = Target::parse(&egress.binding, &egress.destination)?;
    let encrypts = egress.binding == "edge_transport";
    let keys = if encrypts { keys::answer(&egress.peer_data)? } else { None };
    let timeout = dialer.connect_timeout.map_or(timeout, |limit| limit.min(timeout));
    let identity = DialingIdentity::new(dialing_identity(egress), &egress.destination);
    let connected = target.connect(&identity, dialer, Instant::now() + timeout).await?;
    let mut peer_data = connected.peer_data();
    let is_stream = matches!(connected, Connected::Tcp(_) | Connected::Tls(_));
    let crypto = keys.map(|keys| {
        let (crypto, told) = keys.ready(is_stream);
        peer_data.extend(told);
        crypto
    });
    attach(forwarder, circuit, egress, connected, &dialer.end, crypto);
    Ok(peer_data)
}

/// The id of the dialer's identity, as the controller says.
pub(crate) fn dialing_identity(egress: &Egress) -> Option<&str> {
    let id = egress.peer_data.get(&DIALER_IDENTITY_ID)?;
    std::str::from_utf8(id).ok()
}

/// Puts a socket behind a new end of the circuit and carries data from then on.
pub(crate) fn attach(
    forwarder: &Arc<Forwarder>,
    circuit: &Arc<Circuit>,
    egress: &Egress,
    connected: Connected,
    options: &Options,
    crypto: Option<socket::Crypto>,
) {
    let datagrams = matches!(connected, Connected::Udp(_) | Connected::Resolver(_));
    let options = Options { datagrams, ..options.clone() };
    let hop_type = match egress.binding.as_str() {
        "tunnel" => hop_type::TUNNEL,
        "edge_transport" => hop_type::EDGE_TRANSPORT,
        "transport_udp" => hop_type::TRANSPORT_UDP,
        "udp" => hop_type::UDP,
        _ => hop_type::TRANSPORT,
    };
    let app = App::Socket { hop_type };
    let (circuit, role) = (Arc::clone(circuit), Role::Terminator);
    let end = forwarder.start_end(circuit, &egress.address, role, &options, app);
    // The timer of the end begins: a circuit that is never started ends by itself.
    end.begin();
    match connected {
        Connected::Tcp(stream) => {
            tokio::spawn(socket::carry(end, Stream::Tcp(stream), Bytes::new(), crypto))
        }
        Connected::Tls(stream) => {
            tokio::spawn(socket::carry(end, Stream::Tls(stream), Bytes::new(), crypto))
        }
        Connected::Udp(udp) => {
            let udp = Datagrams::Connected(udp);
            tokio::spawn(socket::carry_datagrams(end, udp, crypto, socket::UDP_IDLE))
        }
        Connected::Resolver(names) => tokio::spawn(socket::carry_client(end, names, crypto)),
    };
}

/// Connects to the first of a host's addresses that answers, until a deadline.
async fn connect_tcp(
    addresses: Vec<SocketAddr>,
    deadline: Instant,
    peer_timeout: Option<Duration>,
) -> Result<TcpStream, RouteError> {
    let connected = weft_tunnel::connect_tcp(addresses, None, deadline).await;
    let stream = connected.map_err(not_connected)?;
    let prepared = weft_channel::prepare(&stream, peer_timeout);
    prepared.map_err(|error| io_failure("setting options", &error))?;
    Ok(stream)
}

/// The refused connection, in the form for the controller.
pub(crate) fn not_connected(refusal: Refusal) -> RouteError {
    let code = match refusal.cause {
        RefusalCause::Other => RouteErrorCode::Generic,
        RefusalCause::TimedOut => RouteErrorCode::DialTimedOut,
        RefusalCause::Refused => RouteErrorCode::ConnectionRefused,
        RefusalCause::Unresolved => RouteErrorCode::DnsResolutionFailed,
        RefusalCause::PortNotAllowed => RouteErrorCode::PortNotAllowed,
        RefusalCause::Exhausted => RouteErrorCode::ResourcesNotAvailable,
    };
    RouteError { code, text: refusal.message }
}

pub(crate) fn misconfigured(message: String) -> RouteError {
    RouteError { code: RouteErrorCode::MisconfiguredTerminator, text: message }
}

fn io_failure(what: &str, error: &io::Error) -> RouteError {
    not_connected(Refusal::of_system(what, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_dials_the_addresses_that_it_knows() {
        let parse = |binding, text| {
            let target = Target::parse(binding, text).map_err(|failure| failure.text)?;
            Ok::<_, String>((target.protocol, target.host, target.port))
        };
        let udp = |v4| (Protocol::Udp(v4), "::1".to_owned(), 5);
        assert_eq!(parse("transport", "tcp:h:80"), Ok((Protocol::Tcp, "h".into(), 80)));
        assert_eq!(parse("edge_transport", "tls:h:443"), Ok((Protocol::Tls, "h".into(), 443)));
        assert_eq!(parse("transport", "udp:[::1]:5"), Ok(udp(None)));
        assert_eq!(parse("transport_udp", "udp6:[::1]:5"), Ok(udp(Some(false))));
        assert_eq!(parse("udp", "udp4:[::1]:5"), Ok(udp(Some(true))));
        let refused = parse("transport_udp", "tcp:h:80").unwrap_err();
        assert!(refused.contains("udp: addresses only"), "{refused}");
        for text in ["wss:h:443", "dtls:h:1", "h:80", "tcp://h:80", "tcp:h", ""] {
            let refused = Target::parse("transport", text).unwrap_err();
            assert_eq!(refused.code, RouteErrorCode::MisconfiguredTerminator, "{text}");
        }
    }

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
        let unknown =
            weft_tunnel::resolve(&DialingIdentity::new(None, "a"), &name, 1, deadline).await;
        let unknown = unknown.map_err(not_connected).unwrap_err();
        assert_eq!(unknown.code, RouteErrorCode::DnsResolutionFailed, "{unknown}");
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
