//! Links to other routers.
//!
//! ```text
//!  controllers ──peers──> registry ──due──> dial ──┐
//!                           ▲                      ├─ opened ──> live link ──> forwarder
//!  other routers ──hello──> accept ────────────────┘               │
//!  controllers <── up, connections, latencies, faults, duplicates ─┘
//! ```
//!
//! * [`registry`]: wanted links, the times of their dials, and the choice between two links with one key;
//! * [`dial`], [`accept`]: the two ways to open a link;
//! * [`live`]: an open link; [`interfaces`]: the names in keys;
//! * [`datagram`]: links over DTLS.

mod accept;
pub(crate) mod datagram;
mod dial;
pub(crate) mod interfaces;
mod live;
mod opened;
mod registry;

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use tokio::{runtime, sync::Notify};
use tokio_util::sync::CancellationToken;
use weft_channel::{
    AcceptOptions, ChannelAcceptor, ChannelOptions, CloseReason, DatagramOptions, Established,
    HeartbeatOptions, HttpProxy, ListenerLimits, Listeners, RegisterError, TlsSource, TraceFile,
};
use weft_config::{
    AddressKind,
    router::{LinkConfig, LinkListener as ListenerConfig},
};
use weft_identity::LiveIdentity;
use weft_wire::{Message, content_type, hello::alpn, link::SplitPart};

use accept::{Confirmed, LinkGate, Refused};
use live::{LiveLink, Owner};
use opened::Opened;
use registry::{Candidate, Dial, Dialer, Registry, Verdict};

use crate::{
    forwarder::{Forwarder, Link, Outlet},
    seam::{
        Control, LinkConnection, LinkControl, LinkLatency, LinkListener, LinkReport, Peer,
        PeerState,
    },
};

/// Bytes that may wait for one link.
const LINK_BUDGET: u64 = 64 << 20;
/// The number of round trips measured at once on a new link, and the longest wait for an answer.
const FIRST_PROBES: usize = 3;
/// See [`FIRST_PROBES`].
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most links that one router may open.
const MAX_PER_PEER: usize = 64;
/// How long a replaced link stays open, for messages on their way.
const REPLACED: Duration = Duration::from_secs(75);
/// The interval at which forgotten routers are looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// The options of links.
#[derive(Clone, Debug)]
pub(crate) struct LinkOptions {
    /// The id of this router.
    pub(crate) router_id: String,
    /// Listeners, dialers and heartbeats at the start.
    pub(crate) config: LinkConfig,
    /// A proxy through which other routers are dialed.
    pub(crate) proxy: Option<HttpProxy>,
    /// Most dials at the same time.
    pub(crate) dial_workers: usize,
    /// Most dials that wait for their turn.
    pub(crate) dial_queue: usize,
    /// Time limit for the TLS handshake of routers that connect.
    pub(crate) handshake_timeout: Duration,
    /// Options of links over DTLS.
    pub(crate) datagrams: DatagramOptions,
    /// Time limit for the DTLS handshake of routers that connect.
    pub(crate) datagram_handshake_timeout: Duration,
    /// The interval of latency measurements beside heartbeats; `None` without them.
    pub(crate) probe_interval: Option<Duration>,
    /// The runtime that reads and writes links.
    pub(crate) data_runtime: runtime::Handle,
    /// The runtime of all other tasks of links.
    pub(crate) control_runtime: runtime::Handle,
    /// The file for traced messages.
    pub(crate) trace: Option<TraceFile>,
}

/// All links of this router.
pub(crate) struct Links {
    forwarder: Arc<Forwarder>,
    control: Arc<dyn LinkControl>,
    /// Takes reports of links that broke.
    faults: Arc<dyn Control>,
    identity: Arc<LiveIdentity>,
    client_tls: Arc<rustls::ClientConfig>,
    options: LinkOptions,
    /// Dialers and heartbeats as they are now.
    setup: RwLock<Arc<LinkConfig>>,
    registry: Mutex<Registry>,
    live: Mutex<HashMap<u64, Arc<LiveLink>>>,
    numbers: AtomicU64,
    /// Notified when a dial may be due.
    wake: Notify,
    /// The number of dials under way.
    dialing: AtomicUsize,
    confirmed: Confirmed,
    refused: Refused,
    stop: CancellationToken,
}

/// The dialers as the registry needs them.
fn specs(config: &LinkConfig) -> Vec<Dialer> {
    let bindings = interfaces::dialer_bindings(config);
    let specs = config.dialers.iter().zip(bindings).map(|(dialer, binding)| Dialer {
        binding,
        groups: dialer.groups.clone(),
        healthy: dialer.healthy_backoff.clone(),
        unhealthy: dialer.unhealthy_backoff.clone(),
    });
    specs.collect()
}

/// True if links are made over addresses of this kind.
pub(crate) fn links_over(kind: AddressKind) -> bool {
    matches!(kind, AddressKind::Tls | AddressKind::Dtls)
}

fn new_id() -> String {
    weft_wire::link::id_of(uuid::Uuid::new_v4().as_u128())
}

impl Links {
    /// Starts without links. Dials begin when controllers report other routers.
    pub(crate) fn start(
        options: LinkOptions,
        forwarder: Arc<Forwarder>,
        control: Arc<dyn LinkControl>,
        faults: Arc<dyn Control>,
        identity: Arc<LiveIdentity>,
        client_tls: Arc<rustls::ClientConfig>,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let setup = Arc::new(options.config.clone());
        let registry = Registry::new(&options.router_id, specs(&setup));
        let links = Arc::new(Self {
            forwarder,
            control,
            faults,
            identity,
            client_tls,
            setup: RwLock::new(setup),
            registry: Mutex::new(registry),
            live: Mutex::default(),
            numbers: AtomicU64::new(1),
            wake: Notify::new(),
            dialing: AtomicUsize::new(0),
            confirmed: Confirmed::default(),
            refused: Refused::default(),
            stop,
            options,
        });
        links.spawn(Arc::clone(&links).dial_when_due());
        if let Some(every) = links.options.probe_interval {
            links.spawn(Arc::clone(&links).probe(every.max(Duration::from_millis(100))));
        }
        links
    }

    /// Changes dialers and heartbeats. Open links stay as they are.
    pub(crate) fn set_up(&self, config: LinkConfig) {
        let specs = specs(&config);
        *self.setup.write() = Arc::new(config);
        self.registry.lock().set_dialers(specs, Instant::now(), new_id);
        self.wake.notify_one();
    }

    fn setup(&self) -> Arc<LinkConfig> {
        Arc::clone(&self.setup.read())
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.options.control_runtime.spawn(async move {
            let _ = stop.run_until_cancelled(work).await;
        });
    }

    /// Listens for other routers at a listener of the configuration.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        listeners: &Listeners,
        config: &ListenerConfig,
        tls: TlsSource,
    ) -> Result<(SocketAddr, LinkListener, datagram::Socket), RegisterError> {
        let protocol = config.bind.kind.name().to_owned();
        let binding = interfaces::listener_binding(config);
        let gate = LinkGate {
            links: Arc::downgrade(self),
            protocol: protocol.clone(),
            binding: binding.clone(),
            write_timeout: config.options.write_timeout,
            halves: Arc::default(),
        };
        // The hello waits for the answer of a controller.
        let hello_timeout = config.options.connect_timeout.max(Duration::from_secs(10));
        let hello = AcceptOptions { hello_timeout, vouches: true, ..AcceptOptions::default() };
        let acceptor = Arc::new(ChannelAcceptor::new(gate, hello));
        let bind = config.bind.host_port().to_string();
        let (channel, usual) = (&config.options, ListenerLimits::default());
        let at_once = channel.max_outstanding_connects.saturating_add(channel.max_queued_connects);
        // As for SDKs, the file can only raise the number of unauthenticated peers.
        let limits = ListenerLimits {
            pending: usual.pending.max(at_once),
            handshake_timeout: self.options.handshake_timeout,
            ..usual
        };
        let listen =
            |protocols| listeners.listen(&bind, limits, protocols, tls.clone(), acceptor.clone());
        let registration = if config.bind.kind == AddressKind::Dtls {
            let own = &self.options;
            let limits =
                ListenerLimits { handshake_timeout: own.datagram_handshake_timeout, ..limits };
            let (identity, runtime) = (Arc::clone(&self.identity), own.data_runtime.clone());
            let acceptor = (*acceptor).clone();
            let listening =
                datagram::listen(&bind, identity, limits, own.datagrams, runtime, acceptor);
            datagram::Socket::Datagrams(listening.await?)
        } else {
            // On a shared port, a peer that offers no protocol may belong to another listener.
            match listen(&[alpn::LINK, ""]).await {
                Err(RegisterError::Taken { protocol, .. }) if protocol.is_empty() => {
                    listen(&[alpn::LINK]).await?.into()
                }
                listened => listened?.into(),
            }
        };
        let bound = registration.local_addr();
        let mut advertise = config.advertise.clone();
        if advertise.port == 0 {
            advertise.port = bound.port();
        }
        let listener = LinkListener {
            address: advertise.to_string(),
            protocol,
            groups: config.groups.clone(),
            local_binding: binding,
        };
        Ok((bound, listener, registration))
    }

    fn channel_options(&self, label: String) -> ChannelOptions {
        let setup = self.setup();
        let heartbeats = &setup.heartbeats;
        let close = heartbeats.close_unresponsive;
        ChannelOptions {
            heartbeat: Some(HeartbeatOptions {
                send_interval: heartbeats.send_interval,
                check_interval: heartbeats.check_interval,
                close_unresponsive: close,
                grace: close.unwrap_or_default() * 2,
            }),
            runtime: Some(self.options.data_runtime.clone()),
            ..ChannelOptions::link(label)
        }
    }

    /// Takes controllers' reports about other routers.
    pub(crate) fn peers(&self, news: &[Peer]) {
        let now = Instant::now();
        let closing: Vec<u64> = {
            let mut registry = self.registry.lock();
            news.iter().flat_map(|peer| registry.peer(peer, now, new_id)).collect()
        };
        // The earlier confirmation of a removed router is not valid any more.
        for peer in news.iter().filter(|peer| peer.state == PeerState::Removed) {
            self.confirmed.forget(&peer.id);
        }
        for number in closing {
            self.close(number, "the peer is gone, or elsewhere");
        }
        self.wake.notify_one();
    }

    /// A controller reports that a link broke: the link is closed here, too.
    pub(crate) fn faulted(&self, id: &str, iteration: u32) {
        let live = self.live.lock();
        let of_id = live.values().find(|live| *live.link.id == *id).cloned();
        drop(live);
        if let Some(live) = of_id
            && (iteration == 0 || iteration >= live.iteration)
        {
            live.close("a controller says that it broke");
        }
    }

    /// The links that this router dialed, for reports to controllers.
    pub(crate) fn reports(&self) -> Vec<LinkReport> {
        let dialed: Vec<_> =
            self.live.lock().values().filter(|live| live.dialed).cloned().collect();
        let registry = self.registry.lock();
        // Without links that close because another one took their place.
        let stand = dialed.iter().filter(|live| registry.is_live(&live.key, live.number));
        stand.map(|live| live.report()).collect()
    }

    /// All links, whichever side dialed them.
    pub(crate) fn all_reports(&self) -> Vec<LinkReport> {
        let all: Vec<_> = self.live.lock().values().cloned().collect();
        all.iter().map(|live| live.report()).collect()
    }

    /// The routers at both ends of each link: the one that dialed, and the one that was dialed.
    pub(crate) fn ends(&self) -> HashMap<String, (String, String)> {
        let own = || self.options.router_id.clone();
        let all = self.live.lock();
        let ends = all.values().map(|live| {
            let peer = live.link.peer.to_string();
            let ends = if live.dialed { (own(), peer) } else { (peer, own()) };
            (live.link.id.to_string(), ends)
        });
        ends.collect()
    }

    /// The number of open links.
    pub(crate) fn count(&self) -> usize {
        self.live.lock().len()
    }

    /// The number of hellos that were refused because of their content.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.seen()
    }

    /// Closes every link.
    pub(crate) fn close_all(&self, reason: &str) {
        let all: Vec<_> = self.live.lock().values().cloned().collect();
        all.iter().for_each(|live| live.close(reason));
    }

    fn close(&self, number: u64, reason: &str) {
        let live = self.live.lock().get(&number).cloned();
        if let Some(live) = live {
            live.close(reason);
        }
    }

    /// Takes an opened link, unless another one with its key stays. True if it is taken.
    fn opened(self: &Arc<Self>, opened: Opened) -> bool {
        if opened.dialed.is_none() && self.links_with(&opened.peer) >= MAX_PER_PEER {
            tracing::warn!(
                peer = %opened.peer,
                "a link is refused: its peer has {MAX_PER_PEER} links already"
            );
            return false;
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let candidate = Candidate {
            number,
            key: opened.key.clone(),
            id: opened.id.clone(),
            iteration: opened.iteration,
            dialed: opened.dialed.is_some(),
            since: Instant::now(),
        };
        let verdict = self.registry.lock().register(candidate);
        if let Verdict::Refused { close_after } = verdict {
            tracing::debug!(link = %opened.id, peer = %opened.peer, "a link is refused for one that stands");
            self.keep_for(close_after, opened.channels);
            return false;
        }
        let budget = self.forwarder.budget().child(LINK_BUDGET);
        let link = Arc::new(Link {
            id: opened.id.as_str().into(),
            peer: opened.peer.as_str().into(),
            outlet: Outlet::new(budget),
        });
        let owner: Weak<Self> = Arc::downgrade(self);
        let measures = self.forwarder.measures();
        let live = LiveLink::new(measures, owner, number, Arc::clone(&link), &opened);
        self.live.lock().insert(number, Arc::clone(&live));
        for (part, channel) in opened.channels {
            live.add(part, channel.handle());
            if let Some(trace) = &self.options.trace {
                trace.follow(&channel.handle());
            }
            channel.start(live.behaviour(part));
        }
        if let Err(problem) = self.forwarder.register_link(&link) {
            tracing::warn!(link = %link.id, peer = %link.peer, ?problem, "a link is refused");
            live.close("its id is in use");
            return false;
        }
        if live.is_closed() {
            // The link closed before it was registered.
            self.forwarder.unregister_link(&link);
            return true;
        }
        if let Verdict::Replaces { number, id, iteration, close_after } = verdict {
            self.replaced(number, id, iteration, close_after, &live);
        }
        tracing::info!(link = %link.id, peer = %link.peer, dialed = live.dialed, iteration = live.iteration, "link established");
        let told = live.connections();
        if live.dialed {
            self.control.link_up(LinkReport { connections: told.clone(), ..live.report() });
            if live.is_closed() {
                // The link's end may have been reported before the link itself.
                self.faults.link_fault(&live.link.id, live.iteration);
            }
            if !self.registry.lock().is_live(&live.key, live.number) && !live.is_closed() {
                // Another link took its place meanwhile, and that was reported before the link
                // itself.
                self.control.link_duplicate(&live.link.id, live.iteration);
            }
        }
        if !self.registry.lock().is_live(&live.key, live.number) {
            // The link that took its place found it in the registry, but not yet in this table.
            self.close_after(REPLACED, Arc::clone(&live));
        }
        self.spawn(Arc::clone(self).follow(live, told));
        true
    }

    /// Closes a link after this time, because another one has its place.
    fn close_after(&self, time: Duration, live: Arc<LiveLink>) {
        self.spawn(async move {
            tokio::time::sleep(time).await;
            live.close("another link took its place");
        });
    }

    fn links_with(&self, peer: &str) -> usize {
        self.live.lock().values().filter(|live| *live.link.peer == *peer).count()
    }

    /// Closes channels after this time that are never started.
    fn keep_for(&self, time: Duration, channels: Vec<(Option<SplitPart>, Established)>) {
        if time.is_zero() {
            return drop(channels);
        }
        self.spawn(async move {
            tokio::time::sleep(time).await;
            drop(channels);
        });
    }

    /// Closes a link in whose place another one was taken.
    fn replaced(
        self: &Arc<Self>,
        number: u64,
        id: String,
        iteration: u32,
        close_after: Duration,
        by: &LiveLink,
    ) {
        let Some(former) = self.live.lock().get(&number).cloned() else { return };
        if former.link.id == by.link.id {
            // The peer dialed the same link again, so that the former connection is dead.
            return former.close("the link was dialed anew");
        }
        self.control.link_duplicate(&id, iteration);
        self.close_after(close_after, former);
    }

    /// Measures a new link, then reports its connections whenever they change; `told` are those of
    /// the first report.
    async fn follow(self: Arc<Self>, live: Arc<LiveLink>, mut told: Vec<LinkConnection>) {
        for _ in 0..FIRST_PROBES {
            self.measure(&live).await;
        }
        self.control.link_latencies(live.take_latency().into_iter().collect());
        let Some(channel) = live.channel().filter(|_| live.dialed) else { return };
        let mut changes = channel.underlay_changes();
        while !live.is_closed() {
            if live.connections() != told {
                live.connections_changed();
                let report = live.report();
                told.clone_from(&report.connections);
                self.control.link_connections(report);
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Measures one round trip.
    async fn measure(&self, live: &LiveLink) {
        let Some(channel) = live.channel() else { return };
        let (probe, sent) = (Message::new(content_type::LATENCY, ""), Instant::now());
        if channel.request(probe, PROBE_TIMEOUT).await.is_ok() {
            live.measured(sent.elapsed());
        }
    }

    async fn probe(self: Arc<Self>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let all: Vec<_> = self.live.lock().values().cloned().collect();
            let measured = all.iter().map(|live| self.measure(live));
            futures::future::join_all(measured).await;
        }
    }

    /// The latencies measured since the last call.
    pub(crate) fn latencies(&self) -> Vec<LinkLatency> {
        let all: Vec<_> = self.live.lock().values().cloned().collect();
        all.iter().filter_map(|live| live.take_latency()).collect()
    }

    /// Records how long messages have waited for links.
    pub(crate) fn look_at_queues(&self, now: Instant) {
        let all: Vec<_> = self.live.lock().values().cloned().collect();
        all.iter().for_each(|live| live.look_at_queue(now));
    }

    /// The number of dials under way, and the most that may be.
    pub(crate) fn dials(&self) -> (usize, usize) {
        (self.dialing.load(Ordering::Relaxed), self.options.dial_workers.max(1))
    }

    /// Makes the dials that are due, a limited number at the same time.
    async fn dial_when_due(self: Arc<Self>) {
        let workers = Arc::new(tokio::sync::Semaphore::new(self.options.dial_workers.max(1)));
        loop {
            let due = self.registry.lock().next_due();
            let wait = due.map_or(SWEEP, |at| at.saturating_duration_since(Instant::now()));
            let _ = tokio::time::timeout(wait.min(SWEEP), self.wake.notified()).await;
            self.registry.lock().sweep(Instant::now());
            loop {
                let most = workers.available_permits() + self.options.dial_queue;
                self.registry.lock().bound_queue(most, Instant::now(), rand::random);
                let Ok(worker) = Arc::clone(&workers).acquire_owned().await else { return };
                let Some(dial) = self.registry.lock().begin_dial(Instant::now()) else { break };
                let links = Arc::clone(&self);
                self.spawn(async move {
                    links.dialing.fetch_add(1, Ordering::Relaxed);
                    links.dial(dial).await;
                    links.dialing.fetch_sub(1, Ordering::Relaxed);
                    links.wake.notify_one();
                    drop(worker);
                });
            }
        }
    }

    /// Dials a link once.
    async fn dial(self: &Arc<Self>, dial: Dial) {
        let begun = Instant::now();
        let connected = self.connect(&dial).await;
        self.forwarder.measures().link_dials.took(begun.elapsed());
        let taken = match connected {
            Ok(opened) => self.opened(opened),
            Err(problem) => {
                tracing::info!(
                    link = %dial.link, peer = %dial.peer, address = %dial.address,
                    iteration = dial.iteration, %problem, "link not dialed"
                );
                self.registry.lock().failed(&dial, false, Instant::now(), rand::random());
                return;
            }
        };
        if !taken {
            self.registry.lock().failed(&dial, true, Instant::now(), rand::random());
        }
    }

    /// The state of all links, for inspection (docs/protocol/data-plane.md 12).
    pub(crate) fn inspect(&self) -> serde_json::Value {
        let live: Vec<_> = self.live.lock().values().cloned().collect();
        let links = live.iter().map(|live| {
            let connections = live.connections();
            let mut underlays: HashMap<&str, u32> = HashMap::new();
            connections.iter().for_each(|one| *underlays.entry(&one.kind).or_default() += 1);
            let listed = connections.iter().map(|one| {
                serde_json::json!({"Type": one.kind, "Source": one.local, "Dest": one.remote})
            });
            serde_json::json!({
                "id": &*live.link.id, "iteration": live.iteration, "key": live.key,
                "split": underlays.contains_key("ack"), "protocol": live.protocol,
                "dialAddress": live.address, "dest": &*live.link.peer, "dialed": live.dialed,
                "underlays": underlays, "connections": listed.collect::<Vec<_>>(),
                "connStateIteration": live.report().state,
                "circuits": self.forwarder.circuits_over(&live.link.id),
            })
        });
        let links: Vec<_> = links.collect();
        let registry = self.registry.lock();
        let states_of = |peer: &str| {
            let of_peer = registry.targets().filter(|(_, target)| target.peer == peer);
            let state = |(key, target): (&String, &registry::Target)| {
                serde_json::json!({
                    "id": target.link, "key": key, "status": target.status.word(),
                    "dialAttempts": target.iteration, "connectedCount": target.connected,
                    "retryDelay": format!("{:?}", target.delay), "targetAddress": target.address,
                    "targetGroups": target.groups, "targetBinding": target.listener_binding,
                })
            };
            of_peer.map(state).collect::<Vec<_>>()
        };
        let destinations = registry.peers().map(|(id, version, healthy)| {
            serde_json::json!({"id": id, "version": version, "healthy": healthy, "linkStates": states_of(id)})
        });
        let destinations: Vec<_> = destinations.collect();
        serde_json::json!({"links": links, "destinations": destinations, "refused": self.refused.seen(), "errors": null})
    }
}

impl Owner for Links {
    fn forwarder(&self) -> &Arc<Forwarder> {
        &self.forwarder
    }

    fn gone(&self, live: &Arc<LiveLink>, reason: &CloseReason) {
        self.forwarder.unregister_link(&live.link);
        self.live.lock().remove(&live.number);
        self.registry.lock().closed(&live.key, live.number, Instant::now());
        self.wake.notify_one();
        tracing::info!(link = %live.link.id, peer = %live.link.peer, iteration = live.iteration, %reason, "link closed");
        let is_back = self.forwarder.link(&live.link.id).is_some();
        if !is_back && !self.stop.is_cancelled() {
            self.faults.link_fault(&live.link.id, live.iteration);
        }
    }
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("live", &self.count()).finish_non_exhaustive()
    }
}
