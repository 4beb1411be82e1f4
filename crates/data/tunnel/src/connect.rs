//! Connecting to applications (docs/protocol/tunnel.md 9.2).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout, timeout_at};
use weft_channel::Asker;
use weft_proxy::HttpProxy;

use crate::config::CONNECT_TIMEOUT;
use crate::{
    AppData, AppDatagrams, CircuitTarget, Datagrams, DialingIdentity, HostConfig, Protocol, Reach,
    Refusal, RefusalCause, TargetHost, records, refusal,
};

/// Ports below this are privileged.
const PRIVILEGED: u16 = 1024;

/// A socket to an application.
#[derive(Debug)]
pub enum Connected {
    /// A stream.
    Tcp(TcpStream),
    /// Datagrams.
    Udp(AppDatagrams),
    /// No socket: this process answers questions for records of names, one message in each payload.
    Resolver(Datagrams),
}

impl Connected {
    /// The addresses of this side and of the application, as far as they are known.
    #[must_use]
    pub fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let (local, remote) = match self {
            Self::Tcp(stream) => (stream.local_addr(), stream.peer_addr()),
            Self::Udp(socket) => socket.addresses(),
            Self::Resolver(_) => return (None, None),
        };
        (local.ok(), remote.ok())
    }
}

impl HostConfig {
    /// Connects a dialer to the application that it asks for, if that is allowed. `most` is the time
    /// limit, if the config does not set a shorter one. `peer_timeout` is how long the application may
    /// leave sent data unacknowledged. Names are looked up in the share of the dialer.
    ///
    /// The judged address itself is dialed: nothing is resolved a second time.
    ///
    /// # Errors
    /// When the destination is not allowed, or cannot be reached.
    pub async fn connect(
        &self,
        dialer: &DialingIdentity,
        data: &AppData,
        most: Duration,
        peer_timeout: Option<Duration>,
    ) -> Result<Connected, Refusal> {
        if data.text("connType")? == Some(records::CONNECTION) {
            return Ok(Connected::Resolver(self.resolver.open(dialer)));
        }
        let limit = most.min(self.connect_timeout);
        let deadline = Instant::now() + limit;
        let connected = self.connect_until(dialer, data, deadline, peer_timeout).await;
        connected.map_err(|mut refusal| {
            if refusal.cause == RefusalCause::TimedOut {
                let message = &mut refusal.message;
                let says = self.connect_timeout;
                message.push_str(&match limit < says && says > CONNECT_TIMEOUT {
                    true => format!(
                        " (within {limit:?}: a dial leaves no more; the config says {says:?})"
                    ),
                    false => format!(" (within {limit:?})"),
                });
            }
            refusal
        })
    }

    async fn connect_until(
        &self,
        dialer: &DialingIdentity,
        data: &AppData,
        deadline: Instant,
        peer_timeout: Option<Duration>,
    ) -> Result<Connected, Refusal> {
        let target = self.target(data)?;
        let source = self.source(dialer, data).await?;
        let asker = match self.forwards_address() {
            true => Asker::Chooser(dialer.as_str()),
            false => Asker::Dialer(dialer.as_str()),
        };
        let stream = match (&self.proxy, target.protocol) {
            (Some(_), Protocol::Udp) => {
                return Err(Refusal::other("udp does not go through a proxy"));
            }
            (Some(proxy), Protocol::Tcp) => {
                let through = Through { proxy, dialer, source, deadline };
                through.connect(asker, &target).await?
            }
            (None, protocol) => {
                let addresses = judged(asker, &target, deadline).await?;
                match protocol {
                    Protocol::Udp => {
                        return AppDatagrams::connect(addresses, source).map(Connected::Udp);
                    }
                    Protocol::Tcp => connect_tcp(addresses, source, deadline).await?,
                }
            }
        };
        let (prepared, what) = (weft_channel::prepare(&stream, peer_timeout), "setting options");
        prepared.map_err(|error| Refusal::of_system(what, &error))?;
        Ok(Connected::Tcp(stream))
    }

    /// The source address that the dialer asks for, if it is allowed.
    async fn source(
        &self,
        dialer: &DialingIdentity,
        data: &AppData,
    ) -> Result<Option<SocketAddr>, Refusal> {
        let Some(text) = data.text("source_addr")?.filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        let parsed = text.parse::<SocketAddr>().ok();
        let parsed = parsed.or_else(|| Some(SocketAddr::new(text.parse().ok()?, 0)));
        let source = parsed.ok_or_else(|| {
            Refusal::other(format!(
                "source_addr '{}' is no address, with or without port",
                refusal::shown(text)
            ))
        })?;
        let source = SocketAddr::new(source.ip().to_canonical(), source.port());
        match &self.allowed_sources {
            Some(allowed) if !allowed.allow(source.ip(), dialer).await => {
                Err(Refusal::other(format!(
                    "source address '{}' is not in allowed source addresses",
                    refusal::shown(text)
                )))
            }
            // Another address of this machine does no harm; a privileged port, which others may
            // trust, would.
            None if (1..PRIVILEGED).contains(&source.port()) => Err(Refusal::other(format!(
                "source address '{}' has a privileged port, and no source addresses are allowed",
                refusal::shown(text)
            ))),
            _ => Ok(Some(source)),
        }
    }
}

/// The addresses of a target that may be dialed.
async fn judged(
    asker: Asker<'_>,
    target: &CircuitTarget,
    deadline: Instant,
) -> Result<Vec<SocketAddr>, Refusal> {
    let found = match &target.host {
        TargetHost::Address(address) => vec![SocketAddr::new(*address, target.port)],
        TargetHost::Name(name, _) => look_up(asker, name, target.port, deadline).await?,
    };
    target.host.judge(found)
}

/// The addresses of a host that the config of a service names, for a dialer; at least one. The caller dials these
/// addresses and does not resolve the name again, because a second answer may lead somewhere else.
///
/// # Errors
/// When the host cannot be found until the deadline.
pub async fn resolve(
    dialer: &DialingIdentity,
    host: &str,
    port: u16,
    deadline: Instant,
) -> Result<Vec<SocketAddr>, Refusal> {
    look_up(Asker::Dialer(dialer.as_str()), host, port, deadline).await
}

async fn look_up(
    asker: Asker<'_>,
    host: &str,
    port: u16,
    deadline: Instant,
) -> Result<Vec<SocketAddr>, Refusal> {
    let unresolved = |why: &str| {
        Refusal::new(
            RefusalCause::Unresolved,
            format!("cannot resolve {}: {why}", refusal::cut(host)),
        )
    };
    let found = timeout_at(deadline, weft_channel::resolve_for(asker, host, port)).await;
    let found = found.map_err(|_| unresolved("no answer in time"))?;
    let found = found.map_err(|error| unresolved(&error.to_string()))?;
    if found.is_empty() { Err(unresolved("no such host")) } else { Ok(found) }
}

/// Connects to the first of a host's addresses that answers, until a deadline.
///
/// # Errors
/// When none answers.
pub async fn connect_tcp(
    addresses: Vec<SocketAddr>,
    source: Option<SocketAddr>,
    deadline: Instant,
) -> Result<TcpStream, Refusal> {
    let target = shown(&addresses);
    let connecting = async {
        match source {
            Some(source) if source.port() != 0 => from(source, &addresses, deadline).await,
            source => weft_channel::connect(addresses, source.map(|one| one.ip())).await,
        }
    };
    let connected = timeout_at(deadline, connecting).await.map_err(|_| {
        Refusal::new(RefusalCause::TimedOut, format!("tcp:{target} did not answer in time"))
    })?;
    connected
        .map_err(|error| Refusal::of_system(&format!("cannot connect to tcp:{target}"), &error))
}

/// The addresses of a host, for a message: the first three, and the number of the others.
fn shown(addresses: &[SocketAddr]) -> String {
    const SHOWN: usize = 3;
    let mut parts: Vec<_> = addresses.iter().take(SHOWN).map(ToString::to_string).collect();
    if addresses.len() > SHOWN {
        parts.push(format!("{} more", addresses.len() - SHOWN));
    }
    parts.join(" or ")
}

/// Connects from this source address, to one address after the other, because they cannot be tried at
/// once. Each has an equal part of the time that is left.
async fn from(
    source: SocketAddr,
    addresses: &[SocketAddr],
    deadline: Instant,
) -> io::Result<TcpStream> {
    let mut failure = no_address(Some(source.ip()));
    let fits = |remote: &&SocketAddr| remote.is_ipv4() == source.is_ipv4();
    let mut left = u32::try_from(addresses.iter().filter(fits).count()).unwrap_or(u32::MAX);
    for remote in addresses.iter().filter(fits) {
        let part = (deadline - Instant::now()) / left.max(1);
        left -= 1;
        let socket = if remote.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // The client of the other side may connect again from the same port.
        socket.set_reuseaddr(true)?;
        weft_channel::mark(&socket)?;
        socket.bind(source)?;
        match timeout(part, socket.connect(*remote)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = error,
            Err(_) => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failure)
}

/// The host has no address, or none of the family of this source address.
pub(crate) fn no_address(source: Option<IpAddr>) -> io::Error {
    let family = source.map_or("", |one| if one.is_ipv4() { " of IPv4" } else { " of IPv6" });
    io::Error::new(io::ErrorKind::NotFound, format!("the host has no address{family}"))
}

/// The way of a dialer through a proxy, from a source address.
struct Through<'a> {
    proxy: &'a HttpProxy,
    dialer: &'a DialingIdentity,
    source: Option<SocketAddr>,
    deadline: Instant,
}

impl Through<'_> {
    /// Connects to a target. The proxy resolves a name that may have any address; other names are resolved and judged
    /// here, and the proxy is sent one address after the other.
    async fn connect(
        &self,
        asker: Asker<'_>,
        target: &CircuitTarget,
    ) -> Result<TcpStream, Refusal> {
        let asked = match &target.host {
            TargetHost::Name(name, Reach::Any) => vec![name.clone()],
            TargetHost::Address(_) | TargetHost::Name(_, Reach::Beyond(_)) => {
                let judged = judged(asker, target, self.deadline).await?;
                judged.iter().map(|one| one.ip().to_string()).collect()
            }
        };
        let mut failure = Refusal::new(RefusalCause::Unresolved, "the host has no address");
        for host in asked {
            match self.connect_to(&host, target.port).await {
                Ok(stream) => return Ok(stream),
                Err(refusal) => failure = refusal,
            }
        }
        Err(failure)
    }

    /// Connects to one address, or to the host of a name.
    async fn connect_to(&self, host: &str, port: u16) -> Result<TcpStream, Refusal> {
        let Self { proxy, dialer, source, deadline } = *self;
        let named = |refusal: Refusal| {
            Refusal::new(refusal.cause, format!("cannot reach {proxy}: {refusal}"))
        };
        let addresses = resolve(dialer, &proxy.host, proxy.port, deadline).await.map_err(named)?;
        let mut stream = connect_tcp(addresses, source, deadline).await.map_err(named)?;
        let connected = timeout_at(deadline, proxy.connect(&mut stream, host, port)).await;
        let late =
            |_| Refusal::new(RefusalCause::TimedOut, format!("{proxy} did not answer in time"));
        connected.map_err(late)?.map(|()| stream).map_err(|error| {
            let cause = Refusal::of_system("", &error).cause;
            Refusal::new(cause, error.to_string())
        })
    }
}

#[cfg(test)]
mod tests;
