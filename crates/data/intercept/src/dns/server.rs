//! The DNS server's sockets: questions over UDP and TCP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weft_limits::{FairSemaphore, Permit, Quota, source_of};

use super::hosts::Hosts;
use super::message::{Kind, MAX_QUERY, Question, Read, read};
use super::rebinding::{Rebinding, is_localhost};
use super::upstream::Upstreams;
use crate::options::{DnsOptions, Unanswerable};
use crate::rates::Rates;
use crate::records::{RecordQuestion, Records};
use crate::seats::{Patience, Seat, Seats};
use crate::shared::{Shared, Untold};
use crate::socket;
use crate::state::Naming;

/// Most questions that wait at once, in all and of one client.
const WAITING: (usize, usize) = (1_024, 256);
/// Most questions of this machine that wait at once. Its resolver asks for all of its programs;
/// other clients have the rest of [`WAITING`].
const OWN_WAITING: usize = 768;
/// Questions of one client per second, and at once. This machine has no such limit, because its
/// resolver asks for all of its programs.
const RATE: (f64, u32) = (500.0, 2_000);
/// Most connections at once, in all and of one client.
const CONNECTIONS: (usize, usize) = (128, 16);
/// Times after which a silent connection gives its place to another one, when all places are taken.
const PATIENCE: Patience = Patience {
    own: Duration::ZERO,
    many: Duration::ZERO,
    unproven: Duration::ZERO,
    proven: Duration::from_secs(1),
};
/// Longest time a connection may be idle.
const IDLE: Duration = Duration::from_secs(10);
/// The interval at which an address is tried again that another program uses.
const AGAIN: Duration = Duration::from_secs(5);

/// The DNS server.
pub(crate) struct DnsServer {
    shared: Arc<Shared>,
    options: DnsOptions,
    /// True if names have addresses of IPv6; names have addresses of one family only.
    v6: bool,
    upstreams: Upstreams,
    rebinding: Rebinding,
    hosts: Hosts,
    waiting: Arc<FairSemaphore<IpAddr>>,
    connections: Arc<Seats>,
    rates: Rates,
}

/// The next step for a question.
enum Next {
    Say(Option<Vec<u8>>),
    /// The name is below a wildcard, and is assigned an address first.
    Assign,
    /// The firewall does not have the address of the name yet.
    Wait,
    /// Another DNS server is asked.
    Ask,
    /// The host of a service is asked.
    AskHost(Arc<str>, RecordQuestion),
}

impl DnsServer {
    pub(crate) fn new(shared: Arc<Shared>, options: DnsOptions, v6: bool) -> Arc<Self> {
        Arc::new(Self {
            hosts: Hosts::new(Arc::clone(&shared.carry)),
            rebinding: Rebinding::new(shared.range, &options.private_domains),
            shared,
            upstreams: Upstreams::new(&options.upstream, options.mode),
            options,
            v6,
            waiting: FairSemaphore::new(Quota::new(WAITING.0, WAITING.1)),
            connections: Seats::new(CONNECTIONS.0, CONNECTIONS.1, PATIENCE),
            rates: Rates::new(RATE),
        })
    }

    /// Listens at all configured addresses. An address that another program uses is tried again at
    /// intervals; an address that this machine does not have is an error.
    pub(crate) fn start(
        self: &Arc<Self>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Result<(), (SocketAddr, io::Error)> {
        for &at in &self.options.listen {
            let bound = match socket::serve(at) {
                Ok(bound) => Some(bound),
                Err(problem) if problem.kind() == io::ErrorKind::AddrInUse => {
                    tracing::error!(
                        address = %at,
                        "another program has the DNS server's address: names are not resolved; \
                         end that program, or change `resolver`"
                    );
                    None
                }
                Err(problem) => return Err((at, problem)),
            };
            let this = Arc::clone(self);
            let (stop, inner) = (stop.clone(), tasks.clone());
            tasks.spawn(async move {
                stop.clone().run_until_cancelled_owned(this.listen(at, bound, inner, stop)).await;
            });
        }
        Ok(())
    }

    async fn listen(
        self: Arc<Self>,
        at: SocketAddr,
        mut bound: Option<(UdpSocket, TcpListener)>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) {
        let (udp, tcp) = loop {
            match bound.take() {
                Some(bound) => break bound,
                None => tokio::time::sleep(AGAIN).await,
            }
            bound = socket::serve(at).ok();
        };
        tracing::info!(address = %at, "DNS server");
        tokio::join!(
            self.over_udp(at, Arc::new(udp), &tasks, &stop),
            self.over_tcp(at, tcp, &tasks, &stop)
        );
    }

    async fn over_udp(
        self: &Arc<Self>,
        at: SocketAddr,
        socket: Arc<UdpSocket>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let mut buffer = [0; MAX_QUERY + 1];
        loop {
            let Ok((length, client)) = socket.recv_from(&mut buffer).await else {
                // An error caused by an earlier answer; a socket that stays broken must not use up
                // a processor.
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            };
            let bytes = buffer.get(..length).unwrap_or_default();
            if !self.serves(at, client.ip()) || !self.may(client.ip()) {
                continue;
            }
            let question = match read(bytes) {
                Read::Nothing => continue,
                Read::Wrong(answer) => {
                    let _ = socket.try_send_to(&answer, client);
                    continue;
                }
                Read::Question(question) => question,
            };
            match self.next(&question, client.ip()) {
                Next::Say(None) => {}
                Next::Say(Some(answer)) => drop(socket.try_send_to(&answer, client)),
                next @ (Next::Assign | Next::Wait | Next::Ask | Next::AskHost(..)) => {
                    let Some(turn) = turn(&self.waiting, client.ip()) else { continue };
                    let (this, socket) = (Arc::clone(self), Arc::clone(&socket));
                    let (bytes, stop) = (bytes.to_vec(), stop.clone());
                    tasks.spawn(async move {
                        let answering = this.finish(next, &question, &bytes, false);
                        let answer = stop.run_until_cancelled(answering).await.flatten();
                        if let Some(answer) = answer.and_then(|answer| question.fitting(answer)) {
                            let _ = socket.send_to(&answer, client).await;
                        }
                        drop(turn);
                    });
                }
            }
        }
    }

    async fn over_tcp(
        self: &Arc<Self>,
        at: SocketAddr,
        listener: TcpListener,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        loop {
            let Ok((stream, client)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            if !self.serves(at, client.ip()) {
                continue;
            }
            let seat = self.connections.take(client.ip(), Instant::now());
            let Some(seat) = seat else { continue };
            let (this, stop) = (Arc::clone(self), stop.clone());
            tasks.spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = seat.over().cancelled() => {}
                    _ = this.converse(stream, client.ip(), &seat) => {}
                }
            });
        }
    }

    async fn converse(&self, mut stream: TcpStream, client: IpAddr, seat: &Seat) -> io::Result<()> {
        loop {
            let length = usize::from(timeout(IDLE, stream.read_u16()).await??);
            if length > MAX_QUERY || !self.may(client) {
                return Ok(());
            }
            let mut bytes = vec![0; length];
            timeout(IDLE, stream.read_exact(&mut bytes)).await??;
            seat.touch();
            seat.prove();
            let answer = match read(&bytes) {
                Read::Nothing => return Ok(()),
                Read::Wrong(answer) => Some(answer),
                Read::Question(question) => match self.next(&question, client) {
                    Next::Say(answer) => answer,
                    next => self.finish(next, &question, &bytes, true).await,
                },
            };
            let Some(answer) = answer else { return Ok(()) };
            let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
            let framed = [&length.to_be_bytes()[..], &answer].concat();
            timeout(IDLE, stream.write_all(&framed)).await??;
            seat.touch();
        }
    }

    /// True if a client may ask at an address of this server.
    fn serves(&self, at: SocketAddr, client: IpAddr) -> bool {
        let client = client.to_canonical();
        match self.options.clients.get(&at) {
            None => is_near(client),
            Some(nets) => client.is_loopback() || nets.iter().any(|net| net.contains(&client)),
        }
    }

    /// True if the client's rate allows a question now.
    fn may(&self, client: IpAddr) -> bool {
        client.is_loopback() || self.rates.may(client, Instant::now())
    }

    fn next(&self, question: &Question, client: IpAddr) -> Next {
        let recursive = !self.upstreams.is_empty();
        let unanswerable =
            || Next::Say(question.unanswerable(self.options.unanswerable, recursive));
        let kind = question.kind();
        if kind == Kind::Unforwarded {
            return unanswerable();
        }
        if is_localhost(&question.name) {
            let own = match kind {
                Kind::Address { v6: false } => Some(IpAddr::from(Ipv4Addr::LOCALHOST)),
                Kind::Address { v6: true } => Some(IpAddr::from(Ipv6Addr::LOCALHOST)),
                _ => None,
            };
            return Next::Say(question.found(own, recursive));
        }
        if let Kind::Records(kind) = kind
            && let Some(host) = self.shared.host_of(&question.name, client)
        {
            return Next::AskHost(host, RecordQuestion { name: question.name.clone(), kind });
        }
        // A name of a service has addresses of one family, and nothing else.
        let is_for = |v6| kind == Kind::Address { v6 };
        match self.shared.naming(&question.name) {
            Naming::Known(address, _) if !is_for(address.is_ipv6()) => {
                Next::Say(question.found(None, recursive))
            }
            Naming::Known(address, revision) if self.shared.is_in_firewall(address, revision) => {
                Next::Say(question.found(Some(address), recursive))
            }
            Naming::Known(..) => Next::Wait,
            Naming::Wild if is_for(self.v6) => Next::Assign,
            Naming::Wild => Next::Say(question.found(None, recursive)),
            Naming::Unknown if recursive => Next::Ask,
            Naming::Unknown => unanswerable(),
        }
    }

    async fn finish(
        &self,
        next: Next,
        question: &Question,
        bytes: &[u8],
        tcp: bool,
    ) -> Option<Vec<u8>> {
        let recursive = !self.upstreams.is_empty();
        let answer = match next {
            Next::Say(answer) => return answer,
            Next::Assign => self.told(question, self.shared.assign(&question.name).await),
            Next::Wait => self.told(question, self.shared.known(&question.name).await),
            Next::Ask => self.above(question, bytes, tcp).await,
            Next::AskHost(service, asked) => {
                let records = self.hosts.ask(service, asked).await;
                let is_named = !matches!(self.shared.naming(&question.name), Naming::Unknown);
                match records {
                    // A name with an address exists, whatever the host looks up.
                    Some(found) if !(is_named && found.code == Records::NO_NAME) => {
                        question.records(&found, recursive)
                    }
                    _ if is_named => question.found(None, recursive),
                    _ => self.above(question, bytes, tcp).await,
                }
            }
        };
        answer.or_else(|| question.unanswerable(self.options.unanswerable, recursive))
    }

    /// The answer of another server.
    async fn above(&self, question: &Question, bytes: &[u8], tcp: bool) -> Option<Vec<u8>> {
        let answer = self.upstreams.ask(bytes, tcp).await?;
        self.rebinding.kept(&question.name, answer)
    }

    /// The answer with the address of a name; `None` if it has none. A client that would have to wait longer
    /// is told to ask again.
    fn told(&self, question: &Question, address: Result<IpAddr, Untold>) -> Option<Vec<u8>> {
        let recursive = !self.upstreams.is_empty();
        match address {
            Ok(address) => question.found(Some(address), recursive),
            Err(Untold::Late) => question.unanswerable(Unanswerable::Servfail, recursive),
            Err(Untold::Unassigned) => None,
        }
    }
}

/// A place for a question that waits.
fn turn(waiting: &Arc<FairSemaphore<IpAddr>>, client: IpAddr) -> Option<Permit<IpAddr>> {
    let most = if client.to_canonical().is_loopback() { OWN_WAITING } else { WAITING.1 };
    waiting.try_acquire_with(source_of(client), |_| most).ok()
}

/// True if an address belongs to this machine or to a private network.
fn is_near(client: IpAddr) -> bool {
    match client {
        IpAddr::V4(v4) => {
            let shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            v4.is_loopback() || v4.is_private() || v4.is_link_local() || shared
        }
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

/// True if asking this server would mean asking this program itself.
pub(crate) fn is_ourselves(options: &DnsOptions, upstream: SocketAddr) -> bool {
    options.listen.iter().any(|at| {
        let all = at.ip().is_unspecified() && is_this_machine(upstream.ip());
        at.port() == upstream.port() && (at.ip() == upstream.ip() || all)
    })
}

fn is_this_machine(address: IpAddr) -> bool {
    address.is_unspecified()
        || address.is_loopback()
        || if_addrs::get_if_addrs().is_ok_and(|own| own.iter().any(|own| own.ip() == address))
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
