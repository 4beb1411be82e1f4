//! The data half of the router, put together: forwarder and bindings behind [`seam::Data`].

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use weft_channel::{
    AcceptOptions, ChannelAcceptor, ListenerLimits, Listeners, RegisterError, TlsSource, TraceFile,
    WebSocketAcceptor, WebSocketOptions,
};
use weft_config::{
    XgressOptions,
    router::{
        DialerBinding, ForwarderConfig, IngressKind, IngressListener, TunnelOptions, XgressDialer,
    },
};
use weft_identity::LiveIdentity;
use weft_limits::Budget;
use weft_metrics::Report;
use weft_spans::Spans;
use weft_tunnel::{InterceptError, Interception};
use weft_wire::{VersionInfo, ctrl::REROUTE_ATTEMPT, hello::alpn};
use weft_xgress::{Options, WindowKind};

use crate::{
    bindings::{
        edge::{Dialed, EdgeBinding, EdgeGate, EdgeOptions},
        ingress::{
            self, DatagramEnds, DatagramLimits, Ingress, IngressOptions, StreamLimits,
            serve_datagrams, serve_streams,
        },
        transport::{self, Dialer},
        tunnel::{TunnelBinding, interception},
    },
    control::ControlHalf,
    forwarder::{Circuit, Forwarder, ReportIntervals, SetUp, Timers},
    health,
    link::{LinkOptions, Links, datagram::Socket},
    measures::Measures,
    seam::{self, Access, Control, Egress, PeerData, RouteCommand, RouteError, RouteErrorCode},
};

/// The budget of circuits is this fraction of the process's memory: a quarter.
const BUDGET_SHARE: u64 = 4;
/// How often identity files are checked for changes.
const LOOK: Duration = Duration::from_secs(1);
/// Longest time for removing rules from the firewall.
const CLEAN_UP: Duration = Duration::from_secs(30);
/// Memory in bytes that is assumed where the machine's is unknown.
const FALLBACK_MEMORY: u64 = 4 << 30;

/// The limits of one listener for SDKs.
#[derive(Clone, Debug)]
pub struct EdgeLimits {
    /// Limits of its socket, which hold before TLS and the hello.
    pub listener: ListenerLimits,
    /// Limits of the hello.
    pub hello: AcceptOptions,
    /// How long an SDK may accept none of the bytes to be written to it; `None` for ever.
    pub write_timeout: Option<Duration>,
    /// Flow control of circuits that the SDK dials, and the time limit for making one.
    pub circuits: XgressOptions,
}

impl Default for EdgeLimits {
    fn default() -> Self {
        Self {
            listener: ListenerLimits::default(),
            hello: AcceptOptions::default(),
            write_timeout: Some(weft_channel::PEER_TIMEOUT),
            circuits: XgressOptions::default(),
        }
    }
}

/// The options of the data half.
#[derive(Clone, Debug)]
pub struct DataOptions {
    /// The id of the router.
    pub router_id: String,
    /// The release that the router announces.
    pub version: VersionInfo,
    /// Flow control of the tunneler's circuits, unless `dialers` has an entry for the tunneler.
    pub xgress: XgressOptions,
    /// The section `forwarder`: reports, idle circuits, dialing.
    pub forwarder: ForwarderConfig,
    /// The dialers of the file: how applications are dialed.
    pub dialers: Vec<XgressDialer>,
    /// TLS for applications with a `tls:` address.
    pub client_tls: Option<Arc<rustls::ClientConfig>>,
    /// How long the end of a direction for an old native SDK waits for the close that may follow
    /// it.
    pub fin_hold: Duration,
    /// The options of the tunneler; `None` without one.
    pub tunnel: Option<TunnelOptions>,
    /// The length of the intervals for which bytes of circuits are reported.
    pub usage_interval: Duration,
    /// The file for traced messages of links and SDKs.
    pub trace: Option<TraceFile>,
    /// The recorder for spans of dials.
    pub spans: Spans,
    /// The runtime that reads and writes connections of SDKs, links and applications.
    pub data_runtime: tokio::runtime::Handle,
    /// The runtime of all other tasks of the data half.
    pub control_runtime: tokio::runtime::Handle,
}

/// The data half of a router.
pub struct DataHalf {
    this: Weak<Self>,
    forwarder: Arc<Forwarder>,
    edge: Arc<EdgeBinding>,
    tunnel: Arc<TunnelBinding>,
    options: DataOptions,
    dials: tokio::sync::Semaphore,
    control: Arc<dyn Control>,
    listening: Mutex<Vec<Socket>>,
    links: OnceLock<Arc<Links>>,
    stop: CancellationToken,
    /// Cancelled when nothing new is accepted any more.
    draining: CancellationToken,
    tunneling: Mutex<Option<JoinHandle<()>>>,
}

impl DataHalf {
    /// Starts the data half, without any listener.
    pub fn start(
        options: DataOptions,
        control: Arc<dyn Control>,
        access: Arc<dyn Access>,
    ) -> Arc<Self> {
        let timers = Timers::start(&options.data_runtime);
        let budget = Budget::new(memory() / BUDGET_SHARE);
        let forwarder = Forwarder::new(Arc::clone(&control), timers, budget);
        forwarder.is_of(&options.router_id);
        let dialer = |binding| options.dialers.iter().find(|one| one.binding == binding);
        let hosted = dialer(DialerBinding::Edge).map(|one| end_options(&one.options));
        let tunnel = dialer(DialerBinding::Tunnel).map_or(&options.xgress, |one| &one.options);
        let tunnel_end = end_options(tunnel);
        let edge = EdgeBinding::new(
            Arc::clone(&forwarder),
            Arc::clone(&control),
            Arc::clone(&access),
            EdgeOptions {
                router_id: options.router_id.clone(),
                version: options.version.clone(),
                end: hosted.unwrap_or_default(),
                fin_hold: options.fin_hold,
                data_runtime: options.data_runtime.clone(),
                control_runtime: options.control_runtime.clone(),
                trace: options.trace.clone(),
                spans: options.spans.clone(),
            },
        );
        let tunnel = TunnelBinding::new(
            &forwarder,
            &control,
            access,
            tunnel_end,
            options.tunnel.as_ref().map_or_else(Options::default, |own| end_options(&own.options)),
            options.forwarder.xgress_user_timeout,
        );
        let dials = tokio::sync::Semaphore::new(options.forwarder.xgress_dial_queue as usize);
        let stop = CancellationToken::new();
        let half = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            forwarder,
            edge,
            tunnel,
            options,
            dials,
            control,
            listening: Mutex::default(),
            links: OnceLock::new(),
            draining: stop.child_token(),
            tunneling: Mutex::default(),
            stop,
        });
        half.run();
        half
    }

    fn run(&self) {
        let runtime = &self.options.control_runtime;
        runtime.spawn(Arc::clone(&self.edge).watch(self.stop.clone()));
        let forwarder = &self.options.forwarder;
        let intervals = ReportIntervals {
            faults: forwarder.fault_tx_interval.unwrap_or_default(),
            idle: forwarder.idle_tx_interval.unwrap_or_default(),
            idle_after: forwarder.idle_circuit_timeout,
        };
        runtime.spawn(Arc::clone(&self.forwarder).report(intervals, self.stop.clone()));
        self.forwarder.measures().book.begin(self.options.usage_interval);
        self.register();
        runtime.spawn(measure(self.this.clone(), self.stop.clone()));
        runtime.spawn(settle(Arc::clone(&self.forwarder), self.stop.clone()));
    }

    /// Starts the tunneler, if the file asks for one. In mode `tproxy` this changes the machine's
    /// firewall; traffic to `controllers` (host and port) is never intercepted.
    ///
    /// # Errors
    /// When clients are to be intercepted and this machine cannot do it.
    pub async fn tunnel(
        &self,
        controllers: watch::Receiver<Vec<(String, u16)>>,
    ) -> Result<(), InterceptError> {
        let Some(options) = self.options.tunnel.clone() else { return Ok(()) };
        // Sockets of clients are read and written on the same runtime as circuits.
        let runtime = &self.options.data_runtime;
        let first = controllers.borrow().clone();
        let interception = match interception(&options, &self.options.router_id, first) {
            Some(wanted) => {
                let starting = runtime.spawn(Interception::start(wanted)).await;
                let gone = |_| InterceptError::Machine("the router is shutting down".to_owned());
                let started = starting.map_err(gone)??;
                runtime.spawn(keep_controllers(
                    Arc::downgrade(&started),
                    controllers,
                    self.stop.clone(),
                ));
                Some(started)
            }
            None => None,
        };
        let (draining, stop) = (self.draining.clone(), self.stop.clone());
        let running = Arc::clone(&self.tunnel).run(options, interception, draining, stop);
        *self.tunneling.lock() = Some(runtime.spawn(running));
        Ok(())
    }

    /// Waits until a router that was shut down has removed its rules from the machine.
    pub async fn gone(&self) {
        let tunneling = self.tunneling.lock().take();
        if let Some(tunneling) = tunneling
            && tokio::time::timeout(CLEAN_UP, tunneling).await.is_err()
        {
            tracing::warn!(
                "rules of the firewall could not all be removed; the next start removes them"
            );
        }
    }

    /// Registers metrics whose values are read when a report is made.
    fn register(&self) {
        let gauge = |of: fn(&Self) -> u64| {
            let this = self.this.clone();
            move || {
                let found = this.upgrade().map_or(0, |this| of(&this));
                i64::try_from(found).unwrap_or(i64::MAX)
            }
        };
        self.forwarder.measures().also(|scope| {
            scope.gauge("edge.connections", gauge(|this| this.edge.connections() as u64));
            scope.gauge("weft.circuits", gauge(|this| this.counts().0 as u64));
            scope.gauge("weft.links", gauge(|this| this.link_count() as u64));
            scope.gauge("weft.buffered_bytes", gauge(Self::budget_used));
            let name = "pool.link.dialer.busy_workers";
            scope.gauge(name, gauge(|this| this.link_dials().0 as u64));
            let name = "pool.link.dialer.worker_count";
            scope.gauge(name, gauge(|this| this.link_dials().1 as u64));
        });
    }

    /// How many links are being dialed, and how many may be at the same time.
    fn link_dials(&self) -> (usize, usize) {
        self.links.get().map_or((0, 0), |links| links.dials())
    }

    /// The links as a health check shows them.
    pub(crate) fn link_details(&self) -> Vec<serde_json::Value> {
        let links = self.links.get().map(|links| links.all_reports()).unwrap_or_default();
        let measured = if links.is_empty() { Report::new() } else { self.measures().read() };
        links.iter().map(|link| health::link_detail(link, &measured)).collect()
    }

    /// The routers at both ends of each link.
    pub(crate) fn link_peers(&self) -> HashMap<String, (String, String)> {
        self.links.get().map(|links| links.ends()).unwrap_or_default()
    }

    /// The file for traced messages.
    pub(crate) fn trace(&self) -> Option<TraceFile> {
        self.options.trace.clone()
    }

    /// The measurements of the router.
    pub(crate) fn measures(&self) -> &Arc<Measures> {
        self.forwarder.measures()
    }

    /// Listens for SDKs on `bind` (`host:port`; port 0 takes a free one).
    ///
    /// # Errors
    /// When the address cannot be listened on, or is taken by another protocol.
    pub async fn listen_edge(
        &self,
        listeners: &Listeners,
        bind: &str,
        limits: EdgeLimits,
        tls: TlsSource,
    ) -> Result<SocketAddr, RegisterError> {
        let gate = self.edge_gate(&limits);
        let acceptor = Arc::new(ChannelAcceptor::new(gate, limits.hello));
        // Go SDKs offer no protocol at all.
        let protocols = [alpn::EDGE, ""];
        let listening = listeners.listen(bind, limits.listener, &protocols, tls, acceptor);
        let registration = Socket::from(listening.await?);
        let address = registration.local_addr();
        self.listening.lock().push(registration);
        Ok(address)
    }

    /// Follows the files of an identity that change while the router runs: later handshakes use the
    /// new ones.
    pub(crate) fn follow(&self, identity: Arc<LiveIdentity>) {
        let stop = self.stop.clone();
        self.options.control_runtime.spawn(async move {
            // The same error is logged once.
            let mut complaint = String::new();
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(LOOK) => {}
                }
                let looked = Arc::clone(&identity);
                let changed = tokio::task::spawn_blocking(move || looked.reload_if_changed());
                match changed.await {
                    Ok(Ok(true)) => {
                        complaint.clear();
                        tracing::info!("new certificates of transport.wss.identity are in use");
                    }
                    Ok(Err(problem)) if problem.to_string() != complaint => {
                        complaint = problem.to_string();
                        tracing::warn!(
                            %problem,
                            "the changed files of transport.wss.identity cannot be used; the \
                             certificates of before stay in use"
                        );
                    }
                    _ => {}
                }
            }
        });
    }

    fn edge_gate(&self, limits: &EdgeLimits) -> EdgeGate {
        let dialed = Dialed {
            end: end_options(&limits.circuits),
            timeout: limits.circuits.get_circuit_timeout,
        };
        EdgeGate {
            binding: Arc::clone(&self.edge),
            write_timeout: limits.write_timeout,
            dialed: Arc::new(dialed),
        }
    }

    /// Listens for SDKs in browsers, over WebSockets. `tls` is the TLS of the WebSockets, `inner`
    /// the TLS inside them, in which SDKs authenticate.
    ///
    /// # Errors
    /// As for [`Self::listen_edge`].
    pub async fn listen_edge_websockets(
        &self,
        listeners: &Listeners,
        bind: &str,
        limits: EdgeLimits,
        tls: TlsSource,
        inner: TlsSource,
        options: WebSocketOptions,
    ) -> Result<SocketAddr, RegisterError> {
        let gate = self.edge_gate(&limits);
        let channels = ChannelAcceptor::new(gate, limits.hello);
        let acceptor = Arc::new(WebSocketAcceptor::new(channels, inner, options));
        let listening = listeners.listen(bind, limits.listener, &["http/1.1"], tls, acceptor);
        let registration = Socket::from(listening.await?);
        let address = registration.local_addr();
        self.listening.lock().push(registration);
        Ok(address)
    }

    /// Listens for programs without an SDK. `tls` is the TLS of `tls:` addresses.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub(crate) async fn listen_ingress(
        &self,
        config: &IngressListener,
        tls: Arc<rustls::ServerConfig>,
    ) -> io::Result<Option<SocketAddr>> {
        let ingress = Ingress::new(
            Arc::clone(&self.forwarder),
            Arc::clone(&self.control),
            IngressOptions {
                name: format!("{} {}", config.binding(), config.address),
                service: config.service.clone(),
                end: end_options(&config.options),
                circuit_timeout: config.options.get_circuit_timeout,
                peer_timeout: self.options.forwarder.xgress_user_timeout,
            },
        );
        let address = config.address.clone();
        let (draining, stop) = (self.draining.clone(), self.stop.clone());
        // A socket has to be made on the runtime that it is used on.
        let begun = self.options.data_runtime.spawn(async move {
            if address.kind.is_datagram() {
                let socket = ingress::bind_datagrams(&address).await?;
                let bound = socket.local_addr();
                let ends = DatagramEnds { draining, stop };
                tokio::spawn(serve_datagrams(ingress, socket, DatagramLimits::default(), ends));
                return Ok(bound);
            }
            let listener = ingress::bind_streams(&address).await?;
            let bound = listener.local_addr().ok();
            let tls = (address.kind == IngressKind::Tls).then_some(tls);
            tokio::spawn(serve_streams(ingress, listener, tls, StreamLimits::default(), draining));
            Ok(bound)
        });
        begun.await.map_err(io::Error::other)?
    }

    /// Starts to link with the other routers that controllers announce. Only the first call has an
    /// effect.
    pub(crate) fn begin_links(
        &self,
        options: LinkOptions,
        control: Arc<ControlHalf>,
        identity: Arc<LiveIdentity>,
        tls: Arc<rustls::ClientConfig>,
    ) {
        let make = || {
            let (forwarder, stop) = (Arc::clone(&self.forwarder), self.stop.clone());
            Links::start(options, forwarder, control.clone(), control, identity, tls, stop)
        };
        self.links.get_or_init(make);
    }

    /// Listens for other routers. Returns the addresses in use and the listener that other routers
    /// are told of.
    ///
    /// # Errors
    /// When the address cannot be listened on, or is taken by another protocol.
    pub(crate) async fn listen_links(
        &self,
        listeners: &Listeners,
        config: &weft_config::router::LinkListener,
        tls: TlsSource,
    ) -> Result<Option<(SocketAddr, seam::LinkListener)>, RegisterError> {
        let Some(links) = self.links.get() else { return Ok(None) };
        let (bound, told, registration) = links.listen(listeners, config, tls).await?;
        self.listening.lock().push(registration);
        Ok(Some((bound, told)))
    }

    /// The links, once [`Self::begin_links`] was called.
    pub(crate) fn linking(&self) -> Option<Arc<Links>> {
        self.links.get().cloned()
    }

    /// Cancelled when nothing new is accepted any more.
    pub(crate) fn draining(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// How many links are open.
    #[must_use]
    pub fn link_count(&self) -> usize {
        self.links.get().map_or(0, |links| links.count())
    }

    /// How many routers that opened a link were refused because their hello or certificate was not
    /// accepted.
    #[must_use]
    pub fn links_refused(&self) -> u64 {
        self.links.get().map_or(0, |links| links.refused())
    }

    /// Counts of the messages thrown away since the start.
    #[must_use]
    pub fn dropped_messages(&self) -> seam::Dropped {
        self.forwarder.drops().seen()
    }

    /// Accepts no new connections, circuits or terminators. The terminators of this router are
    /// removed, so that other hosts get new dials; circuits that are up stay.
    pub fn drain(&self) {
        self.draining.cancel();
        self.listening.lock().clear();
        self.edge.drain();
        self.tunnel.host_nothing();
    }

    /// Stops listening, closes SDK connections and ends the tasks in the background.
    pub fn shutdown(&self) {
        self.listening.lock().clear();
        self.edge.close_all("the router is shutting down");
        if let Some(links) = self.links.get() {
            links.close_all("the router is shutting down");
        }
        self.stop.cancel();
    }

    /// How many circuits and ends of circuits there are.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        self.forwarder.counts()
    }

    /// Bytes that circuits hold on this router.
    #[must_use]
    pub fn budget_used(&self) -> u64 {
        self.forwarder.budget().used()
    }

    #[cfg(test)]
    pub(crate) fn edge(&self) -> &Arc<EdgeBinding> {
        &self.edge
    }

    /// Sets a route up, dialing first if it names an egress; nothing is left behind on failure.
    async fn set_up(&self, command: RouteCommand) -> Result<PeerData, RouteError> {
        if self.draining.is_cancelled() && self.forwarder.circuit(&command.circuit).is_none() {
            return Err(RouteError {
                code: RouteErrorCode::ResourcesNotAvailable,
                text: "the router is shutting down, it takes no new circuits".to_owned(),
            });
        }
        let attempt = (command.attempt != REROUTE_ATTEMPT).then_some(command.attempt);
        let set_up = self.forwarder.set_up(&command.circuit, &command.controller, attempt)?;
        set_up.circuit().carried.tag(&command.tags);
        // An unroute that comes from now on finds the circuit in the table; one that came before
        // cancelled the command.
        if command.taken_down.is_cancelled() {
            return Err(seam::taken_down());
        }
        let mut peer_data = PeerData::new();
        let mut dialed = None;
        if let Some(egress) = &command.egress
            && self.forwarder.destination(&egress.address).is_none()
        {
            peer_data = self.dial(&set_up, egress, command.timeout).await?;
            dialed = Some(&egress.address);
        }
        if let Err(failure) = set_up.route(&command.forwards) {
            if let Some(address) = dialed {
                self.forwarder.give_up(address);
            }
            return Err(failure);
        }
        Ok(peer_data)
    }

    /// Without a dialer in its file a router terminates nothing for applications without an SDK
    /// (docs/router-config.md). Whichever it has, the others have defaults.
    fn may_dial(&self, binding: &str) -> Result<(), RouteError> {
        if !self.options.dialers.is_empty() {
            return Ok(());
        }
        let text =
            format!("the file of this router has no `dialers`, no dialer for binding {binding}");
        Err(transport::misconfigured(text))
    }

    /// Dials the terminating end of a circuit.
    async fn dial(
        &self,
        set_up: &SetUp,
        egress: &Egress,
        timeout: Duration,
    ) -> Result<PeerData, RouteError> {
        let _turn = self.dials.try_acquire().map_err(|_| RouteError {
            code: RouteErrorCode::ResourcesNotAvailable,
            text: "too many circuits are being dialed here".to_owned(),
        })?;
        tokio::time::sleep(self.options.forwarder.xgress_dial_dwell_time).await;
        set_up.stands()?;
        let dialed = self.dial_host(set_up.circuit(), egress, timeout).await;
        let dials = &self.forwarder.measures().dials;
        if dialed.is_ok() { &dials.answered } else { &dials.failed }.one();
        dialed
    }

    async fn dial_host(
        &self,
        circuit: &Arc<Circuit>,
        egress: &Egress,
        timeout: Duration,
    ) -> Result<PeerData, RouteError> {
        match egress.binding.as_str() {
            "edge" => self.edge.dial(circuit, egress, timeout).await,
            "tunnel" => self.tunnel.dial(circuit, egress, timeout).await,
            other => {
                let binding = direct(other).ok_or_else(|| {
                    transport::misconfigured(format!("no dialer for binding {other}"))
                })?;
                self.may_dial(other)?;
                let dialer = self.dialer(binding);
                transport::dial(&self.forwarder, circuit, egress, timeout, &dialer).await
            }
        }
    }

    /// The options of a binding that dials addresses.
    fn dialer(&self, binding: DialerBinding) -> Dialer {
        let configured = self.options.dialers.iter().find(|one| one.binding == binding);
        let options = configured.map(|one| one.options.clone()).unwrap_or_default();
        Dialer {
            end: end_options(&options),
            connect_timeout: options.connect_timeout,
            peer_timeout: self.options.forwarder.xgress_user_timeout,
            tls: self.options.client_tls.clone(),
        }
    }
}

impl seam::Data for DataHalf {
    fn route(&self, command: RouteCommand) -> BoxFuture<'static, Result<PeerData, RouteError>> {
        let this = self.this.clone();
        // Sockets of applications are read and written on the same runtime as circuits.
        let runtime = self.options.data_runtime.clone();
        async move {
            let gone = || RouteError {
                code: RouteErrorCode::Generic,
                text: "the router is shutting down".to_owned(),
            };
            let this = this.upgrade().ok_or_else(gone)?;
            let setting_up = runtime.spawn(async move { this.set_up(command).await });
            setting_up.await.unwrap_or_else(|_| Err(gone()))
        }
        .boxed()
    }

    fn unroute(&self, circuit: &str, now: bool) {
        if now {
            return self.forwarder.unroute(circuit);
        }
        let (forwarder, circuit) = (Arc::clone(&self.forwarder), circuit.to_owned());
        let (stop, quiet) = (self.stop.clone(), self.options.forwarder.xgress_close_check_interval);
        self.options.control_runtime.spawn(async move {
            let quiet = quiet.max(Duration::from_millis(10));
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(quiet) => {}
                }
                if forwarder.unroute_if_quiet(&circuit, quiet) {
                    return;
                }
            }
        });
    }

    fn vouches(&self, binding: &str, terminator: &str) -> bool {
        match binding {
            "edge" => self.edge.hosts(terminator),
            "tunnel" => self.tunnel.hosts(terminator),
            // An address can always be dialed.
            other => direct(other).is_some(),
        }
    }

    fn circuits_of(&self, controller: &seam::ControllerId) -> Vec<String> {
        self.forwarder.circuits_of(controller)
    }

    fn open_session_tokens(&self) -> Vec<String> {
        self.edge.open_session_tokens()
    }

    fn peers(&self, news: Vec<seam::Peer>) {
        if let Some(links) = self.links.get() {
            links.peers(&news);
        }
    }

    fn link_faulted(&self, link: &str, iteration: u32) {
        if let Some(links) = self.links.get() {
            links.faulted(link, iteration);
        }
    }

    fn links(&self) -> Vec<seam::LinkReport> {
        self.links.get().map(|links| links.reports()).unwrap_or_default()
    }

    fn inspect_links(&self) -> serde_json::Value {
        self.links.get().map(|links| links.inspect()).unwrap_or_default()
    }

    fn inspect_ends(&self, circuit: &str) -> serde_json::Map<String, serde_json::Value> {
        self.forwarder.inspect_ends(circuit)
    }

    fn inspect_sdk_circuits(&self) -> serde_json::Map<String, serde_json::Value> {
        self.forwarder.inspect_sdk_circuits()
    }

    fn dropped(&self) -> seam::Dropped {
        self.forwarder.drops().seen()
    }

    fn measured(&self) -> Report {
        self.measures().read()
    }

    fn take_measured(&self, age: Duration) -> seam::Measured {
        seam::Measured {
            report: self.measures().read(),
            latencies: self.links.get().map(|links| links.latencies()).unwrap_or_default(),
            usage: self.measures().book.due(age),
        }
    }

    fn reports_lost(&self, count: u64) {
        self.measures().lost_reports.add(count);
    }
}

/// Brings rates up to date at every interval, and measures the queues of links and the ends.
async fn measure(data: Weak<DataHalf>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(weft_metrics::TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let Some(data) = data.upgrade() else { return };
        let now = std::time::Instant::now();
        if let Some(links) = data.links.get() {
            links.look_at_queues(now);
        }
        data.forwarder.look_at_ends();
        data.measures().tick(now);
    }
}

/// Excludes the addresses of controllers from interception, as they become known.
async fn keep_controllers(
    interception: Weak<Interception>,
    mut controllers: watch::Receiver<Vec<(String, u16)>>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            changed = controllers.changed() => if changed.is_err() { return },
        }
        let Some(interception) = interception.upgrade() else { return };
        interception.set_controllers(controllers.borrow_and_update().clone());
    }
}

/// Writes the bytes that circuits carried into the book, whenever an interval is over.
async fn settle(forwarder: Arc<Forwarder>, stop: CancellationToken) {
    loop {
        // At most a minute, so that a clock that was set is noticed soon.
        let wait = forwarder.measures().book.left().min(Duration::from_secs(60));
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        forwarder.settle();
    }
}

impl std::fmt::Debug for DataHalf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataHalf").field("forwarder", &self.forwarder).finish_non_exhaustive()
    }
}

/// The dialer of a binding whose terminators name addresses.
fn direct(binding: &str) -> Option<DialerBinding> {
    match binding {
        "transport" => Some(DialerBinding::Transport),
        "transport_udp" | "udp" => Some(DialerBinding::TransportUdp),
        "edge_transport" => Some(DialerBinding::EdgeTransport),
        _ => None,
    }
}

/// The options for ends of circuits, from the configuration. A file that names a key of the
/// original's window gets that window with exactly these figures.
fn end_options(xgress: &XgressOptions) -> Options {
    let window = if xgress.tx_portal_named { WindowKind::Original } else { WindowKind::Adaptive };
    Options {
        mtu: xgress.mtu,
        tx_start_size: u64::from(xgress.tx_portal_start_size),
        tx_min_size: u64::from(xgress.tx_portal_min_size),
        tx_max_size: u64::from(xgress.tx_portal_max_size),
        tx_increase_thresh: xgress.tx_portal_increase_thresh,
        tx_increase_scale: xgress.tx_portal_increase_scale,
        tx_retx_thresh: xgress.tx_portal_retx_thresh,
        tx_retx_scale: xgress.tx_portal_retx_scale,
        tx_dup_ack_thresh: xgress.tx_portal_dup_ack_thresh,
        rx_buffer_size: u64::from(xgress.rx_buffer_size),
        retx_start: xgress.retx_start,
        retx_scale: xgress.retx_scale,
        retx_add: xgress.retx_add,
        retx_max: xgress.retx_max,
        max_rtt_scale: xgress.max_rtt_scale,
        max_close_wait: xgress.max_close_wait,
        circuit_start_timeout: xgress.circuit_start_timeout,
        window,
        lost_one_in: if xgress.random_drops { xgress.drop_1_in_n } else { 0 },
        datagrams: false,
    }
}

/// Bytes of memory this process may use: the limit of its control group, else the machine's.
fn memory() -> u64 {
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = group.and_then(|text| text.trim().parse::<u64>().ok());
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
        Some(kib * 1024)
    });
    match (group, machine) {
        (Some(group), Some(machine)) => group.min(machine),
        (Some(known), None) | (None, Some(known)) => known,
        (None, None) => FALLBACK_MEMORY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_a_file_reaches_the_end() {
        let xgress = XgressOptions {
            mtu: 1400,
            random_drops: true,
            drop_1_in_n: 16,
            tx_portal_named: true,
            tx_portal_start_size: 50 << 20,
            tx_portal_min_size: 2,
            tx_portal_max_size: 60 << 20,
            tx_portal_increase_thresh: 3,
            tx_portal_increase_scale: 0.4,
            tx_portal_retx_thresh: 5,
            tx_portal_retx_scale: 0.6,
            tx_portal_dup_ack_thresh: 7,
            rx_buffer_size: 8,
            retx_start: Duration::from_millis(9),
            retx_scale: 10.0,
            retx_add: Duration::from_millis(11),
            retx_max: Duration::from_millis(12),
            max_rtt_scale: 13,
            max_close_wait: Duration::from_millis(14),
            circuit_start_timeout: Duration::from_secs(15),
            ..XgressOptions::default()
        };
        let expected = Options {
            mtu: 1400,
            tx_start_size: 50 << 20,
            tx_min_size: 2,
            tx_max_size: 60 << 20,
            tx_increase_thresh: 3,
            tx_increase_scale: 0.4,
            tx_retx_thresh: 5,
            tx_retx_scale: 0.6,
            tx_dup_ack_thresh: 7,
            rx_buffer_size: 8,
            retx_start: Duration::from_millis(9),
            retx_scale: 10.0,
            retx_add: Duration::from_millis(11),
            retx_max: Duration::from_millis(12),
            max_rtt_scale: 13,
            max_close_wait: Duration::from_millis(14),
            circuit_start_timeout: Duration::from_secs(15),
            window: WindowKind::Original,
            lost_one_in: 16,
            datagrams: false,
        };
        assert_eq!(end_options(&xgress), expected);
    }

    #[test]
    fn a_file_that_says_nothing_gets_the_defaults() {
        assert_eq!(end_options(&XgressOptions::default()), Options::default());
    }
}
