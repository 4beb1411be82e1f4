//! Links to other routers.
//!
//! ```text
//!  controllers ──peers──> registry ──due──> dial ──┐
//!                           ▲                      ├─ opened ──> live link ──> forwarder
//!  other routers ──hello──> accept ────────────────┘               │
//!  controllers <── up, connections, latencies, faults, duplicates ─┘
//! ```
//!
//! * [`registry`]: which links are wanted, when they are dialed, which of two with one key stays;
//! * [`dial`], [`accept`]: how a link comes to stand;
//! * [`live`]: a link that stands; [`interfaces`]: the names that go into keys.

mod accept;
mod dial;
pub(crate) mod interfaces;
mod live;
mod registry;

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use tokio::{runtime, sync::Notify};
use tokio_util::sync::CancellationToken;
use weft_channel::{
    AcceptOptions, ChannelAcceptor, ChannelOptions, CloseReason, Established, HeartbeatOptions,
    HttpProxy, ListenerLimits, Listeners, RegisterError, Registration, TlsSource, TraceFile,
};
use weft_config::router::{LinkConfig, LinkListener as ListenerConfig};
use weft_identity::LiveIdentity;
use weft_wire::{Message, content_type, hello::alpn, link::SplitPart};

use accept::{Confirmed, LinkGate, Refused};
use live::LiveLink;
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
/// How often a new link is measured at once, and how long an answer may take.
const FIRST_PROBES: usize = 3;
/// See [`FIRST_PROBES`].
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most links that one router may open.
const MAX_PER_PEER: usize = 64;
/// How long a link goes on in whose place another one stands, for what is on its way.
const REPLACED: Duration = Duration::from_secs(75);
/// How often targets without a link are looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// How links behave.
#[derive(Clone, Debug)]
pub(crate) struct LinkOptions {
    /// What this router calls itself.
    pub(crate) router_id: String,
    /// Listeners, dialers, heartbeats at first.
    pub(crate) config: LinkConfig,
    /// A proxy through which other routers are dialed.
    pub(crate) proxy: Option<HttpProxy>,
    /// Dials at once.
    pub(crate) dial_workers: usize,
    /// Dials that may wait for their turn.
    pub(crate) dial_queue: usize,
    /// What is asked of those who connect.
    pub(crate) handshake_timeout: Duration,
    /// How often latency is measured beside heartbeats.
    pub(crate) probe_interval: Option<Duration>,
    /// Links are read and written here.
    pub(crate) data_runtime: runtime::Handle,
    /// Everything else happens here.
    pub(crate) control_runtime: runtime::Handle,
    /// Where messages are written down.
    pub(crate) trace: Option<TraceFile>,
}

/// All links of this router.
pub(crate) struct Links {
    forwarder: Arc<Forwarder>,
    control: Arc<dyn LinkControl>,
    /// Hears of faults of links.
    faults: Arc<dyn Control>,
    identity: Arc<LiveIdentity>,
    client_tls: Arc<rustls::ClientConfig>,
    options: LinkOptions,
    /// How links are dialed, and their heartbeats.
    setup: RwLock<Arc<LinkConfig>>,
    registry: Mutex<Registry>,
    live: Mutex<HashMap<u64, Arc<LiveLink>>>,
    numbers: AtomicU64,
    /// Something is to be dialed.
    wake: Notify,
    /// Dials under way.
    dialing: AtomicUsize,
    confirmed: Confirmed,
    refused: Refused,
    stop: CancellationToken,
}

/// What the registry has to know of dialers.
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

fn new_id() -> String {
    weft_wire::link::id_of(uuid::Uuid::new_v4().as_u128())
}

/// A link that came to stand on the wire.
struct Opened {
    key: String,
    id: String,
    peer: String,
    iteration: u32,
    /// The address that was dialed; `None` if the peer dialed.
    dialed: Option<String>,
    protocol: String,
    channels: Vec<(Option<SplitPart>, Established)>,
}

impl Links {
    /// No link yet. Dials begin when controllers tell of other routers.
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

    /// Dials in other ways from now on, and gives new links these heartbeats. Links that stand stay.
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

    /// Listens for other routers where a listener of the file says.
    pub(crate) async fn listen(
        self: &Arc<Self>,
        listeners: &Listeners,
        config: &ListenerConfig,
        tls: TlsSource,
    ) -> Result<(SocketAddr, LinkListener, Registration), RegisterError> {
        let protocol = config.bind.kind.name().to_owned();
        let binding = interfaces::listener_binding(config);
        let gate = LinkGate {
            links: Arc::downgrade(self),
            protocol: protocol.clone(),
            binding: binding.clone(),
            write_timeout: config.options.write_timeout,
            halves: Arc::default(),
        };
        // A controller is asked meanwhile.
        let hello_timeout = config.options.connect_timeout.max(Duration::from_secs(10));
        let hello = AcceptOptions { hello_timeout, vouches: true, ..AcceptOptions::default() };
        let acceptor = Arc::new(ChannelAcceptor::new(gate, hello));
        let bind = config.bind.host_port().to_string();
        let (channel, usual) = (&config.options, ListenerLimits::default());
        let at_once = channel.max_outstanding_connects.saturating_add(channel.max_queued_connects);
        // As with SDKs, the file can only raise how many strangers may be there at once.
        let limits = ListenerLimits {
            pending: usual.pending.max(at_once),
            handshake_timeout: self.options.handshake_timeout,
            ..usual
        };
        let listen =
            |protocols| listeners.listen(&bind, limits, protocols, tls.clone(), acceptor.clone());
        // On a port that it shares, who offers no protocol may belong to another listener.
        let registration = match listen(&[alpn::LINK, ""]).await {
            Err(RegisterError::Taken { protocol, .. }) if protocol.is_empty() => {
                listen(&[alpn::LINK]).await?
            }
            listened => listened?,
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

    /// News about other routers.
    pub(crate) fn peers(&self, news: &[Peer]) {
        let now = Instant::now();
        let closing: Vec<u64> = {
            let mut registry = self.registry.lock();
            news.iter().flat_map(|peer| registry.peer(peer, now, new_id)).collect()
        };
        // Who was removed is not let in on the word of a controller of earlier.
        for peer in news.iter().filter(|peer| peer.state == PeerState::Removed) {
            self.confirmed.forget(&peer.id);
        }
        for number in closing {
            self.close(number, "the peer is gone, or elsewhere");
        }
        self.wake.notify_one();
    }

    /// A controller says that a link broke: it is closed here, too.
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

    /// The links that this router dialed, as controllers are told.
    pub(crate) fn reports(&self) -> Vec<LinkReport> {
        let dialed: Vec<_> =
            self.live.lock().values().filter(|live| live.dialed).cloned().collect();
        let registry = self.registry.lock();
        // Not those that close because another one took their place.
        let stand = dialed.iter().filter(|live| registry.is_live(&live.key, live.number));
        stand.map(|live| live.report()).collect()
    }

    /// All links, whoever dialed them.
    pub(crate) fn all_reports(&self) -> Vec<LinkReport> {
        let all: Vec<_> = self.live.lock().values().cloned().collect();
        all.iter().map(|live| live.report()).collect()
    }

    /// The routers at the ends of each link: who dialed, and who was dialed.
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

    /// How many links stand.
    pub(crate) fn count(&self) -> usize {
        self.live.lock().len()
    }

    /// How many hellos were refused for what they said.
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

    /// A link stands on the wire: it is taken, or refused for another one. True if it is taken.
    fn opened(self: &Arc<Self>, opened: Opened) -> bool {
        if opened.dialed.is_none() && self.links_with(&opened.peer) >= MAX_PER_PEER {
            tracing::warn!(peer = %opened.peer, "a link is refused: it has {MAX_PER_PEER} already");
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
        let live = LiveLink::new(self, number, Arc::clone(&link), &opened);
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
            // It went before it was registered.
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
                // Its end may have been told before it was told itself.
                self.faults.link_fault(&live.link.id, live.iteration);
            }
            if !self.registry.lock().is_live(&live.key, live.number) && !live.is_closed() {
                // Another one took its place meanwhile, and that was told before it was told itself.
                self.control.link_duplicate(&live.link.id, live.iteration);
            }
        }
        if !self.registry.lock().is_live(&live.key, live.number) {
            // One that took its place found it in the registry, and not yet here.
            self.close_after(REPLACED, Arc::clone(&live));
        }
        self.spawn(Arc::clone(self).follow(live, told));
        true
    }

    /// Closes a link in whose place another one stands by now.
    fn close_after(&self, time: Duration, live: Arc<LiveLink>) {
        self.spawn(async move {
            tokio::time::sleep(time).await;
            live.close("another link took its place");
        });
    }

    fn links_with(&self, peer: &str) -> usize {
        self.live.lock().values().filter(|live| *live.link.peer == *peer).count()
    }

    /// Closes channels that are not started after a while.
    fn keep_for(&self, time: Duration, channels: Vec<(Option<SplitPart>, Established)>) {
        if time.is_zero() {
            return drop(channels);
        }
        self.spawn(async move {
            tokio::time::sleep(time).await;
            drop(channels);
        });
    }

    /// A link takes the place of another.
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
            // The peer dialed it anew, so the former one is dead.
            return former.close("the link was dialed anew");
        }
        self.control.link_duplicate(&id, iteration);
        self.close_after(close_after, former);
    }

    /// A link is gone.
    fn gone(self: &Arc<Self>, live: &Arc<LiveLink>, reason: &CloseReason) {
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

    /// Measures a new link, then tells of its connections as they change; `told` are those that were
    /// told with the link.
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

    /// Measures a round trip.
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

    /// What was measured of round trips since the last call.
    pub(crate) fn latencies(&self) -> Vec<LinkLatency> {
        let all: Vec<_> = self.live.lock().values().cloned().collect();
        all.iter().filter_map(|live| live.take_latency()).collect()
    }

    /// Looks at what waits for links.
    pub(crate) fn look_at_queues(&self, now: Instant) {
        let all: Vec<_> = self.live.lock().values().cloned().collect();
        all.iter().for_each(|live| live.look_at_queue(now));
    }

    /// How many links are being dialed, and how many may be.
    pub(crate) fn dials(&self) -> (usize, usize) {
        (self.dialing.load(Ordering::Relaxed), self.options.dial_workers.max(1))
    }

    /// Makes the dials that are due, so many at once.
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

    /// All of it, for inspection (docs/protocol/data-plane.md 12).
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

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Links").field("live", &self.count()).finish_non_exhaustive()
    }
}
