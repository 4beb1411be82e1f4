//! The listening side of the hello.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use weft_limits::LogLines;
use weft_wire::hello::{Hello, HelloResult, RejectClass, negotiation};
use weft_wire::{FrameError, FrameLimits, Headers, WireError};

use crate::clock;
use crate::connection::Connection;
use crate::error::CloseReason;
use crate::established::{Established, OnStart};
use crate::group::{GroupPolicy, secrets_match};
use crate::handle::ChannelHandle;
use crate::handshake::{HelloStream, ReadError};
use crate::listener::{Arrival, ChannelHandler, ProtocolHandler};
use crate::options::ChannelOptions;
use crate::peer::PeerInfo;
use crate::registry::{GroupLookup, Registry, Reservation};
use crate::shared::{Group, GroupState, Shared};
use crate::tls::Secured;

/// How long a further connection waits for its group to be opened.
const GROUP_WAIT: Duration = Duration::from_secs(1);

/// A hello that waits for its answer.
#[derive(Debug)]
pub struct PeerHello {
    /// The dialer's hello. Its token proves nothing.
    pub hello: Hello,
    /// The dialer's certificates, leaf first. TLS has proved that the dialer has the key of the
    /// leaf, and nothing about the others; the gate decides whether the leaf is trusted.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The address of the dialer.
    pub remote: SocketAddr,
    /// The address of this side.
    pub local: SocketAddr,
    /// The protocol that the dialer chose by ALPN.
    pub protocol: String,
    /// The open channel that the connection wants to join. Secret and identity decide on that after
    /// the gate has admitted it.
    pub joining: Option<ChannelHandle>,
}

/// The gate's answer to an admitted hello.
#[derive(Debug)]
pub struct Admission {
    /// The id of this side.
    pub listener_id: String,
    /// The identity of the dialer. A further connection of a group must have the same; empty
    /// compares the leaf certificates.
    pub identity: Vec<u8>,
    /// Headers added to the answer.
    pub headers: Headers,
    /// The options of the channel.
    pub channel: ChannelOptions,
    /// The connections that the channel may have; with `None` the answer is that of a listener without
    /// groups.
    pub group: Option<GroupPolicy>,
}

/// The gate's refusal.
#[derive(Debug)]
pub struct Refusal {
    /// The reason, for the log and for an answer.
    pub reason: String,
    /// The class of the answer; `None` closes without an answer, as original listeners do.
    pub answer: Option<RejectClass>,
}

impl Refusal {
    /// Closes without an answer.
    pub fn close(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), answer: None }
    }

    /// Answers, then closes.
    pub fn answer(class: RejectClass, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), answer: Some(class) }
    }
}

/// Decides on hellos and takes over the resulting channels.
pub trait HelloGate: Send + Sync + 'static {
    /// Checks the certificates before anything is read, so that a peer without one of the network
    /// is disconnected at once.
    fn screen(&self, certificates: &[CertificateDer<'static>]) -> Result<(), Refusal> {
        let _ = certificates;
        Ok(())
    }

    /// Decides on a hello before it is answered. Called for every connection, also for further ones
    /// of a group: nothing in a hello exempts it.
    fn check(&self, peer: &PeerHello) -> impl Future<Output = Result<Admission, Refusal>> + Send;

    /// Takes over a new channel: the answer is sent, nothing is read yet. Dropping the channel
    /// closes it. Work after its start belongs into a task of its own.
    fn established(&self, channel: Established) -> impl Future<Output = ()> + Send;
}

/// Limits of the hello.
#[derive(Debug, Clone, Copy)]
pub struct AcceptOptions {
    /// Time to read the hello, and again to check and answer it.
    pub hello_timeout: Duration,
    /// Largest hello.
    pub hello_limits: FrameLimits,
    /// True if an admitted peer counts as known, so that its source gets places of its own that
    /// unknown peers cannot take.
    pub vouches: bool,
}

impl Default for AcceptOptions {
    fn default() -> Self {
        Self {
            hello_timeout: Duration::from_secs(5),
            hello_limits: FrameLimits::HELLO,
            vouches: false,
        }
    }
}

/// Turns TLS connections into channels, asking a gate.
#[derive(Debug)]
pub struct ChannelAcceptor<G>(Arc<Inner<G>>);

#[derive(Debug)]
struct Inner<G> {
    gate: G,
    options: AcceptOptions,
    groups: Arc<Registry>,
    refusals: Mutex<LogLines>,
}

impl<G: HelloGate> ChannelAcceptor<G> {
    /// An acceptor with its own groups.
    pub fn new(gate: G, options: AcceptOptions) -> Self {
        let refusals = Mutex::new(LogLines::new(clock::now()));
        Self(Arc::new(Inner { gate, options, groups: Arc::default(), refusals }))
    }
}

impl<G> Clone for ChannelAcceptor<G> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<G: HelloGate> ChannelAcceptor<G> {
    /// Makes a channel of a connection, or adds the connection to the open channel that it joins.
    pub(crate) async fn take<F: HelloStream>(self, connection: Arrival<F>) {
        let remote = connection.remote;
        let Err(problem) = self.0.accept(connection).await else { return };
        let due = self.0.refusals.lock().due(clock::now());
        match due {
            Some(left_out) => tracing::info!(
                peer = %remote, %problem, left_out,
                "connection refused; {left_out} more were refused since the last such line"
            ),
            None => tracing::debug!(peer = %remote, %problem, "connection refused"),
        }
    }
}

impl<G: HelloGate> ChannelHandler for ChannelAcceptor<G> {
    fn handle(&self, connection: Arrival<Secured>) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().take(connection))
    }
}

impl<G: HelloGate> From<Arc<ChannelAcceptor<G>>> for ProtocolHandler {
    fn from(acceptor: Arc<ChannelAcceptor<G>>) -> Self {
        Self::of_channels(acceptor)
    }
}

#[derive(Debug, thiserror::Error)]
enum AcceptError {
    #[error("no hello in time")]
    Timeout,
    #[error("connection failed during the hello: {0}")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("{0}")]
    Refused(String),
    #[error("the group was not opened in time")]
    GroupWait,
    #[error("the connection belongs to no open group and is not the first of one")]
    NoGroup,
    #[error("wrong group secret")]
    Secret,
    #[error("the connection is not of the identity that opened the group")]
    Identity,
    #[error("not attached: {0}")]
    Attach(CloseReason),
}

/// The group that a connection belongs to.
enum Membership {
    Alone,
    First { id: String, reservation: Reservation },
    Joins(ChannelHandle),
}

impl<G: HelloGate> Inner<G> {
    async fn accept<F: HelloStream>(&self, connection: Arrival<F>) -> Result<(), AcceptError> {
        let Arrival { mut stream, remote, local, protocol, pending, slot } = connection;
        let certificates = stream.certificates();
        if let Err(refusal) = self.gate.screen(&certificates) {
            return Err(AcceptError::Refused(refusal.reason));
        }
        let hello = self.in_time(self.read_hello(&mut stream)).await?;
        let membership = self.membership(&hello).await?;
        let joining = match &membership {
            Membership::Joins(channel) => Some(channel.clone()),
            _ => None,
        };
        let peer = PeerHello { hello, certificates, remote, local, protocol, joining };
        let admission = match self.in_time(async { Ok(self.gate.check(&peer).await) }).await? {
            Ok(admission) => admission,
            Err(refusal) => return self.refuse(&mut stream, &peer.hello, refusal).await,
        };
        if self.options.vouches {
            pending.vouch();
        }
        let connection = |stream: F, hello: &Hello| {
            let kind = hello.underlay_type().unwrap_or_default().to_owned();
            Connection { pump: stream.into_transport(), kind, slot: Some(slot) }
        };
        let identity = identity(&admission, &peer);
        if let Membership::Joins(channel) = membership {
            let group = channel.shared().group.as_ref().ok_or(AcceptError::NoGroup)?;
            let known = group.state.lock().clone();
            if !secrets_match(&known.secret, peer.hello.group_secret().unwrap_or_default()) {
                return Err(AcceptError::Secret);
            }
            if group.identity != identity {
                return Err(AcceptError::Identity);
            }
            let answer = answer(&admission, &peer.hello, &known.id).grouped(&known.secret);
            self.in_time(self.write(&mut stream, &answer)).await?;
            let attached = channel.shared().attach(connection(stream, &peer.hello));
            return attached.map_err(AcceptError::Attach);
        }
        let (id, reservation) = match membership {
            Membership::First { id, reservation } if admission.group.is_some() => {
                (id, Some(reservation))
            }
            _ => (new_id(), None),
        };
        let mut reply = answer(&admission, &peer.hello, &id);
        let group = admission.group.clone().filter(|_| reservation.is_some()).map(|policy| {
            let secret = peer.hello.group_secret().map_or_else(new_secret, <[u8]>::to_vec);
            Group { policy, state: Mutex::new(GroupState { id, secret }), identity }
        });
        if let Some(group) = &group {
            reply = reply.grouped(&group.state.lock().secret);
        }
        self.in_time(self.write(&mut stream, &reply)).await?;
        drop(pending);
        let connection = connection(stream, &peer.hello);
        let shared = Shared::new(admission.channel, peer_info(peer), group);
        let started = reservation
            .map(|reservation| -> OnStart { Box::new(move |channel| reservation.open(channel)) });
        self.gate.established(Established::new(shared, connection, started)).await;
        Ok(())
    }

    /// Reads the hello. A peer with another version of frames is sent the supported ones.
    async fn read_hello(&self, stream: &mut impl HelloStream) -> Result<Hello, AcceptError> {
        match stream.read(self.options.hello_limits).await {
            Ok(message) => Ok(Hello::from_message(message)?),
            Err(ReadError::Io(error)) => Err(error.into()),
            Err(ReadError::Frame(error)) => {
                if matches!(error, FrameError::Magic { .. }) {
                    stream.write_bytes(&negotiation::RESPONSE).await?;
                    stream.end().await;
                }
                Err(error.into())
            }
        }
    }

    async fn membership(&self, hello: &Hello) -> Result<Membership, AcceptError> {
        if !hello.is_grouped() {
            return Ok(Membership::Alone);
        }
        let id = hello.connection_id().map_or_else(new_id, str::to_owned);
        loop {
            match self.groups.lookup(&id, hello.is_first()) {
                GroupLookup::Open(channel) => return Ok(Membership::Joins(channel)),
                GroupLookup::Reserved(reservation) => {
                    return Ok(Membership::First { id, reservation });
                }
                GroupLookup::Unknown => return Err(AcceptError::NoGroup),
                GroupLookup::Creating(mut decided) => {
                    let decision = tokio::time::timeout(GROUP_WAIT, decided.changed());
                    // The sender is dropped when the group is opened or given up: look it up again.
                    let _ = decision.await.map_err(|_| AcceptError::GroupWait)?;
                }
            }
        }
    }

    async fn refuse(
        &self,
        stream: &mut impl HelloStream,
        hello: &Hello,
        refusal: Refusal,
    ) -> Result<(), AcceptError> {
        if let Some(class) = refusal.answer {
            let answer = HelloResult::refuse(hello, class, refusal.reason.clone());
            self.in_time(self.write(stream, &answer)).await?;
            let _ = self
                .in_time(async {
                    stream.end().await;
                    Ok(())
                })
                .await;
        }
        Err(AcceptError::Refused(refusal.reason))
    }

    async fn write(
        &self,
        stream: &mut impl HelloStream,
        answer: &HelloResult,
    ) -> Result<(), AcceptError> {
        Ok(stream.write(&answer.to_message()).await?)
    }

    async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, AcceptError>>,
    ) -> Result<T, AcceptError> {
        let limit = self.options.hello_timeout;
        tokio::time::timeout(limit, work).await.map_err(|_| AcceptError::Timeout)?
    }
}

/// The answer with the gate's headers, which cannot replace those of the channel.
fn answer(admission: &Admission, hello: &Hello, id: &str) -> HelloResult {
    let mut answer = HelloResult::accept(hello, id, &admission.listener_id);
    for (key, value) in &admission.headers {
        if !answer.headers.contains(key) {
            answer.headers.set(key, value);
        }
    }
    answer
}

fn identity(admission: &Admission, peer: &PeerHello) -> Vec<u8> {
    if !admission.identity.is_empty() {
        return admission.identity.clone();
    }
    peer.certificates.first().map(|leaf| leaf.to_vec()).unwrap_or_default()
}

fn peer_info(peer: PeerHello) -> PeerInfo {
    PeerInfo {
        certificates: peer.certificates,
        remote: peer.remote,
        local: peer.local,
        id: Some(peer.hello.token),
        headers: peer.hello.headers,
        dialed: false,
    }
}

fn new_id() -> String {
    rand::random::<[u8; 12]>().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn new_secret() -> Vec<u8> {
    rand::random::<[u8; 16]>().to_vec()
}
