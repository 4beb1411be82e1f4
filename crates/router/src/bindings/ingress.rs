//! Listeners for programs without an SDK. Each connection, or conversation in datagrams, gets a circuit
//! to the listener's service (`proxy`, `proxy_udp`) or to the one that the client names first
//! (`transport`, `transport_udp`) (docs/protocol/data-plane.md 11).
//!
//! Such a circuit has no session: a controller makes it if this router itself may use the service.
//! Everyone who reaches the port thus reaches these services.

mod datagrams;
mod request;
mod streams;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
pub(crate) use datagrams::{DatagramEnds, DatagramLimits, serve_datagrams};
use parking_lot::Mutex;
pub(crate) use streams::{StreamLimits, serve_streams};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Semaphore;
use weft_channel::Threads;
use weft_circuit::now;
use weft_config::router::{IngressAddress, IngressKind};
use weft_limits::{FairSemaphore, Permit, Quota};
use weft_wire::ctrl::peer_data_key::{INITIATOR_LOCAL_ADDRESS, INITIATOR_REMOTE_ADDRESS};
use weft_wire::payload::hop_type;
use weft_xgress::{Options, Role};

use super::keys::Offer;
use super::socket::Crypto;
use super::talk::TalkSocket;
use crate::forwarder::{App, Forwarder, LocalEnd};
use crate::seam::{BindingCircuitRequest, Control, NewCircuit, Refusal};

/// Most circuits of one listener that are being made at the same time.
const MAX_MAKING: usize = 256;
/// Most circuits for one source that are being made at the same time.
const MAX_MAKING_OF_SOURCE: usize = 64;
/// The time after which a listener logs a reason again that it has logged.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
/// The time after which a listener logs a reason that differs from the last one.
const COMPLAIN_ANEW: Duration = Duration::from_secs(1);

/// The options of a listener.
#[derive(Debug)]
pub(crate) struct IngressOptions {
    /// The binding and the address, for messages.
    pub(crate) name: String,
    /// The service of all clients; `None` if each client names one first.
    pub(crate) service: Option<String>,
    /// Flow control of its circuits.
    pub(crate) end: Options,
    /// Time limit for making a circuit.
    pub(crate) circuit_timeout: Duration,
    /// How long clients may leave sent data unacknowledged.
    pub(crate) peer_timeout: Option<Duration>,
    /// The threads on which clients are served.
    pub(crate) threads: Threads,
}

/// Makes the circuits of one listener.
pub(crate) struct Ingress {
    forwarder: Arc<Forwarder>,
    control: Arc<dyn Control>,
    options: IngressOptions,
    /// Places among the circuits that are being made, and the share of each source.
    making: Semaphore,
    shares: Arc<FairSemaphore<IpAddr>>,
    complaint: Mutex<Option<(Instant, String)>>,
}

/// The two addresses of a conversation.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
}

/// A circuit that was made, and its end on this router.
struct Opened {
    id: String,
    end: Arc<LocalEnd>,
    crypto: Option<Crypto>,
}

/// Opens the listening socket of an address for connections.
pub(crate) async fn bind_streams(address: &IngressAddress) -> io::Result<TcpListener> {
    let addresses = addresses(address).await?;
    TcpListener::bind(&addresses[..]).await
}

/// Opens the socket of an address for datagrams.
pub(crate) async fn bind_datagrams(address: &IngressAddress) -> io::Result<TalkSocket> {
    if address.kind == IngressKind::Unixgram {
        return TalkSocket::at(Path::new(&address.at.host));
    }
    let addresses = addresses(address).await?;
    UdpSocket::bind(&addresses[..]).await.map(TalkSocket::from)
}

/// The addresses to listen on; the first one possible is used. Without a host they are all addresses of
/// the machine.
async fn addresses(address: &IngressAddress) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = (address.at.host.as_str(), address.at.port);
    let found: Vec<SocketAddr> = if host.is_empty() {
        vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()]
    } else {
        tokio::net::lookup_host((host, port)).await?.collect()
    };
    let fits = |one: &SocketAddr| match address.kind {
        IngressKind::Udp4 => one.is_ipv4(),
        IngressKind::Udp6 => one.is_ipv6(),
        _ => true,
    };
    let fitting: Vec<_> = found.into_iter().filter(fits).collect();
    if fitting.is_empty() {
        let text = format!("{host} has no address for {}", address.kind.name());
        return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
    }
    Ok(fitting)
}

impl Ingress {
    pub(crate) fn new(
        forwarder: Arc<Forwarder>,
        control: Arc<dyn Control>,
        options: IngressOptions,
    ) -> Arc<Self> {
        let making = Semaphore::new(MAX_MAKING);
        let shares = FairSemaphore::new(Quota::new(usize::MAX, MAX_MAKING_OF_SOURCE));
        Arc::new(Self { forwarder, control, options, making, shares, complaint: Mutex::default() })
    }

    /// Waits until a source may have a circuit made.
    async fn turn(&self, source: IpAddr) -> Result<Permit<IpAddr>, Refusal> {
        let turn = self.shares.acquire(source);
        let turn = tokio::time::timeout(self.options.circuit_timeout, turn).await;
        let busy = || Refusal::plain("too many circuits are being made for this source");
        turn.ok().flatten().ok_or_else(busy)
    }

    /// Waits for its turn and has a circuit made to a service.
    async fn open(
        &self,
        _: &Permit<IpAddr>,
        client: String,
        service: String,
        addresses: Addresses,
        datagrams: bool,
    ) -> Result<Opened, Refusal> {
        let timeout = self.options.circuit_timeout;
        let turn = tokio::time::timeout(timeout, self.making.acquire());
        let _turn = turn.await.map_err(|_| Refusal::plain("too many circuits are being made"))?;
        let offer = Offer::new(!datagrams).map_err(|error| Refusal::plain(error.to_string()))?;
        let mut peer_data = offer.peer_data();
        let told = [
            (INITIATOR_LOCAL_ADDRESS, addresses.local),
            (INITIATOR_REMOTE_ADDRESS, addresses.remote),
        ];
        peer_data.extend(
            told.into_iter()
                .filter_map(|(key, address)| Some((key, Bytes::from(address?.to_string())))),
        );
        let request = BindingCircuitRequest { client, service, peer_data, timeout };
        let made = tokio::time::timeout(timeout, self.control.create_binding_circuit(request));
        let made = made.await.map_err(|_| Refusal::plain("no circuit was made in time"))??;
        let given_up = |why: String| {
            self.forwarder.end_gone(&made.controller, &made.id, Role::Initiator);
            Refusal { circuit: Some(made.id.clone()), ..Refusal::plain(why) }
        };
        let crypto = offer.accepted(&made.peer_data);
        let crypto = crypto.map_err(|error| given_up(format!("the key of the host: {error}")))?;
        let end = self
            .attach(&made, datagrams)
            .ok_or_else(|| given_up("the circuit ended while it was made".to_owned()))?;
        Ok(Opened { id: made.id, end, crypto })
    }

    /// Puts an end at the address that the controller gave; `None` if the circuit was taken down
    /// meanwhile.
    fn attach(&self, made: &NewCircuit, datagrams: bool) -> Option<Arc<LocalEnd>> {
        // The circuit had its route before the controller answered. It may have been taken down
        // since.
        let circuit = self.forwarder.circuit(&made.id)?;
        let options = Options { datagrams, ..self.options.end.clone() };
        let hop_type = match &self.options.service {
            _ if datagrams => hop_type::UDP,
            Some(_) => hop_type::PROXY,
            None => hop_type::TRANSPORT,
        };
        let end = self.forwarder.start_end(
            Arc::clone(&circuit),
            &made.address,
            Role::Initiator,
            &options,
            App::Socket { hop_type },
        );
        if circuit.has_ended() {
            // An unroute meanwhile may not have found the new end.
            end.discard();
            return None;
        }
        end.begin();
        Some(end)
    }

    /// Logs why a client got no circuit, the same reason once in [`COMPLAIN_EVERY`].
    fn complain(&self, remote: impl Display, why: &str) {
        let name = &self.options.name;
        let now = now();
        let mut last = self.complaint.lock();
        let is_new = last.as_ref().is_none_or(|(at, text)| {
            let pause = if text == why { COMPLAIN_EVERY } else { COMPLAIN_ANEW };
            now.saturating_duration_since(*at) >= pause
        });
        if is_new {
            *last = Some((now, why.to_owned()));
            tracing::warn!(listener = %name, client = %remote, "no circuit was made: {why}");
        } else {
            tracing::debug!(listener = %name, client = %remote, "no circuit was made: {why}");
        }
    }
}
