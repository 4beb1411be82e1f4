//! Links to other routers.
//!
//! ```text
//!  controllers ──news──┐                            ┌─> dials ──> opened links
//!  other routers ──hellos, closes──> machine ──outputs──> forwarder: links that circuits may take
//!  clock, dials ───────┘                            └─> controllers: up, faults, duplicates
//! ```
//!
//! * [`machine`]: which links are wanted, when they are dialed, and which of the opened ones are taken. Every
//!   change of a link is one step of this machine, and [`Links`] carries out what follows, in order;
//! * [`dial`], [`accept`]: links that this router opens, and those that other routers open;
//! * [`confirm`]: the answers of controllers about routers that were accepted without one; [`refused`]:
//!   hellos that were refused;
//! * [`live`]: a link with its channels; [`measure`], [`report`]: its state; [`interfaces`]: the names in keys;
//! * [`datagram`]: links over DTLS.

mod accept;
mod confirm;
pub(crate) mod datagram;
mod dial;
pub(crate) mod interfaces;
mod live;
mod machine;
mod measure;
mod refused;
mod report;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::runtime;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use weft_channel::{
    ChannelOptions, CloseReason, DatagramOptions, HeartbeatOptions, HttpProxy, Threads, TraceFile,
};
use weft_circuit::now;
use weft_config::router::LinkConfig;
use weft_identity::LiveIdentity;
use weft_wire::Scheme;

use self::live::{Channels, LiveLink};
use self::machine::{Dialer, Facts, Input, Machine, Output, Random, Reason};
use self::refused::Refused;
use crate::forwarder::{Forwarder, Link};
use crate::seam::{Control, ControllerId, LinkControl, PeerReport};

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
    core: Mutex<Core>,
    numbers: AtomicU64,
    /// Notified when the machine is to be woken earlier than before.
    wake: Notify,
    /// Notified when a router was accepted without the answer of a controller.
    unasked: Notify,
    refused: Refused,
    stop: CancellationToken,
}

/// The machine, and whether a thread carries out its outputs.
struct Core {
    machine: Machine<Arc<LiveLink>>,
    is_busy: bool,
}

/// The turn of a thread that carries out outputs. If one panics, the next input gives the turn to another thread.
struct BusyGuard<'a>(&'a Mutex<Core>);

impl Drop for BusyGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_busy = false;
        }
    }
}

/// The random numbers of this thread.
struct ThreadRandom;

impl Random for ThreadRandom {
    fn fraction(&mut self) -> f64 {
        rand::random()
    }

    fn link_id(&mut self) -> String {
        weft_wire::link::id_of(uuid::Uuid::new_v4().as_u128())
    }
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
        let limits = (options.dial_workers.max(1), options.dial_queue);
        let random = Box::new(ThreadRandom);
        let machine = Machine::new(&options.router_id, specs(&setup), limits, now(), random);
        let links = Arc::new(Self {
            forwarder,
            control,
            faults,
            identity,
            client_tls,
            setup: RwLock::new(setup),
            core: Mutex::new(Core { machine, is_busy: false }),
            numbers: AtomicU64::new(1),
            wake: Notify::new(),
            unasked: Notify::new(),
            refused: Refused::default(),
            stop,
            options,
        });
        links.spawn(Arc::clone(&links).keep_time());
        links.spawn(Arc::clone(&links).confirm_again());
        if let Some(every) = links.options.probe_interval {
            links.spawn(Arc::clone(&links).probe(every.max(Duration::from_millis(100))));
        }
        links
    }

    /// Changes dialers and heartbeats. Open links stay as they are.
    pub(crate) fn set_up(self: &Arc<Self>, config: LinkConfig) {
        let specs = specs(&config);
        *self.setup.write() = Arc::new(config);
        self.step(Input::Dialers(specs));
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
    pub(crate) fn peers(self: &Arc<Self>, from: &ControllerId, news: Vec<PeerReport>) {
        self.step(Input::News { from: from.clone(), news });
    }

    /// A controller reports that a link broke: the link is closed here, too.
    pub(crate) fn faulted(self: &Arc<Self>, id: &str, iteration: u32) {
        self.step(Input::Fault { id: id.to_owned(), iteration });
    }

    /// The number of dials under way, and the most that may be.
    pub(crate) fn dials(&self) -> (usize, usize) {
        (self.core.lock().machine.dialing, self.options.dial_workers.max(1))
    }

    /// The number of open links.
    pub(crate) fn count(&self) -> usize {
        self.core.lock().machine.links().len()
    }

    /// The number of hellos that were refused because of their content.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.seen()
    }

    /// Closes every link, and opens none any more.
    pub(crate) fn shut_down(self: &Arc<Self>) {
        self.step(Input::ShutDown);
    }

    /// All open links.
    fn all(&self) -> Vec<Arc<LiveLink>> {
        self.core.lock().machine.links().cloned().collect()
    }

    /// Takes a link whose hellos were accepted.
    fn opened(self: &Arc<Self>, facts: Facts, protocol: &str, channels: Channels) {
        let link = LiveLink::new(self, facts, protocol, channels);
        let is_free = self.forwarder.may_register(&link.link);
        self.step(Input::Opened { link, is_free });
    }

    /// Wakes the machine whenever it has something to do.
    async fn keep_time(self: Arc<Self>) {
        loop {
            let at = self.core.lock().machine.next_wake();
            let wait = at.saturating_duration_since(now());
            let _ = tokio::time::timeout(wait, self.wake.notified()).await;
            self.step(Input::Tick);
        }
    }

    /// Handles the end of a link's channels.
    fn closed(self: &Arc<Self>, live: &LiveLink, reason: &CloseReason) {
        let Link { id, peer, iteration, .. } = &*live.link;
        tracing::info!(link = %id, %peer, iteration, %reason, "link closed");
        self.step(Input::Closed(live.facts.number));
    }

    /// Gives the machine an input, and carries out what follows. If another thread is carrying out outputs,
    /// it carries out these, too, so that all outputs are carried out in order.
    fn step(self: &Arc<Self>, input: Input<Arc<LiveLink>>) {
        {
            let core = &mut *self.core.lock();
            let before = core.machine.next_wake();
            core.machine.step(now(), input);
            if core.machine.next_wake() < before {
                self.wake.notify_one();
            }
            if std::mem::replace(&mut core.is_busy, true) {
                return;
            }
        }
        let _runtime = self.options.control_runtime.enter();
        let _busy = BusyGuard(&self.core);
        while let Some(output) = self.next_output() {
            self.carry_out(output);
        }
    }

    /// The next output to carry out.
    fn next_output(&self) -> Option<Output<Arc<LiveLink>>> {
        let mut core = self.core.lock();
        let next = core.machine.next_output();
        core.is_busy = next.is_some();
        next
    }

    fn carry_out(self: &Arc<Self>, output: Output<Arc<LiveLink>>) {
        match output {
            Output::Dial(dial) => self.spawn(Arc::clone(self).dial_once(dial)),
            Output::Reject(live, reason) => {
                log_end(&live, &reason);
                let Reason::OtherKept { keep_for } = reason else {
                    return live.close(&reason.to_string());
                };
                self.spawn(async move {
                    tokio::time::sleep(keep_for).await;
                    drop(live);
                });
            }
            Output::Open(live) => self.open(&live),
            Output::Up(live) => self.report_up(live),
            Output::Duplicate(live) => {
                self.control.link_duplicate(&live.link.id, live.link.iteration);
            }
            Output::Close(live, reason) => {
                log_end(&live, &reason);
                live.close(&reason.to_string());
            }
            Output::Withdraw(live) => self.forwarder.unregister_link(&live.link),
            Output::Fault(live) if !self.stop.is_cancelled() => {
                self.faults.link_fault(&live.link.id, live.link.iteration);
            }
            Output::Fault(_) => {}
            Output::AskControllers => self.unasked.notify_one(),
        }
    }

    /// Starts a link, and publishes it to the forwarder.
    fn open(&self, live: &Arc<LiveLink>) {
        live.start(self.forwarder.measures(), self.options.trace.as_ref());
        if !self.forwarder.register_link(&live.link) {
            // An end of a circuit has got this address since the machine was asked.
            log_end(live, &Reason::IdInUse);
            live.close(&Reason::IdInUse.to_string());
        }
    }

    fn report_up(self: &Arc<Self>, live: Arc<LiveLink>) {
        let Link { id, peer, iteration, .. } = &*live.link;
        tracing::info!(link = %id, %peer, dialed = live.is_dialed(), iteration, "link established");
        let report = live.report();
        let told = report.connections.clone();
        if live.is_dialed() {
            self.control.link_up(report);
        }
        self.spawn(Arc::clone(self).follow(live, told));
    }
}

/// Logs why a link is refused or closed; as a warning if its router may not have it.
fn log_end(live: &LiveLink, reason: &Reason) {
    use Reason::{IdInUse, NotWanted, OtherKeys, PeerFull, RouterRefused};
    let (Link { id, peer, iteration, .. }, address) = (&*live.link, live.address());
    match reason {
        PeerFull | IdInUse | RouterRefused(_) | OtherKeys(_) => {
            tracing::warn!(link = %id, %peer, iteration, %reason, "a link is refused or closed");
        }
        NotWanted(_) => {
            tracing::info!(link = %id, %peer, iteration, address, %reason, "a dialed link is closed");
        }
        _ => tracing::debug!(link = %id, %peer, iteration, %reason, "a link is refused or closed"),
    }
}
