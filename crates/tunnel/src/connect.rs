//! Connecting to applications (docs/protocol/tunnel.md 9.2).

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream, UdpSocket},
    time::{Instant, timeout_at},
};

use crate::{
    AppData, Cause, Datagrams, Host, HostConfig, Protocol, Reach, Refusal, Target,
    config::HttpProxy, records,
};

/// Largest answer of a proxy that is read, in bytes.
const MAX_ANSWER: usize = 8 * 1024;
/// Ports below this are privileged.
const PRIVILEGED: u16 = 1024;

/// A socket to an application.
#[derive(Debug)]
pub enum Connected {
    /// A stream.
    Tcp(TcpStream),
    /// Datagrams.
    Udp(UdpSocket),
    /// No socket: this process answers questions for records of names, one message in each payload.
    Resolver(Datagrams),
}

impl Connected {
    /// The addresses of this side and of the application, as far as they are known.
    #[must_use]
    pub fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let (local, remote) = match self {
            Self::Tcp(stream) => (stream.local_addr(), stream.peer_addr()),
            Self::Udp(socket) => (socket.local_addr(), socket.peer_addr()),
            Self::Resolver(_) => return (None, None),
        };
        (local.ok(), remote.ok())
    }
}

impl HostConfig {
    /// Connects a dialer to the application that it asks for, if that is allowed. `peer_timeout` is
    /// how long the application may leave sent data unacknowledged.
    ///
    /// The judged address itself is dialed: nothing is resolved a second time.
    ///
    /// # Errors
    /// When the destination is not allowed, or cannot be reached.
    pub async fn connect(
        &self,
        data: &AppData,
        timeout: Duration,
        peer_timeout: Option<Duration>,
    ) -> Result<Connected, Refusal> {
        if data.text("connType")? == Some(records::CONNECTION) {
            return Ok(Connected::Resolver(self.resolver.open()));
        }
        let target = self.target(data)?;
        let source = self.source(data)?;
        let deadline = Instant::now() + timeout.min(self.connect_timeout);
        let stream = match (&self.proxy, target.protocol) {
            (Some(_), Protocol::Udp) => {
                return Err(Refusal::other("udp does not go through a proxy"));
            }
            (Some(proxy), Protocol::Tcp) => through(proxy, &target, source, deadline).await?,
            (None, protocol) => {
                let addresses = judged(&target, deadline).await?;
                match protocol {
                    Protocol::Udp => return udp(&addresses, source).await.map(Connected::Udp),
                    Protocol::Tcp => tcp(addresses, source, deadline).await?,
                }
            }
        };
        let (prepared, what) = (weft_channel::prepare(&stream, peer_timeout), "setting options");
        prepared.map_err(|error| failed(what, &error))?;
        Ok(Connected::Tcp(stream))
    }

    /// The source address that the dialer asks for, if it is allowed.
    fn source(&self, data: &AppData) -> Result<Option<SocketAddr>, Refusal> {
        let Some(text) = data.text("source_addr")?.filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let shown = || text.escape_debug();
        let parsed = text.parse::<SocketAddr>().ok();
        let parsed = parsed.or_else(|| Some(SocketAddr::new(text.parse().ok()?, 0)));
        let source = parsed.ok_or_else(|| {
            Refusal::other(format!("source_addr '{}' is no address, with or without port", shown()))
        })?;
        let source = SocketAddr::new(source.ip().to_canonical(), source.port());
        match &self.allowed_sources {
            Some(allowed) if !allowed.iter().any(|known| known.contains(source.ip())) => {
                Err(Refusal::other(format!(
                    "source address '{}' is not in allowed source addresses",
                    shown()
                )))
            }
            // Another address of this machine does no harm; a privileged port, which others may
            // trust, would.
            None if (1..PRIVILEGED).contains(&source.port()) => Err(Refusal::other(format!(
                "source address '{}' has a privileged port, and no source addresses are allowed",
                shown()
            ))),
            _ => Ok(Some(source)),
        }
    }
}

/// The addresses of a target that may be dialed.
async fn judged(target: &Target, deadline: Instant) -> Result<Vec<SocketAddr>, Refusal> {
    let found = match &target.host {
        Host::Address(address) => vec![SocketAddr::new(*address, target.port)],
        Host::Name(name, _) => resolve(name, target.port, deadline).await?,
    };
    target.host.judge(found)
}

/// The addresses of a host, at least one.
async fn resolve(host: &str, port: u16, deadline: Instant) -> Result<Vec<SocketAddr>, Refusal> {
    let unresolved =
        |why: &str| Refusal::new(Cause::Unresolved, format!("cannot resolve {host}: {why}"));
    let found = timeout_at(deadline, weft_channel::resolve(host, port)).await;
    let found = found.map_err(|_| unresolved("no answer in time"))?;
    let found = found.map_err(|error| unresolved(&error.to_string()))?;
    if found.is_empty() { Err(unresolved("no such host")) } else { Ok(found) }
}

/// Connects to the first of a host's addresses that answers, until a deadline.
async fn tcp(
    addresses: Vec<SocketAddr>,
    source: Option<SocketAddr>,
    deadline: Instant,
) -> Result<TcpStream, Refusal> {
    let target = addresses.first().map(ToString::to_string).unwrap_or_default();
    let connecting = async {
        match source {
            Some(source) if source.port() != 0 => from(source, &addresses).await,
            source => weft_channel::connect(addresses, source.map(|one| one.ip())).await,
        }
    };
    let connected = timeout_at(deadline, connecting).await.map_err(|_| {
        Refusal::new(Cause::TimedOut, format!("tcp:{target} did not answer in time"))
    })?;
    connected.map_err(|error| failed(&format!("cannot connect to tcp:{target}"), &error))
}

/// Connects from this source address, to one address after the other: they cannot be tried at once.
async fn from(source: SocketAddr, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut failure = no_address(source.ip());
    for remote in addresses.iter().filter(|remote| remote.is_ipv4() == source.is_ipv4()) {
        let socket = if remote.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // The client of the other side may connect again from the same port.
        socket.set_reuseaddr(true)?;
        weft_channel::mark(&socket)?;
        socket.bind(source)?;
        match socket.connect(*remote).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn no_address(source: IpAddr) -> io::Error {
    let family = if source.is_ipv4() { "IPv4" } else { "IPv6" };
    io::Error::new(io::ErrorKind::NotFound, format!("the host has no address of {family}"))
}

/// A UDP socket connected to the first of a host's addresses.
async fn udp(addresses: &[SocketAddr], source: Option<SocketAddr>) -> Result<UdpSocket, Refusal> {
    let fits = |remote: &&SocketAddr| source.is_none_or(|one| one.is_ipv4() == remote.is_ipv4());
    let Some(address) = addresses.iter().find(fits) else {
        let any = source.map_or_else(
            || "the host has no address".to_owned(),
            |source| no_address(source.ip()).to_string(),
        );
        return Err(Refusal::new(Cause::Unresolved, any));
    };
    let any: SocketAddr =
        if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let open = || {
        let domain = socket2::Domain::for_address(*address);
        let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
        socket.set_nonblocking(true)?;
        weft_channel::mark(&socket)?;
        if source.is_some_and(|source| source.port() != 0) {
            socket.set_reuse_address(true)?;
        }
        socket.bind(&source.unwrap_or(any).into())?;
        UdpSocket::from_std(socket.into())
    };
    let what = format!("cannot open a socket to udp:{address}");
    let socket = open().map_err(|error| failed(&what, &error))?;
    socket.connect(address).await.map_err(|error| failed(&what, &error))?;
    Ok(socket)
}

/// Connects through a proxy. The proxy resolves a name that may have any address; other names are
/// resolved and judged here, and the proxy is sent the address.
async fn through(
    proxy: &HttpProxy,
    target: &Target,
    source: Option<SocketAddr>,
    deadline: Instant,
) -> Result<TcpStream, Refusal> {
    let asked = match &target.host {
        Host::Name(name, Reach::Any) => format!("{name}:{}", target.port),
        Host::Address(address) => SocketAddr::new(*address, target.port).to_string(),
        Host::Name(name, Reach::Beyond(_)) => {
            let first = judged(target, deadline).await?.into_iter().next();
            first.map(|address| address.to_string()).ok_or_else(|| {
                Refusal::new(Cause::Unresolved, format!("cannot resolve {name}: no such host"))
            })?
        }
    };
    if !asked.bytes().all(|one| one.is_ascii_graphic()) {
        let shown = asked.escape_debug();
        return Err(Refusal::other(format!("'{shown}' cannot be asked of a proxy")));
    }
    let addresses = resolve(&proxy.host, proxy.port, deadline).await?;
    let mut stream = tcp(addresses, source, deadline).await?;
    let what = format!("the proxy {}:{}", proxy.host, proxy.port);
    let answered = timeout_at(deadline, ask(&mut stream, &asked))
        .await
        .map_err(|_| Refusal::new(Cause::TimedOut, format!("{what} did not answer in time")))?;
    match answered.map_err(|error| failed(&what, &error))? {
        status if (200..300).contains(&status) => Ok(stream),
        status => {
            let message = format!("{what} answered {status} when asked for {asked}");
            Err(Refusal::new(Cause::Refused, message))
        }
    }
}

/// Asks a proxy for a connection; returns the status of its answer. Bytes after the header of the
/// answer are not read, because they are the application's.
async fn ask(stream: &mut TcpStream, asked: &str) -> io::Result<u16> {
    let request = format!("CONNECT {asked} HTTP/1.1\r\nHost: {asked}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_ANSWER {
            return Err(io::Error::other("its answer is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
    let status = status.and_then(|status| status.trim().parse().ok());
    status.ok_or_else(|| io::Error::other("its answer is not HTTP"))
}

/// The cause of an error of the operating system (docs/protocol/control-plane.md 13.1).
fn failed(what: &str, error: &io::Error) -> Refusal {
    // EMFILE, ENFILE and ENOBUFS have no kind of their own.
    const EXHAUSTED: [i32; 3] = [24, 23, 105];
    let cause = match error.kind() {
        io::ErrorKind::ConnectionRefused => Cause::Refused,
        io::ErrorKind::TimedOut => Cause::TimedOut,
        _ if error.raw_os_error().is_some_and(|code| EXHAUSTED.contains(&code)) => Cause::Exhausted,
        _ => Cause::Other,
    };
    Refusal::new(cause, format!("{what}: {error}"))
}

#[cfg(test)]
mod tests;
