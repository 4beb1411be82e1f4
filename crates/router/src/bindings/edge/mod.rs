//! SDK channels: admission, and the state that all of them share.
//!
//! ```text
//!  hello -> gate (token and certificate are there) -> Result
//!   later: access judges token and certificate; requests of the SDK wait for that
//! ```
//!
//! The answer to the hello comes before the session is judged, as SDKs expect; a session that is
//! refused shows as a closed connection (docs/protocol/sdk.md 2.2 and 3).

mod bind;
mod connect;
mod connection;
mod dial;
mod ids;
mod live;
mod nudge;
mod pace;
mod revoke;
mod spans;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use weft_channel::{
    Admission, Behaviour, ChannelOptions, Established, GroupPolicy, HelloGate, PeerHello, Refusal,
    TraceFile,
};
use weft_limits::Budget;
use weft_spans::Spans;
use weft_wire::{
    Capabilities, FrameLimits, Headers, VersionInfo, edge::header, hello, router_capability,
};
use weft_xgress::Options;

pub(crate) use self::nudge::Nudge;
use self::{bind::Hosted, connection::SdkConnection, live::Live, spans::Trust};
use crate::{
    forwarder::Forwarder,
    seam::{Access, AccessEvent, ApiSession, Control, ControllerId},
};

/// The reason that SDKs are sent when the router stops.
const SHUTTING_DOWN: &str = "the router is shutting down";

/// Most bytes that one SDK channel may have queued.
const CONNECTION_BUDGET: u64 = 16 << 20;

/// The options of the binding.
#[derive(Clone, Debug)]
pub(crate) struct EdgeOptions {
    /// The id of the router.
    pub(crate) router_id: String,
    /// The release that the router announces.
    pub(crate) version: VersionInfo,
    /// Flow control of the ends of circuits to hosting SDKs.
    pub(crate) end: Options,
    /// How long the end of a direction for an old native SDK waits for the close that may follow
    /// it.
    pub(crate) fin_hold: Duration,
    /// The runtime that reads and writes the channels.
    pub(crate) data_runtime: tokio::runtime::Handle,
    /// The runtime on which requests of SDKs are handled.
    pub(crate) control_runtime: tokio::runtime::Handle,
    /// The file for traced messages.
    pub(crate) trace: Option<TraceFile>,
    /// The recorder for spans of dials.
    pub(crate) spans: Spans,
}

/// The state that all SDK channels share.
pub(crate) struct EdgeBinding {
    pub(super) forwarder: Arc<Forwarder>,
    control: Arc<dyn Control>,
    access: Arc<dyn Access>,
    options: EdgeOptions,
    budget: Budget,
    connections: Mutex<Live<SdkConnection>>,
    /// Held while the count of an identity changes and is reported, so that the last report has the
    /// latest count.
    counting: Mutex<()>,
    /// Counts events about sessions and rights.
    heard: AtomicU64,
    hosts: Mutex<Hosts>,
    /// True once nothing new is accepted.
    draining: AtomicBool,
    /// The limits for traces that SDKs ask for.
    trust: Trust,
}

/// The listeners of SDKs on this router.
#[derive(Default)]
struct Hosts {
    by_terminator: HashMap<String, Arc<Hosted>>,
    /// Terminator id by identity and listener id.
    by_listener: HashMap<(String, Bytes), String>,
}

impl EdgeBinding {
    pub(crate) fn new(
        forwarder: Arc<Forwarder>,
        control: Arc<dyn Control>,
        access: Arc<dyn Access>,
        options: EdgeOptions,
    ) -> Arc<Self> {
        let budget = forwarder.budget().child(u64::MAX);
        Arc::new(Self {
            forwarder,
            control,
            access,
            options,
            budget,
            connections: Mutex::default(),
            counting: Mutex::default(),
            heard: AtomicU64::new(0),
            hosts: Mutex::default(),
            draining: AtomicBool::new(false),
            trust: Trust::default(),
        })
    }

    /// Closes what is no longer allowed after each event, until cancelled.
    pub(crate) async fn watch(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let mut events = self.access.events();
            self.heard.fetch_add(1, Ordering::AcqRel);
            // Earlier events are not in this stream, so that every channel is checked once.
            for connection in self.live() {
                connection.look_again();
            }
            self.ask_about_service_sessions(|_| true);
            loop {
                let event = tokio::select! {
                    () = stop.cancelled() => return,
                    event = events.next() => event,
                };
                match event {
                    Some(event) => self.on_event(&event),
                    // The stream fell behind and ended: begin again.
                    None => break,
                }
            }
            // A stream that ends at once must not turn this into a busy loop.
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
        }
    }

    /// Tokens of opaque sessions with an open connection, each once.
    pub(crate) fn open_session_tokens(&self) -> Vec<String> {
        let mut tokens: Vec<String> = self
            .live()
            .iter()
            .filter_map(|connection| connection.session())
            .filter(|session| session.legacy)
            .map(|session| session.token.clone())
            .collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    /// Asks the controllers that `of` selects which service sessions in use have ended, for their
    /// opaque sessions.
    fn ask_about_service_sessions(&self, of: impl Fn(&ControllerId) -> bool) {
        let mut used: BTreeMap<ControllerId, BTreeSet<String>> = BTreeMap::new();
        for connection in self.live() {
            let Some(session) = connection.session().filter(|session| session.legacy) else {
                continue;
            };
            let Some(controller) = session.controller.clone().filter(&of) else { continue };
            let grants = connection.grants(|grant| !grant.service_session.is_empty());
            let ids = grants.into_iter().map(|(_, grant)| grant.service_session);
            used.entry(controller).or_default().extend(ids);
        }
        for (controller, ids) in used {
            if !ids.is_empty() {
                self.control.validate_service_sessions(&controller, ids.into_iter().collect());
            }
        }
    }

    /// True if a terminator of an SDK is alive on this router.
    pub(crate) fn hosts(&self, terminator: &str) -> bool {
        self.hosts.lock().by_terminator.contains_key(terminator)
    }

    /// Accepts nothing new, and ends all listeners.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.live().iter().for_each(|connection| connection.drain());
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Closes all connections.
    pub(crate) fn close_all(&self, reason: &str) {
        for connection in self.live() {
            connection.close(reason);
        }
    }

    fn live(&self) -> Vec<Arc<SdkConnection>> {
        self.connections.lock().all()
    }

    /// The number of open channels.
    pub(crate) fn connections(&self) -> usize {
        self.connections.lock().len()
    }

    /// The count of events; it goes up before an event has any effect.
    fn heard(&self) -> u64 {
        self.heard.load(Ordering::Acquire)
    }

    fn on_event(&self, event: &AccessEvent) {
        self.heard.fetch_add(1, Ordering::AcqRel);
        if let AccessEvent::SessionsTold { controller } = event {
            return self.ask_about_service_sessions(|of| of == controller);
        }
        let concerned = {
            let live = self.connections.lock();
            match event {
                AccessEvent::SessionEnded { session } => live.of_session(session),
                AccessEvent::IdentityGone { identity } | AccessEvent::Lost { identity, .. } => {
                    live.of_identity(identity)
                }
                _ => live.all(),
            }
        };
        for connection in concerned {
            match event {
                AccessEvent::SessionEnded { .. } => connection.close("the API session ended"),
                AccessEvent::IdentityGone { .. } => {
                    connection.close("the identity is gone or disabled");
                }
                AccessEvent::ServiceSessionEnded { service_session } => {
                    connection.service_session_ended(service_session);
                }
                AccessEvent::Lost { service, purpose, .. } => {
                    connection.access_lost(service, *purpose);
                }
                AccessEvent::SessionsTold { .. } => {}
            }
        }
    }

    /// A connection is of a session, or is not any more: tells how many its identity has.
    fn count(&self, change: impl FnOnce(&mut Live<SdkConnection>) -> usize, session: &ApiSession) {
        let _turn = self.counting.lock();
        let count = change(&mut self.connections.lock());
        self.control.identity_connections(&session.identity, count);
    }

    /// Headers of the answer to a hello (docs/protocol/sdk.md 2.2; the form of the version:
    /// docs/protocol/channel.md 9.3, Go SDKs complain about any other). Capabilities are named only
    /// where the feature is whole; posture checks are not among them, so SDKs report posture to
    /// controllers.
    fn hello_headers(&self) -> Headers {
        let mut headers = Headers::new();
        headers.set_str(hello::header::HELLO_VERSION, &self.options.version.to_header());
        headers.set_bool(header::SUPPORTS_BIND_SUCCESS, true);
        let capabilities = Capabilities::NONE
            .with(router_capability::BIND_SUCCESS)
            .with(router_capability::ROUTER_DATA_MODEL);
        headers.set(header::ROUTER_CAPABILITIES, &capabilities.to_wire());
        headers
    }
}

/// The options of a listener for circuits that its SDKs dial.
#[derive(Debug)]
pub(crate) struct Dialed {
    /// Flow control of this router's ends.
    pub(crate) end: Options,
    /// Time limit for making a circuit.
    pub(crate) timeout: Duration,
}

/// Admits SDKs at one listener.
pub(crate) struct EdgeGate {
    pub(crate) binding: Arc<EdgeBinding>,
    /// How long an SDK may accept none of the bytes to be written to it.
    pub(crate) write_timeout: Option<Duration>,
    pub(crate) dialed: Arc<Dialed>,
}

impl HelloGate for EdgeGate {
    async fn check(&self, peer: &PeerHello) -> Result<Admission, Refusal> {
        let binding = &self.binding;
        let refused = |why: &'static str| {
            binding.forwarder.measures().edge.refused.one();
            Err(Refusal::close(why))
        };
        if peer.hello.headers.get(header::SESSION_TOKEN).is_none_or(<[u8]>::is_empty) {
            return refused("the hello of an SDK carries no session token");
        }
        if peer.certificates.is_empty() {
            return refused("the SDK presents no certificate");
        }
        Ok(Admission {
            listener_id: binding.options.router_id.clone(),
            identity: Vec::new(),
            headers: binding.hello_headers(),
            channel: ChannelOptions {
                runtime: Some(binding.options.data_runtime.clone()),
                write_timeout: self.write_timeout,
                unjudged: Some(FrameLimits::UNJUDGED),
                frames: FrameLimits::FROM_SDK,
                ..ChannelOptions::edge(format!("sdk {}", peer.remote))
            },
            group: Some(GroupPolicy::edge_listener()),
        })
    }

    async fn established(&self, established: Established) {
        let token = established.peer().headers.get_bytes(header::SESSION_TOKEN);
        let (binding, channel) = (Arc::clone(&self.binding), established.handle());
        if let Some(trace) = &binding.options.trace {
            trace.follow(&channel);
        }
        let dialed = Arc::clone(&self.dialed);
        let make = |number| SdkConnection::new(binding, channel, dialed, number);
        let connection = self.binding.connections.lock().add(make);
        established.start(Arc::clone(&connection) as Arc<dyn Behaviour>);
        connection.authenticate(token.unwrap_or_default());
    }
}
