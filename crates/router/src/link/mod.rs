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
//! * [`dial`], [`accept`]: links that this router opens, and those that other routers open;
//! * [`confirmed`], [`confirm`]: the answers of controllers about routers that open links; [`refused`]:
//!   hellos that were refused; [`judge`]: open links whose router has other keys now;
//! * [`place`]: which of the opened links are taken;
//! * [`live`]: an open link; [`measure`], [`report`]: its state; [`interfaces`]: the names in keys;
//! * [`datagram`]: links over DTLS.

mod accept;
mod confirm;
mod confirmed;
pub(crate) mod datagram;
mod dial;
pub(crate) mod interfaces;
mod judge;
mod live;
mod measure;
mod opened;
mod place;
mod refused;
mod registry;
mod report;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use tokio::{runtime, sync::Notify};
use tokio_util::sync::CancellationToken;
use weft_channel::{
    ChannelOptions, CloseReason, DatagramOptions, HeartbeatOptions, HttpProxy, Threads, TraceFile,
};
use weft_circuit::now;
use weft_config::router::LinkConfig;
use weft_identity::LiveIdentity;
use weft_wire::Scheme;

use self::{
    confirmed::Confirmed,
    live::{LiveLink, Owner},
    refused::Refused,
    registry::{Dialer, News, Registry},
};
use crate::{
    forwarder::Forwarder,
    seam::{Control, ControllerId, LinkControl, Peer, PeerState},
};

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
    /// The threads that read and write links.
    pub(crate) threads: Threads,
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
    /// Notified when a router was accepted without the answer of a controller.
    unasked: Notify,
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

/// True if links are made over addresses of this scheme.
pub(crate) fn links_over(scheme: Scheme) -> bool {
    matches!(scheme, Scheme::Tls | Scheme::Dtls)
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
            unasked: Notify::new(),
            refused: Refused::default(),
            stop,
            options,
        });
        links.spawn(Arc::clone(&links).dial_when_due());
        links.spawn(Arc::clone(&links).confirm_again());
        if let Some(every) = links.options.probe_interval {
            links.spawn(Arc::clone(&links).probe(every.max(Duration::from_millis(100))));
        }
        links
    }

    /// Changes dialers and heartbeats. Open links stay as they are.
    pub(crate) fn set_up(&self, config: LinkConfig) {
        let specs = specs(&config);
        *self.setup.write() = Arc::new(config);
        self.registry.lock().set_dialers(specs, now(), new_id);
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
            threads: Some(self.options.threads.clone()),
            ..ChannelOptions::link(label)
        }
    }

    /// Takes the reports of a controller about other routers.
    pub(crate) fn peers(&self, from: &ControllerId, news: &[Peer]) {
        let News { closing, other_keys } = self.registry.lock().take(from, news, new_id);
        // The earlier confirmation of a removed router is not valid any more.
        for peer in news.iter().filter(|peer| peer.state == PeerState::Removed) {
            self.confirmed.forget(&peer.id);
        }
        for number in closing {
            self.close(number, "the peer was removed, or has other listeners");
        }
        other_keys.iter().for_each(|peer| self.judge_again(peer));
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
            live.close("a controller reports that the link broke");
        }
    }

    /// The number of dials under way, and the most that may be.
    pub(crate) fn dials(&self) -> (usize, usize) {
        (self.dialing.load(Ordering::Relaxed), self.options.dial_workers.max(1))
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
}

impl Owner for Links {
    fn forwarder(&self) -> &Arc<Forwarder> {
        &self.forwarder
    }

    fn gone(&self, live: &Arc<LiveLink>, reason: &CloseReason) {
        self.forwarder.unregister_link(&live.link);
        self.live.lock().remove(&live.number);
        self.registry.lock().closed(&live.key, live.number, now());
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
